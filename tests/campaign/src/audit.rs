//! The checks of the server at the end of a round, while no client is connected.
//!
//! - No reply is pending, no upload is open, and no get waits.
//! - slabwise's command `debugcheck` checks the invariants of the cache.
//! - The process has the same number of threads as the first one of this server after its first round, and only a few
//!   more descriptors.
//! - The workers use the interface that the option `io` names, or with `auto` one of the two.
//! - The resident memory is within the limits in `docs/memory.md`.
//! - If one process runs for longer than half an hour, its memory beside items does not grow. Only runs of one server
//!   without faults that end its process have such a process.

use crate::server::Host;
use crate::world::World;
use slabwise_client::{ClientError, Connection, Rows};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// The number of descriptors that a server may open besides those of its first round, for example for a log.
const DESCRIPTORS_SPARE: usize = 8;
/// The growth of the memory beside items over the last hour, or over the whole run if it is shorter, that is allowed.
const GROWTH_BYTES_MAX: u64 = 8 * MIB;
/// The age of a process from which on its growth is judged.
const GROWTH_AGE_MIN: Duration = Duration::from_secs(1800);
/// The time over which growth is judged.
const GROWTH_WINDOW: Duration = Duration::from_secs(3600);
/// The rows of `stats memory` that must be 0 without clients.
const ROWS_WITHOUT_CLIENTS: [&str; 6] =
    ["uploads", "upload_bytes", "uploads_waiting", "reply_bytes", "pinned_bytes", "gets_waiting"];

/// The names under which the rounds with each value of the row `io` are counted.
const ROUNDS: [(&str, &str); 2] =
    [("epoll", "rounds with epoll"), ("io_uring", "rounds with io_uring")];

/// The memory of the counts of one key prefix (`docs/memory.md`: 25 MiB for 65,536 prefixes), in bytes.
const PREFIX_BYTES_MAX: u64 = 400;

/// What is known about a server from earlier rounds.
#[derive(Debug, Default)]
pub struct Audit {
    /// The number of descriptors and of threads after the first round.
    first: Option<(usize, usize)>,
    process: u32,
    started_nanos: u64,
    /// The rounds of this process.
    samples: Vec<Sample>,
}

/// The memory after a round.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The time, in nanoseconds.
    nanos: u64,
    /// The resident memory beside items, in bytes.
    beside_bytes: u64,
}

/// Returns what still shows that clients were connected, or `None` if nothing does.
pub fn client_trace(
    world: &World,
    host: &Host,
    console: &mut Connection,
) -> Result<Option<String>, String> {
    let open = number(&rows(console, "stats")?, "curr_connections");
    let idle = host.idle_connections;
    if open != idle {
        return Ok(Some(format!("{open} connections are open, not {idle}")));
    }
    if world.is_memcached {
        return Ok(None);
    }
    let memory = rows(console, "stats memory")?;
    let left = ROWS_WITHOUT_CLIENTS
        .iter()
        .find(|name| memory.get(name).is_none_or(|row| row.value != "0"));
    Ok(left.map(|name| match memory.get(name) {
        Some(row) => format!("stats memory has {name} {}, not 0", row.value),
        None => format!("stats memory has no row {name}"),
    }))
}

fn rows(console: &mut Connection, command: &str) -> Result<Rows, String> {
    console.ask_rows(command).map_err(|error: ClientError| format!("{command}: {error}"))
}

/// Returns the name under which a round is counted. An error: the workers do not use the interface of the option `io`.
fn round_name(option: Option<&str>, console: &mut Connection) -> Result<&'static str, String> {
    let settings = rows(console, "stats settings")?;
    let used = settings.get("io").map(|row| row.value.as_str());
    // With `auto` the server decides.
    let is_valid = option == Some("auto") || option == used;
    let round = ROUNDS.iter().find(|(name, _)| is_valid && used == Some(name));
    round
        .map(|(_, round)| *round)
        .ok_or_else(|| format!("the option io is {option:?}, but the row io is {used:?}"))
}

/// Returns a number of the statistics, or 0 if they do not have it.
fn number(rows: &Rows, name: &str) -> u64 {
    rows.get(name).and_then(|row| row.value.parse().ok()).unwrap_or_default()
}

