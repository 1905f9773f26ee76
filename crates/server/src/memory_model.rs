//! The parts of the process's memory, and the maximum of each part. `docs/memory.md` describes them.
//!
//! ```text
//!   settings --new--> MemoryModel --log_lines--> the log at the start, with -v
//!                          |  \----parts-------> stats memory
//!                          |-------------------> container: slabwise memory
//!                          '--warning(limit)---> the log at the start, if the memory does not suffice
//! ```
//!
//! The modules that allocate a part limit it. This module is the only one that adds the limits up.
//!
//! Invariant: the resident memory of the process is at most the sum of all parts, except in the cases that
//! `docs/memory.md` lists. The connections benchmark checks this, except for the part of the items, of which it counts
//! the pages in use.

use crate::config::Settings;
use crate::os::memory_limits::{LimitSource, MemoryLimit};
use crate::os::uring::{
    BUFFERS_SIZE_BYTES as URING_BUFFERS_SIZE_BYTES, QUEUES_SIZE_BYTES as URING_QUEUES_SIZE_BYTES,
};
use crate::out::{
    KEPT_CAPACITY_BYTES_MAX, KEPT_OUTPUTS_MAX, PENDING_BYTES_MAX, STAGED_TOTAL_BYTES_MAX,
};
use crate::shared::{
    BUFFERED_BYTES_MAX, BUFFERED_BYTES_MIN, KEY_SAMPLES_SIZE_BYTES, PREFIX_COUNT_MAX,
    READ_BUFFER_BYTES, WATCHERS_MAX,
};
use slabwise_engine::{EngineConfig, HugePages};
use slabwise_tuner::DENSITIES_SIZE_BYTES_MAX;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The memory of the program itself, of its libraries and of the threads that are not workers, in bytes.
const PROGRAM_BYTES: u64 = 10 * MIB;
/// The memory of an open connection that sends and receives nothing, in bytes. The table of connections doubles its size
/// when it is full, so it may have twice the necessary size.
const CONNECTION_BYTES: u64 = 2 * KIB;
/// The memory of TLS for such a connection, in bytes: the keys, and a buffer of 4 KiB.
const TLS_CONNECTION_BYTES: u64 = 10 * KIB;
/// The maximum length of a message of the TLS handshake, in bytes. Its buffer is freed before the connection has others.
const TLS_HANDSHAKE_BYTES_MAX: u64 = 64 * KIB;
/// The maximum length of a TLS record, and of its plaintext, in bytes.
const TLS_RECORD_BYTES_MAX: u64 = 18 * KIB + 16 * KIB;
/// The maximum length of the certificates that a client sends, in bytes.
const TLS_CERTIFICATES_BYTES_MAX: u64 = 64 * KIB;
/// The memory of the stack of a worker, in bytes.
const STACK_BYTES: u64 = 128 * KIB;
/// The memory of the slots for a worker's spare chunks, in bytes. The chunks themselves are within `-m`.
const SPARE_SLOTS_BYTES: u64 = 8 * KIB;
/// The maximum memory of io_uring for a worker, in bytes: the provided buffers, and copies of them before they are counted;
/// the queues; the outputs that are sent in the next wait, in vectors that may have twice the size; and as many unused ones.
const URING_BYTES_MAX: u64 =
    (2 * URING_BUFFERS_SIZE_BYTES + URING_QUEUES_SIZE_BYTES + 3 * STAGED_TOTAL_BYTES_MAX) as u64;
/// The maximum memory of the counts of one key prefix, in bytes. A prefix has at most 250 bytes.
const PREFIX_BYTES_MAX: u64 = 400;
/// The maximum unused memory of three huge pages, in bytes: the last one of the items, of the buckets of the index, and of
/// its overflow buckets.
const HUGE_PAGES_BYTES_MAX: u64 = 3 * 2 * MIB;
/// The maximum memory of the HTTP server, in bytes: most of it for responses that its clients have not read.
const HTTP_BYTES_MAX: u64 = 16 * MIB;
/// The maximum memory of the frequencies of keys and prefixes, in bytes.
pub(crate) const HOT_KEYS_BYTES_MAX: u64 = MIB;
/// The maximum memory of the measurement of costs, in bytes.
const MEASURED_COSTS_BYTES_MAX: u64 = MIB;

