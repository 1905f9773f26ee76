//! Readings for people and policies, and the counters that they show: those of classes and of the mover, which are
//! written under a lock; and those of workers, each written by one thread and summed when they are read.

use crate::layout::CLASS_NUMBERS;
use slabwise_base::{ClassId, counts};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

counts! {
    /// Counters of the mover since the start. The cases are those of the paper on fast page moves (MEMSYS 2019,
    /// section 2.2).
    pub struct MoverCounters {
        /// Pages that arrived.
        moved,
        /// Moves given up because a chunk stayed held.
        aborted,
        /// Chunks looked at, one looked at twice counted twice.
        visits,
        /// Case 1: items whose stripe was locked (`base` and `fast` only try it).
        locked,
        /// Case 2: items that somebody pinned.
        pinned,
        /// Case 3: items that were unlinked and whose chunks had to be met again (`base`).
        unlinked,
        /// Chunks that were in use again when they were met again (`base`).
        reallocated,
        /// Items carried to another page.
        rescued,
        /// Bodies of chained items carried to another page.
        bodies_rescued,
        /// Items evicted to make room for those carried, or dropped for want of it.
        evicted,
        /// Chunks met that could not be emptied then.
        busy,
        /// Of these, those for which there was no room outside the page: where eviction is on, their items were
        /// dropped.
        busy_without_room,
    }
    gauges {
        /// Why the last of them could not be emptied.
        last_busy: Option<Busy>,
    }
}

/// Why a chunk cannot be emptied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// Its item is pinned.
    Held,
    /// It holds no item that could be found: one that has ended, or was carried away, and is still pinned;
    /// or one that is being written.
    Unlinked,
    /// There is no room outside the page.
    NoRoom,
}

impl MoverCounters {
    /// Items and bodies carried to another page.
    pub fn carried(&self) -> u64 {
        self.rescued + self.bodies_rescued
    }

    /// Notes a chunk that could not be emptied.
    pub fn note_busy(&mut self, why: Busy) {
        self.busy += 1;
        self.busy_without_room += u64::from(why == Busy::NoRoom);
        self.last_busy = Some(why);
    }
}

/// Stats, and the table of counters that a worker keeps for them: each counter has a namesake in the stats, which
/// holds its sum.
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

tallies! {
    /// The whole cache at a moment. Counters count since the start, and are sums over all handles.
    pub struct EngineStats {
        /// Items in the cache.
        pub items: u64,
        /// Counted bytes of the items: header, key and value.
        pub bytes: u64,
        /// The memory limit in bytes.
        pub memory_limit_bytes: u64,
        /// Bytes a page.
        pub page_size_bytes: u64,
        /// Pages that hold memory.
        pub pages: u64,
        /// Of these, pages that no class owns.
        pub pages_free: u64,
        /// Heap bytes of the index.
        pub index_bytes: u64,
        /// Buckets of the index.
        pub index_buckets: u64,
        /// What the mover did.
        pub mover: MoverCounters,
        /// Whether a page is being moved.
        pub mover_running: bool,
        /// The sum over all classes.
        pub total: ClassStats,
    }
    /// Everything that one [`Handle`](crate::Handle) counts.
    counted by HandleCounters {
        /// Gets that found nothing.
        get_misses,
        /// Look-ups of any kind that found an expired item.
        get_expired,
        /// Look-ups of any kind that found a flushed item.
        get_flushed,
        /// Touches, of `gat` too.
        touches,
        /// Touches that found nothing.
        touch_misses,
        /// Gets that were to touch what they found, and found nothing; of `gat` only.
        gat_misses,
        /// Deletes that found nothing.
        delete_misses,
        /// Increments that found nothing.
        incr_misses,
        /// Decrements that found nothing.
        decr_misses,
        /// Compare-and-swaps that found nothing.
        cas_misses,
        /// Stores refused because the item was too large.
        store_too_large,
        /// Stores refused because there was no memory.
        store_no_memory,
        /// Items ever stored.
        items_total,
    }
    by class { classes: ClassOperations }
}

