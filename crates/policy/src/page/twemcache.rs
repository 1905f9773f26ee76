//! The page policies of Twemcache, Twitter's fork of memcached (M. Rajashekhar and Y. Yue, 2012): a store that finds no
//! free chunk takes a whole page from any class.
//!
//! ```text
//!   store, no free chunk in class 2
//!        random:  any page, all equally likely              [0][0][0][1][1][2]
//!        lra:     the least recently accessed page                    ^
//!                 its items are dropped and the page moves to class 2
//! ```
//!
//! Weaknesses: neither considers the value of a page's items; both take the last page of a class like any other; pages
//! keep moving as long as a class evicts. A scan takes nearly all pages.
//!
//! Differences here: where Twemcache takes a page, the engine evicts an item. So one page is planned for each page's
//! worth of such stores and arrives after them; if the page drawn is the receiver's own, nothing moves. The engine
//! keeps no order of pages, so *lra* (least recently accessed) estimates it: with `a` accesses to `p` pages, a page of
//! a class is accessed `a/p` times. The class with the lowest value gives; among equals, the one with the oldest tail.
//! Accesses decay by half over [`TwemcacheOptions::half_life`].
//!
//! Invariants: a plan takes no page twice; if more pages are needed than a step may move, each is equally likely to be
//! granted and the others are dropped.

use super::draw::draw;
use crate::history::changes::{Changes, Counts, pages_needed};
use crate::history::per_class::PerClass;
use crate::options::{Adjustable, PolicyOption, options};
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::Random;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// Any page, all equally likely: Twemcache's default.
    #[default]
    Random,
    LeastRecentlyAccessed,
}

options! {
    /// A step at every store without a free chunk, as in Twemcache. The other limits are this project's.
    pub struct TwemcacheOptions {
        evictions: u64 = 1, events, "allocations without a free chunk between two steps";
        half_life: u64 = 100_000, events,
            "accesses after which an access counts half when classes are ranked";
        moves_max: usize = 32, moves_max;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Twemcache {
    options: TwemcacheOptions,
    pick: Pick,
    changes: Changes,
    /// Decaying access counts.
    accesses: PerClass<f64>,
}

impl Adjustable for Twemcache {
    fn options(&mut self) -> Vec<PolicyOption<'_>> {
        let mut rows = self.options.rows();
        // Random pages need no ranking.
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
                Pick::LeastRecentlyAccessed => self.take_coldest(&snapshot.classes, &mut pages),
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
    pub fn taking(pick: Pick) -> Twemcache {
        Twemcache { pick, ..Twemcache::default() }
    }

    fn reason(&self) -> &'static str {
        match self.pick {
            Pick::Random => "a store found no free chunk: random page",
            Pick::LeastRecentlyAccessed => "a store found no free chunk: least accessed page",
        }
    }

    fn decay(&mut self, snapshot: &Snapshot, changes: &[Counts]) {
        let accesses = |change: &Counts| (change.hits + change.sets) as f64;
        let all: f64 = changes.iter().map(accesses).sum();
        let kept = 0.5f64.powf(all / self.options.half_life as f64);
        self.accesses.follow(snapshot, |_| 0.0);
        for (count, change) in self.accesses.iter_mut().zip(changes) {
            *count = *count * kept + accesses(change);
        }
    }

    /// Takes a page of the class with the fewest accesses per page.
    fn take_coldest(&self, classes: &[ClassSnapshot], pages: &mut [u64]) -> Option<usize> {
        // Page counts are those of the snapshot: taking a page does not change the accesses to the others.
        let warmth = |&(index, accesses): &(usize, &f64)| *accesses / classes[index].pages as f64;
        let with_pages = self.accesses.iter().enumerate().filter(|&(index, _)| pages[index] > 0);
        let coldest = with_pages.min_by(|a, b| {
            let older = |index: usize| std::cmp::Reverse(classes[index].tail_age_ticks);
            warmth(a).total_cmp(&warmth(b)).then(older(a.0).cmp(&older(b.0)))
        });
        let (index, _) = coldest?;
        pages[index] -= 1;
        Some(index)
    }
}

#[cfg(test)]
#[path = "twemcache_tests.rs"]
mod tests;
