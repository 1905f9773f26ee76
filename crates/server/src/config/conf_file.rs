//! The configuration file of `-o conf_file`, in the format of `/etc/memcached.conf` of Debian's memcached package.
//!
//! Each line has options as on the command line, such as `-m 64`, `-l 127.0.0.1` or `-o http=127.0.0.1:9150`. A `#`
//! begins a comment, unless a backslash precedes it. Values with spaces are quoted as in a shell. A line that does not
//! begin with `-` is a directive; memcached's only one, `logfile`, has no effect here.
//!
//! The script of Debian's package that reads the file runs memcached in the foreground, and ignores `-d` and `-h`. So
//! these options have no effect in the file, and neither have `-i` and `-V`.

use super::table::{HELP, LICENSE, VERSION};
use std::ffi::OsString;
use std::path::Path;

/// The name of the option of `-o` that names the file.
pub(super) const CONF_FILE: &str = "conf_file";
/// The directive of memcached's file that names the log file.
const LOG_FILE: &str = "logfile";
/// The long names of the flags that have no effect in the file.
const IGNORED: [&str; 4] = ["daemon", HELP, LICENSE, VERSION];

/// A line of the file that has options or a directive.
pub(super) struct Line {
    /// The place of the line, for errors and warnings: `FILE:NUMBER`.
    pub place: String,
    pub content: Content,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The arguments of a command line.
    Options(Vec<OsString>),
    /// A line that has no effect, and the reason.
    WithoutEffect(String),
}

/// True if the flag with this long name has no effect in the file.
pub(super) fn ignores(flag: &str) -> bool {
    IGNORED.contains(&flag)
}

/// Reads the file. An error names the file, and the line if it cannot be split into arguments.
pub(super) fn read(path: &Path) -> Result<Vec<Line>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        format!("-o conf_file={}: {error}; give a file that this user can read", path.display())
    })?;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let place = format!("{}:{}", path.display(), index + 1);
        let content = parse(line).map_err(|reason| format!("{place}: {reason}"))?;
        lines.extend(content.map(|content| Line { place, content }));
    }
    Ok(lines)
}

/// Parses a line. Returns `None` if it is empty or has only a comment.
fn parse(line: &str) -> Result<Option<Content>, String> {
    let line = without_comment(line).trim();
    if line.is_empty() {
        return Ok(None);
    }
    if !line.starts_with('-') {
        return Ok(Some(Content::WithoutEffect(directive(line))));
    }
    let words = shlex::split(line).ok_or("a quotation mark is not closed: close it")?;
    Ok(Some(Content::Options(words.into_iter().map(OsString::from).collect())))
}

/// Returns the part of the line before the first `#` that no backslash precedes.
fn without_comment(line: &str) -> &str {
    let starts = |&(index, _): &(usize, &str)| index == 0 || line.as_bytes()[index - 1] != b'\\';
    line.match_indices('#').find(starts).map_or(line, |(index, _)| &line[..index])
}

/// Returns the reason why a directive has no effect.
fn directive(line: &str) -> String {
    let name = line.split_whitespace().next().unwrap_or_default();
    match name {
        LOG_FILE => format!(
            "{LOG_FILE} has no effect: the log is written to stderr, which systemd adds to its journal"
        ),
        _ => format!(
            "'{name}' has no effect, because it is not an option: begin the option with '-'"
        ),
    }
}

/// Returns the last value of the option `conf_file` in values of `-o`.
pub(super) fn named_in<'a>(lists: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let elements = lists.flat_map(|list| list.split(','));
    let is_it = |element: &'a str| element.strip_prefix(CONF_FILE)?.strip_prefix('=');
    elements.filter_map(is_it).last()
}

#[cfg(test)]
mod tests {
    use super::{Content, named_in, parse};

    fn options(line: &str) -> Vec<String> {
        match parse(line) {
            Ok(Some(Content::Options(words))) => {
                words.into_iter().map(|word| word.into_string().expect("it is UTF-8")).collect()
            }
            other => panic!("{line:?} has options, but the result is {other:?}"),
        }
    }

    #[test]
    fn a_line_has_options_as_a_shell_splits_them() {
        assert_eq!(options("-m 64"), ["-m", "64"]);
        assert_eq!(options("  -m64 -p 1  # a comment"), ["-m64", "-p", "1"]);
        assert_eq!(options("--listen=127.0.0.1"), ["--listen=127.0.0.1"]);
        assert_eq!(options(r"-D \# # the delimiter"), ["-D", "#"]);
        assert_eq!(options("-s '/run/a b' -Y \"c d\""), ["-s", "/run/a b", "-Y", "c d"]);
    }

    #[test]
    fn comments_and_directives_have_no_options() {
        for line in ["", "   ", "# -m 64", "  #-d"] {
            assert_eq!(parse(line), Ok(None), "{line:?}");
        }
        for (line, name) in [("logfile /var/log/memcached.log", "logfile"), ("memory 64", "memory")]
        {
            let Ok(Some(Content::WithoutEffect(reason))) = parse(line) else {
                panic!("{line:?} has no effect")
            };
            assert!(reason.contains(name), "{reason}");
        }
        assert!(parse("-l 'open").is_err_and(|reason| reason.contains("quotation mark")));
    }

    #[test]
    fn the_last_conf_file_is_used() {
        assert_eq!(
            named_in(["modern,conf_file=/a", "conf_file=/b,http=:1"].into_iter()),
            Some("/b")
        );
        assert_eq!(named_in(["conf_files=/a", "conf_file"].into_iter()), None);
    }
}
