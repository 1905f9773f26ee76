//! The invariants of all simulations, and comparisons with simple models.

use super::{Catalog, NAMES, miss_ratio, simulation};
use slabwise_base::Random;
use slabwise_replay::workload::{Op, Options, Request, open};

const SEED: u64 = 7;

fn catalog(requests: u64, keys: u64, size_of: impl Fn(u64) -> u32) -> Catalog {
    let mut random = Random::new(SEED);
    let mut catalog = Catalog::default();
    for _ in 0..requests {
        // A product of two random numbers, so that some keys are requested more often.
        let draw = random.below(keys) * random.below(keys) / keys;
        let request = Request { key: draw, value_len: 1, op: Op::Get, cost: None };
        catalog.add(&request, size_of(draw));
    }
    catalog
}

fn mixed_sizes(key: u64) -> u32 {
    10 + (key.wrapping_mul(0x9E37_79B9) % 300) as u32
}

#[test]
fn no_cache_exceeds_its_limit() {
    let catalog = catalog(20_000, 500, mixed_sizes);
    for name in NAMES {
        for limit_bytes in [0, 5, 200, 3_000, 20_000, 1 << 30] {
            let mut cache = simulation(name, &catalog, limit_bytes).expect("it is known");
            for (number, reference) in catalog.references().iter().enumerate() {
                cache.get(reference.key, reference.size_bytes, number);
                let held = cache.held_bytes();
                assert!(held <= limit_bytes, "{name}: {held} of {limit_bytes}, seed {SEED}");
                if number % 97 == 0 {
                    cache.remove(reference.key);
                }
            }
            for key in 0..catalog.key_count() {
                cache.remove(key as u32);
            }
            assert_eq!(cache.held_bytes(), 0, "{name}, seed {SEED}");
        }
    }
}

#[test]
fn held_bytes_follow_changes_of_item_sizes() {
    let catalog = catalog(20_000, 300, mixed_sizes);
    for name in NAMES {
        for limit_bytes in [0, 40, 3_000, 20_000] {
            let mut random = Random::new(SEED);
            let mut cache = simulation(name, &catalog, limit_bytes).expect("it is known");
            let mut sizes_bytes = vec![0; catalog.key_count()];
            for (number, reference) in catalog.references().iter().enumerate() {
                let size_bytes = 1 + random.below(400) as u32;
                cache.get(reference.key, size_bytes, number);
                sizes_bytes[reference.key as usize] = u64::from(size_bytes);
                let held = cache.held_bytes();
                let most: u64 = sizes_bytes.iter().sum();
                assert!(
                    held <= limit_bytes.min(most),
                    "{name}: {held} of {limit_bytes}, seed {SEED}"
                );
            }
            (0..catalog.key_count() as u32).for_each(|key| cache.remove(key));
            assert_eq!(cache.held_bytes(), 0, "{name}, seed {SEED}");
        }
    }
}

#[test]
fn a_set_keeps_the_frequency_of_its_key() {
    let request = |key, op| Request { key, value_len: 1, op, cost: None };
    let mut catalog = Catalog::default();
    for round in 0..2_000 {
        // Gets and sets of the first key alternate; the other keys are requested once.
        catalog.add(&request(0, if round % 2 == 0 { Op::Get } else { Op::Set }), 100);
        (0..3).for_each(|at| catalog.add(&request(1 + round * 3 + at, Op::Get), 100));
    }
    for name in ["s3_fifo", "w_tiny_lfu", "gdsf", "belady_size"] {
        let misses = miss_ratio(name, &catalog, 400).expect("it is known") * 7_000.0;
        assert!(misses < 6_010.0, "{name}: {misses} misses, 6,001 keys, seed {SEED}");
    }
}

#[test]
fn each_key_misses_once_if_all_fit() {
    let catalog = catalog(5_000, 100, mixed_sizes);
    let once = catalog.key_count() as f64 / catalog.references().len() as f64;
    for name in NAMES {
        // All keys also fit into the window or the small queue.
        let ratio = miss_ratio(name, &catalog, catalog.distinct_bytes() * 100);
        assert_eq!(ratio, Some(once), "{name}, seed {SEED}");
    }
}

#[test]
fn lru_equals_a_simple_model() {
    let catalog = catalog(5_000, 200, mixed_sizes);
    let limit_bytes = 6_000;
    let mut cache = simulation("lru", &catalog, limit_bytes).expect("it is known");
    let mut plain: Vec<(u32, u32)> = Vec::new();
    for (number, reference) in catalog.references().iter().enumerate() {
        let place = plain.iter().position(|&(key, _)| key == reference.key);
        if let Some(place) = place {
            plain.remove(place);
        }
        plain.push((reference.key, reference.size_bytes));
        while plain.iter().map(|&(_, size)| u64::from(size)).sum::<u64>() > limit_bytes {
            plain.remove(0);
        }
        let is_hit = cache.get(reference.key, reference.size_bytes, number);
        assert_eq!(is_hit, place.is_some(), "get {number}, seed {SEED}");
    }
}

#[test]
fn belady_size_has_the_fewest_misses() {
    for size_of in [|_| 100, mixed_sizes] {
        let catalog = catalog(30_000, 1_000, size_of);
        for percent in [2, 10, 40] {
            let limit_bytes = catalog.distinct_bytes() * percent / 100;
            let ratio = |name| miss_ratio(name, &catalog, limit_bytes).expect("it is known");
            for name in NAMES {
                let (best, ratio) = (ratio("belady_size"), ratio(name));
                assert!(best <= ratio, "{name}: {ratio} at {percent} %, best {best}, seed {SEED}");
            }
            assert!(ratio("gdsf") < ratio("lru"), "at {percent} %, seed {SEED}");
        }
    }
}

/// Uses a trace from production in 64 MB, with 40 bytes in addition to key and value. The sizes are random, so only the
/// evictions that depend on size have comparable ratios: for the others it matters which of the hottest keys are large.
#[test]
fn a_recorded_trace_has_the_published_miss_ratios() {
    let options = Options { seed: SEED, size_factor: 16.0, ..Options::default() };
    let workload = open("cache2k-orm-busy", &options).expect("it is in the binary");
    let mut catalog = Catalog::default();
    for request in workload {
        let request = request.expect("the trace is whole");
        catalog.add(&request, request.value_len + 17 + 40);
    }
    let ratio = |name| miss_ratio(name, &catalog, 64 << 20).expect("it is known");
    let (gdsf, best) = (ratio("gdsf"), ratio("belady_size"));
    assert!((gdsf - 0.0464).abs() < 0.004, "gdsf: {gdsf}, seed {SEED}");
    assert!((best - 0.0293).abs() < 0.002, "belady_size: {best}, seed {SEED}");
    let (lru, s3_fifo) = (ratio("lru"), ratio("s3_fifo"));
    assert!(best < gdsf && gdsf < s3_fifo && s3_fifo < lru, "{best} {gdsf} {s3_fifo} {lru}");
}
