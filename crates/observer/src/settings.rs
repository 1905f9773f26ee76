//! The settings of a server that decide whether its pages move, and what moves them.
//!
//! ```text
//!   stats settings --+--> Settings: memory limit, slab_reassign, automover, segmented LRU
//!   version ---------'
//! ```
//!
//! Invariant: reading the settings changes nothing in the server. Old servers lack some rows; a missing row has the value
//! that such a server uses.

use crate::error::{ObserverError, number, optional};
use slabwise_client::{Connection, Rows};
use std::io::{Read, Write};

const SETTINGS: &str = "stats settings";
const VERSION: &str = "version";

/// The settings of a server that concern its pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The text after `VERSION` in the reply to `version`.
    pub version: String,
    /// The memory limit (`-m`), in bytes.
    pub memory_limit_bytes: u64,
    /// True if `slabs reassign` is allowed (`-o slab_reassign`).
    pub can_reassign: bool,
    /// The mode of the automover: 0 is off, 1 is on, 2 is aggressive.
    pub automove: u64,
    /// The age ratio of the automover, as a text; empty if the server has none.
    pub automove_ratio: String,
    /// The window of the automover; 0 if the server has none.
    pub automove_window: u64,
    /// True if items move between HOT, WARM and COLD queues (`-o lru_maintainer`, `lru_segmented`).
    pub is_segmented: bool,
    /// The largest chunk size in bytes. Larger items are chains of chunks.
    pub chunk_size_max_bytes: u64,
}

impl Settings {
    /// Reads the settings of the server.
    pub fn read<S: Read + Write>(
        connection: &mut Connection<S>,
    ) -> Result<Settings, ObserverError> {
        let line = connection
            .ask_line(VERSION)
            .map_err(|error| ObserverError::Client { command: VERSION, error })?;
        let missing = || ObserverError::Missing { command: VERSION, row: "VERSION".to_owned() };
        let version = line.strip_prefix("VERSION ").ok_or_else(missing)?.to_owned();
        let rows = connection
            .ask_rows(SETTINGS)
            .map_err(|error| ObserverError::Client { command: SETTINGS, error })?;
        Settings::from_rows(version, &rows)
    }

    /// Returns the settings in the rows of `stats settings`.
    pub fn from_rows(version: String, rows: &Rows) -> Result<Settings, ObserverError> {
        let flag = |name: &str| match rows.get(name).map(|row| row.value.as_str()) {
            Some("yes" | "on" | "1") => Ok(true),
            Some(_) => Ok(false),
            None => Err(ObserverError::Missing { command: SETTINGS, row: name.to_owned() }),
        };
        let ratio = rows.get("slab_automove_ratio").map(|row| row.value.clone());
        Ok(Settings {
            version,
            memory_limit_bytes: number(rows, SETTINGS, "maxbytes")?,
            can_reassign: flag("slab_reassign")?,
            automove: number(rows, SETTINGS, "slab_automove")?,
            automove_ratio: ratio.unwrap_or_default(),
            automove_window: optional(rows, SETTINGS, "slab_automove_window")?,
            is_segmented: flag("lru_segmented").unwrap_or(false),
            chunk_size_max_bytes: optional(rows, SETTINGS, "slab_chunk_max")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use slabwise_client::{Row, Rows};

    fn settings(lines: &[&str]) -> Result<Settings, String> {
        let row = |line: &&str| Row::parse(line.as_bytes()).expect("the line is a row");
        let rows = Rows(lines.iter().map(row).collect());
        Settings::from_rows("1.6.45".to_owned(), &rows).map_err(|error| error.to_string())
    }

    const LINES: [&str; 8] = [
        "STAT maxbytes 67108864",
        "STAT slab_reassign yes",
        "STAT slab_automove 1",
        "STAT slab_automove_ratio 0.80",
        "STAT slab_automove_window 30",
        "STAT lru_segmented yes",
        "STAT slab_chunk_max 524288",
        "STAT inter NULL",
    ];

    #[test]
    fn the_rows_of_memcached_are_read() {
        let read = settings(&LINES).expect("the rows are valid");
        let expected = Settings {
            version: "1.6.45".to_owned(),
            memory_limit_bytes: 64 << 20,
            can_reassign: true,
            automove: 1,
            automove_ratio: "0.80".to_owned(),
            automove_window: 30,
            is_segmented: true,
            chunk_size_max_bytes: 512 << 10,
        };
        assert_eq!(read, expected);
        let off = settings(&["STAT maxbytes 1", "STAT slab_reassign no", "STAT slab_automove 0"]);
        let off = off.expect("the other rows are optional");
        assert!(!off.can_reassign && !off.is_segmented && off.automove == 0);
    }

    #[test]
    fn an_error_names_the_row() {
        let without = settings(&LINES[1..]).expect_err("the memory limit is missing");
        assert_eq!(without, "stats settings: the reply has no row 'maxbytes'");
        let mut lines = LINES;
        lines[2] = "STAT slab_automove often";
        let wrong = settings(&lines).expect_err("the mode is no number");
        assert!(wrong.contains("'slab_automove' has the value 'often'"), "{wrong}");
    }
}
