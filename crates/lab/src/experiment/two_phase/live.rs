//! `two-phase` on real servers. All servers run at the same time and get the same requests at the same rate.
//!
//! ```text
//!   server 1 <--replay-- the workload, paced        at regular intervals: stats slabs
//!   server 2 <--replay-- the same requests          ...
//! ```
//!
//! Each server has several client threads, so the mover meets items that a request has locked or pinned. The rows of a
//! server are those of its first client thread; the others send other requests with the same distribution.
//!
//! The servers run at the same time, so that other load on the machine affects all of them. Each server uses its own
//! page policy, except for servers with an oracle allocation. On these servers the lab switches the policy off. From
//! the change of phase on, the lab moves one page after the other with `slabs reassign`, as fast as the server can,
//! until the server has the best partition by exact curves. So these servers show the speed of the mover without a
//! policy.

use super::decision::{ServerSetup, TwoPhaseSetup, second_share};
use crate::experiment::kind::Job;
use crate::result::{Outcome, format_number, measures};
use crate::trial::error::ExperimentError;
use crate::trial::setup::{WorkloadSetup, scaled};
use crate::wire::{Allocation, Moves, Server, ServerError};
use slabwise_base::Clock;
use slabwise_replay::{Pace, Report, drive};
use std::collections::BTreeSet;

measures! {
    MEAN: "live_mean_miss_ratio", "mean miss ratio", "%", Fixed;
    STEADY: "live_final_miss_ratio", "miss ratio of the last tenth", "%", Fixed;
    REACHED: "live_allocation_in_place", "requests until the allocation is in place", "requests", WithRun;
    REACHED_SHARE: "live_allocation_in_place_percent", "part of phase 2 until the allocation is in place", "%", Fixed;
    STAYS: "live_allocation_stays", "requests until the allocation stays in place", "requests", WithRun;
    MOVED: "live_memory_moved", "memory that changed its class", "%", Fixed;
    P99: "live_p99", "p99 of a request", "us", Fixed;
    RATE: "live_rate", "requests per second", "requests/s", Fixed;
    LOCKED: "live_case_1", "case 1: chunks found locked", "chunks", Fixed;
    PINNED: "live_case_2", "case 2: chunks found in use", "chunks", Fixed;
    UNLINKED: "live_case_3", "case 3: chunks unlinked, visited again", "chunks", Fixed;
    PAGES: "live_pages_moved", "pages moved", "pages", Fixed;
}

/// The last tenth of the windows or of the readings is the final state of a run.
const FINAL_DIVISOR: usize = 10;

/// The measurements of a server.
struct Observed {
    report: Report,
    /// The allocations that were read, each with the number of requests before the reading.
    allocations: Vec<(u64, Allocation)>,
    /// The counters of the mover. `None` if the server is not slabwise.
    moves: Option<Moves>,
}

/// Runs all servers, and adds the conditions, rows and series to the outcome.
pub fn run(
    setup: &TwoPhaseSetup,
    job: &Job<'_>,
    outcome: &mut Outcome,
) -> Result<(), ExperimentError> {
    let scale = job.scale;
    let requests = scaled(setup.workload.requests, scale);
    let changed_at = scaled(setup.workload.first_phase_requests, scale);
    let memory_mib = scaled(setup.cache.memory_mib, scale);
    outcome.add_setup("requests", format!("{}, paced", format_number(requests as f64)));
    outcome.add_setup("requests per second", format_number(setup.live.requests_per_second));
    outcome.add_setup("memory", format!("-m {memory_mib}"));
    let condition = format!(
        "the allocation differs by at most {} % of the memory from the mean of the last tenth of the readings",
        setup.live.settled_percent
    );
    outcome.add_setup("in place", condition);
    let second_share = second_share(setup, job)?;
    let share = format_number(second_share * 100.0);
    outcome.add_setup("oracle allocation", format!("{share} % of the pages to the second class"));
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
    outcome.add_setup("published values", "in the results of the run without --live");
    Ok(())
}

