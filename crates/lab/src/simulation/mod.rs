//! Plain simulations of caches that hold so many bytes: what a policy is worth without pages, classes and queues of a
//! server around it.
//!
//! ```text
//!   requests --> Catalog: keys as numbers from 0 --> References --> Simulation (lru | s3_fifo | ...) --> misses
//! ```
//!
//! All of them work look-aside: a get that misses brings its key in. A key's size is that of its last request, and what it
//! takes is its size alone; whoever asks adds what a server needs beside it. Keys are numbers from 0, so that tables are
//! arrays: a simulation takes some 40 bytes a key of the trace, `belady_size` 8 more a request.
//!
//! Invariants: a cache never holds more than its limit, and what is larger than it never comes in; the same references have the
//! same misses.

mod cache;
mod miniature;
mod ordered;
mod queues;
mod s3_fifo;
mod segmented;
mod w_tiny_lfu;

#[cfg(test)]
mod tests;

pub use cache::{Catalog, Simulation};
pub use miniature::MiniatureSimulation;
pub use segmented::Segmented;

use ordered::{BeladySize, Gdsf};
use queues::Lru;
use s3_fifo::S3Fifo;
use slabwise_replay::workload::Op;
use w_tiny_lfu::WTinyLfu;

pub const NAMES: [&str; 5] = ["lru", "s3_fifo", "w_tiny_lfu", "gdsf", "belady_size"];

/// A cache of `limit_bytes` under the policy of this name, for references to as many keys as the catalog has.
pub fn simulation(name: &str, catalog: &Catalog, limit_bytes: u64) -> Option<Box<dyn Simulation>> {
    let keys = catalog.key_count();
    Some(match name {
        "lru" => Box::new(Lru::new(keys, limit_bytes)),
        "s3_fifo" => Box::new(S3Fifo::new(keys, limit_bytes)),
        "w_tiny_lfu" => Box::new(WTinyLfu::new(keys, limit_bytes)),
        "gdsf" => Box::new(Gdsf::new(keys, limit_bytes)),
        "belady_size" => Box::new(BeladySize::new(catalog, limit_bytes)),
        _ => return None,
    })
}

/// The share of gets that miss under a policy. A store that no miss caused counts as none.
pub fn miss_ratio(name: &str, catalog: &Catalog, limit_bytes: u64) -> Option<f64> {
    let mut cache = simulation(name, catalog, limit_bytes)?;
    let (mut gets, mut misses) = (0u64, 0u64);
    for (number, reference) in catalog.references().iter().enumerate() {
        match reference.op {
            Op::Get => {
                gets += 1;
                misses += u64::from(!cache.get(reference.key, reference.size_bytes, number));
            }
            // Of use to a policy as a get is; only nobody waits for it.
            Op::Set => drop(cache.get(reference.key, reference.size_bytes, number)),
            Op::Delete => cache.remove(reference.key),
        }
    }
    Some(misses as f64 / (gets as f64).max(1.0))
}
