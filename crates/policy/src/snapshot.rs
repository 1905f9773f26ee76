//! The state of the cache that a policy receives: counts at one point in time.

use slabwise_base::{ClassId, Ticks};
use slabwise_profile::ClassProfile;

/// The state of a cache at one point in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When it was taken.
    pub now: Ticks,
    /// Pages in the free pool, which any class may take.
    pub pages_free: u64,
    /// True if all memory up to the limit has been handed out as pages (some may be back in the
    pub memory_full: bool,
    /// All classes of the table, smallest chunks first; their numbers can be in any order.
    pub classes: Vec<ClassSnapshot>,
    /// Gets since the start.
    pub gets: u64,
    /// Get misses since the start.
    pub misses: u64,
    /// The profile of each class, in the order of `classes`; empty unless the policy
    pub profiles: Vec<ClassProfile>,
    /// Recent gets of keys that were never stored and so belong to no class: they miss with any memory size. Counted
    /// like the references of the profiles' curves; 0 if there are no profiles.
    pub unstored_gets: f64,
}

impl Snapshot {
    /// The share of recent gets that no class's curve counts.
    pub(crate) fn unstored_share(&self) -> f64 {
        let references: f64 = self.profiles.iter().map(|it| it.curve.references()).sum();
        let gets = references + self.unstored_gets;
        if gets > 0.0 { self.unstored_gets / gets } else { 0.0 }
    }

    /// True if classes own all the memory. While the pool has pages, a class that needs one takes it from there.
    pub(crate) fn is_divided(&self) -> bool {
        self.memory_full && self.pages_free == 0
    }
}

/// The counts of one class. Counts *since the start* never decrease while the cache runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSnapshot {
    /// The number of the class.
    pub class: ClassId,
    /// The size of a chunk.
    pub chunk_size_bytes: usize,
    /// The number of chunks on a page; at least 1.
    pub chunks_per_page: usize,
    /// The number of pages that the class owns.
    pub pages: u64,
    /// Chunks that hold items or parts of them.
    pub used_chunks: u64,
    /// Chunks on its pages that are free.
    pub free_chunks: u64,
    /// Items evicted since the start.
    pub evicted: u64,
    /// Stores refused for lack of memory since the start.
    pub out_of_memory: u64,
    /// The time since the last use of the item to be evicted next; 0 if there is none.
    pub tail_age_ticks: u32,
    /// Get hits since the start.
    pub hits: u64,
    /// Items stored since the start: in a look-aside cache about one for each miss.
    pub sets: u64,
    /// Items stored under a key that had no item, since the start.
    pub inserted: u64,
    /// Items counted in `inserted` that came with a client-supplied cost.
    pub costs_known: u64,
    /// The sum of these costs since the start, in the clients' units.
    pub cost_paid: u64,
    /// The sum of the costs of items that gets hit, since the start.
    pub cost_saved: u64,
    /// The sum of the known costs of the items that the class holds.
    pub cost_held: u64,
}

impl ClassSnapshot {
    /// Allocations since the start that found no free chunk: evictions and refused stores.
    pub(crate) fn pressed(&self) -> u64 {
        self.evicted + self.out_of_memory
    }

    /// A class without pages and with all counts 0.
    pub fn empty(class: ClassId, chunk_size_bytes: usize, chunks_per_page: usize) -> ClassSnapshot {
        ClassSnapshot { class, chunk_size_bytes, chunks_per_page, ..ClassSnapshot::default() }
    }
}
