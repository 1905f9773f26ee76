//! Traffic: an endless stream of gets over a few parts. Each part has keys of its own, with one value length.

use slabwise_base::{Cost, Random};
use slabwise_replay::workload::{Op, Request, Workload};

/// The order in which a part uses its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each get draws one of this number of keys; all are equally likely.
    Uniform(u64),
    /// The gets use this number of keys in turn.
    Loop(u64),
    /// Each get uses a new key.
    Once,
}

/// A part of the traffic.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The part of the key that keeps the keys of different parts apart. Two scenes of a scenario can use the same keys.
    pub keys: u64,
    pub order: Order,
    pub value_len: u32,
    /// The cost of every item, in units; `None` if the client sends no cost.
    pub cost: Option<u32>,
    /// The share of the gets, in percent. The shares of all parts add up to 100.
    pub percent: u64,
}

/// The value lengths of the scenarios. Each length has a class of its own, with the chunks that [`super::cache`] sets.
pub const SMALL: u32 = 150;
pub const LARGE: u32 = 900;

/// Returns a part whose items have no cost.
pub const fn part(keys: u64, order: Order, value_len: u32, percent: u64) -> Part {
    Part { keys, order, value_len, cost: None, percent }
}

/// Returns a part whose items have this cost.
pub const fn part_with_cost(part: Part, cost: u32) -> Part {
    Part { cost: Some(cost), ..part }
}

/// A stream of gets over parts.
pub struct Traffic {
    parts: Vec<(Part, u64)>,
    random: Random,
}

impl Traffic {
    pub fn new(parts: &[Part], seed: u64) -> Traffic {
        assert_eq!(parts.iter().map(|part| part.percent).sum::<u64>(), 100, "{parts:?}");
        Traffic { parts: parts.iter().map(|&part| (part, 0)).collect(), random: Random::new(seed) }
    }

    /// Returns the next gets as a workload of `slabwise replay`.
    pub fn next(&mut self, gets: usize) -> Workload {
        Workload::of_requests((0..gets).map(|_| self.request()).collect())
    }

    fn request(&mut self) -> Request {
        let mut percent = self.random.below(100);
        let at = self.parts.iter().position(|(part, _)| {
            let is_drawn = percent < part.percent;
            percent = percent.saturating_sub(part.percent);
            is_drawn
        });
        let (part, used) = &mut self.parts[at.expect("the shares add up to 100")];
        let number = match part.order {
            Order::Uniform(keys) => self.random.below(keys),
            Order::Loop(keys) => *used % keys,
            Order::Once => *used,
        };
        *used += 1;
        let cost = part.cost.map(Cost::from_units);
        let key = part.keys << 32 | number;
        Request { key, value_len: part.value_len, op: Op::Get, cost }
    }
}
