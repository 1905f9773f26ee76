//! One reading of the counters of a server.
//!
//! ```text
//!   stats ------+
//!   stats slabs +--> Counters: process, page mover, totals
//!   stats items +        '--> ClassCounters: pages, chunks, sets, hits, and the hits and items of each queue
//!                                 '--> Snapshot: what a page policy reads
//! ```
//!
//! Invariants: reading changes nothing in the server; classes are in ascending order of their chunk sizes; each class has
//! at least one chunk on a page; sums and products of sizes and numbers do not overflow, because a reply with a number that
//! no memcached has is an error. The three replies are not one moment: a class may have changed between them, so the sum of
//! `used_chunks` and `free_chunks` may differ from the chunks of its pages.

use crate::error::{ObserverError, number, optional, parse};
use slabwise_base::{ClassId, Ticks};
use slabwise_client::{Connection, Rows};
use slabwise_policy::{ClassSnapshot, Snapshot};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::Duration;

const GENERAL: &str = "stats";
const SLABS: &str = "stats slabs";
const ITEMS: &str = "stats items";
/// The number of units of the work clock in a second of [`ClassSnapshot::tail_age_work`]. memcached knows no work clock,
/// and only the ratios of tail ages matter to a policy.
const WORK_UNITS_PER_SECOND: u32 = 1_000;

/// The identity of a server process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The process id.
    pub pid: u64,
    /// The Unix time at which the process started, in seconds. It may vary by a second between two readings.
    pub started_at_seconds: u64,
}

impl ProcessIdentity {
    /// Returns true if the two readings can be of the same process.
    pub fn is_same_process(self, other: ProcessIdentity) -> bool {
        /// memcached's clock follows the system's clock, and jumps with it.
        const START_ERROR_SECONDS_MAX: u64 = 2;
        self.pid == other.pid
            && self.started_at_seconds.abs_diff(other.started_at_seconds) <= START_ERROR_SECONDS_MAX
    }
}

/// The queues of a class with memcached's segmented LRU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// The number of items in the queue.
    pub items: u64,
    /// The number of gets since the start that hit an item in the queue.
    pub hits: u64,
}

/// The lines that the server wrote for watchers since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// The lines that workers wrote.
    pub written: u64,
    /// The lines that workers did not write because their buffers were full, and those that were not sent because the
    /// connection was too slow.
    pub dropped: u64,
}

/// The counters of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// What a page policy reads.
    pub shown: ClassSnapshot,
    /// The number of items whose class this is. An item that is longer than a chunk has several chunks.
    pub items: u64,
    /// The queue HOT.
    pub hot: QueueCounters,
    /// The queue WARM.
    pub warm: QueueCounters,
    /// The queue COLD, from whose tail items are evicted.
    pub cold: QueueCounters,
}

/// One reading of the counters of a server. Counts are since the start of the process, or since `stats reset`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The process that answered.
    pub process: ProcessIdentity,
    /// The number of gets.
    pub gets: u64,
    /// The number of gets that missed.
    pub misses: u64,
    /// The number of pages that have moved between classes.
    pub pages_moved: u64,
    /// True while the server moves a page.
    pub is_moving: bool,
    /// The number of pages in the page pool.
    pub pages_free: u64,
    /// The memory limit in bytes. The command `cache_memlimit` changes it.
    pub memory_limit_bytes: u64,
    /// The bytes of all pages.
    pub allocated_bytes: u64,
    /// True if the server moves values to files (extstore).
    pub has_storage: bool,
    /// The processor time of the server since its start; `None` if it does not report a valid one.
    pub processor_time: Option<Duration>,
    /// `None` if the server has no watchers.
    pub lines: Option<LineCounts>,
    /// The classes that own pages.
    pub classes: Vec<ClassCounters>,
}

