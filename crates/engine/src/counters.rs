//! A worker's own counters: written by one thread, summed by whoever reads the stats.

use crate::class::CLASS_NUMBERS;
use slabwise_base::ClassId;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer: no locked instruction, readers see a recent value.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one. Only the owning worker calls this.
    #[inline]
    pub fn bump(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Sets it to zero; a bump at the same moment may be lost or kept.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }

    /// The present value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
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
    /// Counters at zero, for every class that a table may ever have.
    pub fn new() -> HandleCounters {
        let classes = (0..CLASS_NUMBERS).map(|_| ClassOperations::default()).collect();
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
