//! Statistics of the engine and their counters. Counters of classes and of the mover are written under a lock.
//! Counters of a handle are written by its worker only, and summed over all handles when they are read.

use crate::layout::CLASS_NUMBERS;
use slabwise_base::{ClassId, counts};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

counts! {
    /// Counters of a class that are written under its lock.
    pub struct ClassCounters {
        /// Items evicted.
        evicted,
        /// Evicted items that had an expiry.
        evicted_nonzero,
        /// Evicted items that were never hit.
        evicted_unfetched,
        /// Evicted items that were marked active.
        evicted_active,
        /// Allocations that failed.
        out_of_memory,
        /// Items allocated in a larger class because this one had no page.
        allocated_in_larger_class,
        /// Expired or flushed items removed at a tail.
        reclaimed,
        /// Expired or flushed items removed at a tail that were never hit.
        expired_unfetched,
        /// Expired or flushed items that the crawler removed.
        crawler_reclaimed,
        /// Items that the crawler visited.
        crawler_items_checked,
        /// Tails that could not be evicted because they were pinned.
        tail_pinned,
        /// Items moved to the cold queue.
        moves_to_cold,
        /// Items moved to the warm queue.
        moves_to_warm,
        /// Items moved to the head of their own queue.
        moves_within_lru,
        /// Expired or flushed items whose chunk an allocation reused.
        direct_reclaims,
    }
    gauges {
        /// Seconds since the last access of the item evicted last.
        evicted_age_seconds: u64,
    }
}

counts! {
    /// Counters of the mover since the start. The cases are those of the paper on fast page moves (MEMSYS 2019,
    /// section 2.2).
    pub struct MoverCounters {
        /// Pages moved.
        moved,
        /// Moves aborted because a chunk stayed pinned.
        aborted,
        /// Visits of chunks; repeated visits count again.
        visits,
        /// Case 1: items whose stripe was locked (`base` and `fast` do not wait for it).
        locked,
        /// Case 2: items that were pinned.
        pinned,
        /// Case 3: items that were unlinked, so that their chunks had to be visited again (`base`).
        unlinked,
        /// Chunks that were in use again at the second visit (`base`).
        reallocated,
        /// Items moved to another page.
        rescued,
        /// Bodies of chained items moved to another page.
        bodies_rescued,
        /// Items evicted to make room for rescued ones, or dropped because there was no room for them.
        evicted,
        /// Visits of chunks that could not be emptied.
        busy,
        /// Visits of chunks for which there was no room outside the page. With eviction enabled, their items were
        /// dropped.
        busy_without_room,
    }
    gauges {
        /// Why the last busy chunk could not be emptied.
        last_busy: Option<Busy>,
    }
}

/// Why a chunk cannot be emptied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// The item is pinned.
    Held,
    /// The chunk holds an unlinked item: a removed or moved one that is still pinned, or one that is being written.
    Unlinked,
    /// There is no room outside the page.
    NoRoom,
}

impl MoverCounters {
    /// Returns the number of items and bodies moved to another page.
    pub fn carried(&self) -> u64 {
        self.rescued + self.bodies_rescued
    }

    /// Counts a chunk that could not be emptied.
    pub fn note_busy(&mut self, why: Busy) {
        self.busy += 1;
        self.busy_without_room += u64::from(why == Busy::NoRoom);
        self.last_busy = Some(why);
    }
}

