//! Tests of `twemcache_random` and `twemcache_lra`.

use super::{Pick, Twemcache};
use crate::policy::Policy;
use crate::{ClassSnapshot, Inputs, PageSnapshot, Plan, Snapshot, Trigger};
use slabwise_base::{ClassId, PageId, Random, Ticks};

const CHUNKS_PER_PAGE: usize = 10;

fn class(index: u8) -> ClassSnapshot {
    ClassSnapshot::empty(ClassId(index), 96, CHUNKS_PER_PAGE)
}

/// A policy, and a cache whose pages have numbers.
struct Scenario {
    policy: Twemcache,
    snapshot: Snapshot,
    random: Random,
}

impl Scenario {
    /// Creates a cache whose classes have these numbers of pages. All pages were accessed at tick 0.
    fn new(pick: Pick, seed: u64, pages: &[u64]) -> Scenario {
        let owners = pages.iter().enumerate();
        let owners = owners.flat_map(|(class, &pages)| (0..pages).map(move |_| class as u8));
        let page = |(number, class): (usize, u8)| PageSnapshot {
            page: PageId(number as u32),
            class: ClassId(class),
            accessed_at: Some(Ticks(0)),
        };
        let snapshot = Snapshot {
            memory_full: true,
            classes: (0..pages.len() as u8).map(class).collect(),
            pages: owners.enumerate().map(page).collect(),
            ..Snapshot::default()
        };
        let policy = Twemcache::with_pick(pick);
        let mut scenario = Scenario { policy, snapshot, random: Random::new(seed) };
        assert!(scenario.step(0, 0).moves.is_empty(), "no page moves without new evictions");
        scenario
    }

    /// Steps the policy after this many evictions of a class.
    fn step(&mut self, class: usize, evicted: u64) -> Plan {
        for class in &mut self.snapshot.classes {
            let pages = self.snapshot.pages.iter();
            class.pages = pages.filter(|page| page.class == class.class).count() as u64;
            class.used_chunks = class.pages * CHUNKS_PER_PAGE as u64;
        }
        self.snapshot.classes[class].evicted += evicted;
        self.policy.step(&self.snapshot, &mut self.random)
    }

    /// Steps the policy after this many evictions of a class and carries out its moves.
    fn step_and_move(&mut self, class: usize, evicted: u64) {
        for page_move in self.step(class, evicted).moves {
            let mut pages = self.snapshot.pages.iter_mut();
            let page = pages.find(|page| Some(page.page) == page_move.page);
            let page = page.expect("the plan names a page of the snapshot");
            assert_eq!(page.class, page_move.victim, "the page is of the victim");
            page.class = page_move.receiver.expect("a class receives the page");
            page.accessed_at = None;
        }
    }

    /// Returns the number of pages of a class.
    fn pages(&self, class: u8) -> usize {
        self.snapshot.pages.iter().filter(|page| page.class == ClassId(class)).count()
    }
}

/// Returns the numbers of the pages that a plan takes.
fn taken(plan: &Plan) -> Vec<u32> {
    plan.moves.iter().map(|it| it.page.expect("the plan names the page").0).collect()
}

#[test]
fn all_pages_are_equally_likely_to_be_taken() {
    let seed = 11;
    let mut scenario = Scenario::new(Pick::Random, seed, &[60, 30, 10]);
    let mut counts = [0; 100];
    for _ in 0..10_000 {
        let plan = scenario.step(2, 1);
        let page = taken(&plan)[0] as usize;
        counts[page] += 1;
        assert_eq!(plan.moves[0].receiver, Some(ClassId(2)));
    }
    // Pages of the receiver are taken, too. The standard deviation of each count is 10.
    assert!(
        counts.iter().all(|count| (50..150).contains(count)),
        "seed {seed}: each page about 100 times: {counts:?}"
    );
}

