//! Checks the source tree of this repository.

use std::fs;
use std::path::{Path, PathBuf};
use structure::folders::folders;
use structure::layers::{Declaration, crate_graph, declarations, violations};
use structure::links::dead_links;
use structure::paths::{missing, steps};
use structure::phrases::{banned, rows};
use structure::source::{Crate, crate_names};
use structure::texts::read_texts;

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of docs/ARCHITECTURE.md.
fn architecture() -> String {
    fs::read_to_string(root().join("docs/ARCHITECTURE.md"))
        .expect("docs/ARCHITECTURE.md is readable")
}

/// Reads the crate in a folder.
fn read(folder: &Path) -> Crate {
    Crate::read(&root(), folder).expect("the crate can be read")
}

/// Returns the declaration of a folder's layers, if there is one.
fn declaration<'a>(all: &'a [Declaration], folder: &str) -> Option<&'a Declaration> {
    all.iter().find(|declaration| declaration.folder == folder)
}

/// Returns the first message about a folder, and the number of the other messages.
fn first_message(found: &[String]) -> Option<String> {
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
    for name in crate_names(&root()).expect("the folder crates/ is readable") {
        for folder in folders(&read(&Path::new("crates").join(&name)), &name) {
            let declared = declaration(&declarations, &folder.name);
            if folder.name == name && declared.is_none() && folder.graph.nodes().count() > 1 {
                wrong.push(format!("docs/ARCHITECTURE.md has no `layers {name}`"));
            }
            wrong.extend(first_message(&violations(&folder, declared)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_use_only_lower_crates() {
    let names = crate_names(&root()).expect("the folder crates/ is readable");
    let mut crates: Vec<Crate> =
        names.iter().map(|name| read(&Path::new("crates").join(name))).collect();
    crates.push(read(Path::new("")));
    let declarations = declarations(&architecture());
    let declared = declaration(&declarations, "crates")
        .expect("docs/ARCHITECTURE.md has the block `layers crates`");
    let wrong = first_message(&violations(&crate_graph(&crates), Some(declared)));
    assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
}

#[test]
fn declared_folders_exist() {
    for declaration in declarations(&architecture()) {
        let path = declaration.folder.replacen("::", "/src/", 1).replace("::", "/");
        let folder = root().join("crates").join(path);
        let exists = declaration.folder == "crates" || folder.is_dir();
        assert!(
            exists,
            "the folder of `layers {}` in docs/ARCHITECTURE.md exists",
            declaration.folder
        );
    }
}

#[test]
fn every_step_of_a_request_path_names_an_existing_function() {
    let steps = steps(&architecture()).expect("each step of a path is `file: function`");
    assert!(
        !steps.is_empty(),
        "docs/ARCHITECTURE.md has at least one block that begins with ```path"
    );
    let missing: Vec<String> = steps.iter().filter_map(|step| missing(&root(), step)).collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn texts_contain_no_banned_phrase() {
    let table =
        fs::read_to_string(root().join("docs/phrases.md")).expect("docs/phrases.md is readable");
    let rows = rows(&table).expect("each row of docs/phrases.md has four cells");
    let mut texts = read_texts(&root()).expect("the files of the repository are readable");
    texts.retain(|text| text.path != "docs/phrases.md");
    let found = banned(&rows, &texts);
    assert!(found.is_empty(), "docs/phrases.md bans these phrases:\n{}", found.join("\n"));
}

#[test]
fn every_relative_link_has_a_target() {
    let dead = dead_links(
        &root(),
        &read_texts(&root()).expect("the files of the repository are readable"),
    );
    assert!(dead.is_empty(), "these links have no target:\n{}", dead.join("\n"));
}
