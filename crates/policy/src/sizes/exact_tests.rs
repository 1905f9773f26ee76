//! Tests of the exact tables: they are compared with every possible table, and with the tables of other methods.

use super::super::testing::{
    demands, demands_with_peaks, every_table, is_near, layout, loss_by_simulation,
};
use super::exact;
use crate::sizes::error::BadArgument;
use crate::sizes::{ChunkLayout, Demand, HillClimbOptions, geometric, hill_climb, loss};
use slabwise_base::Random;

#[test]
fn the_exact_table_has_the_least_loss_of_all_tables() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let layout = layout(&mut random, 9);
        let demands = demands(&mut random, &layout, 12);
        let mut kept: Vec<usize> = every_table(&layout, &[], 3).swap_remove(0);
        if random.below(2) == 0 {
            let tables = every_table(&layout, &[], 3);
            kept = tables[random.below(tables.len() as u64) as usize].clone();
        }
        let tables = exact(&demands, &layout, &kept, 6).expect("the arguments are valid");
        assert_eq!(
            tables.class_counts(),
            kept.len()..=6,
            "seed {seed}: tables have 6 classes at most"
        );
        let mut least = [f64::INFINITY; 7];
        for table in every_table(&layout, &kept, 6) {
            let loss = loss_by_simulation(&demands, &table, &layout).total_bytes();
            least[table.len()] = least[table.len()].min(loss);
        }
        let mut at_most = f64::INFINITY;
        for count in tables.class_counts() {
            at_most = at_most.min(least[count]);
            let (table, found) = (&tables.of(count).sizes, tables.of(count).loss.total_bytes());
            assert!(table.len() <= count && kept.iter().all(|size| table.contains(size)));
            assert!(is_near(found, loss_by_simulation(&demands, table, &layout).total_bytes()));
            assert!(
                is_near(found, at_most),
                "seed {seed}, {count} classes: {table:?} loses {found}, not {at_most}; {layout:?}"
            );
        }
    }
}

/// Returns a random layout with chunks of up to 4 KiB, with or without pages.
fn large(random: &mut Random) -> ChunkLayout {
    let published = ChunkLayout::published(4 << 10);
    if random.below(2) == 0 {
        return published;
    }
    let page_size_bytes = Some(8 << 10 << random.below(4));
    ChunkLayout { page_size_bytes, chunk_size_bytes_min: 32, chunk_align_bytes: 8, ..published }
}

#[test]
fn geometric_tables_and_hill_climbing_do_not_lose_less() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let layout = large(&mut random);
        let demands = demands_with_peaks(&mut random, &layout);
        let tables = exact(&demands, &layout, &[], 63).expect("the arguments are valid");
        let options = HillClimbOptions { iterations_max: 20_000, ..Default::default() };
        for factor in [1.08, 1.25, 1.5, 3.0] {
            let start = geometric(32, factor, &layout);
            let best = tables.of(start.len()).loss.total_bytes();
            let lost =
                loss(&demands, &start, &layout).expect("the arguments are valid").total_bytes();
            assert!(best <= lost, "seed {seed}: exact loses {best}, geometric {lost}");
            let climbed = hill_climb(&demands, &start, &layout, &options, &mut random);
            let lost = climbed.expect("the arguments are valid").loss.total_bytes();
            assert!(
                best <= lost * (1.0 + 1e-12),
                "seed {seed}: exact loses {best}, hill climbing {lost}"
            );
        }
    }
}

#[test]
fn each_additional_class_saves_at_most_as_much_as_the_class_before() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let layout = large(&mut random);
        let tables = exact(&demands_with_peaks(&mut random, &layout), &layout, &[], 63)
            .expect("the arguments are valid");
        let lost: Vec<f64> =
            tables.class_counts().map(|count| tables.of(count).loss.total_bytes()).collect();
        let saved: Vec<f64> = lost.windows(2).map(|two| two[0] - two[1]).collect();
        let rounding = 1e-9 * lost[0];
        for two in saved.windows(2) {
            assert!(
                two[1] >= 0.0 && two[1] <= two[0] + rounding,
                "seed {seed}: savings decrease with each class; losses {lost:?}"
            );
        }
    }
}

#[test]
fn a_table_with_the_size_of_every_item_loses_no_byte() {
    let demands: Vec<Demand> = (1..=20)
        .map(|step| Demand { size_bytes: 37 * step, items: step as u64, byte_value: 1.0 })
        .collect();
    let tables =
        exact(&demands, &ChunkLayout::published(740), &[], 63).expect("the arguments are valid");
    assert_eq!(tables.of(20).sizes, (1..=20).map(|step| 37 * step).collect::<Vec<_>>());
    assert_eq!(tables.of(63).loss.total_bytes(), 0.0);
    assert!(tables.of(19).loss.total_bytes() > 0.0);
}

#[test]
fn the_exact_table_is_the_best_for_weights_of_very_different_magnitudes() {
    // With such different weights, rounding errors could remove a line from the lower envelope of the lines.
    const SIZES: usize = 300;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let layout = ChunkLayout::published(SIZES);
        let scale = 10f64.powi(random.below(13) as i32);
        let demand = |size_bytes| {
            let items_max = 1 << random.below(40);
            Demand { size_bytes, items: 1 + random.below(items_max), byte_value: scale }
        };
        let demands: Vec<Demand> = (1..=SIZES).map(demand).collect();
        let tables = exact(&demands, &layout, &[], 20).expect("the arguments are valid");
        // This loop evaluates the recurrence directly, without lines.
        let mut weights = vec![0.0];
        demands.iter().for_each(|it| weights.push(weights[it.size_bytes - 1] + it.items as f64));
        let mut taken: Vec<f64> = (0..=SIZES).map(|size| weights[size] * size as f64).collect();
        for count in 2..=20 {
            let least = |size: usize| {
                let ways = (0..size)
                    .map(|from| taken[from] + (weights[size] - weights[from]) * size as f64);
                ways.fold(taken[size], f64::min)
            };
            taken = (0..=SIZES).map(least).collect();
            let found = tables.of(count).loss.total_bytes();
            let bytes: f64 = demands.iter().map(|it| it.items as f64 * it.size_bytes as f64).sum();
            let expected = (taken[SIZES] - bytes) * scale;
            assert!(
                (found - expected).abs() <= 1e-9 * expected,
                "seed {seed}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn a_size_is_the_largest_with_its_number_of_chunks_on_a_page() {
    let layout = ChunkLayout {
        page_size_bytes: Some(1000),
        chunk_size_bytes_min: 8,
        chunk_align_bytes: 8,
        ..ChunkLayout::published(1000)
    };
    let demands = [Demand { size_bytes: 260, items: 5, byte_value: 1.0 }];
    let tables = exact(&demands, &layout, &[], 2).expect("the arguments are valid");
    assert_eq!(
        tables.of(2).sizes,
        [328, 1000],
        "a page holds three chunks of 264 bytes and three of 328"
    );
}

#[test]
fn invalid_class_counts_are_rejected() {
    let layout = ChunkLayout::published(100);
    let demands = [Demand { size_bytes: 10, items: 1, byte_value: 1.0 }];
    for count in [0, 64] {
        let refused = exact(&demands, &layout, &[], count);
        assert_eq!(refused, Err(BadArgument::ClassCount { count, max: 63 }.into()));
    }
    let refused = exact(&demands, &layout, &[10, 20], 2);
    assert_eq!(refused, Err(BadArgument::TooManyKept { kept: 3, class_count_max: 2 }.into()));
    assert!(refused.unwrap_err().to_string().contains("3 sizes are kept"));
}
