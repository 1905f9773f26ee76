//! The main loop of a replay: plans a round, exchanges it and counts the replies, until the workload ends.
//!
//! ```text
//! workload --> look_aside (plans a round) --> client (connections, checks) --> report
//!                    ^------------- misses ---------------/
//! ```

use crate::client::{Client, CostForm, LengthCheck, Outcome};
use crate::error::ReplayError;
use crate::look_aside::{LookAside, Pending, Supply};
use crate::report::{Report, Tally, Window};
use crate::workload::Workload;
use slabwise_base::Clock;
use slabwise_client::ServerAddress;
use std::time::Duration;

/// The connections, rounds and rate of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The number of connections, at least one.
    pub connections: usize,
    /// The number of requests in a round, per connection.
    pub batch: usize,
    /// Requests per second; `None` for as many as possible.
    pub rate: Option<f64>,
    /// The number of requests in each window of the report; `None` for no windows.
    pub window: Option<u64>,
    /// How a set sends the cost of an item.
    pub cost_form: CostForm,
}

impl Default for Pace {
    /// Returns one connection with rounds of 128 requests at the maximum rate.
    fn default() -> Pace {
        let (rate, window, cost_form) = (None, None, CostForm::None);
        Pace { connections: 1, batch: 128, rate, window, cost_form }
    }
}

/// Replays a workload against a server. Calls `each` with the counts after every round; its `miss_ratio` is not
/// computed yet. An error of `each` stops the replay.
pub fn drive<E: From<ReplayError>>(
    server: &ServerAddress,
    workload: Workload,
    pace: &Pace,
    clock: &Clock,
    each: impl FnMut(&Window) -> Result<(), E>,
) -> Result<Report, E> {
    let check = match workload.one_length_per_key() {
        true => LengthCheck::Exact,
        false => LengthCheck::Any,
    };
    let client = Client::connect(server, pace.connections, check, pace.cost_form)?;
    let round_size = pace.batch * pace.connections;
    let tally = Tally::new(pace.window);
    let (tally, nanos) = replay(workload, client, round_size, pace.rate, clock, tally, each)?;
    Ok(tally.report(nanos as f64 / 1e9))
}

/// An observer for [`drive`] that does nothing.
pub fn unwatched(_: &Window) -> Result<(), ReplayError> {
    Ok(())
}

/// Replays a workload to its end. Returns the counts and the duration in nanoseconds.
pub(crate) fn replay<E: From<ReplayError>>(
    mut workload: Workload,
    mut client: Client,
    round_size: usize,
    rate: Option<f64>,
    clock: &Clock,
    mut tally: Tally,
    mut each: impl FnMut(&Window) -> Result<(), E>,
) -> Result<(Tally, u64), E> {
    let mut look_aside = LookAside::default();
    let mut supply = Supply::More;
    let mut requests_taken = 0u64;
    let start_nanos = clock.nanos();
    while supply == Supply::More || !look_aside.is_idle() {
        let now_nanos = clock.nanos();
        let due_nanos = rate.map(|rate| start_nanos + (requests_taken as f64 / rate * 1e9) as u64);
        let early_nanos = due_nanos.map_or(0, |due| due.saturating_sub(now_nanos));
        if early_nanos > 0 && look_aside.is_idle() {
            pause(Duration::from_nanos(early_nanos));
        }
        // Fills do not wait for the scheduled time of the next round: they have their own round.
        let new_size = if early_nanos > 0 { 0 } else { round_size };
        let born_nanos = due_nanos.unwrap_or(now_nanos);
        let next = || {
            requests_taken += 1;
            let request = workload.next()?;
            Some(request.map(|request| Pending { request, born_nanos }))
        };
        let planned =
            look_aside.plan(new_size, next, |action, pending| client.send(action, pending));
        supply = planned.map_err(ReplayError::from)?;
        client.exchange(clock, |answer| {
            if answer.outcome == Outcome::Miss {
                look_aside.missed(answer.pending);
            }
            tally.record(&answer);
        })?;
        each(&tally.all)?;
    }
    Ok((tally, clock.nanos() - start_nanos))
}

#[expect(clippy::disallowed_methods, reason = "the replay's thread waits for the scheduled time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
