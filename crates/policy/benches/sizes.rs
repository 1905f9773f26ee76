//! Benchmarks of the functions that choose chunk sizes.
//!
//! Each benchmark also checks that its result has a lower loss than a geometric table.

use criterion::Criterion;
use slabwise_base::{Random, SizeHistogram};
use slabwise_policy::sizes::{
    Chaining, ChangePrices, ChunkLayout, Demand, HillClimbOptions, exact, exact_change, geometric,
    hill_climb, loss,
};
use std::hint::black_box;

const CLASS_COUNT_MAX: usize = 63;
const ITEM_SIZE_BYTES_MAX: usize = 1 << 20;

/// Returns a layout without a page size. Chunks of different sizes then take different memory, so all multiples of 8
/// are candidates for the exact tables.
fn flat() -> ChunkLayout {
    ChunkLayout {
        chunk_size_bytes_min: 8,
        chunk_align_bytes: 8,
        ..ChunkLayout::published(ITEM_SIZE_BYTES_MAX)
    }
}

/// Returns a layout with pages of 1 MiB, chunks of up to half a page, and chained items.
fn paged() -> ChunkLayout {
    let chaining = Chaining { head_size_bytes: 60, link_size_bytes: 9, body_header_size_bytes: 29 };
    ChunkLayout {
        page_size_bytes: Some(ITEM_SIZE_BYTES_MAX),
        chunk_size_bytes_max: ITEM_SIZE_BYTES_MAX / 2,
        chunk_size_bytes_min: 32,
        chaining: Some(chaining),
        ..flat()
    }
}

/// Returns items of all sizes that are multiples of 8.
fn every_size() -> Vec<Demand> {
    let mut random = Random::new(1);
    let sizes = (8..=ITEM_SIZE_BYTES_MAX).step_by(8);
    let demand = |size_bytes| Demand::new(size_bytes, 1 + random.below(1_000));
    sizes.map(demand).collect()
}

/// Returns a million items from 32 bytes to 1 MiB, about the same number in each octave, as bins of a histogram.
fn histogram() -> Vec<Demand> {
    let mut random = Random::new(1);
    let mut histogram = SizeHistogram::default();
    for _ in 0..1_000_000 {
        histogram.add((32.0 * (15.0 * random.unit()).exp2()) as usize, 1);
    }
    histogram.bins().map(|bin| Demand::new(bin.size_bytes, bin.items)).collect()
}

fn sizes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunk sizes, 63 classes");
    for (name, demands, layout) in [
        ("exact, every size, no pages", every_size(), flat()),
        ("exact, every size, pages", every_size(), paged()),
        ("exact, a histogram, pages", histogram(), paged()),
    ] {
        let table = geometric(96, 1.25, &layout);
        let lost = loss(&demands, &table, &layout).expect("the arguments are valid").total_bytes();
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let tables = exact(&demands, &layout, &[], CLASS_COUNT_MAX)
                    .expect("the arguments are valid");
                assert!(tables.of(black_box(table.len())).loss.total_bytes() < lost);
            });
        });
    }
    let (demands, layout) = (histogram(), paged());
    let current = geometric(96, 1.25, &layout);
    group.bench_function("exact_change, a histogram, pages", |bench| {
        let prices = ChangePrices { moved_byte_price: 0.02, class_price_bytes: 524_288.0 };
        bench.iter(|| {
            let change = exact_change(&demands, &layout, CLASS_COUNT_MAX, &current, &prices);
            let change = black_box(change.expect("the arguments are valid"));
            assert!(change.new_loss.total_bytes() < change.current_loss.total_bytes());
        });
    });
    group.bench_function("hill_climb, 100,000 steps, a histogram, pages", |bench| {
        let options = HillClimbOptions { iterations_max: 100_000, ..Default::default() };
        let lost =
            loss(&demands, &current, &layout).expect("the arguments are valid").total_bytes();
        bench.iter(|| {
            let found = hill_climb(&demands, &current, &layout, &options, &mut Random::new(1));
            assert!(black_box(found.expect("the arguments are valid")).loss.total_bytes() < lost);
        });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    sizes(&mut criterion);
    criterion.final_summary();
}
