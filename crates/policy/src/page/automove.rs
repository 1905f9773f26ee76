//! memcached's current page policy (`slab_automove=1`, since 1.5.0).
//!
//! In each step, usually once a second, the policy records every class. The *window* is the last `window_len` records,
//! and the text calls each of them a second. At most one page moves in a step:
//!
//! 1. If memory is full and a class has more than two and a half pages of free chunks, and in the window it neither
//!    evicted, nor refused a store, nor received a page, then the class gives a page to the page pool. The next step
//!    follows at once.
//! 2. Otherwise a page may move from the class with the oldest tail, among those with three pages or more, to the class
//!    with the youngest tail, among those that keep evicting. The page moves if the receiver evicted in the last second
//!    and the receiver's tail age is less than `age_ratio` times the victim's. A class *keeps evicting* if it evicted
//!    in more than half of the window's seconds, or if on average it had more than a quarter of all evictions.
//!
//! As in memcached, tail ages are whole seconds and averaged over the window.

use crate::history::per_class::PerClass;
use crate::options::options;
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::{Random, Ticks};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// A class must own more pages than this number to give a page to another class.
const VICTIM_PAGES_KEPT: u64 = 2;
/// A class must have more free chunks than this number of half pages holds to give a page to the page pool.
const FREE_HALF_PAGES_KEPT: u64 = 5;
/// A class also keeps evicting if its share of all evictions, averaged over the window, exceeds this value.
const EVICTED_SHARE_MIN: f64 = 0.25;

options! {
    pub struct AutomoveOptions of Automove {
        window_len: usize = 10, whole(1..=86_400),
            "length in seconds of the window over which tail ages are averaged (slab_automove_window)";
        age_ratio: f64 = 0.8, real(0.0..=1.0),
            "a page moves if the youngest tail age divided by the oldest is below this ratio (slab_automove_ratio)";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Automove {
    options: AutomoveOptions,
    states: PerClass<ClassState>,
    /// The number of records since the start. Tail ages are compared only if this exceeds `window_len`.
    steps: usize,
    /// True if the last step moved a page to the page pool.
    gave_to_pool: bool,
}

#[derive(Clone, Debug)]
struct ClassState {
    /// The class at the last step.
    before: ClassSnapshot,
    /// The last records, at most `window_len`, newest last.
    window: VecDeque<Second>,
}

/// The record of a class for the time between two steps: a second, or less after a move to the page pool.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    /// The tail age at the end of this time.
    age_seconds: u64,
    /// True if the class evicted, refused a store or received a page (memcached's word).
    dirty: bool,
    /// True if the class evicted an item.
    evicted: bool,
    /// The class's share of the evictions of all classes, from 0 to 1.
    evicted_share: f64,
}

impl Policy for Automove {
    /// Returns one second, or no time after a step that moved a page to the pool: more classes may have free pages.
    fn trigger(&self) -> Trigger {
        Trigger::EveryTicks(if self.gave_to_pool { 0 } else { Ticks::PER_SECOND })
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        // As in memcached, the first step only records counts.
        let is_first = self.states.is_empty();
        let new_state =
            |class: &ClassSnapshot| ClassState { before: *class, window: VecDeque::new() };
        self.states.follow(snapshot, new_state);
        if is_first {
            return Plan::default();
        }
        self.record_second(snapshot);
        let to_pool = self.move_to_pool(snapshot);
        self.gave_to_pool = to_pool.is_some();
        let page_move = to_pool.or_else(|| self.move_to_youngest(snapshot));
        page_move.into_iter().collect()
    }
}

impl Automove {
    /// Adds a record of the time since the last step to the window of each class.
    fn record_second(&mut self, snapshot: &Snapshot) {
        let evicted_by = |(after, state): (&ClassSnapshot, &ClassState)| {
            after.evicted.saturating_sub(state.before.evicted)
        };
        let evicted_all: u64 =
            snapshot.classes.iter().zip(self.states.iter()).map(evicted_by).sum();
        for (after, state) in snapshot.classes.iter().zip(self.states.iter_mut()) {
            let evicted = evicted_by((after, state));
            let ClassState { before, window } = state;
            if window.len() == self.options.window_len {
                window.pop_front();
            }
            window.push_back(Second {
                age_seconds: u64::from(after.tail_age_seconds),
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

    /// Returns a move of a free page to the page pool, if a class has one to give.
    fn move_to_pool(&self, snapshot: &Snapshot) -> Option<PageMove> {
        let can_give = |(class, state): &(&ClassSnapshot, &ClassState)| {
            let kept_halves = class.chunks_per_page as u64 * FREE_HALF_PAGES_KEPT;
            let window = &state.window;
            2 * class.free_chunks > kept_halves && window.iter().all(|second| !second.dirty)
        };
        let (class, _) = snapshot.classes.iter().zip(self.states.iter()).find(can_give)?;
        snapshot.memory_full.then_some(PageMove {
            victim: class.class,
            page: None,
            receiver: None,
            reason: "the victim did not need its free chunks, more than two and a half pages",
        })
    }

    /// Returns a move from the class with the oldest tail to the class with the youngest tail that keeps evicting, if
    /// their tail ages differ enough.
    fn move_to_youngest(&self, snapshot: &Snapshot) -> Option<PageMove> {
        if self.steps <= self.options.window_len {
            return None;
        }
        let each = || {
            let each = snapshot.classes.iter().zip(self.states.iter());
            each.map(|(class, ClassState { window, .. })| (class, self.age_mean(window), window))
        };
        // As in memcached, the first of several classes with equal ages is chosen.
        let givers = each().filter(|(class, age, _)| class.pages > VICTIM_PAGES_KEPT && *age > 0);
        let (oldest, age_oldest, _) = givers.min_by_key(|(_, age, _)| Reverse(*age))?;
        let takers = each().filter(|(.., window)| self.keeps_evicting(window));
        let (youngest, age_youngest, window) = takers.min_by_key(|(_, age, _)| *age)?;
        let evicts_now = window.back().is_some_and(|now| now.evicted);
        let far_apart = (age_youngest as f64) < age_oldest as f64 * self.options.age_ratio;
        (evicts_now && far_apart).then_some(PageMove {
            victim: oldest.class,
            page: None,
            receiver: Some(youngest.class),
            reason: "from the class with the oldest tail to the youngest that keeps evicting",
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
