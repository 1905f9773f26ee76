//! A worker's own counters: written by one thread, summed by whoever reads the stats.
//!
//! Which counters there are is said once, in the tables below; each field of a table has a namesake in the
//! stats, which holds its sum.

use crate::class::CLASS_NUMBERS;
use crate::stats::{ClassStats, EngineStats};
use slabwise_base::{ClassId, counts};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer: no locked instruction, readers see a recent value. It never falls.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one. Only the owning worker calls this.
    #[inline]
    pub fn bump(&self) {
        self.add(1);
    }

    /// Adds a count. Only the owning worker calls this.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.get().wrapping_add(count), Relaxed);
    }

    /// What was counted since the start.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A table of counters: the struct, and how the stats add it and subtract an earlier reading.
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

            /// Subtracts what an earlier reading holds of them.
            fn subtract_tallies(&mut self, earlier: &$stats) {
                $(self.$field = self.$field.saturating_sub(earlier.$field);)+
                $($(
                    for (count, before) in self.$queues.iter_mut().zip(earlier.$queues) {
                        *count = count.saturating_sub(before);
                    }
                )+)?
            }
        }
    };
}

impl EngineStats {
    /// What was counted after an earlier reading; what is there now is as in this one.
    #[must_use]
    pub fn since(&self, earlier: &EngineStats) -> EngineStats {
        let mut stats = self.clone();
        stats.total = self.total.since(&earlier.total);
        stats.mover = self.mover.since(&earlier.mover);
        stats.subtract_tallies(earlier);
        stats
    }
}

impl ClassStats {
    /// What was counted after an earlier reading of the number; what is there now is as in this one. If the
    /// number stood for another class then, all counts came after it.
    #[must_use]
    pub fn since(&self, earlier: &ClassStats) -> ClassStats {
        let class_of = |stats: &ClassStats| (stats.class, stats.before.as_ref().map(Arc::as_ptr));
        if class_of(self) == class_of(earlier) { self.minus(earlier) } else { self.clone() }
    }

    /// The counts less those of an earlier reading.
    pub(crate) fn minus(&self, earlier: &ClassStats) -> ClassStats {
        let mut stats =
            ClassStats { counters: self.counters.since(&earlier.counters), ..self.clone() };
        stats.subtract_tallies(earlier);
        stats
    }
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
    pub fn gets(&self) -> u64 {
        self.classes.iter().map(ClassOperations::hits).sum::<u64>() + self.misses()
    }

    /// Gets that missed, those that touched included.
    pub fn misses(&self) -> u64 {
        self.get_misses.get() + self.gat_misses.get()
    }

    /// The counters of one class.
    #[inline]
    pub fn class(&self, class: ClassId) -> &ClassOperations {
        &self.classes[class.index()]
    }
}

impl ClassOperations {
    /// Gets that hit, those that touched and those that are not shown included.
    fn hits(&self) -> u64 {
        self.hits_to.iter().map(Counter::get).sum::<u64>() + self.gat_hits.get()
    }
}

counts! {
    /// What happened to the items of a class.
    pub struct ClassCounters {
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
    gauges {
        /// Seconds since the last access of the item evicted last.
        evicted_age_seconds: u64,
    }
}
