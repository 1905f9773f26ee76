//! A simulated memcached that `slabwise steer` steers, in virtual time.
//!
//! ```text
//! requests --> Memcached --every virtual second--> Counters --> Steerer --> moves --> Memcached
//! ```
//!
//! The decisions are those of the command: the same state machine with the same policy. Only the server is simulated, and
//! a page moves in no time. A pass takes seconds instead of minutes.
//!
//! The program's main module calls it.

use crate::memcached::Memcached;
use serde::Serialize;
use slabwise_simulation::Catalog;
use slabwise_steer::{ColdHits, Decision, Event, Limits, Round, Steerer, default_policy};

const SECOND_NANOS: u64 = 1_000_000_000;
/// The time between two readings while the steerer is eager, and afterwards.
const INTERVALS_NANOS: (u64, u64) = (SECOND_NANOS / 4, SECOND_NANOS);

/// The result of a pass. The names of the fields are those of the JSON output.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Pass {
    /// The gets that missed, divided by the gets.
    pub miss_ratio: f64,
    /// The number of page moves.
    pub moves: u64,
    /// The events, each with its time in seconds.
    pub events: Vec<(f64, String)>,
}

/// The setup of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Number of pages of all classes.
    pub pages: u64,
    /// Number of times that the workload is replayed.
    pub passes: u64,
    /// Number of requests in a second of virtual time.
    pub rate: u64,
    /// True if a steerer moves pages.
    pub is_steered: bool,
}

/// Replays the references several times. Returns the results of the passes.
pub fn replay(catalog: &Catalog, setup: Setup) -> Vec<Pass> {
    let mut server = Memcached::new(catalog, setup.pages);
    let limits = Limits { moves_per_minute: 30.0, pages_min: 1 };
    let mut steerer = Steerer::new(default_policy(), ColdHits::default(), limits);
    let (mut nanos, mut read_at_nanos) = (0, 0);
    let mut passes = Vec::new();
    for _ in 0..setup.passes {
        let mut pass = Pass::default();
        let before = server.counters();
        for reference in catalog.references() {
            server.request(reference);
            nanos += SECOND_NANOS / setup.rate;
            if setup.is_steered && nanos >= read_at_nanos {
                read(&mut server, &mut steerer, nanos, &mut pass);
                let (eager, calm) = INTERVALS_NANOS;
                read_at_nanos = nanos + if steerer.is_eager() { eager } else { calm };
            }
        }
        let after = server.counters();
        pass.miss_ratio =
            (after.misses - before.misses) as f64 / (after.gets - before.gets).max(1) as f64;
        pass.moves = after.pages_moved - before.pages_moved;
        passes.push(pass);
    }
    passes
}

/// Lets the steerer read the server, and carries out its decision.
fn read(server: &mut Memcached, steerer: &mut Steerer, nanos: u64, pass: &mut Pass) {
    let before = server.counters();
    let decision = steerer.observe(&before, nanos);
    let seconds = nanos as f64 / SECOND_NANOS as f64;
    for event in steerer.take_events() {
        let text = match event {
            Event::Measured(effect) => format!("{effect:?}"),
            other => format!("{other:?}"),
        };
        pass.events.push((seconds, text));
    }
    let Decision::Move(round) = decision else { return };
    carry_out(server, steerer, &round, nanos);
    let moves: Vec<String> = round
        .moves
        .iter()
        .map(|(order, _)| format!("{}>{}", order.victim.0, order.receiver.0))
        .collect();
    let saving = round.predicted_saving.unwrap_or(0.0) * 1_000.0;
    pass.events
        .push((seconds, format!("{} {saving:.3}: {}", round.purpose.word(), moves.join(" "))));
}

fn carry_out(server: &mut Memcached, steerer: &mut Steerer, round: &Round, nanos: u64) {
    let before = server.counters();
    let mut accepted = Vec::new();
    for &(order, _) in &round.moves {
        steerer.ordered(nanos);
        match server.move_page(order.victim, order.receiver) {
            true => accepted.push(order),
            false => steerer.refused(),
        }
    }
    let refused = round.moves.len() - accepted.len();
    steerer.report(round, &before, &accepted, refused, nanos);
}

#[cfg(test)]
mod tests {
    use super::{Setup, replay};
    use slabwise_base::Random;
    use slabwise_replay::workload::{Op, Request};
    use slabwise_simulation::Catalog;

    #[test]
    fn a_steered_server_misses_less_than_one_whose_pages_stay() {
        // At first, all requests are for large items, which take all pages. Then most requests are for small items.
        const REQUESTS: u64 = 400_000;
        let mut random = Random::new(1);
        let mut catalog = Catalog::default();
        for at in 0..REQUESTS {
            let is_small = at > REQUESTS / 8 && random.below(10) > 0;
            let key = random.below(10_000).min(random.below(10_000));
            let (key, size_bytes) = if is_small { (key, 1_000) } else { (20_000 + key, 4_000) };
            catalog.add(&Request { key, value_len: 1, op: Op::Get, cost: None }, size_bytes);
        }
        let setup = Setup { pages: 12, passes: 2, rate: 5_000, is_steered: true };
        let steered = replay(&catalog, setup);
        let alone = replay(&catalog, Setup { is_steered: false, ..setup });
        assert!(steered[0].moves > 0 && !steered[0].events.is_empty(), "{steered:?}");
        assert!(alone.iter().all(|pass| pass.moves == 0 && pass.events.is_empty()));
        for (steered, alone) in steered.iter().zip(&alone) {
            assert!(steered.miss_ratio < 0.8 * alone.miss_ratio, "{steered:?}, {alone:?}");
        }
    }
}
