//! Tests of `cliffhanger` on caches whose classes have known curves.

use super::{Cliffhanger, CliffhangerOptions, Cliffs, pointers};
use crate::policy::Policy;
use crate::{ClassProfile, ClassSnapshot, PageMove, QueueSplit, Snapshot, Trigger};
use slabwise_base::{ClassId, Random};
use slabwise_profile::{Mrc, Point, Pointers};

const CHUNKS_PER_PAGE: u64 = 16;
/// The chunks of a page have 64 KiB, so sixteen shadow hits of 4 KiB earn the credit of a page.
const CHUNK_SIZE_BYTES: usize = 4 << 10;

/// Returns the curve with these misses at 0, 1, 2, ... pages.
fn curve(misses: &[f64]) -> Mrc {
    let point =
        |(pages, &misses): (usize, &f64)| Point { chunks: pages as u64 * CHUNKS_PER_PAGE, misses };
    Mrc::new(misses.iter().enumerate().map(point).collect())
}

/// Returns a convex curve of 100 references. The number of hits approaches `hits`: each further `pages` pages halve the
/// difference.
fn convex(hits: f64, pages: f64) -> Mrc {
    let misses: Vec<f64> =
        (0..=64).map(|size| 100.0 - hits * (1.0 - 0.5f64.powf(f64::from(size) / pages))).collect();
    curve(&misses)
}

/// Returns the curve of a loop with 100 references: none hits with fewer than `pages` pages, `hits` of them hit with
/// `pages` pages or more.
fn cliff(hits: f64, pages: usize) -> Mrc {
    let misses: Vec<f64> =
        (0..=64).map(|size| if size < pages { 100.0 } else { 100.0 - hits }).collect();
    curve(&misses)
}

/// A cache whose classes have exactly the misses of their curves.
struct Scenario {
    policy: Cliffhanger,
    snapshot: Snapshot,
    random: Random,
}

impl Scenario {
    fn new(cliffs: Cliffs, seed: u64, classes: &[(u64, Mrc)]) -> Scenario {
        let class = |(index, (pages, _)): (usize, &(u64, Mrc))| ClassSnapshot {
            pages: *pages,
            ..ClassSnapshot::empty(ClassId(index as u8), CHUNK_SIZE_BYTES, CHUNKS_PER_PAGE as usize)
        };
        let profile = |(_, curve): &(u64, Mrc)| ClassProfile {
            curve: curve.clone(),
            ..ClassProfile::default()
        };
        let snapshot = Snapshot {
            memory_full: true,
            classes: classes.iter().enumerate().map(class).collect(),
            profiles: classes.iter().map(profile).collect(),
            ..Snapshot::default()
        };
        let options = CliffhangerOptions { cliffs, ..CliffhangerOptions::default() };
        let (policy, random) =
            (Cliffhanger { options, ..Cliffhanger::default() }, Random::new(seed));
        let mut scenario = Scenario { policy, snapshot, random };
        assert!(scenario.step(0.0).is_empty(), "no page moves without new shadow hits");
        scenario
    }

    /// Steps the policy after this many gets of each class and carries out its moves.
    fn step(&mut self, gets: f64) -> Vec<PageMove> {
        let each = self.snapshot.classes.iter_mut().zip(&mut self.snapshot.profiles);
        for (class, profile) in each {
            let chunks = class.pages * CHUNKS_PER_PAGE;
            let misses = gets * profile.curve.miss_ratio(chunks);
            let misses_after = gets * profile.curve.miss_ratio(chunks + CHUNKS_PER_PAGE);
            profile.misses += misses;
            profile.shadow_hits += misses - misses_after;
            class.hits += (gets - misses) as u64;
        }
        let moves = self.policy.step(&self.snapshot, &mut self.random).moves;
        for page_move in &moves {
            let receiver =
                page_move.receiver.expect("cliffhanger moves pages only between classes");
            self.snapshot.classes[page_move.victim.index()].pages -= 1;
            self.snapshot.classes[receiver.index()].pages += 1;
        }
        let sum: f64 = self.policy.credits.iter().sum();
        assert!(sum.abs() < 1.0, "the sum of all credits is zero, not {sum}");
        moves
    }

    /// Takes this many steps, with 100 gets of each class before each step. Returns the pages of each class.
    fn run(&mut self, steps: usize) -> Vec<u64> {
        (0..steps).for_each(|_| drop(self.step(100.0)));
        self.snapshot.classes.iter().map(|class| class.pages).collect()
    }
}

