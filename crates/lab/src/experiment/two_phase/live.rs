//! `two-phase` on real servers, which run at the same time under the same requests at the same rate.
//!
//! ```text
//!   server 1 <--replay-- the workload, paced        at regular intervals: stats slabs
//!   server 2 <--replay-- the same requests          ...
//! ```
//!
//! All servers run at once, so that other load on the machine affects all of them. Each server uses its own page policy,
//! except those with an oracle allocation (`oracle_allocation`). These have no policy; at the change of phase the lab
//! moves page after page with `slabs reassign`, as fast as the server can, until they have the best partition by exact
//! curves. This measures the mover without a policy.

use super::decision::{ServerSetup, TwoPhaseSetup, second_share};
use crate::experiment::kind::Job;
use crate::result::{Outcome, measures, number};
use crate::trial::error::ExperimentError;
use crate::trial::setup::scaled;
use crate::wire::{Allocation, Server, ServerError};
use slabwise_base::Clock;
use slabwise_replay::{Pace, Report, drive};
use std::collections::BTreeSet;

measures! {
    MEAN: "live_mean_miss_ratio", "mean miss ratio", "%", Fixed;
    STEADY: "live_final_miss_ratio", "miss ratio of the last tenth", "%", Fixed;
    REACHED: "live_allocation_in_place", "requests after the change until the allocation is in place", "requests", WithRun;
    REACHED_SHARE: "live_allocation_in_place_percent", "part of the requests after the change until then", "%", Fixed;
    STAYS: "live_allocation_stays", "requests after the change until it stays in place", "requests", WithRun;
    MOVED: "live_memory_moved", "memory that changed its class", "%", Fixed;
    P99: "live_p99", "p99 of a request", "us", Fixed;
    RATE: "live_rate", "requests per second", "requests/s", Fixed;
}

/// The last tenth of a run counts as its final state.
const FINAL_SHARE: usize = 10;

struct Observed {
    report: Report,
    allocations: Vec<(u64, Allocation)>,
}

