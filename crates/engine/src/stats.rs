//! Statistics of the engine, and the counters from which they are computed. The counters of classes and of the mover
//! are written under a lock. The counters of a handle are written only by the worker that owns the handle. Statistics
//! contain their sums over all handles.

use crate::layout::CLASS_NUMBERS;
use slabwise_base::{ClassId, PageId, Ticks, counts};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

counts! {
    /// Counters of a class since the start, which are written under the lock of the class.
    pub struct ClassCounters {
        /// The number of evicted items.
        evicted,
        /// The number of evicted items that had an expiry.
        evicted_nonzero,
        /// The number of evicted items that were never hit.
        evicted_unfetched,
        /// The number of evicted items that were marked active.
        evicted_active,
        /// The number of items counted in `evicted` that the mover evicted for a page move. So no store needed their
        /// chunks.
        evicted_by_mover,
        /// The number of allocations that failed because there was no memory.
        out_of_memory,
        /// The number of attempts to allocate an item of this class in a larger class, because this class could get no
        /// chunk.
        allocated_in_larger_class,
        /// The number of expired or flushed items that were removed at the tail of a queue.
        reclaimed,
        /// The number of expired or flushed items that were removed at the tail of a queue and were never hit.
        expired_unfetched,
        /// The number of expired or flushed items that the crawler removed.
        crawler_reclaimed,
        /// The number of items that the crawler visited.
        crawler_items_checked,
        /// The number of times that the item at the tail of a queue could not be evicted because it was pinned.
        tail_pinned,
        /// The number of moves of items to the cold queue.
        moves_to_cold,
        /// The number of moves of items to the warm queue.
        moves_to_warm,
        /// The number of moves of items to the head of their own queue.
        moves_within_lru,
        /// The number of expired or flushed items that an allocation removed to get a free chunk.
        direct_reclaims,
        /// The number of pages that the class received, from other classes and from the page pool.
        pages_taken,
        /// The number of pages that the class gave to other classes and to the page pool.
        pages_released,
    }
    gauges {
        /// For the first item that was evicted in the second of the last eviction: the number of seconds from its last
        /// access to its eviction.
        evicted_age_seconds: u64,
    }
}

counts! {
    /// Counters of the mover since the start. Cases 1 to 3 are those of the paper on fast page moves (MEMSYS 2019,
    /// section 2.2).
    pub struct MoverCounters {
        /// The number of moved pages.
        moved,
        /// The number of page moves that the mover gave up, because it could not empty a chunk.
        aborted,
        /// The number of visits of chunks. Several visits of the same chunk count several times.
        visits,
        /// Case 1: the number of visits of items whose stripe another thread had locked. Only the movers `base` and
        /// `fast` count this, because the others wait for the lock.
        locked,
        /// Case 2: the number of visits of items that were pinned.
        pinned,
        /// Case 3: the number of items that the mover `base` unlinked, so that it had to visit their chunks again.
        unlinked,
        /// The number of chunks that were in use again when the mover `base` visited them again.
        reallocated,
        /// The number of items that were moved to another page.
        rescued,
        /// The number of bodies of chained items that were moved to another page.
        bodies_rescued,
        /// The number of items that were evicted to get free chunks for rescued items, or were dropped because there
        /// was no free chunk for them.
        evicted,
        /// The number of visits of chunks that could not be emptied.
        busy,
        /// The number of visits of chunks for whose contents there was no free chunk on another page. With eviction
        /// enabled, their items were dropped.
        busy_without_room,
    }
    gauges {
        /// The reason why the chunk that was busy last could not be emptied, or `None` if no chunk was busy.
        last_busy: Option<Busy>,
    }
}

/// The reason why a chunk cannot be emptied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// The item in the chunk is pinned.
    Pinned,
    /// The item in the chunk is not linked: it is still being written, or it was removed or moved and is still pinned.
    Unlinked,
    /// No chunk on another page is free.
    NoRoom,
}

impl MoverCounters {
    /// Returns the number of visits of chunks and of evictions, which together measure the work of moves.
    pub fn work(&self) -> u64 {
        self.visits + self.evicted
    }

