//! Tests of `twemcache_random` and `twemcache_lra`.

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

/// A policy and the last snapshot that it has received.
struct Scenario {
    policy: Twemcache,
    snapshot: Snapshot,
    random: Random,
}

impl Scenario {
    fn new(pick: Pick, seed: u64, classes: &[ClassSnapshot]) -> Scenario {
        let policy = Twemcache::with_pick(pick);
        let snapshot =
            Snapshot { memory_full: true, classes: classes.to_vec(), ..Snapshot::default() };
        let mut scenario = Scenario { policy, snapshot, random: Random::new(seed) };
        assert!(scenario.step(0, 0).moves.is_empty(), "no page moves without new evictions");
        scenario
    }

    /// Steps the policy after this many evictions of a class.
    fn step(&mut self, class: usize, evicted: u64) -> Plan {
        self.snapshot.classes[class].evicted += evicted;
        self.policy.step(&self.snapshot, &mut self.random)
    }

    /// Steps the policy after this many evictions of a class and carries out its moves.
    fn step_and_move(&mut self, class: usize, evicted: u64) {
        for page_move in self.step(class, evicted).moves {
            let receiver = page_move.receiver.expect("a class receives the page");
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
    let mut scenario =
        Scenario::new(Pick::Random, seed, &[class(0, 60), class(1, 30), class(2, 10)]);
    let mut taken = [0; 3];
    for _ in 0..1_000 {
        for victim in victims(&scenario.step(2, 1)) {
            taken[usize::from(victim)] += 1;
        }
    }
    // If a page of the receiver itself is drawn, no page moves.
    assert!((540..660).contains(&taken[0]), "seed {seed}: about 600 from class 0: {taken:?}");
    assert!((250..350).contains(&taken[1]), "seed {seed}: about 300 from class 1: {taken:?}");
    assert_eq!(taken[2], 0);
}

#[test]
fn classes_end_with_equal_eviction_rates_per_page() {
    let seed = 12;
    let mut scenario = Scenario::new(Pick::Random, seed, &[class(0, 100), class(1, 100)]);
    let mut pages = 0;
    for round in 0..4_000 {
        // Class 0 has three evictions for each eviction of class 1.
        scenario.step_and_move(usize::from(round % 4 == 0), 1);
        pages += if round < 2_000 { 0 } else { scenario.snapshot.classes[0].pages };
    }
    let mean = pages as f64 / 2_000.0;
    assert!(
        (135.0..165.0).contains(&mean),
        "seed {seed}: three quarters of the evictions get about 150 of 200 pages, not {mean}"
    );
}

#[test]
fn weakness_a_scan_takes_the_pages_of_a_class_that_only_hits() {
    let seed = 13;
    let mut scenario = Scenario::new(Pick::Random, seed, &[class(0, 10), class(1, 10)]);
    for _ in 0..400 {
        scenario.snapshot.classes[0].hits += 1_000;
        scenario.step_and_move(1, 1);
    }
    assert_eq!(
        scenario.snapshot.classes[0].pages, 0,
        "seed {seed}: the scan takes even the last page"
    );
}

#[test]
fn a_step_moves_the_pages_that_the_evictions_since_the_last_step_fill() {
    for pick in [Pick::Random, Pick::LeastRecentlyAccessed] {
        let mut scenario = Scenario::new(pick, 14, &[class(0, 3), class(1, 0)]);
        assert_eq!(scenario.policy.trigger(), Trigger::EveryEvictions(1));
        assert_eq!(victims(&scenario.step(1, 20)), [0, 0], "{pick:?}: 20 evictions fill two pages");
        assert_eq!(
            victims(&scenario.step(1, 1_000)),
            [0, 0, 0],
            "{pick:?}: a plan takes no more pages than the class has"
        );
        scenario.snapshot.classes[1].free_chunks = CHUNKS_PER_PAGE as u64;
        assert_eq!(
            victims(&scenario.step(1, 20)),
            [],
            "{pick:?}: a class with a page of free chunks receives no page"
        );
    }
}

#[test]
fn lra_takes_a_page_of_the_class_with_the_fewest_accesses_per_page() {
    let classes = [class(0, 10), class(1, 10), class(2, 1)];
    let mut scenario = Scenario::new(Pick::LeastRecentlyAccessed, 15, &classes);
    scenario.snapshot.classes[0].hits += 5_000;
    scenario.snapshot.classes[1].hits += 4_000;
    scenario.snapshot.classes[2].sets += 5_000;
    assert_eq!(victims(&scenario.step(2, 1)), [1]);
    // After a million later accesses, the weight of the accesses above is almost 0.
    scenario.snapshot.classes[0].sets += 50;
    scenario.snapshot.classes[1].sets += 100;
    scenario.snapshot.classes[2].sets += 1_000_000;
    assert_eq!(victims(&scenario.step(2, 1)), [0]);
}

#[test]
fn lra_takes_a_page_of_the_oldest_tail_among_classes_without_accesses() {
    let aged = |index, tail_age_ticks| ClassSnapshot { tail_age_ticks, ..class(index, 5) };
    let classes = [aged(0, 10), aged(1, 30), aged(2, 20), class(3, 5)];
    let mut scenario = Scenario::new(Pick::LeastRecentlyAccessed, 16, &classes);
    scenario.snapshot.classes[3].sets += 1;
    assert_eq!(victims(&scenario.step(3, 1)), [1]);
}

#[test]
fn weakness_lra_takes_pages_of_large_items_because_a_page_holds_few() {
    let large = ClassSnapshot { chunks_per_page: 1, ..class(1, 50) };
    let classes = [class(0, 5), large];
    let mut scenario = Scenario::new(Pick::LeastRecentlyAccessed, 17, &classes);
    for _ in 0..100 {
        // All items are hit equally often: fifty small items on five pages, and fifty large items on fifty pages.
        scenario.snapshot.classes[0].hits += 50;
        scenario.snapshot.classes[1].hits += 50;
        scenario.step_and_move(0, 1);
    }
    let pages = scenario.snapshot.classes[1].pages;
    assert!(pages < 30, "large items lose at least 20 of 50 pages; they still have {pages}");
}