/// A part of the process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name of the part in the rows of `stats memory`.
    pub name: &'static str,
    /// What the memory contains, and the options that determine its maximum.
    pub description: String,
    pub bytes_max: u64,
}

/// The parts of the process's memory.
#[derive(Clone, Debug)]
pub struct MemoryModel {
    engine: EngineConfig,
    /// The value of `-c`.
    connections_max: u64,
    /// The parts in addition to the memory limit.
    parts: Vec<Part>,
}

impl MemoryModel {
    pub fn new(settings: &Settings) -> MemoryModel {
        let mut parts = vec![
            tables(settings),
            connections(settings),
            buffers(settings),
            workers(settings),
            Part {
                name: "program",
                description: "the program and its other threads".to_owned(),
                bytes_max: PROGRAM_BYTES,
            },
        ];
        parts.extend(huge_pages(settings));
        parts.extend(profiles(settings));
        parts.extend(measured_costs(settings));
        parts.extend(watchers(settings));
        parts.extend(prefixes(settings));
        parts.extend(http(settings));
        parts.extend(hot_keys(settings));
        MemoryModel {
            engine: settings.engine.clone(),
            connections_max: settings.connections_max.into(),
            parts,
        }
    }

    /// Returns the model after `cache_memlimit` has set this limit of the memory for items. `kept_bytes` is the memory that a
    /// memory file keeps although the limit may be lower.
    pub fn with_memory_limit(
        settings: &Settings,
        bytes: u64,
        kept_bytes: Option<u64>,
    ) -> MemoryModel {
        let mut settings = settings.clone();
        settings.engine.memory_limit_bytes = bytes.max(kept_bytes.unwrap_or(0));
        MemoryModel::new(&settings)
    }

    /// Returns the maximum memory for items, in bytes.
    pub fn items_bytes(&self) -> u64 {
        self.engine.memory_limit_bytes
    }

    /// Returns the parts in addition to the memory limit (`-m`).
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the maximum memory in addition to the memory limit (`-m`), in bytes.
    pub fn beyond_limit_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes_max).sum()
    }

    /// Returns the maximum memory of the process, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.engine.memory_limit_bytes + self.beyond_limit_bytes()
    }

    /// Returns the lines of the log that describe the model: one line for the sum, and one for each part.
    pub fn log_lines(&self) -> impl Iterator<Item = String> {
        let beyond = self.beyond_limit_bytes();
        let sum = format!(
            "memory: at most {} MiB: -m {} MiB, and {} MiB for",
            mib(self.total_bytes()),
            mib(self.engine.memory_limit_bytes),
            mib(beyond)
        );
        let line =
            |part: &Part| format!("memory: {:>8} MiB  {}", mib(part.bytes_max), part.description);
        std::iter::once(sum).chain(self.parts.iter().map(line))
    }

    /// Returns the warning that the memory of the process can exceed this limit, or `None` if it cannot.
    pub fn warning(&self, limit: &MemoryLimit) -> Option<String> {
        let beyond = self.beyond_limit_bytes();
        if self.total_bytes() <= limit.bytes {
            return None;
        }
        let limit_bytes = self.engine.memory_limit_bytes;
        let (given, available) = (mib(limit_bytes), mib(limit.bytes));
        let source = &limit.source;
        let excess = if limit_bytes > limit.bytes {
            format!("-m {given} (MiB) is above {available} MiB, {source}")
        } else {
            format!(
                "-m {given} (MiB) and the {} MiB that the server may need in addition are above {available} MiB, {source}",
                mib(beyond)
            )
        };
        let connections = self.connections_max;
        let mut remedy = match self.fitting_limit_mib(limit.bytes) {
            0 => format!("lower -m and -c (now {connections})"),
            fitting if limit_bytes > limit.bytes => format!("lower -m to {fitting}"),
            fitting => format!("lower -m to {fitting}, or -c (now {connections})"),
        };
        if limit.source != LimitSource::Machine {
            remedy += ", or raise the limit";
        }
        Some(format!("{excess}: {remedy}; -v lists the parts of the memory"))
    }

    /// Returns the largest value of `-m` with which the memory of the process is at most `bytes_max`, in MiB; 0 if there is
    /// none. The memory for profiles stays as it is.
    fn fitting_limit_mib(&self, bytes_max: u64) -> u64 {
        let tables_bytes = self.engine.beyond_limit_bytes_max();
        let constant_bytes = self.beyond_limit_bytes() - tables_bytes;
        let fits = |mib: u64| {
            let mut engine = self.engine.clone();
            engine.memory_limit_bytes = mib * MIB;
            mib * MIB + constant_bytes + engine.beyond_limit_bytes_max() <= bytes_max
        };
        // `fitting` fits or is 0, and `too_large` does not fit.
        let (mut fitting, mut too_large) = (0, bytes_max / MIB + 1);
        while fitting + 1 < too_large {
            let middle = fitting.midpoint(too_large);
            *(if fits(middle) { &mut fitting } else { &mut too_large }) = middle;
        }
        fitting
    }
}

