//! Plays every transcript in `tests/transcripts/*.txt` and in `docs/protocol.md` against slabwise with one worker and
//! with four workers, and against the installed memcached. slabwise and memcached must send the same replies, except
//! for the differences that the transcript lists with a reason.
//!
//! The file `README.md` describes the format. `format` parses a transcript, `document` extracts transcripts from
//! Markdown, `text` decodes escapes, `pattern` matches replies, and `play` sends the requests and compares the replies.
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
fn slabwise_with_one_worker_sends_the_replies_of_every_transcript() {
    play_all(&under_test().with(&["-t", "1"]));
}

#[test]
fn slabwise_with_four_workers_sends_the_replies_of_every_transcript() {
    play_all(&under_test().with(&["-t", "4"]));
}

#[test]
fn memcached_sends_the_replies_of_every_transcript() {
    play_all(&stock_memcached());
}

/// Plays every transcript, each on a new server. A transcript with the line `split` is played a second time, byte by
/// byte.
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
        "{} transcripts failed against {}:\n\n{}",
        failures.len(),
        command.describe(),
        failures.join("\n\n")
    );
}

/// Returns the text of every selected transcript, with the path of its file.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read =
        |path: &PathBuf| std::fs::read_to_string(path).expect("a transcript is readable and UTF-8");
    let mut sources: Vec<(PathBuf, String)> = std::fs::read_dir(root.join("tests/transcripts"))
        .expect("the folder tests/transcripts is readable")
        .map(|entry| entry.expect("the entries of tests/transcripts are readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| (path.clone(), read(&path)))
        .collect();
    sources.sort();
    let protocol = root.join("docs/protocol.md");
    match document::transcripts(&read(&protocol)) {
        Ok(texts) => sources.extend(texts.into_iter().map(|text| (protocol.clone(), text))),
        Err(error) => panic!("{}:{error}", protocol.display()),
    }

    let selected = std::env::var("TRANSCRIPT").unwrap_or_default();
    let is_selected = |name: &OsStr| name.to_string_lossy().contains(&selected);
    sources.retain(|(path, _)| path.file_name().is_some_and(is_selected));
    assert!(
        !sources.is_empty(),
        "TRANSCRIPT={selected} is part of no file name in {}/tests/transcripts",
        root.display()
    );
    sources
}
