//! Simulates caches with a limit in bytes, to compare evictions without the pages, classes and queues of a server.
//!
//! ```text
//!   requests --> Catalog: keys as numbers from 0 --> References --> Simulation (lru | s3_fifo | ...) --> misses
//! ```
//!
//! All simulations are look-aside: a get that misses inserts its key. The size of a key is that of its last request; the
//! caller includes the overhead of a server in it. Keys are numbers from 0, so that tables are arrays: a simulation takes
//! about 40 bytes per key of the trace, and `belady_size` 8 more bytes per request.
//!
//! Invariants: a cache never exceeds its limit, and never admits an item that is larger than the limit; the misses are
//! determined by the references.

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

/// The miss ratio of all gets in the simulation with this name.
pub fn miss_ratio(name: &str, catalog: &Catalog, limit_bytes: u64) -> Option<f64> {
    let mut cache = simulation(name, catalog, limit_bytes)?;
    let (mut gets, mut misses) = (0u64, 0u64);
    for (number, reference) in catalog.references().iter().enumerate() {
        match reference.op {
            Op::Get => {
                gets += 1;
                misses += u64::from(!cache.get(reference.key, reference.size_bytes, number));
            }
            // A set updates the simulation as a get does, but is not counted.
            Op::Set => drop(cache.get(reference.key, reference.size_bytes, number)),
            Op::Delete => cache.remove(reference.key),
        }
    }
    Some(misses as f64 / (gets as f64).max(1.0))
}