/// Formats a number of bytes in MiB, with one decimal if the number is not whole.
pub(crate) fn mib(bytes: u64) -> String {
    if bytes.is_multiple_of(MIB) {
        (bytes / MIB).to_string()
    } else {
        format!("{:.1}", bytes as f64 / MIB as f64)
    }
}

fn tables(settings: &Settings) -> Part {
    let description = if settings.engine.index_within_limit {
        "the table of pages, and the allocator's memory for the index"
    } else {
        "the index, the first page of each class, and the table of pages"
    };
    let bytes_max = settings.engine.beyond_limit_bytes_max();
    Part { name: "tables", description: description.to_owned(), bytes_max }
}

fn http(settings: &Settings) -> Option<Part> {
    settings.http.as_ref().map(|_| Part {
        name: "http",
        description:
            "HTTP: the history, and the requests and responses of 32 connections (-o http)"
                .to_owned(),
        bytes_max: HTTP_BYTES_MAX,
    })
}

/// The frequencies, the keys that each worker has sampled, and the memory that is exchanged with a worker's.
fn hot_keys(settings: &Settings) -> Option<Part> {
    let buffers = settings.threads as u64 + 1;
    (settings.hot_keys() > 0).then(|| Part {
        name: "hot_keys",
        description: "sampled keys and their frequencies (-o http_hot_keys)".to_owned(),
        bytes_max: HOT_KEYS_BYTES_MAX + buffers * KEY_SAMPLES_SIZE_BYTES as u64,
    })
}

fn huge_pages(settings: &Settings) -> Option<Part> {
    (settings.engine.huge_pages != HugePages::Refused).then(|| Part {
        name: "huge_pages",
        description: "the unused ends of huge pages (-o no_huge_pages)".to_owned(),
        bytes_max: HUGE_PAGES_BYTES_MAX,
    })
}

fn profiles(settings: &Settings) -> Option<Part> {
    let of_densities = match settings.engine.eviction.info().counts_uses {
        true => DENSITIES_SIZE_BYTES_MAX as u64,
        false => 0,
    };
    let bytes_max = settings.profiling?.memory_bytes_max() + of_densities;
    Some(Part {
        name: "profiles",
        description: "profiles (-o profile_memory)".to_owned(),
        bytes_max,
    })
}

fn measured_costs(settings: &Settings) -> Option<Part> {
    settings.costs_measured.then(|| Part {
        name: "costs",
        description: "the measurement of costs (-o cost=measured)".to_owned(),
        bytes_max: MEASURED_COSTS_BYTES_MAX,
    })
}

