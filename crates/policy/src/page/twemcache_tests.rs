//! Scenarios of one step after a first one, and of many steps.

use super::{Pick, Twemcache};
use crate::policy::Policy;
use crate::{ClassSnapshot, Plan, Snapshot, Trigger};
use slabwise_base::{ClassId, Random};

const CHUNKS_PER_PAGE: usize = 10;

fn class(index: u8, pages: u64) -> ClassSnapshot {
    ClassSnapshot {
        pages,
        used_chunks: pages * CHUNKS_PER_PAGE as u64,
        ..ClassSnapshot::empty(ClassId(index), 96, CHUNKS_PER_PAGE)
    }
}

/// A policy that has recorded the counts of these classes.
struct Scene {
    policy: Twemcache,
    snapshot: Snapshot,
    random: Random,
}

impl Scene {
    fn new(pick: Pick, seed: u64, classes: &[ClassSnapshot]) -> Scene {
        let policy = Twemcache::taking(pick);
        let snapshot =
            Snapshot { memory_full: true, classes: classes.to_vec(), ..Snapshot::default() };
        let mut scene = Scene { policy, snapshot, random: Random::new(seed) };
        assert!(scene.step(0, 0).moves.is_empty(), "no new stores");
        scene
    }

    /// Steps the policy after this many stores without a free chunk in a class.
    fn step(&mut self, class: usize, evicted: u64) -> Plan {
        self.snapshot.classes[class].evicted += evicted;
        self.policy.step(&self.snapshot, &mut self.random)
    }

    /// Steps the policy after this many stores without a free chunk in a class and carries out its moves.
    fn step_and_move(&mut self, class: usize, evicted: u64) {
        for page_move in self.step(class, evicted).moves {
            let receiver = page_move.receiver.expect("never to the pool");
            self.snapshot.classes[page_move.victim.index()].pages -= 1;
            self.snapshot.classes[receiver.index()].pages += 1;
        }
    }
}

fn victims(plan: &Plan) -> Vec<u8> {
    plan.moves.iter().map(|m| m.victim.0).collect()
}

#[test]
fn all_pages_are_equally_likely_to_be_taken() {
    let seed = 11;
    let mut scene = Scene::new(Pick::Random, seed, &[class(0, 60), class(1, 30), class(2, 10)]);
    let mut taken = [0; 3];
    for _ in 0..1_000 {
        for victim in victims(&scene.step(2, 1)) {
            taken[usize::from(victim)] += 1;
        }
    }
    // If a page of the receiver itself is drawn, no move is planned.
    assert!((540..660).contains(&taken[0]), "seed {seed}: {taken:?}");
    assert!((250..350).contains(&taken[1]), "seed {seed}: {taken:?}");
    assert_eq!(taken[2], 0);
}

#[test]
fn classes_end_with_equal_eviction_rates_per_page() {
    let seed = 12;
    let mut scene = Scene::new(Pick::Random, seed, &[class(0, 100), class(1, 100)]);
    let mut pages = 0;
    for round in 0..4_000 {
        // Class 0 has three stores for each store of class 1.
        scene.step_and_move(usize::from(round % 4 == 0), 1);
        pages += if round < 2_000 { 0 } else { scene.snapshot.classes[0].pages };
    }
    let mean = pages as f64 / 2_000.0;
    assert!((135.0..165.0).contains(&mean), "seed {seed}: {mean} pages of 200 for 3/4 of stores");
}

#[test]
fn weakness_a_scan_takes_the_pages_of_a_class_that_only_hits() {
    let seed = 13;
    let mut scene = Scene::new(Pick::Random, seed, &[class(0, 10), class(1, 10)]);
    for _ in 0..400 {
        scene.snapshot.classes[0].hits += 1_000;
        scene.step_and_move(1, 1);
    }
    assert_eq!(scene.snapshot.classes[0].pages, 0, "seed {seed}: the last page is taken, too");
}

#[test]
fn several_stores_take_one_page_for_each_page_s_worth() {
    for pick in [Pick::Random, Pick::LeastRecentlyAccessed] {
        let mut scene = Scene::new(pick, 14, &[class(0, 3), class(1, 0)]);
        assert_eq!(scene.policy.trigger(), Trigger::EveryEvictions(1));
        assert_eq!(victims(&scene.step(1, 20)), [0, 0], "{pick:?}");
        assert_eq!(
            victims(&scene.step(1, 1_000)),
            [0, 0, 0],
            "{pick:?}: no more pages than the class has"
        );
        scene.snapshot.classes[1].free_chunks = CHUNKS_PER_PAGE as u64;
        assert_eq!(victims(&scene.step(1, 20)), [], "{pick:?}: it still has a page of free chunks");
    }
}

#[test]
fn takes_the_least_accessed_page() {
    let classes = [class(0, 10), class(1, 10), class(2, 1)];
    let mut scene = Scene::new(Pick::LeastRecentlyAccessed, 15, &classes);
    scene.snapshot.classes[0].hits += 5_000;
    scene.snapshot.classes[1].hits += 4_000;
    scene.snapshot.classes[2].sets += 5_000;
    assert_eq!(victims(&scene.step(2, 1)), [1]);
    // Old accesses have decayed to nearly nothing.
    scene.snapshot.classes[0].sets += 50;
    scene.snapshot.classes[1].sets += 100;
    scene.snapshot.classes[2].sets += 1_000_000;
    assert_eq!(victims(&scene.step(2, 1)), [0]);
}

#[test]
fn takes_the_oldest_tail_among_pages_without_accesses() {
    let aged = |index, tail_age_ticks| ClassSnapshot { tail_age_ticks, ..class(index, 5) };
    let classes = [aged(0, 10), aged(1, 30), aged(2, 20), class(3, 5)];
    let mut scene = Scene::new(Pick::LeastRecentlyAccessed, 16, &classes);
    scene.snapshot.classes[3].sets += 1;
    assert_eq!(victims(&scene.step(3, 1)), [1]);
}

#[test]
fn weakness_large_items_lose_because_a_page_holds_few() {
    let large = ClassSnapshot { chunks_per_page: 1, ..class(1, 50) };
    let classes = [class(0, 5), large];
    let mut scene = Scene::new(Pick::LeastRecentlyAccessed, 17, &classes);
    for _ in 0..100 {
        // All items are hit equally often: fifty small ones on five pages and fifty large ones.
        scene.snapshot.classes[0].hits += 50;
        scene.snapshot.classes[1].hits += 50;
        scene.step_and_move(0, 1);
    }
    let pages = scene.snapshot.classes[1].pages;
    assert!(pages < 30, "{pages} pages are left to large items");
}
