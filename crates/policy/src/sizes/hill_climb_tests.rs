//! Tests of hill climbing: it is compared with a literal implementation of the printed algorithm.

use super::super::testing::{between, demands, demands_with_peaks, layout, table};
use super::{HillClimbOptions, hill_climb};
use crate::sizes::{ChunkLayout, Demand, loss};
use slabwise_base::Random;

/// Climbs by algorithm 1 as printed: every step computes the loss of the whole table.
fn as_printed(
    demands: &[Demand],
    start: &[usize],
    layout: &ChunkLayout,
    options: &HillClimbOptions,
    random: &mut Random,
) -> Vec<usize> {
    let lost = |table: &[usize]| {
        loss(demands, table, layout).expect("the arguments are valid").total_bytes()
    };
    let mut table = start.to_vec();
    let (mut old, mut count) = (lost(&table), 0);
    for _ in 0..options.iterations_max {
        if count > options.failures_max || table.len() == 1 {
            break;
        }
        let class = random.below(table.len() as u64 - 1) as usize;
        let step = layout.chunk_align_bytes;
        let mut new = table.clone();
        new[class] = if random.below(2) == 0 { new[class] + step } else { new[class] - step };
        // An invalid table is rejected.
        match loss(demands, &new, layout).map(|loss| loss.total_bytes()) {
            Ok(lost) if lost <= old => (old, table, count) = (lost, new, 0),
            _ => count += 1,
        }
    }
    table
}

#[test]
fn the_climb_equals_that_of_the_printed_algorithm() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut layout = layout(&mut random, 200);
        // If the ends of pages do not count, the sums are integers and have no rounding errors.
        layout.page_size_bytes = None;
        let demands = demands(&mut random, &layout, 40);
        let start = table(&mut random, &layout, 8);
        let options =
            HillClimbOptions { failures_max: 50, iterations_max: 3_000, ..Default::default() };
        let (mut ours, mut printed) = (Random::new(seed), Random::new(seed));
        let found = hill_climb(&demands, &start, &layout, &options, &mut ours)
            .expect("the arguments are valid");
        let expected = as_printed(&demands, &start, &layout, &options, &mut printed);
        assert_eq!(found.table, expected, "seed {seed}: both tables are equal; {layout:?}");
    }
}

#[test]
fn a_climb_does_not_increase_the_loss_and_does_not_change_kept_sizes() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let layout = layout(&mut random, 200);
        let demands = demands(&mut random, &layout, 40);
        let start = table(&mut random, &layout, 8);
        let kept: Vec<usize> =
            start.iter().copied().filter(|_| between(&mut random, 0, 2) == 0).collect();
        let options = HillClimbOptions { iterations_max: 20_000, kept, ..Default::default() };
        let found = hill_climb(&demands, &start, &layout, &options, &mut random)
            .expect("the arguments are valid");
        let lost = loss(&demands, &start, &layout).expect("the arguments are valid").total_bytes();
        assert!(
            found.loss.total_bytes() <= lost + 1e-9 * lost,
            "seed {seed}: the loss does not increase"
        );
        assert_eq!(
            loss(&demands, &found.table, &layout),
            Ok(found.loss),
            "seed {seed}: the loss is that of the table"
        );
        assert_eq!(
            found.table.len(),
            start.len(),
            "seed {seed}: the number of classes is the same"
        );
        assert!(
            options.kept.iter().all(|size| found.table.contains(size)),
            "seed {seed}: kept sizes are in the table"
        );
    }
}

#[test]
fn the_size_of_a_class_is_reduced_to_the_size_of_the_only_items() {
    let layout = ChunkLayout::published(1_000);
    let demands = [Demand { size_bytes: 300, items: 7, byte_value: 1.0 }];
    let options = HillClimbOptions::default();
    let found = hill_climb(&demands, &[400, 1_000], &layout, &options, &mut Random::new(1));
    let found = found.expect("the arguments are valid");
    assert_eq!((found.table, found.loss.total_bytes()), (vec![300, 1_000], 0.0));
    assert!(found.iterations < options.iterations_max);
}

#[test]
fn a_climb_of_an_empty_class_ends_at_the_iteration_limit() {
    let layout = ChunkLayout::published(1_000);
    let demands = [Demand { size_bytes: 900, items: 7, byte_value: 1.0 }];
    let options = HillClimbOptions { iterations_max: 50_000, ..Default::default() };
    let found = hill_climb(&demands, &[400, 1_000], &layout, &options, &mut Random::new(1));
    assert_eq!(found.expect("the arguments are valid").iterations, 50_000);
}

#[test]
fn equal_seeds_give_equal_climbs() {
    let layout = ChunkLayout::published(3_000);
    let demands = demands_with_peaks(&mut Random::new(5), &layout);
    let climb = |seed| {
        let options = HillClimbOptions { iterations_max: 1_000, ..Default::default() };
        let mut random = Random::new(seed);
        hill_climb(&demands, &[500, 900, 2_000, 3_000], &layout, &options, &mut random)
    };
    assert_eq!(climb(1), climb(1));
    assert_ne!(climb(1), climb(2));
}