/// Starts a server, replays the workload to the server, and reads the allocation at regular intervals.
fn observe(
    server: &ServerSetup,
    setup: &TwoPhaseSetup,
    job: &Job<'_>,
    second_share: f64,
) -> Result<Observed, ExperimentError> {
    let (scale, seed) = job.size();
    let live = &setup.live;
    let memory_mib = scaled(setup.cache.memory_mib, scale);
    let changed_at = scaled(setup.workload.first_phase_requests, scale);
    let mut process = Server::start(&server.command_at(scale), memory_mib)?;
    let requests = scaled(setup.workload.requests, scale);
    let threads = u64::from(live.client_threads);
    let workload =
        WorkloadSetup { requests: setup.workload.requests / threads, ..setup.workload.clone() };
    let pace = Pace {
        connections: live.connections,
        batch: live.batch,
        rate: Some(live.requests_per_second / threads as f64),
        window: Some((requests / threads).div_ceil(setup.windows)),
        ..Pace::default()
    };
    let poll_requests = scaled(live.poll_requests, scale);
    let mut allocations = Vec::new();
    let mut needs_moves = server.oracle_allocation;
    if needs_moves {
        process.ask_line("slabs automove 0")?;
    }
    let bar = job.progress.bar(&server.name);
    bar.set_length(requests);
    let (address, clock) = (process.address(), Clock::real());
    let report = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|thread| {
                let (address, pace, clock, workload) = (&address, &pace, &clock, &workload);
                scope.spawn(move || {
                    let workload = workload.open(scale, seed + (thread << 32))?;
                    drive(address, workload, pace, clock, |_| Ok::<(), ExperimentError>(()))
                })
            })
            .collect();
        let first = workload.open(scale, seed)?;
        let report = drive(&address, first, &pace, &clock, |so_far| {
            let done = so_far.requests * threads;
            if needs_moves && done >= changed_at {
                needs_moves = move_page(&mut process, second_share)?;
            }
            if done >= (allocations.len() as u64 + 1) * poll_requests {
                bar.set_position(done);
                allocations.push((done, process.allocation()?));
            }
            Ok::<(), ExperimentError>(())
        })?;
        for other in others {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok::<_, ExperimentError>(report)
    })?;
    bar.finish_and_clear();
    let moves = process.moves()?;
    Ok(Observed { report, allocations, moves })
}

/// Orders the server to move a page from the first class to the second class. Returns false, without an order, if the
/// second class has its share of the pages.
fn move_page(server: &mut Server, second_share: f64) -> Result<bool, ServerError> {
    let mut classes = server.classes()?;
    classes.retain(|class| class.pages > 0);
    classes.sort_by_key(|class| std::cmp::Reverse(class.pages));
    classes.truncate(2);
    classes.sort_by_key(|class| class.chunk_size_bytes);
    let [first, second] = &classes[..] else { return Ok(true) };
    let target_pages = second_share * (first.pages + second.pages) as f64;
    if second.pages as f64 + 0.5 >= target_pages {
        return Ok(false);
    }
    // The server replies BUSY if the previous page is still moving. Then the next call of this function tries again.
    server.ask_line(&format!("slabs reassign {} {}", first.number, second.number))?;
    Ok(true)
}

/// Adds the rows and series of a server. `changed_at` is the number of requests before the change of phase, and
/// `requests` the number of all requests.
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
    let last = &windows[windows.len() - windows.len().div_ceil(FINAL_DIVISOR)..];
    let (misses, gets) =
        last.iter().fold((0, 0), |sum, window| (sum.0 + window.misses, sum.1 + window.gets));
    outcome.add(STEADY, name, Ok(misses as f64 / gets.max(1) as f64 * 100.0));
    let tolerance = setup.live.settled_percent / 100.0;
    match settling(&observed.allocations, changed_at, tolerance) {
        Some(settling) => add_settling(outcome, name, &settling, changed_at, requests),
        None => {
            let reason =
                "the allocation was not read before the change of phase; use a larger --scale";
            outcome.add(REACHED, name, Err(reason.to_owned()));
        }
    }
    outcome.add(P99, name, Ok(report.p99_us));
    let threads = f64::from(setup.live.client_threads);
    outcome.add(RATE, name, Ok(report.requests as f64 * threads / report.seconds));
    if let Some(moves) = &observed.moves {
        add_moves(outcome, name, moves);
    }
    add_series(outcome, name, observed, threads);
}

/// Adds the rows with the counters of the mover.
fn add_moves(outcome: &mut Outcome, name: &str, moves: &Moves) {
    outcome.add(PAGES, name, Ok(moves.moved as f64));
    let counts = [(LOCKED, moves.locked), (PINNED, moves.pinned), (UNLINKED, moves.unlinked)];
    for (measure, count) in counts {
        outcome.add(measure, name, Ok(count as f64));
        outcome.note_last_row(format!("of {} visits", format_number(moves.visited as f64)));
    }
}

/// Adds the rows on the allocation of a server.
fn add_settling(
    outcome: &mut Outcome,
    name: &str,
    settling: &Settling,
    changed_at: u64,
    requests: u64,
) {
    outcome.add(MOVED, name, Ok(settling.moved * 100.0));
    let phase_requests = (requests - changed_at) as f64;
    let after_change = |at: Option<u64>| at.map(|at| at.saturating_sub(changed_at) as f64);
    let why_missing = || "not reached in this run".to_owned();
    let (reached, stays) = (after_change(settling.reached), after_change(settling.stays));
    outcome.add(REACHED, name, reached.ok_or_else(why_missing));
    let share = reached.map(|requests| requests / phase_requests * 100.0);
    outcome.add(REACHED_SHARE, name, share.ok_or_else(why_missing));
    outcome.add(STAYS, name, stays.ok_or_else(why_missing));
}

