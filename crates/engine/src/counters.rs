//! A worker's own counters: written by one thread, summed by whoever reads the stats.

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
        self.ever.store(self.ever.load(Relaxed).wrapping_add(1), Relaxed);
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

/// Operations by class.
#[derive(Debug, Default)]
pub struct ClassOperations {
    /// Gets that hit, by the queue the item was in.
    pub hits_to: [Counter; 4],
    pub sets: Counter,
    pub delete_hits: Counter,
    pub incr_hits: Counter,
    pub decr_hits: Counter,
    pub cas_hits: Counter,
    pub cas_badval: Counter,
    pub touch_hits: Counter,
}

/// Everything that one [`Handle`](crate::Handle) counts.
#[derive(Debug, Default)]
pub struct HandleCounters {
    pub get_misses: Counter,
    pub get_expired: Counter,
    pub get_flushed: Counter,
    pub touches: Counter,
    pub touch_misses: Counter,
    pub delete_misses: Counter,
    pub incr_misses: Counter,
    pub decr_misses: Counter,
    pub cas_misses: Counter,
    pub store_too_large: Counter,
    pub store_no_memory: Counter,
    pub items_total: Counter,
    classes: Box<[ClassOperations]>,
}

impl HandleCounters {
    /// Counters at zero for a table of `class_count` classes.
    pub fn new(class_count: usize) -> HandleCounters {
        let classes = (0..class_count).map(|_| ClassOperations::default()).collect();
        HandleCounters { classes, ..HandleCounters::default() }
    }

    /// The counters of one class.
    #[inline]
    pub fn class(&self, class: ClassId) -> &ClassOperations {
        &self.classes[class.index()]
    }

    /// Sets all to zero, as `stats reset` does.
    pub fn reset(&self) {
        let own = [
            &self.get_misses,
            &self.get_expired,
            &self.get_flushed,
            &self.touches,
            &self.touch_misses,
            &self.delete_misses,
            &self.incr_misses,
            &self.decr_misses,
            &self.cas_misses,
            &self.store_too_large,
            &self.store_no_memory,
            &self.items_total,
        ];
        own.into_iter().for_each(Counter::reset);
        self.classes.iter().for_each(ClassOperations::reset);
    }
}

impl ClassOperations {
    fn reset(&self) {
        self.hits_to.iter().for_each(Counter::reset);
        let others = [
            &self.sets,
            &self.delete_hits,
            &self.incr_hits,
            &self.decr_hits,
            &self.cas_hits,
            &self.cas_badval,
            &self.touch_hits,
        ];
        others.into_iter().for_each(Counter::reset);
    }
}
