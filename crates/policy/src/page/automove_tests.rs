//! Scenarios of a few classes, second by second.

use super::{Automove, AutomoveOptions};
use crate::policy::Policy;
use crate::testing;
use crate::{ClassSnapshot, Plan, Snapshot, Trigger};
use slabwise_base::{ClassId, Ticks};

const CHUNKS_PER_PAGE: usize = 100;

/// Two classes: class 0 is large, idle and old; class 1 is small, young and evicts ten items a second.
struct Scene {
    policy: Automove,
    snapshot: Snapshot,
}

impl Scene {
    fn new(window_len: usize) -> Scene {
        let class = |index, pages, age_seconds: u32| ClassSnapshot {
            pages,
            tail_age_ticks: age_seconds * Ticks::PER_SECOND,
            ..ClassSnapshot::empty(ClassId(index), 96, CHUNKS_PER_PAGE)
        };
        let classes = vec![class(0, 50, 1_000), class(1, 2, 20)];
        let snapshot = Snapshot { memory_full: true, classes, ..Snapshot::default() };
        let options = AutomoveOptions { window_len, ..AutomoveOptions::default() };
        Scene { policy: Automove { options, ..Automove::default() }, snapshot }
    }

    fn second(&mut self, evicted: u64) -> Plan {
        self.snapshot.now.0 += Ticks::PER_SECOND;
        self.snapshot.classes[1].evicted += evicted;
        testing::step(&mut self.policy, &self.snapshot)
    }

    /// The number of moves in each second.
    fn run(&mut self, seconds: usize, evicted: u64) -> Vec<usize> {
        (0..seconds).map(|_| self.second(evicted).moves.len()).collect()
    }
}

#[test]
fn moves_from_the_oldest_to_the_youngest_once_the_window_is_full() {
    let mut scene = Scene::new(3);
    // The first step and a window of three decide nothing; then one page moves a second.
    assert_eq!(scene.run(6, 10), [0, 0, 0, 0, 1, 1]);
    let page_move = scene.second(10).moves[0];
    assert_eq!((page_move.victim, page_move.receiver), (ClassId(0), Some(ClassId(1))));
}

#[test]
fn nothing_moves_while_ages_are_within_the_ratio() {
    let mut scene = Scene::new(3);
    scene.snapshot.classes[1].tail_age_ticks = 801 * Ticks::PER_SECOND;
    assert_eq!(scene.run(10, 10), [0; 10]);
    scene.snapshot.classes[1].tail_age_ticks = 790 * Ticks::PER_SECOND;
    assert_eq!(scene.run(3, 10).last(), Some(&1));
}

#[test]
fn a_class_that_stopped_evicting_receives_nothing() {
    let mut scene = Scene::new(3);
    scene.run(5, 10);
    assert_eq!(scene.second(0).moves, []);
}

#[test]
fn a_class_of_two_pages_gives_none() {
    let mut scene = Scene::new(3);
    scene.snapshot.classes[0].pages = 2;
    assert_eq!(scene.run(10, 10), [0; 10]);
}

#[test]
fn few_evictions_in_few_seconds_are_no_need() {
    let mut scene = Scene::new(4);
    // Class 0 evicts most, but its tail is old. Class 1 is young, but rarely evicts.
    let moves: usize = (0..40)
        .map(|second| {
            scene.snapshot.classes[0].evicted += 1_000;
            scene.second(u64::from(second % 4 == 0)).moves.len()
        })
        .sum();
    assert_eq!(moves, 0);
}

#[test]
fn free_pages_go_to_the_pool_after_an_idle_window() {
    let mut scene = Scene::new(3);
    scene.snapshot.classes[0].free_chunks = 251;
    let plan = { scene.run(1, 0) };
    assert_eq!(plan, [0], "the first step decides nothing");
    let page_move = scene.second(0).moves[0];
    assert_eq!((page_move.victim, page_move.receiver), (ClassId(0), None));

    assert_eq!(scene.policy.trigger(), Trigger::EveryTicks(0), "more pages may be free");
    scene.snapshot.classes[0].pages -= 1;
    assert_eq!(scene.run(1, 0), [1], "giving a page starts no new window");
    scene.snapshot.classes[0].pages += 1;
    assert_eq!(scene.run(4, 0), [0, 0, 0, 1], "receiving a page starts a new window");

    scene.snapshot.classes[0].free_chunks = 250;
    assert_eq!(scene.run(3, 0), [0; 3], "two and a half pages are kept");
    scene.snapshot.classes[0].free_chunks = 1_000;
    scene.snapshot.memory_full = false;
    assert_eq!(scene.run(3, 0), [0; 3], "memory is not full");
}
