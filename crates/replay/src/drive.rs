//! The replay's loop: plans a round, exchanges it, counts the answers, until the workload ends.
//!
//! ```text
//! workload --> look_aside (what goes into a round) --> client (connections, checks) --> report
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

/// How requests travel.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Connections, at least one.
    pub connections: usize,
    /// Requests in a round, per connection.
    pub batch: usize,
    /// Requests a second; none: as fast as the server answers.
    pub rate: Option<f64>,
    /// Requests in each window whose miss ratio is kept.
    pub window: Option<u64>,
    /// How a set says what its value costs.
    pub cost_form: CostForm,
}

impl Default for Pace {
    /// One connection, and rounds of 128 requests as fast as the server answers.
    fn default() -> Pace {
        let (rate, window, cost_form) = (None, None, CostForm::None);
        Pace { connections: 1, batch: 128, rate, window, cost_form }
    }
}

/// Replays a workload to a server. `each` sees the counts after every round, without their ratio; an error of it
/// stops the replay.
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

/// The observer of a replay that nothing observes.
pub fn unwatched(_: &Window) -> Result<(), ReplayError> {
    Ok(())
}

/// Replays to the end; gives the counts and how many nanoseconds it took.
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
        // Fills do not wait for the next round's time: they go in a round of their own.
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

#[expect(clippy::disallowed_methods, reason = "the replay's thread keeps the pace asked for")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
