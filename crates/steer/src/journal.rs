//! The log: one line for each event, on stderr or in a file.
//!
//! Invariant: troubles of a connection are logged once, until the connection works again.

use crate::error::SteerError;
use slabwise_base::clock::unix_time;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{Write, stderr};
use std::path::Path;
use std::time::Duration;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Duration as SignedDuration, UtcDateTime};

/// The log.
pub struct Journal {
    out: Box<dyn Write>,
    /// The number of failed connections since the last one that worked.
    failures: u64,
}

impl Journal {
    /// Opens the log: the end of this file, or stderr.
    pub fn open(path: Option<&Path>) -> Result<Journal, SteerError> {
        let out: Box<dyn Write> = match path {
            None => Box::new(stderr()),
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                Box::new(file.map_err(|error| SteerError::Log { path: path.to_owned(), error })?)
            }
        };
        Ok(Journal { out, failures: 0 })
    }

    /// Writes a line. An error is ignored: the log must not stop the restoration of the server's settings.
    pub fn line(&mut self, text: impl Display) {
        let _ = writeln!(self.out, "{} {text}", timestamp(unix_time()));
    }

    /// Writes a line about a failed connection, unless the connection before failed, too.
    pub fn trouble(&mut self, text: impl Display) {
        self.failures += 1;
        if self.failures == 1 {
            self.line(text);
        }
    }

    /// Writes a line if connections have failed before this one.
    pub fn works(&mut self, server: impl Display) {
        match std::mem::take(&mut self.failures) {
            0 => {}
            failures => {
                self.line(format_args!("connected to {server} again, after {failures} failures"));
            }
        }
    }
}

/// Returns the date and the time in UTC, as RFC 3339 defines them, with milliseconds.
fn timestamp(since_epoch: Duration) -> String {
    const FORM: &[BorrowedFormatItem] =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    // The year 9999 is the last one that the form can show.
    let time = UtcDateTime::UNIX_EPOCH
        .saturating_add(since_epoch.try_into().unwrap_or(SignedDuration::MAX));
    time.format(FORM).unwrap_or_else(|_| format!("{}s", since_epoch.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::{Journal, timestamp};
    use std::time::Duration;

    #[test]
    fn timestamps_follow_the_calendar() {
        // The expected texts are those of `date -u -d @SECONDS`.
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(timestamp(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn failures_are_logged_once() {
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        let path = folder.path().join("log");
        let mut journal = Journal::open(Some(&path)).expect("the folder exists");
        for _ in 0..3 {
            journal.trouble("no reply");
        }
        journal.works("a:1");
        journal.works("a:1");
        let text = std::fs::read_to_string(&path).expect("the log exists");
        let lines: Vec<&str> =
            text.lines().map(|line| line.split_once(' ').expect("time").1).collect();
        assert_eq!(lines, ["no reply", "connected to a:1 again, after 3 failures"]);
    }
}