    /// Returns the number of items and bodies that were moved to another page.
    pub fn carried(&self) -> u64 {
        self.rescued + self.bodies_rescued
    }

    /// Counts a visit of a chunk that could not be emptied.
    pub fn note_busy(&mut self, why: Busy) {
        self.busy += 1;
        self.busy_without_room += u64::from(why == Busy::NoRoom);
        self.last_busy = Some(why);
    }
}

/// Defines two structs: the counters of one handle, and statistics. Each counter of a handle has a field of the same
/// name in the statistics, which holds the sum of this counter over all handles. `by queue` are counters with one
/// number for each kind of queue. `by class` is a field with one set of counters for each class.
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

        impl $tallies {
            /// Adds to the counter with this name. Ignores other names.
            pub fn add_named(&self, name: &str, count: u64) {
                match name {
                    $(stringify!($field) => self.$field.add(count),)+
                    _ => {
                        $($(
                            for (queue, counter) in self.$queues.iter().enumerate() {
                                if name == format!("{}.{queue}", stringify!($queues)) {
                                    counter.add(count);
                                }
                            }
                        )+)?
                    }
                }
            }
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

            /// Returns the name and the number of each counter of a handle. A counter by queue has one name per queue.
            pub fn named(&self) -> Vec<(String, u64)> {
                #[allow(unused_mut, reason = "some structs have no counters by queue")]
                let mut named = vec![$((stringify!($field).to_owned(), self.$field),)+];
                $($(
                    for (queue, &count) in self.$queues.iter().enumerate() {
                        named.push((format!("{}.{queue}", stringify!($queues)), count));
                    }
                )+)?
                named
            }

            /// Subtracts the counters in earlier statistics from those in these.
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
    /// Statistics of the whole cache. Counters count since the start and are sums over all handles.
    pub struct EngineStats {
        /// The number of items in the cache.
        pub items: u64,
        /// The sum of the sizes of all items: header, key and value.
        pub bytes: u64,
        /// The memory limit in bytes: a number of whole pages.
        pub memory_limit_bytes: u64,
        /// The page size.
        pub page_size_bytes: u64,
        /// The number of pages that hold memory: the pages of all classes, and the pages of the page pool whose memory
        /// was not returned to the system.
        pub pages: u64,
        /// The number of pages that hold memory and that no class owns.
        pub pages_free: u64,
        /// The number of heap bytes that the index uses.
        pub index_bytes: u64,
        /// The number of buckets of the index, without overflow buckets.
        pub index_buckets: u64,
        /// The counters of the mover.
        pub mover: MoverCounters,
        /// True if a page is being moved.
        pub mover_running: bool,
        /// The sums over all classes.
        pub total: ClassStats,
    }
    /// The counters of one [`Handle`](crate::Handle).
    counted by HandleCounters {
        /// The number of gets that missed, except those of the commands `gat` and `gats`.
        get_misses,
        /// The number of lookups of any kind that found an expired item.
        get_expired,
        /// The number of lookups of any kind that found a flushed item.
        get_flushed,
        /// The number of touches, including those of gets that touch. A meta get with a TTL counts only if it hits.
        touches,
        /// The number of touches that missed.
        touch_misses,
        /// The number of gets of the commands `gat` and `gats` that missed.
        gat_misses,
        /// The number of deletes that missed.
        delete_misses,
        /// The number of increments that missed.
        incr_misses,
        /// The number of decrements that missed.
        decr_misses,
        /// The number of compare-and-swap stores that missed.
        cas_misses,
        /// The number of stores that failed because the item was too large.
        store_too_large,
        /// The number of stores that failed because there was no memory.
        store_no_memory,
        /// The number of items that were stored.
        items_total,
        /// The sum of the sizes of the items that were stored: header, key and value.
        bytes_stored,
    }
    by class { classes: ClassOperations }
}

/// A page that a class owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedPage {
    /// The number of the page.
    pub id: PageId,
    /// The class that owns the page.
    pub class: ClassId,
    /// The time of the last access to an item of the page; `None` if there was none since the page was given to its
    /// class.
    pub accessed_at: Option<Ticks>,
}

