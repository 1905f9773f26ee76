//! Two or more classes with known curves, stepped as their gets proceed.

use super::{Cliffhanger, CliffhangerOptions, pointers};
use crate::policy::Policy;
use crate::{ClassProfile, ClassSnapshot, PageMove, Snapshot, Trigger};
use slabwise_base::{ClassId, Random};
use slabwise_profile::{Mrc, Point};

const CHUNKS_PER_PAGE: u64 = 16;
/// Sixteen shadow hits make a page.
const CHUNK_SIZE_BYTES: usize = 4 << 10;

/// A curve by its misses at 0, 1, 2, ... pages.
fn curve(misses: &[f64]) -> Mrc {
    let point =
        |(pages, &misses): (usize, &f64)| Point { chunks: pages as u64 * CHUNKS_PER_PAGE, misses };
    Mrc::new(misses.iter().enumerate().map(point).collect())
}

/// A concave hit curve: at most `hits` of 100; each `pages` pages halve the distance to that.
fn convex(hits: f64, pages: f64) -> Mrc {
    let misses: Vec<f64> =
        (0..=64).map(|size| 100.0 - hits * (1.0 - 0.5f64.powf(f64::from(size) / pages))).collect();
    curve(&misses)
}

/// A loop: no hit below `pages`, `hits` of 100 from there.
fn cliff(hits: f64, pages: usize) -> Mrc {
    let misses: Vec<f64> =
        (0..=64).map(|size| if size < pages { 100.0 } else { 100.0 - hits }).collect();
    curve(&misses)
}

/// Classes whose gets follow their curves exactly.
struct Scene {
    policy: Cliffhanger,
    snapshot: Snapshot,
    random: Random,
}

impl Scene {
    fn new(cliffs: bool, seed: u64, classes: &[(u64, Mrc)]) -> Scene {
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
        let mut scene = Scene { policy, snapshot, random };
        assert!(scene.step(0.0).is_empty(), "no new shadow hits");
        scene
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
            let receiver = page_move.receiver.expect("never to the pool");
            self.snapshot.classes[page_move.victim.index()].pages -= 1;
            self.snapshot.classes[receiver.index()].pages += 1;
        }
        let sum: f64 = self.policy.credits.iter().sum();
        assert!(sum.abs() < 1.0, "invariant: credits sum to zero, not to {sum}");
        moves
    }

    /// The pages of each class after this many steps.
    fn run(&mut self, steps: usize) -> Vec<u64> {
        (0..steps).for_each(|_| drop(self.step(100.0)));
        self.snapshot.classes.iter().map(|class| class.pages).collect()
    }
}

#[test]
fn slopes_become_equal_on_convex_curves() {
    for seed in 1..=5 {
        // The slopes are 80/8 and 40/4 times powers of two: equal at 24 and 12 pages.
        let classes = [(4, convex(80.0, 8.0)), (32, convex(40.0, 4.0))];
        for cliffs in [false, true] {
            let mut scene = Scene::new(cliffs, seed, &classes);
            let mut pages = 0;
            for round in 0..60 {
                let current = scene.run(20)[0];
                pages += if round < 20 { 0 } else { current };
            }
            let mean = pages as f64 / 40.0;
            assert!((22.0..26.0).contains(&mean), "seed {seed}, cliffs {cliffs}: {mean} of 24");
        }
    }
}

