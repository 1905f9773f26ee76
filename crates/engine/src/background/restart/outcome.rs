//! The results and errors of a restart.

use crate::mem::MappingError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// How a cache on a memory file started.
#[derive(Debug)]
pub enum Start {
    /// With the items of the last process.
    Warm(Warm),
    /// With an empty cache.
    Cold(ColdReason),
}

/// The result of a warm start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warm {
    /// The number of items, including those that have expired meanwhile.
    pub items: u64,
    /// The time that the old process's clock would show now. The new clock must continue from there
    /// ([`Clock::resume`](slabwise_base::Clock::resume)).
    pub elapsed: Duration,
}

/// Why a cache started empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColdReason {
    /// Nothing was saved: this is the first start, or the last process was not stopped by SIGUSR1.
    #[error("nothing was saved (stop by SIGUSR1 to save)")]
    NothingSaved,
    /// The file was saved by memcached.
    #[error("it was saved by memcached")]
    ByMemcached,
    /// The file was saved by a slabwise version with another format.
    #[error("it was saved by another version, in format {0:?}")]
    OtherFormat(String),
    /// The .meta file is truncated or changed.
    #[error("its .meta file is damaged: {0}")]
    DamagedMeta(String),
    /// The file was saved with another value of a setting.
    #[error("{}", other_setting(name, saved, present))]
    OtherSetting {
        /// The setting.
        name: String,
        /// The value when the file was saved.
        saved: String,
        /// The current value.
        present: String,
    },
    /// The memory file was used after the save, or the .meta file belongs to another one.
    #[error("its .meta file does not belong to it")]
    OtherArena,
    /// The machine's date is before the save, so the remaining TTLs are unknown.
    #[error(
        "the machine's date is before the last stop, so it is unknown which items have expired"
    )]
    ClockBack,
    /// The memory file breaks an invariant.
    #[error("it is damaged at byte {offset}: broken invariant: {invariant}")]
    Damaged {
        /// The broken invariant.
        invariant: &'static str,
        /// The offset from the start of the file.
        offset: u64,
    },
}

/// Longer values are omitted from the message.
const LINE_LEN_MAX: usize = 80;

fn other_setting(name: &str, saved: &str, present: &str) -> String {
    if saved.len() + present.len() > LINE_LEN_MAX {
        return format!("it was saved with another value of {name}");
    }
    format!("it was saved with {name}={saved}, which is now {present}")
}

/// Why a memory file can be neither used nor reset, or why it cannot be saved.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The file at the .meta path was not written by slabwise or memcached, so it is not overwritten.
    #[error("-e: {} is not a slabwise .meta file: remove it to start with an empty cache", .0.display())]
    MalformedMeta(PathBuf),
    /// Another process uses the file.
    #[error("-e {}: another process uses this file: stop it, or name another file", .0.display())]
    InUse(PathBuf),
    /// The path is a directory or a device.
    #[error("-e {}: this is not a regular file: name another one", .0.display())]
    NotAFile(PathBuf),
    /// The file system is too full.
    #[error("-e {}: the file system cannot hold {size_bytes} bytes: free some, or lower -m", path.display())]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// The size that the file needs.
        size_bytes: u64,
    },
    /// The file cannot be mapped.
    #[error(transparent)]
    Map(#[from] MappingError),
    /// A file operation failed.
    #[error("-e: cannot {action} {}: {error}", path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

/// The progress of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of pages done.
    pub pages_done: usize,
    /// The number of all pages.
    pub pages: usize,
}

/// The moment of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The machine's Unix time.
    pub unix_time: Duration,
    /// The reading of the engine's clock, as the time since its start.
    pub elapsed: Duration,
}
