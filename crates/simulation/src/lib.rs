//! Simulates caches with a limit in bytes. The simulations compare eviction policies without a server's pages, classes
//! and queues.
//!
//! ```text
//!   requests --> Catalog: keys as numbers from 0 --> References --> Simulation (lru | s3_fifo | ...) --> misses
//! ```
//!
//! All simulated caches are look-aside caches: after a get that misses, the client stores the item. An item has the
//! size of the last request for its key. The caller includes the overhead of a server in this size. Keys are numbered
//! from 0, so arrays replace hash tables: a simulation takes about 40 bytes per key of the workload, and `belady_size`
//! takes 4 bytes per request in addition.
//!
//! Invariants:
//! - A cache never exceeds its limit, and never stores an item that is larger than the limit.
//! - The same references always lead to the same misses.
#![forbid(unsafe_code)]

mod cache;
mod gl_cache;
mod group_utility;
mod groups;
mod hyperbolic;
mod learned_density;
mod lhd;
mod miniature;
mod ordered;
mod pool;
mod queues;
mod s3_fifo;
mod sampled;
mod sampled_gdsf;
mod segmented;
mod w_tiny_lfu;
mod work_clock;

#[cfg(test)]
mod peer_tests;
#[cfg(test)]
mod tests;

pub use cache::{Catalog, Reference, Simulation};
pub use miniature::MiniatureSimulation;
pub use segmented::{Segmented, SegmentedCounts};

use gl_cache::GlCache;
use hyperbolic::Hyperbolic;
use learned_density::LearnedDensity;
use lhd::Lhd;
use ordered::{BeladySize, Gdsf};
use queues::Lru;
use s3_fifo::S3Fifo;
use sampled::Sampled;
use sampled_gdsf::SampledGdsf;
use slabwise_replay::workload::Op;
use w_tiny_lfu::{Admission, WTinyLfu};

/// The names that [`simulation`] accepts.
pub const NAMES: [&str; 12] = [
    "lru",
    "s3_fifo",
    "w_tiny_lfu",
    "sized_w_tiny_lfu",
    "hyperbolic",
    "lhd",
    "gl_cache",
    "gdsf",
    "sampled_gdsf",
    "learned_density",
    "learned_density_64",
    "belady_size",
];

/// Seed of the simulations that draw random numbers.
const SEED: u64 = 1;

/// Creates the simulated cache with this name, or returns `None` if the name is unknown. The requests to the cache must
/// be the references of the catalog.
pub fn simulation(name: &str, catalog: &Catalog, limit_bytes: u64) -> Option<Box<dyn Simulation>> {
    let keys = catalog.key_count();
    Some(match name {
        "lru" => Box::new(Lru::new(keys, limit_bytes)),
        "s3_fifo" => Box::new(S3Fifo::new(keys, limit_bytes)),
        "w_tiny_lfu" => Box::new(WTinyLfu::new(keys, limit_bytes, Admission::EachVictim)),
        "sized_w_tiny_lfu" => Box::new(WTinyLfu::new(keys, limit_bytes, Admission::SumOfVictims)),
        "hyperbolic" => Box::new(Hyperbolic::new(keys, limit_bytes, SEED)),
        "lhd" => Box::new(Lhd::new(keys, limit_bytes, SEED)),
        "gl_cache" => Box::new(GlCache::new(keys, limit_bytes, SEED)),
        "sampled_gdsf" => Box::new(Sampled::new(SampledGdsf::new(), 32, keys, limit_bytes, SEED)),
        "learned_density" => Box::new(density(catalog, limit_bytes)),
        "learned_density_64" => {
            Box::new(Sampled::new(LearnedDensity::new(), 64, keys, limit_bytes, SEED))
        }
        "gdsf" => Box::new(Gdsf::new(keys, limit_bytes)),
        "belady_size" => Box::new(BeladySize::new(catalog, limit_bytes)),
        _ => return None,
    })
}

/// Creates a cache that evicts as slabwise does by default (`eviction=density`).
pub fn density(catalog: &Catalog, limit_bytes: u64) -> impl Simulation + use<> {
    Sampled::new(LearnedDensity::new(), 32, catalog.key_count(), limit_bytes, SEED)
}

/// The gets of consecutive references of a catalog, and the gets that missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The number of gets.
    pub gets: u64,
    /// The number of gets that missed.
    pub misses: u64,
}

/// Runs all references of the catalog in the simulation with this name. Returns the counts of each `length` consecutive
/// references, or `None` if the name is unknown. The last window may be shorter.
///
/// # Panics
/// If `length` is 0.
pub fn windows(
    name: &str,
    catalog: &Catalog,
    limit_bytes: u64,
    length: usize,
) -> Option<Vec<Window>> {
    let mut cache = simulation(name, catalog, limit_bytes)?;
    let windows = catalog.references().chunks(length).enumerate().map(|(index, references)| {
        let mut window = Window::default();
        for (number, reference) in (index * length..).zip(references) {
            match reference.op {
                Op::Get => {
                    window.gets += 1;
                    let is_hit = cache.get(reference.key, reference.size_bytes, number);
                    window.misses += u64::from(!is_hit);
                }
                // A set changes the simulated cache in the same way as a get, but is not counted.
                Op::Set => drop(cache.get(reference.key, reference.size_bytes, number)),
                Op::Delete => cache.remove(reference.key),
            }
        }
        window
    });
    Some(windows.collect())
}

/// Runs all references of the catalog in the simulation with this name. Returns the miss ratio of the gets, or `None`
/// if the name is unknown.
pub fn miss_ratio(name: &str, catalog: &Catalog, limit_bytes: u64) -> Option<f64> {
    let windows = windows(name, catalog, limit_bytes, catalog.references().len().max(1))?;
    let all = windows.first().copied().unwrap_or_default();
    Some(all.misses as f64 / (all.gets as f64).max(1.0))
}
