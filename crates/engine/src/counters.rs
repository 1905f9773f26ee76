//! A worker's own counters: written by one thread, summed by whoever reads the stats.
//!
//! Which counters there are is said once, in the tables below; each field of a table has a namesake in the
//! stats, which holds its sum.

use crate::class::CLASS_NUMBERS;
use crate::stats::{ClassStats, EngineStats};
use slabwise_base::ClassId;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer: no locked instruction, readers see a recent value. A reset notes where it
/// stands, so that none of its bumps is lost and whoever counts for ever is not misled.
#[derive(Debug, Default)]
pub struct Counter {
    ever: AtomicU64,
    at_reset: AtomicU64,
}

impl Counter {
    /// Adds one. Only the owning worker calls this.
    #[inline]
    pub fn bump(&self) {
        self.add(1);
    }

    /// Adds so many. Only the owning worker calls this.
    #[inline]
    pub fn add(&self, count: u64) {
        self.ever.store(self.ever.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Begins at zero again.
    pub fn reset(&self) {
        self.at_reset.store(self.ever.load(Relaxed), Relaxed);
    }

    /// The bumps since the last reset.
    pub fn get(&self) -> u64 {
        // Read in this order the first is never behind, but for a reader that missed the reset.
        let at_reset = self.at_reset.load(Relaxed);
        self.ever.load(Relaxed).saturating_sub(at_reset)
    }

    /// All bumps.
    pub fn ever(&self) -> u64 {
        self.ever.load(Relaxed)
    }
}

/// A table of counters: the struct, its sums' way into the stats, and the reset.
macro_rules! tallies {
    (
        $(#[$doc:meta])*
        $tallies:ident, summed in $stats:ident:
        { $($field:ident,)+ }
        $(by queue { $($queues:ident,)+ })?
        $(by class { $classes:ident: $class_tallies:ty })?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $tallies {
            $(pub $field: Counter,)+
            $($(pub $queues: [Counter; 4],)+)?
            $($classes: Box<[$class_tallies]>,)?
        }

        impl $tallies {
            /// Sets all to zero, as `stats reset` does.
            pub fn reset(&self) {
                $(self.$field.reset();)+
                $($(self.$queues.iter().for_each(Counter::reset);)+)?
                $(self.$classes.iter().for_each(<$class_tallies>::reset);)?
            }
        }

        impl $stats {
            /// Adds what one handle counted.
            pub(crate) fn add_tallies(&mut self, tallies: &$tallies) {
                $(self.$field += tallies.$field.get();)+
                $($(
                    for (sum, counter) in self.$queues.iter_mut().zip(&tallies.$queues) {
                        *sum += counter.get();
                    }
                )+)?
            }
        }
    };
}

tallies! {
    /// Operations by class; of those on an item that is there, its class.
    ClassOperations, summed in ClassStats: {
        sets,
        delete_hits,
        incr_hits,
        decr_hits,
        cas_hits,
        cas_badval,
        touch_hits,
        gat_hits,
        unshown_hits,
        inserted,
        costs_told,
        cost_paid,
        cost_saved,
    }
    by queue { hits_to, }
}

tallies! {
    /// Everything that one [`Handle`](crate::Handle) counts.
    HandleCounters, summed in EngineStats: {
        get_misses,
        get_expired,
        get_flushed,
        touches,
        touch_misses,
        gat_misses,
        delete_misses,
        incr_misses,
        decr_misses,
        cas_misses,
        store_too_large,
        store_no_memory,
        items_total,
    }
    by class { classes: ClassOperations }
}

impl HandleCounters {
    /// Counters at zero, for every class that a table may ever have.
    pub fn new() -> HandleCounters {
        let classes = (0..CLASS_NUMBERS).map(|_| ClassOperations::default()).collect();
        HandleCounters { classes, ..HandleCounters::default() }
    }

    /// Gets, hits and misses, those that touched included.
    pub fn gets_ever(&self) -> u64 {
        self.classes.iter().map(ClassOperations::hits_ever).sum::<u64>() + self.misses_ever()
    }

    /// Gets that missed, those that touched included.
    pub fn misses_ever(&self) -> u64 {
        self.get_misses.ever() + self.gat_misses.ever()
    }

    /// Items stored: published under keys that held none, and in the places of others.
    pub fn stores_ever(&self) -> u64 {
        self.items_total.ever()
    }

    /// The counters of one class.
    #[inline]
    pub fn class(&self, class: ClassId) -> &ClassOperations {
        &self.classes[class.index()]
    }
}

impl ClassOperations {
    /// Gets that hit, those that touched and those that are not shown included.
    fn hits_ever(&self) -> u64 {
        self.hits_to.iter().map(Counter::ever).sum::<u64>() + self.gat_hits.ever()
    }

    /// Gets that hit and that the tap shows as hits. One under way may be missing.
    pub fn shown_hits_ever(&self) -> u64 {
        self.hits_ever().saturating_sub(self.unshown_hits.ever())
    }
}

/// Counters under a lock: the struct, and its sum over several.
macro_rules! locked_counters {
    (
        $(#[$doc:meta])*
        $counters:ident:
        sum { $($(#[$sum_doc:meta])* $sum:ident,)+ }
        max { $($(#[$max_doc:meta])* $max:ident,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $counters {
            $($(#[$sum_doc])* pub $sum: u64,)+
            $($(#[$max_doc])* pub $max: u64,)*
        }

        impl $counters {
            /// Adds another's counts.
            pub(crate) fn add(&mut self, other: &$counters) {
                $(self.$sum += other.$sum;)+
                $(self.$max = self.$max.max(other.$max);)*
            }
        }
    };
}

locked_counters! {
    /// What happened to the items of a class since the start or the last reset.
    ClassCounters:
    sum {
        /// Items evicted.
        evicted,
        /// Of these, those that had an expiry.
        evicted_nonzero,
        /// Evicted items that were never hit.
        evicted_unfetched,
        /// Evicted items that were hit lately.
        evicted_active,
        /// Allocations that failed.
        out_of_memory,
        /// Allocations that went to a larger class because this one owned nothing.
        homeless,
        /// Expired or flushed items removed at a tail.
        reclaimed,
        /// Of these, those that were never hit.
        expired_unfetched,
        /// Expired or flushed items that the crawler removed.
        crawler_reclaimed,
        /// Items that the crawler looked at.
        crawler_items_checked,
        /// Tails that could not be evicted because they were pinned.
        tail_pinned,
        /// Items moved to the cold queue.
        moves_to_cold,
        /// Items moved to the warm queue.
        moves_to_warm,
        /// Items moved to the head of their own queue.
        moves_within_lru,
        /// Ended items that an allocation took the place of.
        direct_reclaims,
    }
    max {
        /// Seconds since the last access of the item evicted last.
        evicted_age_seconds,
    }
}
