//! The main loop of a replay. Until the workload ends, the loop plans a round of requests, sends them, receives the
//! replies, and counts them.
//!
//! ```text
//! workload --> look_aside: plans a round --> client: sends it, checks the replies --> report: counts
//!                        ^------------------ misses ------------------/
//! ```

use crate::client::{Client, CostForm, LengthCheck, Outcome};
use crate::error::ReplayError;
use crate::look_aside::{LookAside, Pending, Progress};
use crate::report::{Report, Tally, Window};
use crate::workload::Workload;
use slabwise_base::Clock;
use slabwise_client::ServerAddress;
use std::time::Duration;

/// The connections, the rounds, the rate and the report of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The number of connections, at least one.
    pub connections: usize,
    /// The number of requests in a round for each connection.
    pub batch: usize,
    /// The number of requests that start in a second; `None` starts each round as soon as the last one is complete.
    pub rate: Option<f64>,
    /// The number of requests in each window of the report; `None` if the report has no windows.
    pub window: Option<u64>,
    /// The form in which a set sends the cost of an item.
    pub cost_form: CostForm,
}

impl Default for Pace {
    /// Returns one connection, rounds of 128 requests, the maximum rate, no windows and no costs.
    fn default() -> Pace {
        let (rate, window, cost_form) = (None, None, CostForm::None);
        Pace { connections: 1, batch: 128, rate, window, cost_form }
    }
}

/// Replays a workload against a server. After every round, calls `on_round` with the counts since the start of the
/// replay, in which `miss_ratio` is 0. An error that `on_round` returns stops the replay.
pub fn drive<E: From<ReplayError>>(
    server: &ServerAddress,
    workload: Workload,
    pace: &Pace,
    clock: &Clock,
    on_round: impl FnMut(&Window) -> Result<(), E>,
) -> Result<Report, E> {
    let check = match workload.one_length_per_key() {
        true => LengthCheck::Exact,
        false => LengthCheck::Any,
    };
    let client = Client::connect(server, pace.connections, check, pace.cost_form)?;
    let round_size = pace.batch * pace.connections;
    let tally = Tally::new(pace.window);
    let (tally, nanos) = replay(workload, client, round_size, pace.rate, clock, tally, on_round)?;
    Ok(tally.report(nanos as f64 / 1e9))
}

/// Does nothing with the counts of a round. A caller of [`drive`] that needs no counts passes this function.
pub fn ignore_round(_: &Window) -> Result<(), ReplayError> {
    Ok(())
}

/// Replays a workload to its end. Returns the counters and the duration in nanoseconds.
pub(crate) fn replay<E: From<ReplayError>>(
    mut workload: Workload,
    mut client: Client,
    round_size: usize,
    rate: Option<f64>,
    clock: &Clock,
    mut tally: Tally,
    mut on_round: impl FnMut(&Window) -> Result<(), E>,
) -> Result<(Tally, u64), E> {
    let mut look_aside = LookAside::default();
    let mut progress = Progress::Running;
    let mut requests_taken = 0u64;
    let start_nanos = clock.nanos();
    while progress == Progress::Running || !look_aside.is_idle() {
        let now_nanos = clock.nanos();
        let due_nanos = rate.map(|rate| start_nanos + (requests_taken as f64 / rate * 1e9) as u64);
        let early_nanos = due_nanos.map_or(0, |due| due.saturating_sub(now_nanos));
        if early_nanos > 0 && look_aside.is_idle() {
            pause(Duration::from_nanos(early_nanos));
        }
        // Before the scheduled time, a round has no new requests: only fills (sets after misses) and deferred requests.
        let new_size = if early_nanos > 0 { 0 } else { round_size };
        let latency_start_nanos = due_nanos.unwrap_or(now_nanos);
        let next = || {
            requests_taken += 1;
            let request = workload.next()?;
            Some(request.map(|request| Pending { request, latency_start_nanos }))
        };
        let planned = look_aside.plan(new_size, next, |action, pending| {
            client.append_request(action, pending);
        });
        progress = planned.map_err(ReplayError::from)?;
        client.exchange(clock, |answer| {
            if answer.outcome == Outcome::Miss {
                look_aside.add_fill(answer.pending);
            }
            tally.record(&answer);
        })?;
        on_round(&tally.all)?;
    }
    Ok((tally, clock.nanos() - start_nanos))
}

#[expect(clippy::disallowed_methods, reason = "the replay's thread waits for the scheduled time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
