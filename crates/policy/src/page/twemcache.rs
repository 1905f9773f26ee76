//! The page policies of Twemcache, Twitter's fork of memcached (M. Rajashekhar and Y. Yue, 2012): after a store that
//! finds no free chunk, its class receives a page from any class.
//!
//! ```text
//!   store, no free chunk in class 2
//!        random:  any page, all equally likely              [0][0][0][1][1][2]
//!        lra:     the least recently accessed page                    ^
//!                 its items are dropped and the page moves to class 2
//! ```
//!
//! Weaknesses: both policies ignore the value of a page's items, and both take the last page of a class like any other.
//! Pages keep moving as long as a class evicts. A class whose keys are used once takes nearly all pages.
//!
//! Differences here: when Twemcache would take a page, the engine has already evicted an item instead. So the policy
//! plans as many pages as the stores without a free chunk have filled, and the pages arrive after these stores. If the
//! drawn page belongs to the receiver, no page moves. The engine has no order of pages by access, so *lra* (least
//! recently accessed) estimates this order: a class with `a` accesses and `p` pages has `a/p` accesses per page. The
//! class with the fewest accesses per page gives; if several have the same number, the class with the oldest tail
//! gives. The weight of an access halves after [`TwemcacheOptions::half_life`] later accesses.
//!
//! Invariants: a plan takes no page twice. If the classes need more pages than a step may move, the step draws the
//! pages that it moves at random, all equally likely, and forgets the others.

use super::draw::draw;
use crate::history::changes::{Changes, Counts, pages_needed};
use crate::history::per_class::PerClass;
use crate::options::{Adjustable, PolicyOption, options};
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::Random;

/// The rule that selects the page to move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// Any page, all equally likely: Twemcache's default.
    #[default]
    Random,
    /// A page of the class with the fewest recent accesses per page.
    LeastRecentlyAccessed,
}

options! {
    /// As in Twemcache, a step follows every store that finds no free chunk. The options `half_life` and `moves_max`
    /// are additions of slabwise.
    pub struct TwemcacheOptions {
        evictions: u64 = 1, events, "allocations that find no free chunk between two steps";
        half_life: u64 = 100_000, events,
            "later accesses after which an access counts half in the accesses per page of its class";
        moves_max: usize = 32, moves_max;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Twemcache {
    options: TwemcacheOptions,
    pick: Pick,
    changes: Changes,
    /// The decaying number of accesses to each class.
    accesses: PerClass<f64>,
}

impl Adjustable for Twemcache {
    fn options(&mut self) -> Vec<PolicyOption<'_>> {
        let mut rows = self.options.rows();
        // Accesses do not matter for random pages.
        rows.retain(|row| self.pick != Pick::Random || row.info.name != "half_life");
        rows
    }
}

impl Policy for Twemcache {
    fn trigger(&self) -> Trigger {
        Trigger::EveryEvictions(self.options.evictions)
    }

    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan {
        let changes = self.changes.since_last(snapshot);
        self.decay(snapshot, &changes);
        let mut plan = Plan::default();
        if !snapshot.is_divided() {
            return plan;
        }
        let mut pages: Vec<u64> = snapshot.classes.iter().map(|class| class.pages).collect();
        let mut needed = pages_needed(snapshot, &changes);
        for _ in 0..self.options.moves_max {
            let Some(receiver) = draw(&mut needed, random) else { break };
            let victim = match self.pick {
                Pick::Random => draw(&mut pages, random),
                Pick::LeastRecentlyAccessed => {
                    self.take_least_accessed(&snapshot.classes, &mut pages)
                }
            };
            let Some(victim) = victim else { break };
            if victim != receiver {
                plan.moves.push(PageMove::between(snapshot, victim, receiver, self.reason()));
            }
        }
        plan
    }
}

impl Twemcache {
    pub fn with_pick(pick: Pick) -> Twemcache {
        Twemcache { pick, ..Twemcache::default() }
    }

    fn reason(&self) -> &'static str {
        match self.pick {
            Pick::Random => "a store found no free chunk: random page",
            Pick::LeastRecentlyAccessed => "a store found no free chunk: least accessed page",
        }
    }

    /// Decays the accesses of all classes and adds the accesses since the last step.
    fn decay(&mut self, snapshot: &Snapshot, changes: &[Counts]) {
        let accesses = |change: &Counts| (change.hits + change.sets) as f64;
        let all: f64 = changes.iter().map(accesses).sum();
        let kept = 0.5f64.powf(all / self.options.half_life as f64);
        self.accesses.follow(snapshot, |_| 0.0);
        for (count, change) in self.accesses.iter_mut().zip(changes) {
            *count = *count * kept + accesses(change);
        }
    }

    /// Takes a page of the class with the fewest accesses per page: decrements the class's number in `pages` and
    /// returns its index. Returns `None` if no class has pages left.
    fn take_least_accessed(&self, classes: &[ClassSnapshot], pages: &mut [u64]) -> Option<usize> {
        // Accesses are divided by the pages of the snapshot, not by the pages left: if a page is taken, the number of
        // accesses to each of the other pages stays the same.
        let per_page = |&(index, accesses): &(usize, &f64)| *accesses / classes[index].pages as f64;
        let with_pages = self.accesses.iter().enumerate().filter(|&(index, _)| pages[index] > 0);
        let least = with_pages.min_by(|a, b| {
            let older = |index: usize| std::cmp::Reverse(classes[index].tail_age_ticks);
            per_page(a).total_cmp(&per_page(b)).then(older(a.0).cmp(&older(b.0)))
        });
        let (index, _) = least?;
        pages[index] -= 1;
        Some(index)
    }
}

#[cfg(test)]
#[path = "twemcache_tests.rs"]
mod tests;
