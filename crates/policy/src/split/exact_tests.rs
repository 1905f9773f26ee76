//! Comparison with every possible partition.

use super::{best_split, best_split_in_units};
use crate::split::{ClassCurve, cost};
use crate::testing::curves::{any, cliff, scan, zipf};
use slabwise_base::Random;
use slabwise_profile::Mrc;

fn classes(curves: &[Mrc], chunks_per_page: u64, pages: u64) -> Vec<ClassCurve<'_>> {
    let class = |curve| ClassCurve::new(curve, chunks_per_page, pages);
    curves.iter().map(class).collect()
}

/// The least cost, and the smallest difference in pages from the current partition among those with that cost.
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
fn finds_the_least_cost_nearest_to_the_current_partition() {
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
        let split = best_split(&classes, pages);
        let (least, moved) = by_brute_force(&classes, pages);
        let found = cost(&classes, &split);
        assert!((found - least).abs() < 1e-6, "seed {seed}: {split:?} costs {found}, not {least}");
        let distance =
            classes.iter().zip(&split).map(|(c, &own)| own.abs_diff(c.pages)).sum::<u64>();
        assert_eq!(
            distance, moved,
            "seed {seed}: a partition nearer than {split:?} is equally cheap"
        );
        assert!(split.iter().sum::<u64>() <= pages, "seed {seed}");
        assert!(classes.iter().zip(&split).all(|(c, &own)| own >= c.pages_min), "seed {seed}");
    }
}

#[test]
fn finds_the_least_cost_in_units() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let curves: Vec<Mrc> = (0..1 + random.below(3)).map(|_| any(&mut random, 60)).collect();
        let mut classes = classes(&curves, 1 + random.below(4), 0);
        for class in &mut classes {
            class.pages = random.below(20);
            class.pages_min = random.below(class.pages + 1);
        }
        let unit = 1 + random.below(5);
        let split = best_split_in_units(&classes, unit);
        let pages: u64 = classes.iter().map(|class| class.pages).sum();
        assert!(split.iter().sum::<u64>() <= pages, "seed {seed}");
        for (class, &own) in classes.iter().zip(&split) {
            let distance = own.abs_diff(class.pages);
            assert!(
                own >= class.pages_min && distance.is_multiple_of(unit),
                "seed {seed}: {split:?}"
            );
        }
        let mut least = f64::INFINITY;
        let every = |class: &ClassCurve| {
            let rest = class.pages % unit;
            let sizes = (rest..=pages).step_by(unit as usize);
            sizes.filter(|&size| size >= class.pages_min).collect::<Vec<u64>>()
        };
        let mut splits: Vec<Vec<u64>> = vec![Vec::new()];
        for class in &classes {
            let with = |split: &Vec<u64>| {
                let split = split.clone();
                every(class).into_iter().map(move |size| [&split[..], &[size]].concat())
            };
            splits = splits.iter().flat_map(with).collect();
        }
        for other in splits.iter().filter(|split| split.iter().sum::<u64>() <= pages) {
            least = least.min(cost(&classes, other));
        }
        let found = cost(&classes, &split);
        assert!((found - least).abs() < 1e-6, "seed {seed}: {split:?} costs {found}, not {least}");
    }
}

#[test]
fn a_cliff_is_climbed_completely_or_not_at_all() {
    // The other class has the steeper slope everywhere, except compared with the whole cliff.
    let curves = [cliff(80, 1_000.0), zipf(1_000, 900.0, 100)];
    let split = best_split(&classes(&curves, 1, 50), 100);
    assert_eq!(split[0], 80);
    let split = best_split(&classes(&curves, 1, 35), 70);
    assert_eq!(split, [0, 70]);
}

#[test]
fn unneeded_pages_do_not_move() {
    let curves = [scan(1_000.0), cliff(3, 10.0), scan(5.0)];
    assert_eq!(best_split(&classes(&curves, 1, 7), 21), [7, 7, 7]);
    assert_eq!(best_split(&classes(&curves, 1, 2), 6).iter().sum::<u64>(), 6);
}

#[test]
#[should_panic(expected = "classes keep 4 pages and there are only 3")]
fn panics_if_pages_are_fewer_than_the_minimum() {
    let curves = [scan(1.0)];
    let keeps = ClassCurve { pages_min: 4, ..classes(&curves, 1, 4)[0] };
    best_split(&[keeps], 3);
}
