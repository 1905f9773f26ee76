//! The checks of the server at the end of a round, while no client is connected.
//!
//! - slabwise's command `debugcheck` checks the invariants of the cache.
//! - The process has the same number of threads as after its first round, and only a few more descriptors.
//! - The resident memory is within the sum of the limits in `docs/memory.md`.
//! - Over a long run, the memory beside items does not grow.

use crate::server::{Configuration, Host};
use crate::world::World;
use slabwise_client::Connection;
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

/// What is known about a server process from earlier rounds.
#[derive(Debug, Default)]
pub struct Audit {
    process: u32,
    started_nanos: u64,
    descriptors: usize,
    threads: usize,
    /// The time of each round in nanoseconds, the resident memory, and the part of it beside items, in bytes.
    samples: Vec<(u64, u64, u64)>,
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
        let text = |error: slabwise_client::ClientError| error.to_string();
        let resident = host.resident_bytes();
        let slabs = console.ask_rows("stats slabs").map_err(text)?;
        let stats = console.ask_rows("stats").map_err(text)?;
        let number = |row: Option<&slabwise_client::Row>| -> u64 {
            row.and_then(|row| row.value.parse().ok()).unwrap_or_default()
        };
        let items = number(slabs.get("total_malloced")) + number(stats.get("hash_bytes"));
        let (descriptors, threads) = (host.descriptors(), host.threads());
        let now = world.clock.nanos();
        if self.process != host.process().id() {
            let process = host.process().id();
            *self =
                Audit { process, started_nanos: now, descriptors, threads, samples: Vec::new() };
        }
        self.samples.push((now, resident, resident.saturating_sub(items)));
        println!(
            "  round: RSS {} MiB, {} MiB beside items, {descriptors} descriptors, {threads} threads{}",
            resident / MIB,
            resident.saturating_sub(items) / MIB,
            self.describe_growth(),
        );
        if descriptors > self.descriptors + DESCRIPTORS_SPARE {
            let before = self.descriptors;
            return Err(format!(
                "{descriptors} descriptors are open, after the first round {before}"
            ));
        }
        if threads != self.threads {
            return Err(format!(
                "the server has {threads} threads, after the first round {}",
                self.threads
            ));
        }
        let limit = resident_max(&host.configuration);
        if !world.is_memcached && limits_memory && resident > limit {
            return Err(format!(
                "{resident} bytes are resident, but the limits of docs/memory.md allow {limit}"
            ));
        }
        if limits_memory {
            self.check_growth(now)?;
        }
        if !world.is_memcached {
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
    fn window(&self, now: u64) -> &[(u64, u64, u64)] {
        let from = now.saturating_sub(GROWTH_WINDOW.as_nanos() as u64);
        let first = self.samples.partition_point(|sample| sample.0 < from);
        &self.samples[first..]
    }

    /// Returns the change of the memory over the growth window, for a line of output.
    fn describe_growth(&self) -> String {
        let now = self.samples.last().map_or(0, |sample| sample.0);
        let (Some(first), Some(last)) = (self.window(now).first(), self.window(now).last()) else {
            return String::new();
        };
        let hours = last.0.saturating_sub(first.0) as f64 / 3600e9;
        if hours == 0.0 {
            return String::new();
        }
        let slope = (last.2 as f64 - first.2 as f64) / MIB as f64 / hours;
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
        let mean = |samples: &[(u64, u64, u64)]| {
            samples.iter().map(|sample| sample.2).sum::<u64>() / samples.len() as u64
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

/// Returns the sum of the limits in `docs/memory.md`, in bytes.
fn resident_max(configuration: &Configuration) -> u64 {
    const CONNECTIONS_MAX: u64 = 1024;
    let items = configuration.memory_mib * MIB;
    let profiles = items / 50 + MIB;
    let replies = 32 * MIB + CONNECTIONS_MAX * (24 << 10);
    let watchers = 20 * (256 << 10);
    let program = 10 * MIB;
    items + profiles + replies + watchers + program
}
