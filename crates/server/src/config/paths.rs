//! Paths in options.

use std::path::{Path, PathBuf};

/// Makes a path absolute, so that it stays valid when a daemon changes its working directory.
pub(super) fn absolute(path: impl AsRef<Path>) -> Result<PathBuf, String> {
    let path = path.as_ref();
    std::path::absolute(path)
        .map_err(|error| format!("{}: cannot make the path absolute: {error}", path.display()))
}