#[test]
fn classes_end_with_equal_eviction_rates_per_page() {
    let seed = 12;
    let mut scenario = Scenario::new(Pick::Random, seed, &[100, 100]);
    let mut pages = 0;
    for round in 0..4_000 {
        // Class 0 has three evictions for each eviction of class 1.
        scenario.step_and_move(usize::from(round % 4 == 0), 1);
        pages += if round < 2_000 { 0 } else { scenario.pages(0) };
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
    let mut scenario = Scenario::new(Pick::Random, seed, &[10, 10]);
    for _ in 0..400 {
        scenario.snapshot.classes[0].hits += 1_000;
        scenario.step_and_move(1, 1);
    }
    assert_eq!(scenario.pages(0), 0, "seed {seed}: the scan takes even the last page");
}

#[test]
fn a_step_moves_the_pages_that_the_evictions_since_the_last_step_fill() {
    for pick in [Pick::Random, Pick::LeastRecentlyAccessed] {
        let mut scenario = Scenario::new(pick, 14, &[3, 0]);
        assert_eq!(scenario.policy.trigger(), Trigger::EveryEvictions(1));
        assert_eq!(scenario.policy.inputs(), Inputs::Pages);
        assert_eq!(taken(&scenario.step(1, 20)).len(), 2, "{pick:?}: 20 evictions fill two pages");
        let mut all = taken(&scenario.step(1, 1_000));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2], "{pick:?}: a plan takes each page once");
        scenario.snapshot.classes[1].free_chunks = CHUNKS_PER_PAGE as u64;
        assert_eq!(
            taken(&scenario.step(1, 20)),
            [],
            "{pick:?}: a class with a page of free chunks receives no page"
        );
    }
}

#[test]
fn lra_takes_the_page_with_the_oldest_access_of_any_class() {
    let mut scenario = Scenario::new(Pick::LeastRecentlyAccessed, 15, &[2, 2, 1]);
    scenario.snapshot.now = Ticks(100);
    let accessed = [90, 20, 10, 80, 30];
    for (page, at) in scenario.snapshot.pages.iter_mut().zip(accessed) {
        page.accessed_at = Some(Ticks(at));
    }
    assert_eq!(taken(&scenario.step(2, 1)), [2], "the page of class 1 has the oldest access");
    assert_eq!(taken(&scenario.step(2, 40)), [2, 1, 4, 3], "page 4 is the receiver's own");
    scenario.snapshot.pages[2].accessed_at = None;
    assert_eq!(taken(&scenario.step(2, 1)), [1], "page 2 has just been given to its class");
}

#[test]
fn lra_takes_pages_with_equal_times_in_random_order() {
    let seed = 16;
    let mut scenario = Scenario::new(Pick::LeastRecentlyAccessed, seed, &[50, 50]);
    let mut counts = [0; 2];
    for _ in 0..1_000 {
        counts[usize::from(taken(&scenario.step(1, 1))[0] >= 50)] += 1;
    }
    assert!(counts.iter().all(|it| (430..570).contains(it)), "seed {seed}: {counts:?}");
}

#[test]
fn weakness_lra_protects_a_page_with_one_hot_item_like_a_page_of_hot_items() {
    let mut scenario = Scenario::new(Pick::LeastRecentlyAccessed, 17, &[1, 1, 1]);
    scenario.snapshot.now = Ticks(100);
    // Page 0 was hit a thousand times, page 1 once and later.
    scenario.snapshot.classes[0].hits += 1_000;
    scenario.snapshot.classes[1].hits += 1;
    for (page, at) in scenario.snapshot.pages.iter_mut().zip([98, 99, 100]) {
        page.accessed_at = Some(Ticks(at));
    }
    assert_eq!(taken(&scenario.step(2, 1)), [0]);
}

#[test]
fn pages_of_retired_classes_are_not_taken() {
    for pick in [Pick::Random, Pick::LeastRecentlyAccessed] {
        let mut scenario = Scenario::new(pick, 18, &[1, 3]);
        scenario.snapshot.classes.remove(1);
        assert_eq!(taken(&scenario.step(0, 100)), [0], "{pick:?}");
    }
}
