//! Traffic: an endless stream of gets over a few parts. Each part has keys of its own, with one value length.

use std::collections::VecDeque;

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
    /// The stack distances of the gets are from the first to the second of these numbers. Their density rises linearly
    /// from 0, so the hit ratio of an LRU of n items rises with the square of n minus the first number.
    Distances(u64, u64),
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

/// A part and its state.
struct Source {
    part: Part,
    /// The number of gets so far.
    gets: u64,
    /// The keys of a part with given stack distances, the last used first.
    recent: VecDeque<u64>,
}

impl Source {
    fn new(part: Part) -> Source {
        let recent = match part.order {
            Order::Distances(_, end) => (0..=end).collect(),
            _ => VecDeque::new(),
        };
        Source { part, gets: 0, recent }
    }

    /// Returns the number of the next key.
    fn next(&mut self, random: &mut Random) -> u64 {
        let gets = self.gets;
        self.gets += 1;
        match self.part.order {
            Order::Uniform(keys) => random.below(keys),
            Order::Loop(keys) => gets % keys,
            Order::Once => gets,
            Order::Distances(start, end) => {
                let distance = start as f64 + (end - start) as f64 * random.unit().sqrt();
                let key = self.recent.remove(distance as usize);
                let key = key.expect("there are more keys than distances");
                self.recent.push_front(key);
                key
            }
        }
    }
}

/// A stream of gets over parts.
pub struct Traffic {
    sources: Vec<Source>,
    random: Random,
}

impl Traffic {
    pub fn new(parts: &[Part], seed: u64) -> Traffic {
        assert_eq!(parts.iter().map(|part| part.percent).sum::<u64>(), 100, "{parts:?}");
        let sources = parts.iter().map(|&part| Source::new(part)).collect();
        Traffic { sources, random: Random::new(seed) }
    }

    /// Returns the next gets as a workload of `slabwise replay`.
    pub fn next(&mut self, gets: usize) -> Workload {
        Workload::of_requests((0..gets).map(|_| self.request()).collect())
    }

    fn request(&mut self) -> Request {
        let mut percent = self.random.below(100);
        let source = self.sources.iter_mut().find(|source| {
            let is_drawn = percent < source.part.percent;
            percent = percent.saturating_sub(source.part.percent);
            is_drawn
        });
        let source = source.expect("the shares add up to 100");
        let number = source.next(&mut self.random);
        let Part { keys, value_len, cost, .. } = source.part;
        let cost = cost.map(Cost::from_units);
        Request { key: keys << 32 | number, value_len, op: Op::Get, cost }
    }
}
