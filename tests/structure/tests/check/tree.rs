//! Checks of this repository.

use std::fs;
use std::path::{Path, PathBuf};
use structure::folders::folders;
use structure::layers::{Declaration, crate_graph, declarations, violations};
use structure::links::dead_links;
use structure::paths::{missing, steps};
use structure::phrases::{banned, rows};
use structure::source::{Crate, crate_names};
use structure::texts::read_texts;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn architecture() -> String {
    fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("docs/ARCHITECTURE.md")
}

fn read(folder: &Path) -> Crate {
    Crate::read(&root(), folder).expect("a crate that can be read")
}

fn declaration<'a>(all: &'a [Declaration], folder: &str) -> Option<&'a Declaration> {
    all.iter().find(|declaration| declaration.folder == folder)
}

/// Returns the first violation of a folder, which has the shortest chain, and the number of others.
fn shortest(found: &[String]) -> Option<String> {
    let (first, others) = found.split_first()?;
    Some(match others.len() {
        0 => first.clone(),
        count => format!("{first}\n    and {count} more"),
    })
}

#[test]
fn modules_use_only_lower_layers() {
    let declarations = declarations(&architecture());
    let mut wrong = vec![];
    for name in crate_names(&root()).expect("crates/ can be read") {
        for folder in folders(&read(&Path::new("crates").join(&name)), &name) {
            let declared = declaration(&declarations, &folder.name);
            if folder.name == name && declared.is_none() && folder.graph.nodes().count() > 1 {
                wrong.push(format!("docs/ARCHITECTURE.md has no `layers {name}`"));
            }
            wrong.extend(shortest(&violations(&folder, declared)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_use_only_lower_crates() {
    let names = crate_names(&root()).expect("crates/ can be read");
    let mut crates: Vec<Crate> =
        names.iter().map(|name| read(&Path::new("crates").join(name))).collect();
    crates.push(read(Path::new("")));
    let declarations = declarations(&architecture());
    let declared = declaration(&declarations, "crates").expect("the layers of the crates");
    let wrong = shortest(&violations(&crate_graph(&crates), Some(declared)));
    assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
}

#[test]
fn declared_folders_exist() {
    for declaration in declarations(&architecture()) {
        let path = declaration.folder.replacen("::", "/src/", 1).replace("::", "/");
        let folder = root().join("crates").join(path);
        let is_there = declaration.folder == "crates" || folder.is_dir();
        assert!(is_there, "`layers {}`: the folder does not exist", declaration.folder);
    }
}

#[test]
fn every_step_of_a_path_names_a_function() {
    let steps = steps(&architecture()).expect("entries as `file: function`");
    assert!(!steps.is_empty(), "docs/ARCHITECTURE.md has no ```path");
    let missing: Vec<String> = steps.iter().filter_map(|step| missing(&root(), step)).collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn texts_contain_no_banned_phrase() {
    let table = fs::read_to_string(root().join("docs/phrases.md")).expect("docs/phrases.md");
    let rows = rows(&table).expect("rows of four cells");
    let mut texts = read_texts(&root()).expect("readable files");
    texts.retain(|text| text.path != "docs/phrases.md");
    let found = banned(&rows, &texts);
    assert!(found.is_empty(), "banned by docs/phrases.md:\n{}", found.join("\n"));
}

#[test]
fn every_relative_link_has_a_target() {
    let dead = dead_links(&root(), &read_texts(&root()).expect("readable files"));
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}
