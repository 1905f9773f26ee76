//! How a restart goes: what was found, or why it was of no use, and what fails.

use crate::mem::MappingError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// How a cache over a memory file began.
#[derive(Debug)]
pub enum Start {
    /// With what the last process left.
    Warm(Warm),
    /// Empty.
    Cold(ColdReason),
}

/// What a warm start found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warm {
    /// Items in the cache, those that have expired meanwhile included.
    pub items: u64,
    /// What the old process's clock would read now: the new one's must go on from there
    /// ([`Clock::resume`](slabwise_base::Clock::resume)).
    pub elapsed: Duration,
}

/// Why a cache began empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColdReason {
    /// Nothing was saved: a first start, or the last process was not stopped gracefully.
    #[error("nothing was saved (stop by SIGUSR1 to save)")]
    NothingSaved,
    /// memcached saved it.
    #[error("it was saved by memcached")]
    ByMemcached,
    /// Another version of slabwise saved it.
    #[error("it was saved by another version, in format {0:?}")]
    OtherFormat(String),
    /// The file beside it is cut off or changed.
    #[error("its .meta file is torn: {0}")]
    Torn(String),
    /// It was saved under another setting.
    #[error("{}", other_setting(name, saved, present))]
    OtherSetting {
        /// Which.
        name: String,
        /// What it was.
        saved: String,
        /// What it is.
        present: String,
    },
    /// The memory file was used since, or is another one.
    #[error("it is not the one that its .meta file is of")]
    OtherArena,
    /// The machine's date lies before the stop, so nobody knows what has expired.
    #[error("the machine's date lies before the stop, so what has ended is unknown")]
    ClockBack,
    /// The memory file does not hold together.
    #[error("it is damaged at byte {offset}: broken invariant: {invariant}")]
    Damaged {
        /// What does not hold.
        invariant: &'static str,
        /// Where, in bytes from its start.
        offset: u64,
    },
}

/// Longer values are not shown.
const LINE_LEN_MAX: usize = 80;

fn other_setting(name: &str, saved: &str, present: &str) -> String {
    if saved.len() + present.len() > LINE_LEN_MAX {
        return format!("it was saved with another value of {name}");
    }
    format!("it was saved with {name} {saved}, which is {present} now")
}

/// Why a memory file can be neither used nor begun anew, or not saved.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The .meta file is none, and so perhaps somebody's own; it is left as it is.
    #[error("-e: {} is no file of ours: remove it to start with an empty cache", .0.display())]
    MalformedMeta(PathBuf),
    /// Another process uses the file.
    #[error("-e {}: another process uses this file: stop it, or name another file", .0.display())]
    InUse(PathBuf),
    /// It is a directory or a device.
    #[error("-e {}: a plain file is needed: name another one", .0.display())]
    NotAFile(PathBuf),
    /// There is no room for it.
    #[error("-e {}: there is no room for its {size_bytes} bytes: free some, or lower -m", path.display())]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// Bytes it must have.
        size_bytes: u64,
    },
    /// It cannot be mapped.
    #[error(transparent)]
    Map(#[from] MappingError),
    /// The system refused.
    #[error("-e: cannot {action} {}: {error}", path.display())]
    Io {
        /// What was to be done, as a verb.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
}

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Pages walked.
    pub pages_done: usize,
    /// Pages in all.
    pub pages: usize,
}

/// The moment of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The machine's date, as the time since 1970.
    pub unix_time: Duration,
    /// What the engine's clock reads, as the time since its start.
    pub elapsed: Duration,
}