pub fn run(
    setup: &TwoPhaseSetup,
    job: &Job<'_>,
    outcome: &mut Outcome,
) -> Result<(), ExperimentError> {
    let scale = job.scale;
    let requests = scaled(setup.workload.requests, scale);
    let changed_at = scaled(setup.workload.first_phase_requests, scale);
    let memory_mib = scaled(setup.cache.memory_mib, scale);
    outcome.choose("requests", format!("{}, paced", number(requests as f64)));
    outcome.choose("requests per second", number(setup.live.requests_per_second));
    outcome.choose("memory", format!("-m {memory_mib}"));
    let near = format!(
        "differs from the mean of the last tenth by at most {} % of the memory",
        setup.live.settled_percent
    );
    outcome.choose("in place", near);
    let second_share = second_share(setup, job)?;
    let share = number(second_share * 100.0);
    outcome.choose("oracle allocation", format!("{share} % of the pages to the second class"));
    let observed: Vec<_> = std::thread::scope(|scope| {
        let run = |server| observe(server, setup, job, second_share);
        let threads = setup.live.servers.iter().map(|server| scope.spawn(move || run(server)));
        let threads: Vec<_> = threads.collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    for (server, observed) in setup.live.servers.iter().zip(observed) {
        match observed {
            Ok(observed) => add(outcome, setup, &server.name, &observed, changed_at, requests),
            Err(ExperimentError::Server(error)) => {
                for measure in [MEAN, REACHED, P99] {
                    outcome.add(measure, &server.name, Err(error.to_string()));
                }
            }
            Err(error) => return Err(error),
        }
    }
    outcome.choose("published", "only of the mechanism in the process; see the run without --live");
    Ok(())
}

fn observe(
    server: &ServerSetup,
    setup: &TwoPhaseSetup,
    job: &Job<'_>,
    second_share: f64,
) -> Result<Observed, ExperimentError> {
    let (scale, seed) = job.size();
    let memory_mib = scaled(setup.cache.memory_mib, scale);
    let changed_at = scaled(setup.workload.first_phase_requests, scale);
    let mut process = Server::start(&server.command, memory_mib)?;
    let requests = scaled(setup.workload.requests, scale);
    let workload = setup.workload.open(scale, seed)?;
    let pace = Pace {
        connections: setup.live.connections,
        batch: setup.live.batch,
        rate: Some(setup.live.requests_per_second),
        window: Some(requests.div_ceil(setup.windows)),
        ..Pace::default()
    };
    let poll_requests = scaled(setup.live.poll_requests, scale);
    let mut allocations = Vec::new();
    let mut needs_moves = server.oracle_allocation;
    if needs_moves {
        process.ask_line("slabs automove 0")?;
    }
    let bar = job.progress.bar(&server.name);
    bar.set_length(requests);
    let (address, clock) = (process.address(), Clock::real());
    let report = drive(&address, workload, &pace, &clock, |so_far| {
        let done = so_far.requests;
        if needs_moves && done >= changed_at {
            needs_moves = move_page(&mut process, second_share)?;
        }
        if done >= (allocations.len() as u64 + 1) * poll_requests {
            bar.set_position(done);
            allocations.push((done, process.allocation()?));
        }
        Ok::<(), ExperimentError>(())
    })?;
    bar.finish_and_clear();
    Ok(Observed { report, allocations })
}

/// Orders the server to move a page from the first class to the second. Returns false if the second has its share.
fn move_page(server: &mut Server, second_share: f64) -> Result<bool, ServerError> {
    let mut classes = server.classes()?;
    classes.retain(|class| class.pages > 0);
    classes.sort_by_key(|class| std::cmp::Reverse(class.pages));
    classes.truncate(2);
    classes.sort_by_key(|class| class.chunk_size_bytes);
    let [first, second] = &classes[..] else { return Ok(true) };
    let wanted = second_share * (first.pages + second.pages) as f64;
    if second.pages as f64 + 0.5 >= wanted {
        return Ok(false);
    }
    // While the last page still moves, the reply is BUSY, and the next call tries again.
    server.ask_line(&format!("slabs reassign {} {}", first.number, second.number))?;
    Ok(true)
}

fn add(
    outcome: &mut Outcome,
    setup: &TwoPhaseSetup,
    name: &str,
    observed: &Observed,
    changed_at: u64,
    requests: u64,
) {
    let report = &observed.report;
    outcome.add(MEAN, name, Ok(report.miss_ratio * 100.0));
    let windows = report.windows.as_deref().unwrap_or_default();
    let last = &windows[windows.len() - windows.len().div_ceil(FINAL_SHARE)..];
    let (misses, gets) =
        last.iter().fold((0, 0), |sum, window| (sum.0 + window.misses, sum.1 + window.gets));
    outcome.add(STEADY, name, Ok(misses as f64 / gets.max(1) as f64 * 100.0));
    let near = setup.live.settled_percent / 100.0;
    match in_place(&observed.allocations, changed_at, near) {
        Some(place) => add_place(outcome, name, &place, changed_at, requests),
        None => outcome.add(REACHED, name, Err("the run was too short to measure it".to_owned())),
    }
    outcome.add(P99, name, Ok(report.p99_us));
    outcome.add(RATE, name, Ok(report.requests as f64 / report.seconds));
    add_series(outcome, name, observed);
}

fn add_place(outcome: &mut Outcome, name: &str, place: &Place, changed_at: u64, requests: u64) {
    outcome.add(MOVED, name, Ok(place.moved * 100.0));
    let phase = (requests - changed_at) as f64;
    let after = |at: Option<u64>| at.map(|at| at.saturating_sub(changed_at) as f64);
    let why = || "not reached in this run".to_owned();
    let (reached, stays) = (after(place.reached), after(place.stays));
    outcome.add(REACHED, name, reached.ok_or_else(why));
    let share = reached.map(|requests| requests / phase * 100.0);
    outcome.add(REACHED_SHARE, name, share.ok_or_else(why));
    outcome.add(STAYS, name, stays.ok_or_else(why));
}

fn add_series(outcome: &mut Outcome, name: &str, observed: &Observed) {
    let windows = observed.report.windows.as_deref().unwrap_or_default();
    let ratios = windows.iter().scan(0, |end, window| {
        *end += window.requests;
        Some((*end as f64, window.miss_ratio * 100.0))
    });
    outcome.draw("miss ratio", name, ["requests", "%"], ratios);
    let readings = &observed.allocations;
    let chunk_sizes: BTreeSet<u64> =
        readings.iter().flat_map(|(_, allocation)| allocation.keys().copied()).collect();
    for chunk_size in chunk_sizes {
        let bytes = readings.iter().map(|(at, allocation)| {
            (*at as f64, allocation.get(&chunk_size).copied().unwrap_or(0) as f64)
        });
        let series = format!("memory of the class of {chunk_size} B");
        outcome.draw(series, name, ["requests", "bytes"], bytes);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    /// The first reading after the change that is near the final partition.
    reached: Option<u64>,
    /// The first reading from which all are near the final partition.
    stays: Option<u64>,
    moved: f64,
}

/// Compares every reading with the final partition, which is the mean of the last tenth of the readings after the change:
/// a policy that has found its partition still moves single pages back and forth.
fn in_place(readings: &[(u64, Allocation)], changed_at: u64, near: f64) -> Option<Place> {
    let (before, after): (Vec<_>, Vec<_>) = readings.iter().partition(|(at, _)| *at <= changed_at);
    let (_, at_change) = before.last()?;
    let last = &after[after.len() - after.len().div_ceil(FINAL_SHARE)..];
    let mut partition = Allocation::new();
    for (class, bytes) in last.iter().flat_map(|(_, allocation)| allocation) {
        *partition.entry(*class).or_default() += bytes / last.len() as u64;
    }
    let is_near = |reading: &&(u64, Allocation)| difference(&reading.1, &partition) <= near;
    let first_near = after.iter().rposition(|reading| !is_near(reading)).map_or(0, |far| far + 1);
    Some(Place {
        reached: after.iter().find(|reading| is_near(reading)).map(|(at, _)| *at),
        stays: after.get(first_near).map(|(at, _)| *at),
        moved: difference(at_change, &partition),
    })
}

/// The fraction of the memory of `second` that is in another class than in `first`.
fn difference(first: &Allocation, second: &Allocation) -> f64 {
    let all: u64 = second.values().sum();
    let classes: BTreeSet<u64> = first.keys().chain(second.keys()).copied().collect();
    let of = |allocation: &Allocation, class| allocation.get(class).copied().unwrap_or(0);
    let gained = classes.iter().map(|class| of(second, class).saturating_sub(of(first, class)));
    gained.sum::<u64>() as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::{Allocation, Place, in_place};

    #[test]
    fn an_allocation_is_in_place_near_its_final_partition() {
        let state = |first, second| Allocation::from([(240, first), (304, second)]);
        let readings = [
            (10, state(100, 0)),
            (20, state(100, 0)),
            (30, state(60, 40)),
            // It is near, and then not.
            (40, state(34, 66)),
            (50, state(60, 40)),
            (60, state(36, 64)),
            (70, state(33, 67)),
        ];
        let place = Place { reached: Some(40), stays: Some(60), moved: 0.67 };
        assert_eq!(in_place(&readings, 20, 0.05), Some(place));
        assert_eq!(in_place(&readings, 5, 0.05), None, "no reading before the change");
    }

    #[test]
    fn the_final_partition_is_a_mean() {
        let state = |first: u64| Allocation::from([(240, first), (304, 100 - first)]);
        // Twenty readings, the last two on either side of 40.
        let mut readings: Vec<_> = (0..18).map(|at| (at, state(100))).collect();
        readings.extend([(18, state(44)), (19, state(36))]);
        let place = in_place(&readings, 0, 0.05);
        assert_eq!(place, Some(Place { reached: Some(18), stays: Some(18), moved: 0.6 }));
    }
}
