//! The snapshot that a policy receives: the counts and curves of all classes at one point in time.

use slabwise_base::{ClassId, PageId, Ticks};
use slabwise_profile::{ClassProfile, RecentGets};

/// The state of a cache at one point in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The time of the snapshot.
    pub now: Ticks,
    /// The bytes that were stored since the start, divided by the memory for items.
    pub turnovers: f64,
    /// The number of pages in the page pool. A class that needs a page takes it from the pool first.
    pub pages_free: u64,
    /// True if pages have been created for all memory up to the limit. Some of them may be in the page pool.
    pub memory_full: bool,
    /// All classes of the class table, in ascending order of chunk sizes. Their numbers can be in any order.
    pub classes: Vec<ClassSnapshot>,
    /// The number of gets of all keys since the start.
    pub gets: u64,
    /// The number of gets of all keys that missed since the start.
    pub misses: u64,
    /// All pages that the classes own, except a page that is moving; empty unless the policy's inputs are
    /// [`Inputs::Pages`](crate::Inputs::Pages).
    pub pages: Vec<PageSnapshot>,
    /// The profile of each class, in the order of `classes`; empty if the policy uses no profiles or profiling is off.
    pub profiles: Vec<ClassProfile>,
    /// The number of recent gets and misses, weighted like the references of the profiles' curves; 0 if there are no
    /// profiles. No curve counts the gets of keys that were never stored.
    pub recent: RecentGets,
}

impl Snapshot {
    /// Returns the number of recent gets from which the profiles were computed: the references of all curves, and the
    /// gets of keys that were never stored. 0 if there are no profiles.
    pub fn profiled_gets(&self) -> f64 {
        let references: f64 = self.profiles.iter().map(|it| it.curve.references()).sum();
        references + self.recent.unstored
    }

    /// Returns the share of recent gets whose keys were never stored; no class's curve counts them.
    pub(crate) fn unstored_share(&self) -> f64 {
        let gets = self.profiled_gets();
        if gets > 0.0 { self.recent.unstored / gets } else { 0.0 }
    }

    /// Returns true if classes own all pages. Otherwise a class that needs a page takes it from the page pool.
    pub(crate) fn is_divided(&self) -> bool {
        self.memory_full && self.pages_free == 0
    }
}

/// A page that a class owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSnapshot {
    /// The number of the page.
    pub page: PageId,
    /// The class that owns the page.
    pub class: ClassId,
    /// The time of the last access to an item of the page; `None` if there was none since the page was given to its
    /// class.
    pub accessed_at: Option<Ticks>,
}

/// The counts of one class. The counts since the start of the cache never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSnapshot {
    /// The number of the class.
    pub class: ClassId,
    /// The size of a chunk, in bytes.
    pub chunk_size_bytes: usize,
    /// The number of chunks on a page; at least 1.
    pub chunks_per_page: usize,
    /// The number of pages that the class owns.
    pub pages: u64,
    /// The number of chunks that hold items or parts of items.
    pub used_chunks: u64,
    /// The number of free chunks on the class's pages.
    pub free_chunks: u64,
    /// The number of items that the class has evicted since the start, except those that the mover dropped with their
    /// page.
    pub evicted: u64,
    /// The number of stores that the class refused for lack of memory since the start.
    pub out_of_memory: u64,
    /// The time since the last use of the item that would be evicted next, in units of the engine's work clock; 0 if
    /// the class has no items.
    pub tail_age_work: u32,
    /// The same time in seconds.
    pub tail_age_seconds: u32,
    /// The number of gets since the start that hit an item of the class.
    pub hits: u64,
    /// The number of items stored since the start. In a look-aside cache it is about the number of misses.
    pub sets: u64,
    /// The number of items stored since the start under a key that had no item.
    pub inserted: u64,
    /// The number of items counted in `inserted` for which the client supplied a cost.
    pub costs_known: u64,
    /// The sum of the costs of the items counted in `costs_known`, in the clients' unit.
    pub cost_paid: u64,
    /// The sum, over all hits since the start, of the cost of the item that was hit, in the clients' unit.
    pub cost_saved: u64,
    /// The sum of the known costs of the items that the class holds now, in the clients' unit.
    pub cost_held: u64,
}

impl ClassSnapshot {
    /// Returns the number of allocations since the start that found no free chunk: evictions and refused stores.
    pub fn shortages(&self) -> u64 {
        self.evicted.saturating_add(self.out_of_memory)
    }

    /// Returns a class without pages whose counts are all 0.
    pub fn empty(class: ClassId, chunk_size_bytes: usize, chunks_per_page: usize) -> ClassSnapshot {
        ClassSnapshot { class, chunk_size_bytes, chunks_per_page, ..ClassSnapshot::default() }
    }
}