impl Counters {
    /// Reads the counters of the server.
    pub fn read<S: Read + Write>(
        connection: &mut Connection<S>,
    ) -> Result<Counters, ObserverError> {
        let mut ask = |command: &'static str| {
            let rows = connection.ask_rows(command);
            rows.map_err(|error| ObserverError::Client { command, error })
        };
        let (general, slabs, items) = (ask(GENERAL)?, ask(SLABS)?, ask(ITEMS)?);
        Counters::from_rows(&general, &slabs, &items)
    }

    /// Reads only the totals and the state of the page mover, which costs the server little. `classes` is empty.
    pub fn read_totals<S: Read + Write>(
        connection: &mut Connection<S>,
    ) -> Result<Counters, ObserverError> {
        let rows = connection.ask_rows(GENERAL);
        let rows = rows.map_err(|error| ObserverError::Client { command: GENERAL, error })?;
        Counters::from_rows(&rows, &Rows::default(), &Rows::default())
    }

    /// Returns the counters in the rows of the three commands.
    pub fn from_rows(
        general: &Rows,
        slabs: &Rows,
        items: &Rows,
    ) -> Result<Counters, ObserverError> {
        let total = |name: &str| number(general, GENERAL, name);
        let process = ProcessIdentity {
            pid: total("pid")?,
            started_at_seconds: total("time")?.saturating_sub(total("uptime")?),
        };
        let counters = Counters {
            process,
            gets: total("cmd_get")?,
            misses: total("get_misses")?,
            pages_moved: optional(general, GENERAL, "slabs_moved")?,
            is_moving: optional(general, GENERAL, "slab_reassign_running")? != 0,
            pages_free: optional(general, GENERAL, "slab_global_page_pool")?,
            memory_limit_bytes: total("limit_maxbytes")?,
            allocated_bytes: optional(slabs, SLABS, "total_malloced")?,
            processor_time: processor_time(general),
            lines: line_counts(general),
            has_storage: general.get("extstore_page_allocs").is_some(),
            classes: classes(slabs, items)?,
        };
        check(&counters)?;
        Ok(counters)
    }

    /// Returns what a page policy reads. `now` is the caller's time. `turnovers` is the number of bytes that were stored
    /// since the start, divided by the memory for items.
    pub fn snapshot(&self, now: Ticks, turnovers: f64) -> Snapshot {
        Snapshot {
            now,
            turnovers,
            pages_free: self.pages_free,
            memory_full: self.is_memory_full(),
            classes: self.classes.iter().map(|class| class.shown).collect(),
            gets: self.gets,
            misses: self.misses,
            ..Snapshot::default()
        }
    }

    /// Returns the class with this number; `None` if it owns no pages.
    pub fn class(&self, id: ClassId) -> Option<&ClassCounters> {
        self.classes.iter().find(|class| class.shown.class == id)
    }

    /// Returns true if the server creates no further page for a class that already has one.
    pub fn is_memory_full(&self) -> bool {
        let bytes = |class: &ClassCounters| {
            let shown = class.shown;
            (shown.chunk_size_bytes as u64).saturating_mul(shown.chunks_per_page as u64)
        };
        let page_size_bytes = self.classes.iter().map(bytes).max().unwrap_or(0);
        self.allocated_bytes.saturating_add(page_size_bytes) > self.memory_limit_bytes
    }
}

/// Refuses numbers that no memcached has, and whose products would overflow.
fn check(counters: &Counters) -> Result<(), ObserverError> {
    const MEMORY_BYTES_MAX: u64 = 1 << 50;
    const PAGES_MAX: u64 = 1 << 30;
    const CHUNKS_MAX: u64 = 1 << 40;
    const CHUNK_MAX: u64 = 1 << 30;
    let general = [(GENERAL, "limit_maxbytes", counters.memory_limit_bytes, MEMORY_BYTES_MAX)];
    let of_class = counters.classes.iter().flat_map(|class| {
        let shown = class.shown;
        [
            (SLABS, "total_pages", shown.pages, PAGES_MAX),
            (SLABS, "chunks_per_page", shown.chunks_per_page as u64, CHUNK_MAX),
            (SLABS, "chunk_size", shown.chunk_size_bytes as u64, CHUNK_MAX),
            (SLABS, "used_chunks", shown.used_chunks, CHUNKS_MAX),
            (ITEMS, "number", class.items, CHUNKS_MAX),
        ]
    });
    match general.into_iter().chain(of_class).find(|&(_, _, value, limit)| value > limit) {
        Some((command, row, value, limit)) => {
            Err(ObserverError::Implausible { command, row, value, limit })
        }
        None => Ok(()),
    }
}

