//! The cache as a policy sees it: numbers of one moment.

use slabwise_base::{ClassId, Ticks};
use slabwise_profile::ClassProfile;

/// The whole cache at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When it was taken.
    pub now: Ticks,
    /// Pages in the free pool, which any class may take.
    pub pages_free: u64,
    /// Whether all memory up to the limit has been handed out as pages (some may be back in the
    /// pool).
    pub memory_full: bool,
    /// Every class of the table, smallest chunks first. Their numbers may come in any order.
    pub classes: Vec<ClassSnapshot>,
    /// Gets, ever.
    pub gets: u64,
    /// Gets that missed, ever.
    pub misses: u64,
    /// What is known of the keys of each class, in the order of `classes`; empty unless the policy
    /// [wants](crate::PagePolicy::wants) it.
    pub profiles: Vec<ClassProfile>,
    /// Gets lately of keys that were never stored, and so are of no class: they miss whatever the memory. Counted
    /// as the references of the profiles' curves are; 0 where there are none.
    pub unstored_gets: f64,
}

impl Snapshot {
    /// The share of the gets lately that no class's curve counts.
    pub(crate) fn unstored_share(&self) -> f64 {
        let references: f64 = self.profiles.iter().map(|it| it.curve.references()).sum();
        let gets = references + self.unstored_gets;
        if gets > 0.0 { self.unstored_gets / gets } else { 0.0 }
    }

    /// Whether classes own all the memory: while the pool has pages, whoever needs one takes it there.
    pub(crate) fn is_divided(&self) -> bool {
        self.memory_full && self.pages_free == 0
    }
}

/// One class at that moment. Counts called *ever* only rise while the cache runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSnapshot {
    /// Which class.
    pub class: ClassId,
    /// Bytes a chunk.
    pub chunk_size_bytes: usize,
    /// Chunks a page; at least 1.
    pub chunks_per_page: usize,
    /// Pages it owns.
    pub pages: u64,
    /// Chunks that hold items or parts of them.
    pub used_chunks: u64,
    /// Chunks on its pages that hold nothing.
    pub free_chunks: u64,
    /// Items evicted, ever.
    pub evicted: u64,
    /// Stores refused for want of memory, ever.
    pub out_of_memory: u64,
    /// How long ago the item that is next to be evicted was last used; 0 if there is none.
    pub tail_age_ticks: u32,
    /// Gets that hit, ever.
    pub hits: u64,
    /// Items stored, ever: in a look-aside cache about one for each miss.
    pub sets: u64,
    /// Items stored under a key that led to nothing, ever.
    pub inserted: u64,
    /// Of these, those that told a cost.
    pub costs_told: u64,
    /// What these cost, ever, in the units of whoever gives costs.
    pub cost_paid: u64,
    /// What the items cost that gets hit, ever.
    pub cost_saved: u64,
    /// What the items cost that it holds now, as far as that is known.
    pub cost_held: u64,
}

impl ClassSnapshot {
    /// Allocations that found no free chunk, ever: items evicted and stores refused.
    pub(crate) fn pressed(&self) -> u64 {
        self.evicted + self.out_of_memory
    }

    /// A class that owns nothing and to which nothing has happened.
    pub fn empty(class: ClassId, chunk_size_bytes: usize, chunks_per_page: usize) -> ClassSnapshot {
        ClassSnapshot { class, chunk_size_bytes, chunks_per_page, ..ClassSnapshot::default() }
    }
}
