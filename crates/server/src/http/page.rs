//! The files of the dashboard. They are part of the program, and contain no data of the server.

/// A file: its path, the value of `Content-Type`, and its content.
pub(super) struct File {
    pub path: &'static str,
    pub content_type: &'static str,
    pub content: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Makes the row of a file in the folder `page`.
macro_rules! file {
    ($path:literal, $content_type:expr, $name:literal) => {
        File {
            path: $path,
            content_type: $content_type,
            content: include_str!(concat!("page/", $name)),
        }
    };
}

pub(super) static FILES: &[File] = &[
    file!("/", "text/html; charset=utf-8", "index.html"),
    file!("/page/style.css", "text/css; charset=utf-8", "style.css"),
    file!("/page/icon.svg", "image/svg+xml", "icon.svg"),
    file!("/page/app.js", SCRIPT, "app.js"),
    file!("/page/chart.js", SCRIPT, "chart.js"),
    file!("/page/classes.js", SCRIPT, "classes.js"),
    file!("/page/format.js", SCRIPT, "format.js"),
    file!("/page/history.js", SCRIPT, "history.js"),
    file!("/page/hot_keys.js", SCRIPT, "hot_keys.js"),
    file!("/page/memory.js", SCRIPT, "memory.js"),
];

/// Returns the file with this path.
pub(super) fn file(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}