fn processor_time(general: &Rows) -> Option<Duration> {
    let seconds = |name| Duration::try_from_secs_f64(general.get(name)?.value.parse().ok()?).ok();
    Some(seconds("rusage_user")?.saturating_add(seconds("rusage_system")?))
}

fn line_counts(general: &Rows) -> Option<LineCounts> {
    let count = |name| general.get(name)?.value.parse::<u64>().ok();
    let dropped = count("log_worker_dropped")?.saturating_add(count("log_watcher_skipped")?);
    Some(LineCounts { written: count("log_worker_written")?, dropped })
}

/// Returns the classes in the rows of `stats slabs` and `stats items`, in ascending order of their chunk sizes.
fn classes(slabs: &Rows, items: &Rows) -> Result<Vec<ClassCounters>, ObserverError> {
    let mut classes: BTreeMap<u32, ClassCounters> = BTreeMap::new();
    for row in &slabs.0 {
        let Some((class, field)) = row.class_field() else { continue };
        let (number, id) = class_number(SLABS, class)?;
        let shown = &mut classes.entry(number).or_default().shown;
        shown.class = id;
        let value = || parse(SLABS, &row.name, &row.value);
        match field {
            "chunk_size" => shown.chunk_size_bytes = value()? as usize,
            "chunks_per_page" => shown.chunks_per_page = value()? as usize,
            "total_pages" => shown.pages = value()?,
            "used_chunks" => shown.used_chunks = value()?,
            "free_chunks" => shown.free_chunks = value()?,
            "get_hits" => shown.hits = value()?,
            "cmd_set" => {
                shown.sets = value()?;
                shown.inserted = shown.sets;
            }
            _ => {}
        }
    }
    for row in &items.0 {
        let Some((class, field)) = row.class_field() else { continue };
        let (number, _) = class_number(ITEMS, class)?;
        // A class may receive its first page between the two commands.
        let Some(counters) = classes.get_mut(&number) else { continue };
        let value = || parse(ITEMS, &row.name, &row.value);
        match field {
            "number" => counters.items = value()?,
            "number_hot" => counters.hot.items = value()?,
            "number_warm" => counters.warm.items = value()?,
            "number_cold" => counters.cold.items = value()?,
            "hits_to_hot" => counters.hot.hits = value()?,
            "hits_to_warm" => counters.warm.hits = value()?,
            "hits_to_cold" => counters.cold.hits = value()?,
            "evicted" => counters.shown.evicted = value()?,
            "outofmemory" => counters.shown.out_of_memory = value()?,
            "age" => {
                let seconds = u32::try_from(value()?).unwrap_or(u32::MAX);
                counters.shown.tail_age_seconds = seconds;
                counters.shown.tail_age_work = seconds.saturating_mul(WORK_UNITS_PER_SECOND);
            }
            _ => {}
        }
    }
    if let Some((&class, _)) = classes.iter().find(|(_, it)| it.shown.chunks_per_page == 0) {
        return Err(ObserverError::NoChunks { command: SLABS, class });
    }
    let mut classes: Vec<ClassCounters> = classes.into_values().collect();
    classes.sort_by_key(|class| class.shown.chunk_size_bytes);
    Ok(classes)
}

/// Parses the number of a class.
fn class_number(command: &'static str, text: &str) -> Result<(u32, ClassId), ObserverError> {
    let number = text.parse::<u32>().ok();
    let known = number.and_then(|number| Some((number, ClassId::from_wire(number)?)));
    known.ok_or_else(|| ObserverError::Class {
        command,
        class: text.to_owned(),
        class_max: ClassId::NUMBERS,
    })
}

#[cfg(test)]
mod tests;
