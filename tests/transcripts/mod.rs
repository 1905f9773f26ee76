//! Plays every dialogue in `tests/transcripts/*.txt` and in `docs/protocol.md` against slabwise with one worker and
//! with four, and against the installed memcached. Both servers must send the same replies, except for the
//! differences that the transcript lists with a reason.
//!
//! The file `README.md` describes the format. `format` parses it, `document` extracts it from Markdown, `text` decodes
//! escapes, `pattern` matches replies, and `play` talks to a server.
//!
//! `TRANSCRIPT=name` selects the files whose name contains `name`.

mod document;
mod format;
mod pattern;
mod play;
mod text;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::support::{ServerCommand, stock_memcached, under_test};
use format::Transcript;
use play::{Pace, play};

#[test]
fn slabwise_with_one_worker() {
    play_all(&under_test().with(&["-t", "1"]));
}

#[test]
fn slabwise_with_four_workers() {
    play_all(&under_test().with(&["-t", "4"]));
}

#[test]
fn memcached() {
    play_all(&stock_memcached());
}

/// Plays every dialogue on a new server. Dialogues marked `split` are played a second time, byte by byte.
fn play_all(command: &ServerCommand) {
    let mut failures = Vec::new();
    for (path, source) in sources() {
        let transcript =
            Transcript::parse(&source).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
        let paces: &[Pace] =
            if transcript.split { &[Pace::Whole, Pace::Bytewise] } else { &[Pace::Whole] };
        for &pace in paces {
            if let Err(failure) = play(&transcript, command, pace) {
                failures.push(format!("{}:{failure}", path.display()));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} against {}:\n\n{}",
        failures.len(),
        command.describe(),
        failures.join("\n\n")
    );
}

/// Returns the source of every dialogue and the path of its file.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a dialogue is UTF-8 text");
    let mut sources: Vec<(PathBuf, String)> = std::fs::read_dir(root.join("tests/transcripts"))
        .expect("tests/transcripts exists")
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| (path.clone(), read(&path)))
        .collect();
    sources.sort();
    let contract = root.join("docs/protocol.md");
    match document::blocks(&read(&contract)) {
        Ok(blocks) => sources.extend(blocks.into_iter().map(|block| (contract.clone(), block))),
        Err(error) => panic!("{}:{error}", contract.display()),
    }

    let only = std::env::var("TRANSCRIPT").unwrap_or_default();
    let is_selected = |name: &OsStr| name.to_string_lossy().contains(&only);
    sources.retain(|(path, _)| path.file_name().is_some_and(is_selected));
    assert!(!sources.is_empty(), "no transcript in {} is named {only:?}", root.display());
    sources
}