/// The numbers of pages of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStats {
    /// The number of pages that hold memory: the pages of all classes, and the pages of the page pool whose memory was
    /// not returned to the system.
    pub held: u64,
    /// The number of pages that hold memory and that no class owns.
    pub free: u64,
    /// The memory limit in pages.
    pub limit: u64,
    /// The largest number of pages that items may use: `limit` minus the memory outside of pages that counts against
    /// it.
    pub limit_for_items: u64,
}

impl PageStats {
    /// Returns true if the number of pages that hold memory has reached the limit for items.
    pub fn memory_full(&self) -> bool {
        self.held >= self.limit_for_items
    }
}

tallies! {
    /// Statistics of one class, or the sums over all classes. Counters count since the start and are sums over all
    /// handles.
    pub struct ClassStats {
        /// The class, or `None` in sums over all classes.
        pub class: Option<ClassId>,
        /// True if the class is a retired class.
        pub retired: bool,
        /// The chunk size, or 0 in sums over all classes.
        pub chunk_size_bytes: usize,
        /// The number of chunks per page, or 0 in sums over all classes.
        pub chunks_per_page: usize,
        /// The number of pages that the class owns, draining pages included.
        pub pages: u64,
        /// The number of chunks in use.
        pub used_chunks: u64,
        /// The number of chunks that are not in use.
        pub free_chunks: u64,
        /// The sum of the sizes of the items in the class's queues.
        pub item_bytes: u64,
        /// The sum of the known costs of the items in the class's queues.
        pub cost_held: u64,
        /// The number of items in each kind of queue, in the order hot, warm, cold, temp.
        pub items: [u64; 4],
        /// The tail age of each kind of queue in units of the work clock, in the order hot, warm, cold, temp. `None` if
        /// the queue is empty. In sums over all classes: the largest tail age of all classes.
        pub tail_age_work: [Option<u32>; 4],
        /// The counters that are written under the lock of the class.
        pub counters: ClassCounters,
        /// The statistics of the classes that had the same number earlier, whose counts the other fields do not
        /// include. If two statistics of a class number point to the same allocation here, they are about the same
        /// class.
        pub before: Option<Arc<ClassStats>>,
    }
    /// The operations of one handle on the items of one class.
    counted by ClassOperations {
        /// The number of stores that were attempted, failed ones included. A store whose reservation failed does not
        /// count.
        sets,
        /// The number of deletes that hit.
        delete_hits,
        /// The number of increments that hit.
        incr_hits,
        /// The number of decrements that hit.
        decr_hits,
        /// The number of compare-and-swap stores that stored the item.
        cas_hits,
        /// The number of compare-and-swap stores that failed because the item had another CAS value.
        cas_badval,
        /// The number of touches that hit, including those of gets that touch.
        touch_hits,
        /// The number of gets that touch (`gat`, and meta gets with a TTL) and hit.
        gat_hits,
        /// The number of hits that are not reported to access observers: gets that do not mark the item as used, and
        /// gets that vivified the item.
        unreported_hits,
        /// The number of stores of keys that had no item.
        inserted,
        /// The number of stores of keys that had no item, with a client-supplied cost.
        costs_known,
        /// The sum of the known costs of items that were stored under keys that had no item.
        cost_paid,
        /// The sum of the known costs of the items that gets hit. An item counts once for each hit.
        cost_saved,
    }
    by queue {
        /// The number of gets that do not touch and hit an item in this kind of queue, in the order hot, warm, cold,
        /// temp.
        hits_to,
    }
}

impl ClassStats {
    /// Returns the tail age of the class in units of the work clock: that of the cold queue, from which the class evicts
    /// first. If the cold queue is empty, it is the greatest tail age of the other queues; `None` if all queues are empty.
    pub fn oldest_tail_work(&self) -> Option<u32> {
        let [hot, warm, cold, temp] = self.tail_age_work;
        cold.or(hot.max(warm).max(temp))
    }

    /// Returns the number of gets that do not touch and hit.
    pub fn get_hits(&self) -> u64 {
        self.hits_to.iter().sum()
    }

