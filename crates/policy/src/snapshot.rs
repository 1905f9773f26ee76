//! The cache as a policy sees it: numbers of one moment.

use slabwise_base::{ClassId, Ticks};
use slabwise_profile::Mrc;

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
}

/// What is known of one class's keys, whether they are in the cache or not. Counts are estimates where keys
/// are sampled; those called *ever* only rise.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassProfile {
    /// Misses of the references lately as a function of the class's chunks.
    pub curve: Mrc,
    /// Gets that missed, ever, and are known to be of this class: a key is of the class that its item was
    /// last stored in.
    pub misses: f64,
    /// Of these, gets of keys that had been there and were evicted, ever.
    pub misses_by_eviction: f64,
    /// Gets, ever, that missed and would have hit had the class one page more.
    pub shadow_hits: f64,
    /// Of hits, gets that one page less would have made misses, ever.
    pub tail_hits: f64,
    /// Mean time to answer a hit, in microseconds.
    pub hit_time_us: f64,
    /// Mean time from a miss to the end of the store that follows it, in microseconds.
    pub miss_time_us: f64,
    /// Mean cost of recomputing an item, in the unit of whoever gives it; 1 where nobody does.
    pub cost: f64,
}

impl Default for ClassProfile {
    /// A class of which nothing is known.
    fn default() -> ClassProfile {
        ClassProfile {
            curve: Mrc::empty(),
            misses: 0.0,
            misses_by_eviction: 0.0,
            shadow_hits: 0.0,
            tail_hits: 0.0,
            hit_time_us: 0.0,
            miss_time_us: 0.0,
            cost: 1.0,
        }
    }
}

/// One class at that moment. Counts called *ever* only rise while the cache runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl ClassSnapshot {
    /// A class that owns nothing and to which nothing has happened.
    pub fn empty(class: ClassId, chunk_size_bytes: usize, chunks_per_page: usize) -> ClassSnapshot {
        ClassSnapshot {
            class,
            chunk_size_bytes,
            chunks_per_page,
            pages: 0,
            used_chunks: 0,
            free_chunks: 0,
            evicted: 0,
            out_of_memory: 0,
            tail_age_ticks: 0,
            hits: 0,
            sets: 0,
        }
    }
}