#[test]
fn a_page_moves_for_a_page_of_credits_from_a_class_in_debt() {
    let flat = || curve(&[100.0, 50.0, 50.0]);
    let classes = [(1, curve(&[100.0, 90.0, 80.0, 70.0])), (9, flat()), (9, flat()), (1, flat())];
    let mut scene = Scene::new(false, 3, &classes);
    // A tenth of the gets are shadow hits of class 0.
    assert_eq!(scene.step(150.0), [], "fifteen are not enough");
    let credits: Vec<f64> = scene.policy.credits.iter().copied().collect();
    assert!(credits[1] < 0.0 && credits[2] < 0.0, "both pay: {credits:?}");
    assert_eq!(credits[3], 0.0, "a class with one page pays nothing");
    let moves = scene.step(20.0);
    assert_eq!(moves.len(), 1);
    assert_eq!(moves[0].receiver, Some(ClassId(0)));
    // The move has paid back a page's worth, so the victim now has a credit.
    let credits: Vec<f64> = scene.policy.credits.iter().copied().collect();
    let victim = moves[0].victim.index();
    assert!(credits[victim] > 0.0 && credits[3 - victim] < 0.0, "{credits:?}");
    assert_eq!(scene.policy.trigger(), Trigger::EveryShadowHits(16));
}

#[test]
fn weakness_without_cliffs_a_class_below_one_starves() {
    let classes = [(10, cliff(90.0, 20)), (30, convex(20.0, 8.0))];
    assert_eq!(Scene::new(false, 4, &classes).run(2_000), [1, 39]);
}

#[test]
fn a_class_below_a_cliff_climbs_by_the_slope_of_the_hull() {
    for seed in 1..=5 {
        // 90 hits for 20 pages are worth more than the last pages of the other class.
        let classes = [(10, cliff(90.0, 20)), (30, convex(20.0, 8.0))];
        let pages = Scene::new(true, seed, &classes).run(2_000);
        assert!(pages[0] >= 19, "seed {seed}: {pages:?}");
    }
}

#[test]
fn a_cliff_that_is_not_worth_its_pages_is_not_climbed() {
    for seed in 1..=5 {
        // The hull has a slope of a fifth of a miss per page; the other curve is steeper up to 30 pages.
        let classes = [(10, cliff(4.0, 20)), (20, convex(90.0, 6.0))];
        let pages = Scene::new(true, seed, &classes).run(2_000);
        assert!(pages[0] <= 4, "seed {seed}: {pages:?}");
    }
}

#[test]
fn pointers_are_where_the_hull_touches_the_curve() {
    let ends = |curve: &Mrc, pages| {
        let found = pointers(curve, pages * CHUNKS_PER_PAGE)?;
        Some(found.map(|point| point.chunks / CHUNKS_PER_PAGE))
    };
    let bent = curve(&[100.0, 70.0, 69.0, 68.0, 40.0, 39.0]);
    assert_eq!(ends(&bent, 0), None, "the first point is one of them");
    assert_eq!(ends(&bent, 2), Some([1, 4]));
    assert_eq!(ends(&bent, 3), Some([1, 4]));
    assert_eq!(ends(&bent, 4), None);
    assert_eq!(ends(&bent, 9), None, "the curve has ended");
}

#[test]
fn noise_is_not_a_cliff() {
    // The curve is half a percent above its hull.
    let dented = curve(&[100.0, 90.0, 85.5, 80.0]);
    let class = ClassSnapshot {
        pages: 2,
        ..ClassSnapshot::empty(ClassId(0), CHUNK_SIZE_BYTES, CHUNKS_PER_PAGE as usize)
    };
    let profile = |curve| ClassProfile { curve, ..ClassProfile::default() };
    assert_eq!(super::hits_by_hull(&class, &profile(dented)), None);
    let bent = curve(&[100.0, 90.0, 90.0, 80.0]);
    assert_eq!(super::hits_by_hull(&class, &profile(bent)), Some(0.05));
}

#[test]
fn nothing_moves_without_profiles() {
    let mut scene = Scene::new(true, 5, &[(9, convex(80.0, 8.0)), (9, convex(40.0, 8.0))]);
    scene.snapshot.profiles.clear();
    assert_eq!(scene.run(100), [9, 9]);
}

#[test]
fn nothing_moves_while_the_pool_has_pages() {
    let mut scene = Scene::new(true, 6, &[(9, convex(80.0, 8.0)), (9, convex(40.0, 4.0))]);
    scene.snapshot.pages_free = 1;
    assert_eq!(scene.run(100), [9, 9]);
}