#[test]
fn classes_with_convex_curves_end_at_equal_slopes() {
    for seed in 1..=5 {
        // The slopes are proportional to 80/8 * 2^(-pages/8) and 40/4 * 2^(-pages/4): equal at 24 and 12 pages.
        let classes = [(4, convex(80.0, 8.0)), (32, convex(40.0, 4.0))];
        for cliffs in [Cliffs::Ignored, Cliffs::Curve] {
            let mut scenario = Scenario::new(cliffs, seed, &classes);
            let mut pages = 0;
            for round in 0..60 {
                let current = scenario.run(20)[0];
                pages += if round < 20 { 0 } else { current };
            }
            let mean = pages as f64 / 40.0;
            assert!(
                (22.0..26.0).contains(&mean),
                "seed {seed}, {cliffs:?}: class 0 has about 24 pages, not {mean}"
            );
        }
    }
}

#[test]
fn a_class_with_the_credit_of_a_page_takes_a_page_of_a_class_that_paid() {
    let flat = || curve(&[100.0, 50.0, 50.0]);
    let classes = [(1, curve(&[100.0, 90.0, 80.0, 70.0])), (9, flat()), (9, flat()), (1, flat())];
    let mut scenario = Scenario::new(Cliffs::Ignored, 3, &classes);
    // A tenth of the gets of class 0 are shadow hits.
    assert_eq!(scenario.step(150.0), [], "fifteen shadow hits do not earn a page");
    let credits: Vec<f64> = scenario.policy.credits.iter().copied().collect();
    assert!(credits[1] < 0.0 && credits[2] < 0.0, "classes 1 and 2 pay: {credits:?}");
    assert_eq!(credits[3], 0.0, "a class with one page pays nothing");
    let moves = scenario.step(20.0);
    assert_eq!(moves.len(), 1);
    assert_eq!(moves[0].receiver, Some(ClassId(0)));
    // The victim has received the credit of a page, so its credit is now positive.
    let credits: Vec<f64> = scenario.policy.credits.iter().copied().collect();
    let victim = moves[0].victim.index();
    assert!(
        credits[victim] > 0.0 && credits[3 - victim] < 0.0,
        "only the victim has a credit: {credits:?}"
    );
    assert_eq!(scenario.policy.trigger(), Trigger::EveryShadowHits(16));
}

#[test]
fn weakness_with_cliffs_off_a_class_below_a_cliff_loses_its_pages() {
    let classes = [(10, cliff(90.0, 20)), (30, convex(20.0, 8.0))];
    assert_eq!(Scenario::new(Cliffs::Ignored, 4, &classes).run(2_000), [1, 39]);
}

#[test]
fn a_class_below_a_cliff_receives_the_pages_of_the_whole_cliff() {
    for seed in 1..=5 {
        // With 20 pages, 90 of 100 gets of class 0 hit. Beyond 20 pages, class 1 gains fewer than 4 hits of 100 gets.
        let classes = [(10, cliff(90.0, 20)), (30, convex(20.0, 8.0))];
        let pages = Scenario::new(Cliffs::Curve, seed, &classes).run(2_000);
        assert!(pages[0] >= 19, "seed {seed}: class 0 has the cliff's pages: {pages:?}");
    }
}

#[test]
fn a_class_whose_cliff_saves_little_per_page_does_not_grow() {
    for seed in 1..=5 {
        // The hull of class 0 has a slope of a fifth of a miss per page. The curve of class 1 is steeper up to 30
        // pages.
        let classes = [(10, cliff(4.0, 20)), (20, convex(90.0, 6.0))];
        let pages = Scenario::new(Cliffs::Curve, seed, &classes).run(2_000);
        assert!(pages[0] <= 4, "seed {seed}: class 0 has at most 4 pages: {pages:?}");
    }
}

#[test]
fn pointers_are_where_the_hull_touches_the_curve() {
    let ends = |curve: &Mrc, pages| {
        let found = pointers(curve, pages * CHUNKS_PER_PAGE)?;
        Some(found.map(|point| point.chunks / CHUNKS_PER_PAGE))
    };
    let bent = curve(&[100.0, 70.0, 69.0, 68.0, 40.0, 39.0]);
    assert_eq!(ends(&bent, 0), None, "the hull touches the curve at its first point");
    assert_eq!(ends(&bent, 2), Some([1, 4]));
    assert_eq!(ends(&bent, 3), Some([1, 4]));
    assert_eq!(ends(&bent, 4), None);
    assert_eq!(ends(&bent, 9), None, "nine pages are beyond the end of the curve");
}