impl Audit {
    /// Checks the server. Returns the problem.
    pub fn check(
        &mut self,
        world: &World,
        host: &mut Host,
        console: &mut Connection,
        limits_memory: bool,
    ) -> Result<(), String> {
        let (resident, shared) = (host.resident_bytes(), host.resident_shared_bytes());
        let stats = rows(console, "stats")?;
        // A memory file keeps its memory when the limit is lowered, so it can be larger than the pages that are held.
        let pages = number(&rows(console, "stats slabs")?, "total_malloced").max(shared);
        let items = pages + number(&stats, "hash_bytes");
        let (descriptors, threads) = (host.descriptors(), host.threads());
        let now = world.clock.nanos();
        if self.process != host.process().id() {
            let (first, process) = (self.first, host.process().id());
            *self = Audit { first, process, started_nanos: now, samples: Vec::new() };
        }
        let beside_bytes = resident.saturating_sub(items);
        self.samples.push(Sample { nanos: now, beside_bytes });
        println!(
            "  round: RSS {} MiB, {} MiB beside items, {descriptors} descriptors, {threads} threads{}",
            resident / MIB,
            beside_bytes / MIB,
            self.describe_growth(),
        );
        let first = *self.first.get_or_insert((descriptors, threads));
        if descriptors > first.0 + DESCRIPTORS_SPARE {
            let before = first.0;
            return Err(format!(
                "{descriptors} descriptors are open, after the first round {before}"
            ));
        }
        if threads != first.1 {
            let before = first.1;
            return Err(format!(
                "the server has {threads} threads, after the first round {before}"
            ));
        }
        if limits_memory {
            if !world.is_memcached {
                check_limits(beside_bytes, &stats, console)?;
            }
            self.check_growth(now)?;
        }
        if !world.is_memcached {
            world.counts.fault(round_name(host.configuration.io(), console)?);
            let reply = console.ask_line("debugcheck");
            if !matches!(&reply, Ok(reply) if reply == "OK") {
                return Err(format!(
                    "the invariants are violated (see stderr of the server): {reply:?}"
                ));
            }
        }
        Ok(())
    }

    /// Returns the samples of the growth window.
    fn window(&self, now: u64) -> &[Sample] {
        let from = now.saturating_sub(GROWTH_WINDOW.as_nanos() as u64);
        let first = self.samples.partition_point(|sample| sample.nanos < from);
        &self.samples[first..]
    }

    /// Returns the change of the memory over the growth window, for a line of output.
    fn describe_growth(&self) -> String {
        let now = self.samples.last().map_or(0, |sample| sample.nanos);
        let (Some(first), Some(last)) = (self.window(now).first(), self.window(now).last()) else {
            return String::new();
        };
        let hours = last.nanos.saturating_sub(first.nanos) as f64 / 3600e9;
        if hours == 0.0 {
            return String::new();
        }
        let slope = (last.beside_bytes as f64 - first.beside_bytes as f64) / MIB as f64 / hours;
        format!(", {slope:+.1} MiB/h over {:.0} min", hours * 60.0)
    }

    /// Compares the mean memory beside items in the first and in the last third of the growth window.
    fn check_growth(&self, now: u64) -> Result<(), String> {
        if now - self.started_nanos < GROWTH_AGE_MIN.as_nanos() as u64 {
            return Ok(());
        }
        let window = self.window(now);
        let third = window.len() / 3;
        if third == 0 {
            return Ok(());
        }
        let mean = |samples: &[Sample]| {
            samples.iter().map(|sample| sample.beside_bytes).sum::<u64>() / samples.len() as u64
        };
        let (first, last) = (mean(&window[..third]), mean(&window[window.len() - third..]));
        if last > first + GROWTH_BYTES_MAX {
            return Err(format!(
                "the memory beside items has grown from {first} to {last} bytes on average; {GROWTH_BYTES_MAX} bytes are allowed"
            ));
        }
        Ok(())
    }
}

/// Checks the resident memory beside items. It may have the parts of `docs/memory.md` that do not depend on clients, the
/// counts of the key prefixes that exist, and one open connection. Nothing is allowed for replies, because no client is
/// connected.
fn check_limits(beside_bytes: u64, stats: &Rows, console: &mut Connection) -> Result<(), String> {
    let memory = rows(console, "stats memory")?;
    let part = |name: &str| number(&memory, &format!("model_{name}_bytes"));
    let fixed = ["tables", "workers", "program", "profiles", "costs", "huge_pages"];
    let connection = part("connections") / number(stats, "max_connections").max(1);
    let prefixes =
        count_prefixes(console).map_err(|error| format!("stats detail dump: {error}"))?;
    let limit = fixed.into_iter().map(part).sum::<u64>() + connection + prefixes * PREFIX_BYTES_MAX;
    if beside_bytes > limit {
        return Err(format!(
            "{beside_bytes} bytes are resident beside items, but the limits of docs/memory.md allow {limit}"
        ));
    }
    Ok(())
}

/// Returns the number of key prefixes that the server counts.
fn count_prefixes(console: &mut Connection) -> Result<u64, ClientError> {
    console.send_line("stats detail dump")?;
    let mut count = 0;
    while console.line()?.starts_with(b"PREFIX ") {
        count += 1;
    }
    Ok(count)
}
