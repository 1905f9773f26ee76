//! Small crates that a test writes to disk and then checks.

use std::fs;
use std::path::{Path, PathBuf};
use structure::folders::{Folder, folders};
use structure::source::Crate;

/// Writes a crate with these source files, below a folder that is named after the test. Returns this folder.
pub fn write(test: &str, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let folder = root.join("crates").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the folder of an earlier run can be removed");
    }
    let write = |file: PathBuf, text: &str| {
        fs::create_dir_all(file.parent().expect("the path of a file has a folder"))
            .expect("the folder for a source file can be created");
        fs::write(file, text).expect("a source file can be written");
    };
    write(folder.join("Cargo.toml"), &format!("[package]\nname = \"{name}\"\n"));
    for (file, text) in files {
        write(folder.join("src").join(file), text);
    }
    root
}

/// Writes a crate `fake` with these source files, and reads it.
pub fn read(test: &str, files: &[(&str, &str)]) -> Crate {
    let root = write(test, "fake", files);
    Crate::read(&root, Path::new("crates/fake")).expect("the crate of the test can be read")
}

/// Writes a crate `fake` with these source files, and returns its folders.
pub fn read_folders(test: &str, files: &[(&str, &str)]) -> Vec<Folder> {
    folders(&read(test, files), "fake")
}

/// Returns the edges of the folder with this name, each as `a -> b`.
pub fn edges(folders: &[Folder], name: &str) -> Vec<String> {
    let folder = folders
        .iter()
        .find(|folder| folder.name == name)
        .expect("the crate has a folder with this name");
    folder.graph.edges().map(|(from, to)| format!("{from} -> {to}")).collect()
}
