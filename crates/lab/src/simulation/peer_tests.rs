//! Compares the simulations with libCacheSim (J. Yang and others, github.com/1a1a11a/libCacheSim), for the same records.

use super::{Catalog, miss_ratio};
use slabwise_replay::workload::{Options, open};
use std::fmt::Write as _;

const SEED: u64 = 7;
const LIMIT_BYTES: u64 = 64 << 20;

/// Returns the records of a trace from production. Each key always has the same size.
fn records() -> Catalog {
    let options = Options { seed: SEED, size_factor: 16.0, ..Options::default() };
    let workload = open("cache2k-orm-busy", &options).expect("the trace is part of the program");
    let mut catalog = Catalog::default();
    for request in workload {
        let request = request.expect("the trace can be read");
        catalog.add(&request, request.value_len + 17 + 40);
    }
    catalog
}

/// Writes the records to the file `RECORDS`, for libCacheSim's program `cachesim`:
///
/// ```text
/// RECORDS=FILE cargo test --release -p slabwise-lab records_for_libcachesim -- --ignored
/// cachesim FILE csv ALGORITHM 67108864 \
///     --trace-type-params "time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=false"
/// ```
///
/// `ALGORITHM` is `lru`, `s3fifo`, `wtinylfu`, `gdsf` or `lhd`. The last line of the output has the miss ratio.
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

/// The miss ratios of libCacheSim at commit aa0fc40, and the tolerance in percent.
const PEER_RATIOS: [(&str, f64, f64); 5] = [
    // The algorithm is exact, so only the four digits of the output differ.
    ("lru", 0.0955, 0.1),
    ("gdsf", 0.0489, 0.1),
    // Both draw samples. libCacheSim's is in its warm-up, which lasts 50 million requests, and compares 16 items instead
    // of 40.
    ("lhd", 0.0569, 10.0),
    // If both queues have room for more bytes, the paper evicts from the main queue, and libCacheSim from the small one.
    ("s3_fifo", 0.0729, 20.0),
    // libCacheSim compares the frequency of a new item with that of one victim, whatever their sizes. The rule with
    // sizes compares it with all items that must leave.
    ("sized_w_tiny_lfu", 0.0509, 20.0),
];

/// libCacheSim's `hyperbolic` ignores sizes, so it is not compared.
#[test]
fn the_miss_ratios_are_those_of_libcachesim() {
    let catalog = records();
    for (name, peer, percent) in PEER_RATIOS {
        let ratio = miss_ratio(name, &catalog, LIMIT_BYTES).expect("the simulation exists");
        let difference = (ratio / peer - 1.0) * 100.0;
        assert!(difference.abs() <= percent, "{name}: {ratio}, libCacheSim {peer}, seed {SEED}");
    }
}