fn add_series(outcome: &mut Outcome, name: &str, observed: &Observed, threads: f64) {
    let windows = observed.report.windows.as_deref().unwrap_or_default();
    let ratios = windows.iter().scan(0, |end, window| {
        *end += window.requests;
        Some((*end as f64 * threads, window.miss_ratio * 100.0))
    });
    outcome.add_series("miss ratio", name, ["requests", "%"], ratios);
    let readings = &observed.allocations;
    let chunk_sizes: BTreeSet<u64> =
        readings.iter().flat_map(|(_, allocation)| allocation.keys().copied()).collect();
    for chunk_size in chunk_sizes {
        let bytes = readings.iter().map(|(at, allocation)| {
            (*at as f64, allocation.get(&chunk_size).copied().unwrap_or(0) as f64)
        });
        let series = format!("memory of the class of {chunk_size} B");
        outcome.add_series(series, name, ["requests", "bytes"], bytes);
    }
}

/// The time that the allocation of a server, which is the memory of each class, needs to reach its final state. The
/// allocation is *in place* in a reading if it is near the final state.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Settling {
    /// Number of requests before the first reading after the change of phase in which the allocation is in place.
    /// `None` if there is no such reading.
    reached: Option<u64>,
    /// Number of requests before the first reading after which the allocation remains in place until the end of the
    /// run. `None` if there is no such reading.
    stays: Option<u64>,
    /// Fraction of the memory that changed its class between the change of phase and the final state.
    moved: f64,
}

/// Compares every reading with the final allocation. The allocation is in place if the difference is at most
/// `tolerance`, a fraction of the memory. The final allocation is the mean of the last tenth of the readings after the
/// change of phase, because a policy that has found its partition still moves single pages back and forth. Returns
/// `None` without a reading before the change of phase.
fn settling(readings: &[(u64, Allocation)], changed_at: u64, tolerance: f64) -> Option<Settling> {
    let (before, after): (Vec<_>, Vec<_>) = readings.iter().partition(|(at, _)| *at <= changed_at);
    let (_, at_change) = before.last()?;
    let last = &after[after.len() - after.len().div_ceil(FINAL_DIVISOR)..];
    let mut final_state = Allocation::new();
    for (class, bytes) in last.iter().flat_map(|(_, allocation)| allocation) {
        *final_state.entry(*class).or_default() += bytes / last.len() as u64;
    }
    let is_in_place =
        |reading: &&(u64, Allocation)| difference(&reading.1, &final_state) <= tolerance;
    let last_not_in_place = after.iter().rposition(|reading| !is_in_place(reading));
    let first_that_stays = last_not_in_place.map_or(0, |index| index + 1);
    Some(Settling {
        reached: after.iter().find(|reading| is_in_place(reading)).map(|(at, _)| *at),
        stays: after.get(first_that_stays).map(|(at, _)| *at),
        moved: difference(at_change, &final_state),
    })
}

/// Returns the fraction of the memory of `second` that is in another class than in `first`.
fn difference(first: &Allocation, second: &Allocation) -> f64 {
    let all: u64 = second.values().sum();
    let classes: BTreeSet<u64> = first.keys().chain(second.keys()).copied().collect();
    let of = |allocation: &Allocation, class| allocation.get(class).copied().unwrap_or(0);
    let gained = classes.iter().map(|class| of(second, class).saturating_sub(of(first, class)));
    gained.sum::<u64>() as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::{Allocation, Settling, settling};

    #[test]
    fn an_allocation_is_in_place_if_it_is_near_the_final_allocation() {
        let state = |first, second| Allocation::from([(240, first), (304, second)]);
        let readings = [
            (10, state(100, 0)),
            (20, state(100, 0)),
            (30, state(60, 40)),
            // The allocation is in place here, but not in the next reading.
            (40, state(34, 66)),
            (50, state(60, 40)),
            (60, state(36, 64)),
            (70, state(33, 67)),
        ];
        let expected = Settling { reached: Some(40), stays: Some(60), moved: 0.67 };
        assert_eq!(settling(&readings, 20, 0.05), Some(expected));
        assert_eq!(settling(&readings, 5, 0.05), None, "there is no reading before the change");
    }

    #[test]
    fn the_final_allocation_is_the_mean_of_the_last_readings() {
        let state = |first: u64| Allocation::from([(240, first), (304, 100 - first)]);
        // The last two of the twenty readings have the mean 40.
        let mut readings: Vec<_> = (0..18).map(|at| (at, state(100))).collect();
        readings.extend([(18, state(44)), (19, state(36))]);
        let expected = Settling { reached: Some(18), stays: Some(18), moved: 0.6 };
        assert_eq!(settling(&readings, 0, 0.05), Some(expected));
    }
}
