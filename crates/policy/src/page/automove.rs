//! memcached's current page policy (`slab_automove=1`, since 1.5.0).
//!
//! Once a second it checks every class, keeps the last seconds of each (the *window*), and moves at most one page:
//!
//! 1. If memory is full, a class with more than two and a half pages of free chunks that neither evicted nor received a
//!    page in its window gives a page to the free pool. The next step follows at once.
//! 2. Otherwise a page moves from the class with the oldest tail (of those with three pages or more) to the one with
//!    the youngest tail of those that keep evicting, if the younger age is below a ratio of the older. A class *keeps
//!    evicting* if it evicted in more than half of the window's seconds, or had more than a quarter of all evictions on
//!    average; and if it evicted in the last second.
//!
//! As in memcached, ages are whole seconds and averaged over the window.

use crate::history::per_class::PerClass;
use crate::options::options;
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::{Random, Ticks};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// A class must own more pages than this to give one to another class.
const VICTIM_PAGES_KEPT: u64 = 2;
/// A class must have more free chunks than this, in half pages, to give a page to the pool.
const FREE_HALF_PAGES_KEPT: u64 = 5;
/// A class with more than this share of all evictions keeps evicting.
const EVICTED_SHARE_MIN: f64 = 0.25;

options! {
    pub struct AutomoveOptions of Automove {
        window_len: usize = 10, whole(1..=86_400),
            "seconds that are averaged for a decision (slab_automove_window)";
        age_ratio: f64 = 0.8, real(0.0..=1.0),
            "a page moves if the youngest tail age is below this ratio of the oldest (slab_automove_ratio)";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Automove {
    options: AutomoveOptions,
    memory: PerClass<Memory>,
    /// The number of steps; ages are compared only once the window is full.
    steps: usize,
    gave_to_pool: bool,
}

#[derive(Clone, Debug)]
struct Memory {
    before: ClassSnapshot,
    /// The last `window_len` seconds at most, newest last.
    window: VecDeque<Second>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    age_seconds: u64,
    dirty: bool,
    evicted: bool,
    evicted_share: f64,
}

impl Policy for Automove {
    /// Once a second; at once after a page went to the pool, because there may be more of them.
    fn trigger(&self) -> Trigger {
        Trigger::EveryTicks(if self.gave_to_pool { 0 } else { Ticks::PER_SECOND })
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        // As in memcached, the first step only records counts.
        let is_first = self.memory.is_empty();
        let begin = |class: &ClassSnapshot| Memory { before: *class, window: VecDeque::new() };
        self.memory.follow(snapshot, begin);
        if is_first {
            return Plan::default();
        }
        self.remember(snapshot);
        let to_pool = self.to_the_pool(snapshot);
        self.gave_to_pool = to_pool.is_some();
        let page_move = to_pool.or_else(|| self.to_the_youngest(snapshot));
        page_move.into_iter().collect()
    }
}

impl Automove {
    fn remember(&mut self, snapshot: &Snapshot) {
        let evicted_by = |(after, memory): (&ClassSnapshot, &Memory)| {
            after.evicted.saturating_sub(memory.before.evicted)
        };
        let evicted_all: u64 =
            snapshot.classes.iter().zip(self.memory.iter()).map(evicted_by).sum();
        for (after, memory) in snapshot.classes.iter().zip(self.memory.iter_mut()) {
            let evicted = evicted_by((after, memory));
            let Memory { before, window } = memory;
            if window.len() == self.options.window_len {
                window.pop_front();
            }
            window.push_back(Second {
                age_seconds: u64::from(after.tail_age_ticks / Ticks::PER_SECOND),
                dirty: evicted > 0
                    || after.out_of_memory != before.out_of_memory
                    || after.pages > before.pages,
                evicted: evicted > 0,
                evicted_share: evicted as f64 / evicted_all.max(1) as f64,
            });
            *before = *after;
        }
        self.steps += 1;
    }

    fn to_the_pool(&self, snapshot: &Snapshot) -> Option<PageMove> {
        let spare = |(class, memory): &(&ClassSnapshot, &Memory)| {
            let kept_halves = class.chunks_per_page as u64 * FREE_HALF_PAGES_KEPT;
            let window = &memory.window;
            2 * class.free_chunks > kept_halves && window.iter().all(|second| !second.dirty)
        };
        let (class, _) = snapshot.classes.iter().zip(self.memory.iter()).find(spare)?;
        snapshot.memory_full.then_some(PageMove {
            victim: class.class,
            receiver: None,
            reason: "more than two pages of free chunks were not used",
        })
    }

    fn to_the_youngest(&self, snapshot: &Snapshot) -> Option<PageMove> {
        if self.steps <= self.options.window_len {
            return None;
        }
        let each = || {
            let each = snapshot.classes.iter().zip(self.memory.iter());
            each.map(|(class, Memory { window, .. })| (class, self.age_mean(window), window))
        };
        // Of equal ages the first class is taken, as in memcached.
        let givers = each().filter(|(class, age, _)| class.pages > VICTIM_PAGES_KEPT && *age > 0);
        let (oldest, age_oldest, _) = givers.min_by_key(|(_, age, _)| Reverse(*age))?;
        let takers = each().filter(|(.., window)| self.keeps_evicting(window));
        let (youngest, age_youngest, window) = takers.min_by_key(|(_, age, _)| *age)?;
        let evicts_now = window.back().is_some_and(|now| now.evicted);
        let far_apart = (age_youngest as f64) < age_oldest as f64 * self.options.age_ratio;
        (evicts_now && far_apart).then_some(PageMove {
            victim: oldest.class,
            receiver: Some(youngest.class),
            reason: "from the oldest tail to the youngest that keeps evicting",
        })
    }

    fn age_mean(&self, window: &VecDeque<Second>) -> u64 {
        let sum: u64 = window.iter().map(|second| second.age_seconds).sum();
        sum / self.options.window_len as u64
    }

    fn keeps_evicting(&self, window: &VecDeque<Second>) -> bool {
        let seconds = window.iter().filter(|second| second.evicted).count();
        let shares: f64 = window.iter().map(|second| second.evicted_share).sum();
        seconds > self.options.window_len / 2
            || shares / self.options.window_len as f64 > EVICTED_SHARE_MIN
    }
}

#[cfg(test)]
#[path = "automove_tests.rs"]
mod tests;