    /// Returns the number of hits that an access observer receives if it observes all keys
    /// ([`AccessKind::Hit`](crate::AccessKind::Hit)). A get that is still running may not be counted yet.
    pub fn reported_hits(&self) -> u64 {
        (self.get_hits() + self.gat_hits).saturating_sub(self.unreported_hits)
    }

    /// Returns the memory of the class that holds nothing. The pages have this size.
    pub fn waste(&self, page_size_bytes: u64) -> Waste {
        let chunk_bytes = self.chunk_size_bytes as u64;
        let page_chunks_bytes = self.chunks_per_page as u64 * chunk_bytes;
        Waste {
            inside_chunks_bytes: (self.used_chunks * chunk_bytes).saturating_sub(self.item_bytes),
            free_chunks_bytes: self.free_chunks * chunk_bytes,
            page_ends_bytes: self.pages * page_size_bytes.saturating_sub(page_chunks_bytes),
        }
    }

    /// Returns a count that includes the classes that had the same number earlier. `count` returns this count from the
    /// statistics of one class.
    pub fn of_number(&self, count: impl Fn(&ClassStats) -> u64) -> u64 {
        count(self) + self.before.as_deref().map_or(0, count)
    }
}

/// The memory of a class that holds nothing, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waste {
    /// The ends of chunks in use that are larger than their items.
    pub inside_chunks_bytes: u64,
    /// The chunks that are not in use.
    pub free_chunks_bytes: u64,
    /// The ends of pages whose size is no multiple of the chunk size.
    pub page_ends_bytes: u64,
}

/// A counter that only one worker writes, so that it needs no atomic read-modify-write operations. Other threads read a
/// value that may be slightly out of date.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds 1. Only the worker that owns the counter may call this function.
    #[inline]
    pub fn bump(&self) {
        self.add(1);
    }

    /// Adds `count`. Only the worker that owns the counter may call this function.
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
    /// Returns these statistics with counts since earlier statistics instead of since the start. Fields that are not
    /// counts are unchanged.
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
    /// Returns these statistics with counts since earlier statistics of the same class number. Fields that are not
    /// counts are unchanged. If another class had this number then, the result has the counts since the start.
    #[must_use]
    pub fn since(&self, earlier: &ClassStats) -> ClassStats {
        let class_of = |stats: &ClassStats| (stats.class, stats.before.as_ref().map(Arc::as_ptr));
        if class_of(self) == class_of(earlier) { self.minus(earlier) } else { self.clone() }
    }

    /// Returns these statistics. Subtracts the counts of `earlier` from their counts.
    pub fn minus(&self, earlier: &ClassStats) -> ClassStats {
        let mut stats =
            ClassStats { counters: self.counters.since(&earlier.counters), ..self.clone() };
        stats.subtract_tallies(earlier);
        stats
    }
}

impl HandleCounters {
    /// Returns new counters, all 0, with a set of counters for each class number.
    pub fn new() -> HandleCounters {
        let classes = (0..CLASS_NUMBERS).map(|_| ClassOperations::default()).collect();
        HandleCounters { classes, ..HandleCounters::default() }
    }

    /// Counts an item of this size that was stored.
    pub fn count_stored(&self, size_bytes: u64) {
        self.items_total.bump();
        self.bytes_stored.add(size_bytes);
    }

    /// Returns the number of gets, including gets that touch.
    pub fn gets(&self) -> u64 {
        self.classes.iter().map(ClassOperations::hits).sum::<u64>() + self.misses()
    }

    /// Returns the number of gets that missed, including those of `gat` and `gats`.
    pub fn misses(&self) -> u64 {
        self.get_misses.get() + self.gat_misses.get()
    }

    /// Returns the counters of the operations on items of a class.
    #[inline]
    pub fn class(&self, class: ClassId) -> &ClassOperations {
        &self.classes[class.index()]
    }
}

impl ClassOperations {
    /// Returns the number of gets that hit, including gets that touch.
    fn hits(&self) -> u64 {
        self.hits_to.iter().map(Counter::get).sum::<u64>() + self.gat_hits.get()
    }
}
