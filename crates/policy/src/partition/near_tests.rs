//! Tests of the nearly best partition: its cost is compared with the exact partition, and the number of evaluations is
//! limited for large caches.

use super::{Near, near_best_partition};
use crate::partition::{ClassCurve, best_partition, cost, least_move_cost};
use crate::testing::curves::{any, cliff, ragged, scan, zipf};
use slabwise_base::Random;
use slabwise_profile::{Mrc, Point};

fn classes<'a>(curves: &'a [Mrc], random: &mut Random, pages: u64) -> Vec<ClassCurve<'a>> {
    let mut left = pages;
    let mut classes = Vec::new();
    for curve in curves {
        let pages = random.below(left + 1);
        left -= pages;
        classes.push(ClassCurve {
            pages_min: pages.min(1),
            ..ClassCurve::new(curve, 1 + random.below(8), pages)
        });
    }
    classes
}

/// Returns the share by which the cost of the partition exceeds the cost of the best partition.
fn excess(classes: &[ClassCurve], pages: u64) -> f64 {
    let best = cost(classes, &best_partition(classes, pages));
    let partition = Near::new(classes, pages, least_move_cost(classes)).partition();
    assert!(partition.iter().sum::<u64>() <= pages, "{partition:?} has at most {pages} pages");
    assert!(partition.iter().zip(classes).all(|(&own, class)| own >= class.pages_min));
    (cost(classes, &partition) - best) / best.max(1.0)
}

#[test]
fn the_cost_is_at_most_half_a_percent_above_the_least_cost() {
    let mut sum = 0.0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let pages = 20 + random.below(if seed % 10 == 0 { 1_000 } else { 200 });
        let count = 1 + random.below(8);
        let chunks = 4 * pages / count + 1;
        let curves: Vec<Mrc> = (0..count)
            .map(|_| {
                let references = 1_000.0 + random.below(9_000) as f64;
                match seed % 3 {
                    0 => any(&mut random, chunks),
                    1 => cliff(2 + random.below(2 * chunks), references),
                    _ => ragged(&mut random, 2 * chunks, references),
                }
            })
            .collect();
        let classes = classes(&curves, &mut random, pages);
        let excess = excess(&classes, pages);
        assert!(
            excess <= 0.005,
            "seed {seed}: {count} classes, {pages} pages: the cost is {excess} above the least"
        );
        sum += excess;
    }
    assert!(sum / 300.0 < 0.0005, "the mean excess is below 0.0005, not {}", sum / 300.0);
}

#[test]
fn no_page_moves_without_gain() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let curves: Vec<Mrc> = (0..5).map(|_| scan(random.below(1_000) as f64)).collect();
        let classes = classes(&curves, &mut random, 5_000);
        let current: Vec<u64> = classes.iter().map(|class| class.pages).collect();
        let pages = current.iter().sum();
        assert_eq!(near_best_partition(&classes, pages), current, "seed {seed}: no page moves");
        assert_eq!(
            Near::new(&classes, pages, least_move_cost(&classes)).partition(),
            current,
            "seed {seed}: no page moves"
        );
    }
}

/// Returns a random curve with the points that a profiler computes, 128 in each octave of sizes. The curve has slopes,
/// or flat parts and cliffs.
fn fine(random: &mut Random, references: f64) -> Mrc {
    let mut points = vec![Point { chunks: 0, misses: references }];
    let (mut misses, kind) = (references, random.below(3));
    for octave in 0..8 + random.below(9) {
        for step in 1..=128 {
            let chunks = if octave == 0 { step } else { (128 + step) << (octave - 1) };
            misses *= match kind {
                0 => 1.0 - 0.002 * random.unit(),
                1 if random.below(200) == 0 => random.unit(),
                1 => 1.0 - 0.0005 * random.unit(),
                _ => 1.0 - 0.01 * random.unit() * random.unit(),
            };
            points.push(Point { chunks, misses });
        }
    }
    Mrc::new(points)
}

#[test]
fn a_hundred_thousand_pages_take_few_evaluations_for_any_curves() {
    let pages = 100_000;
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let curves: Vec<Mrc> = (0..60)
            .map(|class| match (seed % 3, class % 4) {
                (0, 0) => zipf(1_000_000, 1e6 * random.unit(), 300),
                (0, 1) => ragged(&mut random, 2_000_000, 1e6),
                (0, 2) => cliff(100_000 + random.below(1_000_000), 1e6 * random.unit()),
                (0, _) => scan(1e5),
                (1, _) => fine(&mut random, 1e6),
                _ => cliff(10 * pages / 60 + random.below(pages), 1e6 * (0.5 + random.unit())),
            })
            .collect();
        let classes = classes(&curves, &mut random, pages);
        let mut near = Near::new(&classes, pages, least_move_cost(&classes));
        near.partition();
        assert!(near.evaluations < 750_000, "seed {seed}: {} evaluations", near.evaluations);
    }
}
