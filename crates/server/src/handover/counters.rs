//! The counters of `stats` in a handover. Each line is `OWNER NAME=COUNT`, where the owner is `cache`, `mover`, a class, as
//! `class.7`, `connections` or `traffic`. Counters of 0 are left out. A process ignores the names that it does not know, so
//! that versions with other counters can hand over to each other.
//!
//! The counters since the last `stats reset` are handed over. Not handed over are those of watchers, uploads, pending
//! replies, TLS, measured costs, key prefixes and durations, and the processor time of the workers: they begin at 0.

use crate::shared::Shared;
use slabwise_base::ClassId;
use slabwise_engine::CounterOwner;

/// The counters of the traffic that are handed over. The others measure the present workers.
const TRAFFIC_NAMES: [&str; 3] = ["bytes_read", "bytes_written", "meta_debugs"];
/// The largest length of a message with counters, in bytes.
const PART_LEN_MAX: usize = 32 << 10;

/// Returns the lines of all counters, in parts of which each fits into a message.
pub(super) fn compose(shared: &Shared<'_>) -> Vec<String> {
    let (baseline, now) = (shared.baseline(), shared.clock.now());
    let mut parts = vec![String::new()];
    let mut add = |owner: &str, name: &str, count: u64| {
        if count == 0 {
            return;
        }
        let line = format!("{owner} {name}={count}\n");
        if parts.last().is_none_or(|part| part.len() + line.len() > PART_LEN_MAX) {
            parts.push(String::new());
        }
        parts.last_mut().expect("a part was added").push_str(&line);
    };
    let engine = shared.engine.stats(now).since(&baseline.engine);
    engine.named().iter().for_each(|(name, count)| add("cache", name, *count));
    engine.mover.named().into_iter().for_each(|(name, count)| add("mover", name, count));
    for stats in shared.engine.class_stats(now) {
        let Some(id) = stats.class else { continue };
        let (stats, owner) = (baseline.since(&stats), format!("class.{}", id.0));
        stats.named().iter().for_each(|(name, count)| add(&owner, name, *count));
        stats.counters.named().into_iter().for_each(|(name, count)| add(&owner, name, count));
    }
    let connections = shared.counters.read().since(&baseline.connections);
    connections.named().into_iter().for_each(|(name, count)| add("connections", name, count));
    let traffic = shared.traffic_counts().since(&baseline.traffic);
    let traffic = traffic.named().into_iter().filter(|(name, _)| TRAFFIC_NAMES.contains(name));
    traffic.for_each(|(name, count)| add("traffic", name, count));
    parts
}

/// Adds the counters of another process. No thread serves requests yet.
pub(super) fn restore(shared: &Shared<'_>, lines: &str) {
    let parsed = lines.lines().filter_map(|line| {
        let (owner, rest) = line.split_once(' ')?;
        let (name, count) = rest.split_once('=')?;
        Some((owner, name, count.parse::<u64>().ok()?.min(u64::MAX / 2)))
    });
    let parsed: Vec<(&str, &str, u64)> = parsed.collect();
    let of_engine = parsed.iter().filter_map(|&(owner, name, count)| {
        let owner = match owner {
            "cache" => CounterOwner::Cache,
            "mover" => CounterOwner::Mover,
            class => CounterOwner::Class(ClassId(class.strip_prefix("class.")?.parse().ok()?)),
        };
        Some((owner, name, count))
    });
    shared.engine.add_counters(of_engine);
    for &(owner, name, count) in &parsed {
        match owner {
            "connections" => shared.counters.add_named(name, count),
            "traffic" if TRAFFIC_NAMES.contains(&name) => shared.traffic[0].add_named(name, count),
            _ => {}
        }
    }
}
