//! Tests the invariants of all simulations, and compares simulations with simple models.

use super::peer_tests::{LIMIT_BYTES, records};
use super::{Catalog, NAMES, Simulation, miss_ratio, simulation};
use slabwise_base::Random;
use slabwise_replay::workload::{Op, Request};

const SEED: u64 = 7;

/// Returns a catalog of random gets. `size_of` returns the size of the item of a key.
fn catalog(requests: u64, keys: u64, size_of: impl Fn(u64) -> u32) -> Catalog {
    let mut random = Random::new(SEED);
    let mut catalog = Catalog::default();
    for _ in 0..requests {
        // The product of two random numbers is small more often than large, so small keys are requested more often.
        let key = random.below(keys) * random.below(keys) / keys;
        let request = Request { key, value_len: 1, op: Op::Get, cost: None };
        catalog.add(&request, size_of(key));
    }
    catalog
}

/// Returns a size from 10 to 309 bytes, which is always the same for the same key.
fn mixed_sizes(key: u64) -> u32 {
    10 + (key.wrapping_mul(0x9E37_79B9) % 300) as u32
}

fn known_simulation(name: &str, catalog: &Catalog, limit_bytes: u64) -> Box<dyn Simulation> {
    simulation(name, catalog, limit_bytes).unwrap_or_else(|| panic!("{name} is a simulation"))
}

fn known_miss_ratio(name: &str, catalog: &Catalog, limit_bytes: u64) -> f64 {
    miss_ratio(name, catalog, limit_bytes).unwrap_or_else(|| panic!("{name} is a simulation"))
}

#[test]
fn no_cache_exceeds_its_limit() {
    let catalog = catalog(20_000, 500, mixed_sizes);
    for name in NAMES {
        for limit_bytes in [0, 5, 200, 3_000, 20_000, 1 << 30] {
            let mut cache = known_simulation(name, &catalog, limit_bytes);
            for (number, reference) in catalog.references().iter().enumerate() {
                cache.get(reference.key, reference.size_bytes, number);
                let held = cache.held_bytes();
                let context = format!("{name}: {held} bytes, limit {limit_bytes}, seed {SEED}");
                assert!(held <= limit_bytes, "{context}");
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
fn held_bytes_include_the_current_sizes_of_items() {
    let catalog = catalog(20_000, 300, mixed_sizes);
    for name in NAMES {
        for limit_bytes in [0, 40, 3_000, 20_000] {
            let mut random = Random::new(SEED);
            let mut cache = known_simulation(name, &catalog, limit_bytes);
            let mut sizes_bytes = vec![0; catalog.key_count()];
            for (number, reference) in catalog.references().iter().enumerate() {
                let size_bytes = 1 + random.below(400) as u32;
                cache.get(reference.key, size_bytes, number);
                sizes_bytes[reference.key as usize] = u64::from(size_bytes);
                let held = cache.held_bytes();
                let limit = limit_bytes.min(sizes_bytes.iter().sum());
                assert!(held <= limit, "{name}: {held} bytes, limit {limit}, seed {SEED}");
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
        // Gets and sets of key 0 alternate. Between them three other keys are requested, each only once.
        catalog.add(&request(0, if round % 2 == 0 { Op::Get } else { Op::Set }), 100);
        (0..3).for_each(|at| catalog.add(&request(1 + round * 3 + at, Op::Get), 100));
    }
    for name in ["s3_fifo", "w_tiny_lfu", "gdsf", "belady_size"] {
        let misses = known_miss_ratio(name, &catalog, 400) * 7_000.0;
        let context = format!("{name}: {misses} misses, 6,001 first references, seed {SEED}");
        assert!(misses < 6_010.0, "{context}");
    }
}

#[test]
fn each_key_misses_once_if_all_fit() {
    let catalog = catalog(5_000, 100, mixed_sizes);
    let once = catalog.key_count() as f64 / catalog.references().len() as f64;
    for name in NAMES {
        // The limit is so large that all keys fit even into the window or the small queue.
        let ratio = miss_ratio(name, &catalog, catalog.distinct_bytes() * 100);
        assert_eq!(ratio, Some(once), "{name}, seed {SEED}");
    }
}

#[test]
fn the_lru_has_the_hits_of_a_simple_model() {
    let catalog = catalog(5_000, 200, mixed_sizes);
    let limit_bytes = 6_000;
    let mut cache = known_simulation("lru", &catalog, limit_bytes);
    // Key and size of each cached item, the least recently used item first.
    let mut model: Vec<(u32, u32)> = Vec::new();
    for (number, reference) in catalog.references().iter().enumerate() {
        let index = model.iter().position(|&(key, _)| key == reference.key);
        if let Some(index) = index {
            model.remove(index);
        }
        model.push((reference.key, reference.size_bytes));
        while model.iter().map(|&(_, size)| u64::from(size)).sum::<u64>() > limit_bytes {
            model.remove(0);
        }
        let is_hit = cache.get(reference.key, reference.size_bytes, number);
        assert_eq!(is_hit, index.is_some(), "get {number} hits as in the model, seed {SEED}");
    }
}

#[test]
fn belady_size_has_the_fewest_misses() {
    for size_of in [|_| 100, mixed_sizes] {
        let catalog = catalog(30_000, 1_000, size_of);
        for percent in [2, 10, 40] {
            let limit_bytes = catalog.distinct_bytes() * percent / 100;
            let ratio = |name| known_miss_ratio(name, &catalog, limit_bytes);
            let context = format!("memory for {percent} % of all items, seed {SEED}");
            for name in NAMES {
                let (best, ratio) = (ratio("belady_size"), ratio(name));
                assert!(best <= ratio, "{context}: {name} {ratio}, belady_size {best}");
            }
            assert!(ratio("gdsf") < ratio("lru"), "{context}");
        }
    }
}

/// Simulates a trace from production with 64 MiB of memory and 40 bytes of overhead per item. The trace has no sizes,
/// so the sizes are random. Only simulations that evict by size have about the same miss ratio with all random sizes:
/// in the other simulations the ratio depends on the sizes of the most popular keys.
#[test]
fn a_recorded_trace_has_the_published_miss_ratios() {
    let catalog = records();
    let ratio = |name| known_miss_ratio(name, &catalog, LIMIT_BYTES);
    let (gdsf, best) = (ratio("gdsf"), ratio("belady_size"));
    assert!((gdsf - 0.0464).abs() < 0.004, "gdsf: {gdsf}, seed {SEED}");
    assert!((best - 0.0293).abs() < 0.002, "belady_size: {best}, seed {SEED}");
    let (lru, s3_fifo) = (ratio("lru"), ratio("s3_fifo"));
    let context = format!("belady_size {best}, gdsf {gdsf}, s3_fifo {s3_fifo}, lru {lru}");
    assert!(best < gdsf && gdsf < s3_fifo && s3_fifo < lru, "{context}");
}
