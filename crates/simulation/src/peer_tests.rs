//! Compares the simulations with libCacheSim (J. Yang and others, github.com/1a1a11a/libCacheSim), for the same records.

use super::{Catalog, miss_ratio};
use slabwise_replay::workload::{Options, open};
use std::fmt::Write as _;

const SEED: u64 = 7;
pub(super) const LIMIT_BYTES: u64 = 64 << 20;
/// The bytes of an item in addition to its value: those of the key and the overhead, as in the experiment `frontier`.
const ITEM_BYTES: u32 = 17 + 40;

/// Returns the records of a trace from production. Each key always has the same size.
pub(super) fn records() -> Catalog {
    let options = Options { seed: SEED, size_factor: 16.0, ..Options::default() };
    let workload = open("cache2k-orm-busy", &options).expect("the trace is part of the program");
    let mut catalog = Catalog::default();
    for request in workload {
        let request = request.expect("the trace can be read");
        catalog.add(&request, request.value_len + ITEM_BYTES);
    }
    catalog
}

/// Writes the records to the file `RECORDS`, for libCacheSim's program `cachesim`:
///
/// ```text
/// RECORDS=FILE cargo test --release -p slabwise-simulation records_for_libcachesim -- --ignored
/// cachesim FILE csv ALGORITHM 67108864 \
///     --trace-type-params "time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=false"
/// ```
///
/// `ALGORITHM` is `lru`, `s3fifo`, `wtinylfu`, `gdsf`, `lhd` or `GLCache`. The last line of the output contains the miss ratio.
#[test]
#[ignore = "writes a file for another program"]
fn records_for_libcachesim() {
    let path = std::env::var("RECORDS").expect("RECORDS is the path of the file");
    let mut text = String::new();
    for (at, reference) in records().references().iter().enumerate() {
        writeln!(text, "{at},{},{}", reference.key, reference.size_bytes).expect("a string grows");
    }
    std::fs::write(path, text).expect("the file can be written");
}

/// The miss ratios of libCacheSim at commit aa0fc40, and the quotient of the simulation's miss ratio and this one.
const PEER_RATIOS: [(&str, f64, f64); 7] = [
    // Both algorithms are exact.
    ("lru", 0.0955, 1.0),
    ("gdsf", 0.0489, 1.0),
    // libCacheSim's LHD still warms up, which takes 50 million requests. It compares 16 items, and the simulation 40.
    ("lhd", 0.0569, 1.077),
    // While both queues are below their shares, the paper evicts from the main queue, and libCacheSim from the small one.
    // libCacheSim counts all requests of a group's items, and the simulation only the next one of each item, as in the
    // paper. libCacheSim's trees can be fewer, because it stops when the error no longer falls.
    ("gl_cache", 0.0610, 1.043),
    ("s3_fifo", 0.0729, 1.183),
    // libCacheSim compares the frequency of a new item with that of one victim, whatever their sizes. In the simulations
    // the item must be requested more often than each item that must leave, or than all of them together.
    ("w_tiny_lfu", 0.0509, 1.353),
    ("sized_w_tiny_lfu", 0.0509, 1.194),
];

/// The largest difference of the quotients: libCacheSim prints four digits of the miss ratio.
const TOLERANCE: f64 = 0.002;

/// libCacheSim's `hyperbolic` ignores sizes, so it is not compared.
#[test]
fn the_miss_ratios_differ_from_those_of_libcachesim_as_recorded() {
    let catalog = records();
    for (name, peer, expected) in PEER_RATIOS {
        let ratio = miss_ratio(name, &catalog, LIMIT_BYTES).expect("the simulation exists");
        let quotient = ratio / peer;
        let context = format!("{name}: {ratio}, libCacheSim {peer}, seed {SEED}");
        assert!((quotient - expected).abs() <= TOLERANCE, "{context}, quotient {quotient}");
    }
}