/// Where the pages are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStats {
    /// Pages that hold memory.
    pub held: u64,
    /// Of these, pages that no class owns.
    pub free: u64,
    /// Pages that the limit allows.
    pub limit: u64,
    /// Of these, pages that items may take.
    pub limit_for_items: u64,
}

impl PageStats {
    /// Whether every page that the limit allows holds memory.
    pub fn memory_full(&self) -> bool {
        self.held >= self.limit_for_items
    }
}

tallies! {
    /// One class at a moment, or the sum over all.
    pub struct ClassStats {
        /// Which class; `None` in a sum.
        pub class: Option<ClassId>,
        /// Whether it is in the table no more, and drains.
        pub retired: bool,
        /// Bytes a chunk; 0 in a sum.
        pub chunk_size_bytes: usize,
        /// Chunks a page; 0 in a sum.
        pub chunks_per_page: usize,
        /// Pages, a draining one included.
        pub pages: u64,
        /// Chunks in use.
        pub used_chunks: u64,
        /// Chunks not in use.
        pub free_chunks: u64,
        /// Counted bytes of its items.
        pub item_bytes: u64,
        /// Units that its items cost to recompute, as far as that is known.
        pub cost_held: u64,
        /// Items by queue: hot, warm, cold, temp.
        pub items: [u64; 4],
        /// The age of each queue's tail in ticks, in a sum the oldest's; `None` for an empty queue.
        pub tail_age_ticks: [Option<u32>; 4],
        /// What happened to its items without a client asking.
        pub counters: ClassCounters,
        /// What its number had counted for earlier classes, which is no part of the counts above. A class's number
        /// is its own for as long as this is the same allocation.
        pub before: Option<Arc<ClassStats>>,
    }
    /// Operations by class; of those on an item that is there, its class.
    counted by ClassOperations {
        /// Stores tried.
        sets,
        /// Deletes that hit.
        delete_hits,
        /// Increments that hit.
        incr_hits,
        /// Decrements that hit.
        decr_hits,
        /// Compare-and-swaps that stored.
        cas_hits,
        /// Compare-and-swaps that met another value.
        cas_badval,
        /// Touches that hit, those that were gets included.
        touch_hits,
        /// Gets that touched what they found.
        gat_hits,
        /// Gets that count as hits and are no use of an item that was there: they leave no mark, or vivified.
        unshown_hits,
        /// Stores under keys that held nothing.
        inserted,
        /// Of these, those with a cost.
        costs_told,
        /// Units that what they stored costs to recompute, as far as that is known.
        cost_paid,
        /// Units that what gets hit costs to recompute, as far as that is known.
        cost_saved,
    }
    by queue {
        /// Gets that hit and did not touch, by the queue the item was in.
        hits_to,
    }
}

impl ClassStats {
    /// Gets that hit and did not touch.
    pub fn get_hits(&self) -> u64 {
        self.hits_to.iter().sum()
    }

    /// Gets that hit: those, and only those, that are shown to an observer of accesses as hits of the class
    /// ([`AccessKind::Hit`](crate::AccessKind::Hit)) where all keys are in the sample. One under way may be
    /// missing.
    pub fn shown_hits(&self) -> u64 {
        (self.get_hits() + self.gat_hits).saturating_sub(self.unshown_hits)
    }

    /// A count, with what its number counted for earlier classes.
    pub fn of_number(&self, count: impl Fn(&ClassStats) -> u64) -> u64 {
        count(self) + self.before.as_deref().map_or(0, count)
    }
}

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
    pub fn minus(&self, earlier: &ClassStats) -> ClassStats {
        let mut stats =
            ClassStats { counters: self.counters.since(&earlier.counters), ..self.clone() };
        stats.subtract_tallies(earlier);
        stats
    }
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