/// Defines a struct of statistics and the counters of a handle for them. Each counter has a field of the same name in
/// the statistics, which is the sum over all handles.
macro_rules! tallies {
    (
        $(#[$doc:meta])*
        pub struct $stats:ident { $($(#[$read_doc:meta])* pub $read:ident: $read_type:ty,)+ }
        $(#[$tallies_doc:meta])*
        counted by $tallies:ident { $($(#[$field_doc:meta])* $field:ident,)+ }
        $(by queue { $($(#[$queues_doc:meta])* $queues:ident,)+ })?
        $(by class { $classes:ident: $class_tallies:ty })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $stats {
            $($(#[$read_doc])* pub $read: $read_type,)+
            $($(#[$field_doc])* pub $field: u64,)+
            $($($(#[$queues_doc])* pub $queues: [u64; 4],)+)?
        }

        $(#[$tallies_doc])*
        #[derive(Debug, Default)]
        pub struct $tallies {
            $(pub $field: Counter,)+
            $($(pub $queues: [Counter; 4],)+)?
            $($classes: Box<[$class_tallies]>,)?
        }

        impl $stats {
            /// Adds the counters of one handle.
            pub(crate) fn add_tallies(&mut self, tallies: &$tallies) {
                $(self.$field += tallies.$field.get();)+
                $($(
                    for (sum, counter) in self.$queues.iter_mut().zip(&tallies.$queues) {
                        *sum += counter.get();
                    }
                )+)?
            }

            /// Subtracts the counts of an earlier reading.
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

tallies! {
    /// Statistics of the whole cache. Counters are sums over all handles since the start.
    pub struct EngineStats {
        /// Items in the cache.
        pub items: u64,
        /// The counted bytes of the items: header, key and value.
        pub bytes: u64,
        /// The memory limit.
        pub memory_limit_bytes: u64,
        /// The page size.
        pub page_size_bytes: u64,
        /// Pages that hold memory.
        pub pages: u64,
        /// Pages that hold memory and belong to no class.
        pub pages_free: u64,
        /// The heap bytes of the index.
        pub index_bytes: u64,
        /// Buckets of the index.
        pub index_buckets: u64,
        /// Counters of the mover.
        pub mover: MoverCounters,
        /// True if a page is being moved.
        pub mover_running: bool,
        /// The sum over all classes.
        pub total: ClassStats,
    }
    /// The counters of one [`Handle`](crate::Handle).
    counted by HandleCounters {
        /// Gets that missed.
        get_misses,
        /// Lookups of any kind that found an expired item.
        get_expired,
        /// Lookups of any kind that found a flushed item.
        get_flushed,
        /// Touches, including those of gets that touch.
        touches,
        /// Touches that missed.
        touch_misses,
        /// Gets of `gat` that missed.
        gat_misses,
        /// Deletes that missed.
        delete_misses,
        /// Increments that missed.
        incr_misses,
        /// Decrements that missed.
        decr_misses,
        /// Compare-and-swaps that missed.
        cas_misses,
        /// Stores that failed because the item was too large.
        store_too_large,
        /// Stores that failed because there was no memory.
        store_no_memory,
        /// Items stored since the start.
        items_total,
    }
    by class { classes: ClassOperations }
}

/// Numbers of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStats {
    /// Pages that hold memory.
    pub held: u64,
    /// Pages that hold memory and belong to no class.
    pub free: u64,
    /// The most pages that may hold memory.
    pub limit: u64,
    /// The most pages that items may use.
    pub limit_for_items: u64,
}

impl PageStats {
    /// True if as many pages hold memory as items may use.
    pub fn memory_full(&self) -> bool {
        self.held >= self.limit_for_items
    }
}

tallies! {
    /// Statistics of one class, or the sum over all classes.
    pub struct ClassStats {
        /// The class; `None` in a sum.
        pub class: Option<ClassId>,
        /// True if the class has left the table and drains.
        pub retired: bool,
        /// The chunk size; 0 in a sum.
        pub chunk_size_bytes: usize,
        /// The number of chunks per page; 0 in a sum.
        pub chunks_per_page: usize,
        /// Pages, including draining ones.
        pub pages: u64,
        /// Chunks in use.
        pub used_chunks: u64,
        /// Chunks not in use.
        pub free_chunks: u64,
        /// The counted bytes of the items.
        pub item_bytes: u64,
        /// The sum of the known costs of the items in the class.
        pub cost_held: u64,
        /// Items by queue: hot, warm, cold, temp.
        pub items: [u64; 4],
        /// The age of each queue's tail, in a sum the largest; `None` for an empty queue.
        pub tail_age_ticks: [Option<u32>; 4],
        /// The counters that are written under the class's lock.
        pub counters: ClassCounters,
        /// The counts of earlier classes with this number, which the other fields do not include. While this is the
        /// same allocation, the number denotes the same class.
        pub before: Option<Arc<ClassStats>>,
    }
    /// Operations by class. An operation on an existing item counts in the item's class.
    counted by ClassOperations {
        /// Attempted stores.
        sets,
        /// Deletes that hit.
        delete_hits,
        /// Increments that hit.
        incr_hits,
        /// Decrements that hit.
        decr_hits,
        /// Compare-and-swaps that stored.
        cas_hits,
        /// Compare-and-swaps that failed because the CAS value differed.
        cas_badval,
        /// Touches that hit, including those of gets that touch.
        touch_hits,
        /// Gets that touch (`gat`, meta gets with a TTL) and hit.
        gat_hits,
        /// Hits that access observers do not see: gets that do not mark the item as used, or that vivified it.
        unreported_hits,
        /// Stores of keys that had no item.
        inserted,
        /// Stores of keys that had no item, with a client-supplied cost.
        costs_known,
        /// The sum of the known costs of items stored under keys that had none.
        cost_paid,
        /// The sum of the known costs of items that gets hit.
        cost_saved,
    }
    by queue {
        /// Gets that do not touch and hit, by the queue of the item.
        hits_to,
    }
}

impl ClassStats {
    /// Returns the number of gets that do not touch and hit.
    pub fn get_hits(&self) -> u64 {
        self.hits_to.iter().sum()
    }

    /// Returns the number of hits that an access observer that samples all keys sees
    /// ([`AccessKind::Hit`](crate::AccessKind::Hit)). A get that is still running may be missing.
    pub fn reported_hits(&self) -> u64 {
        (self.get_hits() + self.gat_hits).saturating_sub(self.unreported_hits)
    }

    /// Returns a count that includes earlier classes with the same number.
    pub fn of_number(&self, count: impl Fn(&ClassStats) -> u64) -> u64 {
        count(self) + self.before.as_deref().map_or(0, count)
    }
}

/// A counter with one writer, which needs no atomic read-modify-write. Readers see a recent value.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one. Only the owning worker calls this.
    #[inline]
    pub fn bump(&self) {
        self.add(1);
    }

    /// Adds `count`. Only the owning worker calls this.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.get().wrapping_add(count), Relaxed);
    }

    /// Returns the count since the start.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl EngineStats {
    /// Returns the statistics with the counts since an earlier reading. Other fields are unchanged.
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
    /// Returns the statistics with the counts since an earlier reading of the same class number. Other fields are
    /// unchanged. If the number denoted another class then, no counts are subtracted.
    #[must_use]
    pub fn since(&self, earlier: &ClassStats) -> ClassStats {
        let class_of = |stats: &ClassStats| (stats.class, stats.before.as_ref().map(Arc::as_ptr));
        if class_of(self) == class_of(earlier) { self.minus(earlier) } else { self.clone() }
    }

    /// Returns the statistics with the counts of `earlier` subtracted.
    pub fn minus(&self, earlier: &ClassStats) -> ClassStats {
        let mut stats =
            ClassStats { counters: self.counters.since(&earlier.counters), ..self.clone() };
        stats.subtract_tallies(earlier);
        stats
    }
}

impl HandleCounters {
    /// Returns counters at zero for every class number.
    pub fn new() -> HandleCounters {
        let classes = (0..CLASS_NUMBERS).map(|_| ClassOperations::default()).collect();
        HandleCounters { classes, ..HandleCounters::default() }
    }

    /// Returns the number of gets, including those that touch.
    pub fn gets(&self) -> u64 {
        self.classes.iter().map(ClassOperations::hits).sum::<u64>() + self.misses()
    }

    /// Returns the number of gets that missed, including those of `gat`, which count separately.
    pub fn misses(&self) -> u64 {
        self.get_misses.get() + self.gat_misses.get()
    }

    /// Returns the counters of a class.
    #[inline]
    pub fn class(&self, class: ClassId) -> &ClassOperations {
        &self.classes[class.index()]
    }
}

impl ClassOperations {
    /// The gets that hit, including those that touch and those that access observers do not see.
    fn hits(&self) -> u64 {
        self.hits_to.iter().map(Counter::get).sum::<u64>() + self.gat_hits.get()
    }
}