/// The state of open connections, without the buffers of those that send or receive.
fn connections(settings: &Settings) -> Part {
    let count = u64::from(settings.connections_max);
    let (tls, with_tls) = match settings.tls {
        None => (0, ""),
        Some(_) => (TLS_CONNECTION_BYTES, " with TLS"),
    };
    let each = CONNECTION_BYTES + tls;
    Part {
        name: "connections",
        description: format!("{count} connections (-c){with_tls}, {} KiB each", each / KIB),
        bytes_max: count * each,
    }
}

/// The replies that clients have not read, and incomplete requests. If the budget is used up, a connection receives and
/// appends the minimum of bytes in a round, and the last reply may be a value that is not pinned.
fn buffers(settings: &Settings) -> Part {
    let count = u64::from(settings.connections_max);
    let each = BUFFERED_BYTES_MIN as u64 + tls_buffers(settings);
    let budget = BUFFERED_BYTES_MAX as u64;
    Part {
        name: "buffers",
        description: format!(
            "replies that clients have not read, and incomplete requests: {} MiB, and {} KiB for each connection",
            mib(budget),
            each / KIB
        ),
        bytes_max: budget + count * each,
    }
}

/// Returns the maximum memory of the buffers of TLS for one connection, in bytes. Received records that are not decrypted
/// are not included: they count in the budget and the minimum of incomplete requests.
fn tls_buffers(settings: &Settings) -> u64 {
    let Some(tls) = &settings.tls else { return 0 };
    let established = TLS_RECORD_BYTES_MAX + u64::from(tls.write_buffer_bytes);
    let certificates = if tls.ca_file.is_some() { TLS_CERTIFICATES_BYTES_MAX } else { 0 };
    TLS_HANDSHAKE_BYTES_MAX.max(established) + certificates
}

/// The buffers of the workers. A reply may be in a vector that has doubled its size.
fn workers(settings: &Settings) -> Part {
    let count = settings.threads as u64;
    let tls_buffer = if settings.tls.is_some() { READ_BUFFER_BYTES as u64 } else { 0 };
    let kept_outputs = (KEPT_OUTPUTS_MAX * KEPT_CAPACITY_BYTES_MAX) as u64;
    let output = 2 * PENDING_BYTES_MAX as u64;
    let buffers = READ_BUFFER_BYTES as u64 + tls_buffer + kept_outputs + output;
    let uring = if settings.io.allows_uring() { URING_BYTES_MAX } else { 0 };
    let each = buffers + uring + STACK_BYTES + SPARE_SLOTS_BYTES;
    // A UDP socket has a buffer for a datagram, and a message of two outputs.
    let sockets = (settings.udp.len() * settings.threads_per_udp_port()) as u64;
    let udp = sockets * (READ_BUFFER_BYTES as u64 + 2 * output);
    let with_udp = if sockets > 0 { format!(" with {sockets} UDP sockets") } else { String::new() };
    Part {
        name: "workers",
        description: format!("{count} workers (-t){with_udp}"),
        bytes_max: count * each + udp,
    }
}

/// The lines that watchers have not read: in the log's buffer, in the vector that is exchanged with it, and in the reply.
fn watchers(settings: &Settings) -> Option<Part> {
    const BUFFERS: u64 = 3;
    settings.watch_enabled.then(|| Part {
        name: "watchers",
        description: format!(
            "{WATCHERS_MAX} watchers, {BUFFERS} buffers of {} KiB each (-o watcher_logbuf_size)",
            settings.watcher_log_bytes / KIB
        ),
        bytes_max: WATCHERS_MAX as u64 * BUFFERS * settings.watcher_log_bytes,
    })
}

/// The counts of requests by key prefix, which any client can turn on unless `-X` is given.
fn prefixes(settings: &Settings) -> Option<Part> {
    (settings.detail_enabled || settings.dump_enabled).then(|| Part {
        name: "prefixes",
        description: format!(
            "counts of at most {PREFIX_COUNT_MAX} key prefixes (`stats detail on`)"
        ),
        bytes_max: PREFIX_COUNT_MAX as u64 * PREFIX_BYTES_MAX,
    })
}

#[cfg(test)]
#[path = "memory_model_tests.rs"]
mod tests;