#[test]
fn a_curve_slightly_above_its_hull_has_no_cliff() {
    // At two pages the curve is above its hull by half a percent of the references.
    let dented = curve(&[100.0, 90.0, 85.5, 80.0]);
    let class = ClassSnapshot {
        pages: 2,
        ..ClassSnapshot::empty(ClassId(0), CHUNK_SIZE_BYTES, CHUNKS_PER_PAGE as usize)
    };
    let profile = |curve| ClassProfile { curve, ..ClassProfile::default() };
    assert_eq!(super::hit_share_by_hull(&class, &profile(dented)), None);
    let bent = curve(&[100.0, 90.0, 90.0, 80.0]);
    assert_eq!(super::hit_share_by_hull(&class, &profile(bent)), Some(0.05));
}

#[test]
fn no_page_moves_without_profiles() {
    let mut scenario =
        Scenario::new(Cliffs::Curve, 5, &[(9, convex(80.0, 8.0)), (9, convex(40.0, 8.0))]);
    scenario.snapshot.profiles.clear();
    assert_eq!(scenario.run(100), [9, 9]);
}

#[test]
fn no_page_moves_while_the_pool_has_pages() {
    let mut scenario =
        Scenario::new(Cliffs::Curve, 6, &[(9, convex(80.0, 8.0)), (9, convex(40.0, 4.0))]);
    scenario.snapshot.pages_free = 1;
    assert_eq!(scenario.run(100), [9, 9]);
}

#[test]
fn with_pointers_the_hits_of_the_partitions_earn_credits() {
    let flat = || curve(&[100.0, 50.0, 50.0]);
    let earner = |cliffs| {
        let mut scenario = Scenario::new(cliffs, 7, &[(9, flat()), (9, flat()), (9, flat())]);
        scenario.snapshot.profiles[0].shadow_hits += 20.0;
        scenario.snapshot.profiles[1].partition_shadow_hits += 20.0;
        let moves = scenario.step(0.0);
        assert_eq!(moves.len(), 1, "twenty hits earn a page");
        moves[0].receiver
    };
    assert_eq!(earner(Cliffs::Pointers), Some(ClassId(1)));
    assert_eq!(earner(Cliffs::Ignored), Some(ClassId(0)));
}

#[test]
fn the_queues_have_the_sizes_of_the_pointers_and_the_shares_between_them() {
    let snapshot = |pages, left_chunks, right_chunks| {
        let mut scenario = Scenario::new(Cliffs::Pointers, 8, &[(pages, convex(80.0, 8.0))]);
        scenario.snapshot.profiles[0].pointers = Pointers { left_chunks, right_chunks };
        scenario.policy.step(&scenario.snapshot, &mut scenario.random).splits
    };
    let split = |left_key_share, left_item_share| {
        vec![QueueSplit { class: ClassId(0), left_key_share, left_item_share }]
    };
    // 100 pages are 1,600 chunks. The pointers are 400 chunks below and 1,200 chunks above.
    assert_eq!(snapshot(100, 1_200.0, 2_800.0), split(0.75, 0.75 * 1_200.0 / 1_600.0));
    assert_eq!(snapshot(100, 1_600.0, 2_800.0), split(0.5, 0.5), "there is no cliff");
    assert_eq!(snapshot(50, 200.0, 2_800.0), split(0.0, 0.0), "800 chunks are few");
}

#[test]
fn queues_are_divided_while_the_pool_has_pages() {
    let mut scenario = Scenario::new(Cliffs::Pointers, 10, &[(100, convex(80.0, 8.0))]);
    let (left_chunks, right_chunks) = (1_200.0, 2_800.0);
    scenario.snapshot.profiles[0].pointers = Pointers { left_chunks, right_chunks };
    scenario.snapshot.pages_free = 1;
    let plan = scenario.policy.step(&scenario.snapshot, &mut scenario.random);
    assert_eq!(plan.moves, []);
    assert_eq!(plan.splits.len(), 1);
    assert_eq!(plan.splits[0].left_key_share, 0.75);
}

#[test]
fn only_pointers_divide_queues() {
    for cliffs in [Cliffs::Curve, Cliffs::Ignored] {
        let mut scenario = Scenario::new(cliffs, 9, &[(100, convex(80.0, 8.0))]);
        let plan = scenario.policy.step(&scenario.snapshot, &mut scenario.random);
        assert!(plan.splits.is_empty(), "{cliffs:?}");
    }
}
