//! Small crates written to disk for one test.

use std::fs;
use std::path::{Path, PathBuf};
use structure::folders::{Folder, folders};
use structure::source::Crate;

/// Writes `files` as the sources of the crate `name`, in a separate folder for `test`.
pub fn write(test: &str, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let folder = root.join("crates").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the folder of an earlier run can be removed");
    }
    let write = |file: PathBuf, text: &str| {
        fs::create_dir_all(file.parent().expect("a file has a folder")).expect("a new folder");
        fs::write(file, text).expect("a new file");
    };
    write(folder.join("Cargo.toml"), &format!("[package]\nname = \"{name}\"\n"));
    for (file, text) in files {
        write(folder.join("src").join(file), text);
    }
    root
}

/// Writes and reads a crate `fake` with these sources.
pub fn read(test: &str, files: &[(&str, &str)]) -> Crate {
    let root = write(test, "fake", files);
    Crate::read(&root, Path::new("crates/fake")).expect("a crate that can be read")
}

/// Returns the folders of a crate `fake` with these sources.
pub fn read_folders(test: &str, files: &[(&str, &str)]) -> Vec<Folder> {
    folders(&read(test, files), "fake")
}

/// Returns the edges of the folder called `name` as `a -> b`.
pub fn edges(folders: &[Folder], name: &str) -> Vec<String> {
    let folder = folders.iter().find(|folder| folder.name == name).expect("a folder of that name");
    folder.graph.edges().map(|(from, to)| format!("{from} -> {to}")).collect()
}
