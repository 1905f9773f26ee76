//! The page policies of Twemcache, Twitter's fork of memcached: after a store that finds no free chunk, a whole page of
//! any class is evicted and given to the class of the store.
//!
//! Source: M. Rajashekhar and Y. Yue, "Caching with Twemcache" (Twitter's engineering blog, 2012), and Twemcache 2.6:
//! the eviction strategies "random slab" (`-M 2`) and "least recently accessed slab" (`-M 4`), in `src/mc_slabs.c`.
//!
//! ```text
//!   store, no free chunk in class 2
//!        random:  any page, all equally likely                      [0][0][0][1][1][2]
//!        lra:     the page whose last access is the oldest                 ^
//!                 all its items are evicted, and the page moves to class 2
//! ```
//!
//! A page of the class of the store is taken like any other. A page counts as accessed when it is given to a class, and
//! when an item on it is stored or hit. A chained item is on the pages of all its chunks.
//!
//! Weaknesses: both policies evict hot items together with cold ones, because they ignore the value of a page's items,
//! and both take the last page of a class like any other. Pages keep moving as long as a class evicts. With *lra*, one
//! hit protects a page for as long as many hits do, so in a busy cache all pages have almost the same age.
//!
//! Differences here:
//!
//! - In Twemcache, the store itself evicts the page. Here the policy takes a step after the store, so the store has
//!   already evicted the coldest item of its class. The step plans as many pages as the stores without a free chunk
//!   have filled since the last step, at most `moves_max`.
//! - Twemcache orders pages by their last access with a precision of a second, here by ticks of 1/64 s. Pages with the
//!   same time are taken in random order; Twemcache takes the one that was accessed first.
//! - A page with a pinned item waits for the reader. Twemcache takes another page.
//!
//! Invariants: a plan takes no page twice. If the classes need more pages than a step may move, the step draws the
//! receivers at random, in proportion to the pages that they need, and forgets the others.

use super::draw::draw;
use crate::history::changes::{Changes, pages_needed};
use crate::options::{Adjustable, PolicyOption, options};
use crate::policy::Policy;
use crate::{Inputs, PageMove, PageSnapshot, Plan, Snapshot, Trigger};
use slabwise_base::Random;

/// The rule that selects the page to evict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// Any page, all equally likely: Twemcache's default.
    #[default]
    Random,
    /// The page whose last access is the oldest.
    LeastRecentlyAccessed,
}

options! {
    /// As in Twemcache, a step follows every store that finds no free chunk. The option `moves_max` is an addition of
    /// slabwise.
    pub struct TwemcacheOptions {
        evictions: u64 = 1, events, "allocations that find no free chunk between two steps";
        moves_max: usize = 32, moves_max;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Twemcache {
    options: TwemcacheOptions,
    pick: Pick,
    changes: Changes,
}

impl Adjustable for Twemcache {
    fn options(&mut self) -> Vec<PolicyOption<'_>> {
        self.options.rows()
    }
}

impl Policy for Twemcache {
    fn trigger(&self) -> Trigger {
        Trigger::EveryEvictions(self.options.evictions)
    }

    fn inputs(&self) -> Inputs {
        Inputs::Pages
    }

    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan {
        let changes = self.changes.since_last(snapshot);
        if !snapshot.is_divided() {
            return Plan::default();
        }
        let mut needed = pages_needed(snapshot, &changes);
        let wanted = needed.iter().sum::<u64>().min(self.options.moves_max as u64);
        let victims = self.victims(snapshot, wanted as usize, random);
        let move_of = |page: PageSnapshot| {
            let receiver = draw(&mut needed, random)?;
            Some(PageMove {
                victim: page.class,
                page: Some(page.page),
                receiver: Some(snapshot.classes[receiver].class),
                reason: self.reason(),
            })
        };
        victims.into_iter().map_while(move_of).collect()
    }
}

impl Twemcache {
    pub fn with_pick(pick: Pick) -> Twemcache {
        Twemcache { pick, ..Twemcache::default() }
    }

    fn reason(&self) -> &'static str {
        match self.pick {
            Pick::Random => "a store found no free chunk: random page",
            Pick::LeastRecentlyAccessed => {
                "a store found no free chunk: least recently accessed page"
            }
        }
    }

    /// Returns the first `count` pages to evict. Pages of classes that are not in the snapshot are retired, and the
    /// engine drains them without a policy.
    fn victims(&self, snapshot: &Snapshot, count: usize, random: &mut Random) -> Vec<PageSnapshot> {
        let is_current =
            |page: &&PageSnapshot| snapshot.classes.iter().any(|class| class.class == page.class);
        let mut pages: Vec<PageSnapshot> =
            snapshot.pages.iter().filter(is_current).copied().collect();
        let count = count.min(pages.len());
        // A shuffle of the first pages: each page is equally likely.
        let sorts = self.pick == Pick::LeastRecentlyAccessed;
        for index in 0..if sorts { pages.len() } else { count } {
            let other = index + random.below((pages.len() - index) as u64) as usize;
            pages.swap(index, other);
        }
        if sorts {
            // A page without accesses has just been given to its class.
            let age = |page: &PageSnapshot| {
                page.accessed_at.map_or(0, |at| at.age_at(snapshot.now).saturating_add(1))
            };
            pages.sort_by_key(|page| std::cmp::Reverse(age(page)));
        }
        pages.truncate(count);
        pages
    }
}

#[cfg(test)]
#[path = "twemcache_tests.rs"]
mod tests;
