//! Tests of the exact partition: it is compared with every possible partition.

use super::{best_partition, best_partition_in_units};
use crate::partition::{ClassCurve, cost};
use crate::testing::curves::{any, cliff, scan, zipf};
use slabwise_base::Random;
use slabwise_profile::Mrc;

fn classes(curves: &[Mrc], chunks_per_page: u64, pages: u64) -> Vec<ClassCurve<'_>> {
    let class = |curve| ClassCurve::new(curve, chunks_per_page, pages);
    curves.iter().map(class).collect()
}

/// Returns the least cost of all partitions. The second value is the distance of the current partition from the nearest
/// partition with this cost: the sum over all classes of the difference in pages.
fn by_brute_force(classes: &[ClassCurve], pages: u64) -> (f64, u64) {
    let Some((class, others)) = classes.split_first() else { return (0.0, 0) };
    let mut best = (f64::INFINITY, u64::MAX);
    for own in class.pages_min..=pages {
        let (rest, moved) = by_brute_force(others, pages - own);
        let found = (class.cost(own) + rest, own.abs_diff(class.pages).saturating_add(moved));
        let cheaper = found.0 < best.0 - 1e-6;
        if cheaper || found.0 < best.0 + 1e-6 && found.1 < best.1 {
            best = (found.0.min(best.0), found.1);
        }
    }
    best
}

#[test]
fn the_best_partition_has_the_least_cost_and_is_nearest_to_the_current() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let curves: Vec<Mrc> = (0..1 + random.below(4)).map(|_| any(&mut random, 30)).collect();
        let mut classes = classes(&curves, 1 + random.below(4), 0);
        for class in &mut classes {
            class.pages = random.below(5);
            class.pages_min = random.below(class.pages + 1);
            class.stretch = if random.below(4) == 0 { 1.1 } else { 1.0 };
            class.miss_cost = 1.0 + random.below(3) as f64;
            class.pages_usable = if random.below(4) == 0 { random.below(8) } else { u64::MAX };
        }
        let pages = classes.iter().map(|class| class.pages).sum::<u64>() + random.below(3);
        let partition = best_partition(&classes, pages);
        let (least, moved) = by_brute_force(&classes, pages);
        let found = cost(&classes, &partition);
        assert!(
            (found - least).abs() < 1e-6,
            "seed {seed}: {partition:?} costs {found}, not {least}"
        );
        let distance =
            classes.iter().zip(&partition).map(|(c, &own)| own.abs_diff(c.pages)).sum::<u64>();
        assert_eq!(
            distance, moved,
            "seed {seed}: no partition nearer than {partition:?} has the same cost"
        );
        assert!(
            partition.iter().sum::<u64>() <= pages,
            "seed {seed}: at most {pages} pages are used"
        );
        assert!(
            classes.iter().zip(&partition).all(|(c, &own)| own >= c.pages_min),
            "seed {seed}: each class has its minimum"
        );
    }
}

#[test]
fn the_best_partition_in_units_has_the_least_cost() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let curves: Vec<Mrc> = (0..1 + random.below(3)).map(|_| any(&mut random, 60)).collect();
        let mut classes = classes(&curves, 1 + random.below(4), 0);
        for class in &mut classes {
            class.pages = random.below(20);
            class.pages_min = random.below(class.pages + 1);
        }
        let unit = 1 + random.below(5);
        let partition = best_partition_in_units(&classes, unit);
        let pages: u64 = classes.iter().map(|class| class.pages).sum();
        assert!(
            partition.iter().sum::<u64>() <= pages,
            "seed {seed}: at most {pages} pages are used"
        );
        for (class, &own) in classes.iter().zip(&partition) {
            let distance = own.abs_diff(class.pages);
            assert!(
                own >= class.pages_min && distance.is_multiple_of(unit),
                "seed {seed}: sizes differ by whole units of {unit} pages: {partition:?}"
            );
        }
        let mut least = f64::INFINITY;
        let every = |class: &ClassCurve| {
            let rest = class.pages % unit;
            let sizes = (rest..=pages).step_by(unit as usize);
            sizes.filter(|&size| size >= class.pages_min).collect::<Vec<u64>>()
        };
        let mut partitions: Vec<Vec<u64>> = vec![Vec::new()];
        for class in &classes {
            let with = |partition: &Vec<u64>| {
                let partition = partition.clone();
                every(class).into_iter().map(move |size| [&partition[..], &[size]].concat())
            };
            partitions = partitions.iter().flat_map(with).collect();
        }
        for other in partitions.iter().filter(|partition| partition.iter().sum::<u64>() <= pages) {
            least = least.min(cost(&classes, other));
        }
        let found = cost(&classes, &partition);
        assert!(
            (found - least).abs() < 1e-6,
            "seed {seed}: {partition:?} costs {found}, not {least}"
        );
    }
}

#[test]
fn a_class_receives_all_pages_of_a_cliff_or_none() {
    // With 100 pages the mean slope of the cliff is steeper than the curve of class 1 at its last pages. With 70 pages
    // there are too few pages for the whole cliff.
    let curves = [cliff(80, 1_000.0), zipf(1_000, 900.0, 100)];
    let partition = best_partition(&classes(&curves, 1, 50), 100);
    assert_eq!(partition[0], 80);
    let partition = best_partition(&classes(&curves, 1, 35), 70);
    assert_eq!(partition, [0, 70]);
}

#[test]
fn pages_that_save_no_misses_do_not_move() {
    let curves = [scan(1_000.0), cliff(3, 10.0), scan(5.0)];
    assert_eq!(best_partition(&classes(&curves, 1, 7), 21), [7, 7, 7]);
    assert_eq!(best_partition(&classes(&curves, 1, 2), 6).iter().sum::<u64>(), 6);
}

#[test]
#[should_panic(expected = "classes keep 4 pages, but there are only 3")]
fn best_partition_panics_if_pages_are_fewer_than_the_minimum() {
    let curves = [scan(1.0)];
    let keeps = ClassCurve { pages_min: 4, ..classes(&curves, 1, 4)[0] };
    best_partition(&[keeps], 3);
}
