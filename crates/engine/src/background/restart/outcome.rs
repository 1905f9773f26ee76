//! The results and errors of a start or stop with a memory file.

use crate::mem::MappingError;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// The contents of a cache after its start on a memory file.
#[derive(Debug)]
pub enum Start {
    /// The cache holds the items of the last process.
    Warm(Warm),
    /// The cache is empty, for this reason.
    Cold(ColdReason),
}

/// The result of a start that has restored items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warm {
    /// The number of restored items, including items that expired between stop and start.
    pub items: u64,
    /// The time that the clock of the old process would show now, counted from the start of that clock. The new clock
    /// must start at this time ([`Clock::resume`](slabwise_base::Clock::resume)).
    pub elapsed: Duration,
}

/// The reason why a cache started empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColdReason {
    /// There is no saved cache: this is the first start, or the last process was not stopped by SIGUSR1.
    #[error("nothing was saved (a stop by SIGUSR1 saves the items)")]
    NothingSaved,
    /// The memory file was saved by memcached.
    #[error("the file was saved by memcached")]
    ByMemcached,
    /// The memory file was saved by a version of slabwise that uses another file format.
    #[error("the file was saved by another version of slabwise, in format {0:?}")]
    OtherFormat(String),
    /// The .meta file is truncated or was changed. The text names the damage.
    #[error("its .meta file is damaged: {0}")]
    DamagedMeta(String),
    /// The memory file was saved with another value of a setting that determines the layout of the arena.
    #[error("{}", other_setting(name, saved, present))]
    OtherSetting {
        /// The name of the setting, as in the .meta file.
        name: String,
        /// The value of the setting when the file was saved.
        saved: String,
        /// The value of the setting now.
        present: String,
    },
    /// The memory file was used after it was saved, or the .meta file belongs to another memory file.
    #[error("its .meta file belongs to another memory file, or to an earlier state of this one")]
    OtherArena,
    /// The machine's date is before the date of the save, so the remaining TTLs of the items are unknown.
    #[error(
        "the machine's date is before the last stop, so it is unknown which items have expired"
    )]
    ClockBack,
    /// The contents of the memory file break an invariant.
    #[error("the file is damaged at byte {offset}: broken invariant: {invariant}")]
    Damaged {
        /// The broken invariant, as a sentence.
        invariant: &'static str,
        /// The offset of the damaged chunk from the start of the memory file, in bytes.
        offset: u64,
    },
}

/// The largest total length of an old and a new value of a setting that a message shows; longer values are omitted.
const VALUES_LEN_MAX: usize = 80;

fn other_setting(name: &str, saved: &str, present: &str) -> String {
    if saved.len() + present.len() > VALUES_LEN_MAX {
        return format!("the file was saved with another value of {name}");
    }
    format!("the file was saved with {name}={saved}, but {name} is now {present}")
}

/// The error of a start that can neither restore nor reset the memory file, or of a stop that cannot save it.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The file at the path of the .meta file was written neither by slabwise nor by memcached. slabwise does not
    /// overwrite it, because it may be a user's file.
    #[error("-e: {} is not a slabwise .meta file: remove it to start with an empty cache", .0.display())]
    MalformedMeta(PathBuf),
    /// Another process uses the memory file.
    #[error("-e {}: another process uses this file: stop that process, or name another file", .0.display())]
    InUse(PathBuf),
    /// The running server, from which this process takes over, uses another file.
    #[error("-e {}: the running server uses another file: give the -e of its start", .0.display())]
    OtherFileHandedOver(PathBuf),
    /// The path of the memory file leads to a directory or a device.
    #[error("-e {}: this is not a regular file: name another one", .0.display())]
    NotAFile(PathBuf),
    /// The file is on a hugetlbfs, whose files can only be mapped, not written.
    #[error(
        "-e {}: the file is on a hugetlbfs, where the server cannot write its state: name a file on a tmpfs, which can be \
         mounted with huge=always",
        .0.display()
    )]
    OnHugetlbfs(PathBuf),
    /// The file has contents that slabwise did not write. slabwise does not overwrite it, because it may be a user's
    /// file.
    #[error(
        "-e {}: the file has {size_bytes} bytes that slabwise did not write: name another file, or remove this one",
        path.display()
    )]
    OtherFile {
        /// The path of the file.
        path: PathBuf,
        /// The size of the file, in bytes.
        size_bytes: u64,
    },
    /// The file system has too little free space for the memory file, or a quota or a limit of the system forbids a file
    /// of this size.
    #[error(
        "-e {}: the file needs {missing_bytes} more bytes, and its file system has {free_bytes} bytes free ({error}): free \
         space on it, raise your quota or the limit of file sizes (ulimit -f), name a file on another file system, or lower \
         -m",
        path.display()
    )]
    NoRoom {
        /// The path of the memory file.
        path: PathBuf,
        /// The number of bytes for which the memory file has no blocks yet.
        missing_bytes: u64,
        /// The number of free bytes on the file system.
        free_bytes: u64,
        /// The error that the operating system returned.
        error: io::Error,
    },
    /// The memory file cannot be mapped into memory.
    #[error(transparent)]
    Map(#[from] MappingError),
    /// An operation on the memory file, the .meta file or their directory failed.
    #[error("-e: cannot {action} {}: {error}", path.display())]
    Io {
        /// The operation as a verb, such as "open".
        action: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The error that the operating system returned.
        error: io::Error,
    },
}

/// A step of the start with a memory file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The memory file is mapped at these addresses, and replaces an earlier mapping. The mapping exists as long as the
    /// cache. An access to it raises SIGBUS if the file has become shorter, or if its file system is full.
    Mapped(Range<usize>),
    /// The first of the passes over a restored arena has checked the items of another page.
    Checked {
        /// The number of pages whose items were checked so far.
        pages_done: usize,
        /// The number of pages to check in all.
        pages: usize,
    },
}

/// The time at which a process closed its cache, on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The time of the machine's clock, since 1970.
    pub unix_time: Duration,
    /// The time of the engine's clock, since its start.
    pub elapsed: Duration,
}
