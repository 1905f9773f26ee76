//! Finds the texts of the repository: documentation, sources, scripts and configuration.

use std::fs;
use std::io;
use std::path::Path;

/// Names of folders that contain build results, installed packages, or test inputs that are not text.
const SKIPPED_FOLDERS: [&str; 4] = [".git", "corpus", "node_modules", "target"];

/// The extensions of the files that are read.
const EXTENSIONS: [&str; 9] = ["css", "go", "java", "js", "md", "py", "rs", "sh", "toml"];

/// A text file of the repository.
pub struct Text {
    /// The path relative to the repository's root, with `/` between its parts.
    pub path: String,
    /// The contents of the file.
    pub text: String,
}

impl Text {
    /// True if the file is Markdown.
    pub fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }
}

/// Returns the text files below `root`, sorted by path: files with one of the extensions, and scripts without an
/// extension.
pub fn read_texts(root: &Path) -> io::Result<Vec<Text>> {
    let mut texts = vec![];
    add_folder(root, root, &mut texts)?;
    texts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(texts)
}

/// Adds the text files of a folder and its subfolders.
fn add_folder(root: &Path, folder: &Path, texts: &mut Vec<Text>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                add_folder(root, &path, texts)?;
            }
        } else if is_text(&path)?
            && let Ok(text) = fs::read_to_string(&path)
        {
            texts.push(Text { path: relative(root, &path), text });
        }
    }
    Ok(())
}

/// True if the file has one of the extensions, or is a script without an extension.
fn is_text(path: &Path) -> io::Result<bool> {
    match path.extension() {
        Some(extension) => Ok(EXTENSIONS.iter().any(|known| extension == *known)),
        None => Ok(fs::read(path)?.starts_with(b"#!")),
    }
}

/// Returns the path of a file relative to the root.
fn relative(root: &Path, path: &Path) -> String {
    let parts = path.strip_prefix(root).unwrap_or(path).components();
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}
