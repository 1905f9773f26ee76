//! Tests of `automove` on a cache of two classes, one step per second.

use super::{Automove, AutomoveOptions};
use crate::policy::Policy;
use crate::testing;
use crate::{ClassSnapshot, Plan, Snapshot, Trigger};
use slabwise_base::{ClassId, Ticks};

const CHUNKS_PER_PAGE: usize = 100;

/// A cache of two classes. Class 0 has 50 pages and an old tail and evicts nothing. Class 1 has 2 pages and a young
/// tail.
struct Scenario {
    policy: Automove,
    snapshot: Snapshot,
}

impl Scenario {
    fn new(window_len: usize) -> Scenario {
        let class = |index, pages, age_seconds: u32| ClassSnapshot {
            pages,
            tail_age_seconds: age_seconds,
            ..ClassSnapshot::empty(ClassId(index), 96, CHUNKS_PER_PAGE)
        };
        let classes = vec![class(0, 50, 1_000), class(1, 2, 20)];
        let snapshot = Snapshot { memory_full: true, classes, ..Snapshot::default() };
        let options = AutomoveOptions { window_len, ..AutomoveOptions::default() };
        Scenario { policy: Automove { options, ..Automove::default() }, snapshot }
    }

    /// Advances the time by a second in which class 1 evicts `evicted` items, and steps the policy.
    fn second(&mut self, evicted: u64) -> Plan {
        self.snapshot.now.0 += Ticks::PER_SECOND;
        self.snapshot.classes[1].evicted += evicted;
        testing::step(&mut self.policy, &self.snapshot)
    }

    /// Runs this many seconds, in each of which class 1 evicts `evicted` items. Returns the number of moves in each
    /// second.
    fn run(&mut self, seconds: usize, evicted: u64) -> Vec<usize> {
        (0..seconds).map(|_| self.second(evicted).moves.len()).collect()
    }
}

#[test]
fn a_page_moves_from_the_oldest_tail_to_the_youngest_after_a_full_window() {
    let mut scenario = Scenario::new(3);
    // The first step and the three steps of the first window move no page. After them one page moves in each second.
    assert_eq!(scenario.run(6, 10), [0, 0, 0, 0, 1, 1]);
    let page_move = scenario.second(10).moves[0];
    assert_eq!((page_move.victim, page_move.receiver), (ClassId(0), Some(ClassId(1))));
}

#[test]
fn no_page_moves_while_the_quotient_of_the_ages_is_above_the_ratio() {
    let mut scenario = Scenario::new(3);
    scenario.snapshot.classes[1].tail_age_seconds = 801;
    assert_eq!(scenario.run(10, 10), [0; 10]);
    scenario.snapshot.classes[1].tail_age_seconds = 790;
    assert_eq!(scenario.run(3, 10).last(), Some(&1));
}

#[test]
fn a_class_that_stopped_evicting_receives_no_page() {
    let mut scenario = Scenario::new(3);
    scenario.run(5, 10);
    assert_eq!(scenario.second(0).moves, []);
}

#[test]
fn a_class_with_two_pages_gives_no_page() {
    let mut scenario = Scenario::new(3);
    scenario.snapshot.classes[0].pages = 2;
    assert_eq!(scenario.run(10, 10), [0; 10]);
}

#[test]
fn a_class_that_evicts_rarely_receives_no_page() {
    let mut scenario = Scenario::new(4);
    // Class 0 evicts most, but its tail is old. Class 1 has a young tail, but evicts an item only every four seconds.
    let moves: usize = (0..40)
        .map(|second| {
            scenario.snapshot.classes[0].evicted += 1_000;
            scenario.second(u64::from(second % 4 == 0)).moves.len()
        })
        .sum();
    assert_eq!(moves, 0);
}

#[test]
fn a_class_without_events_for_a_window_gives_its_free_pages_to_the_pool() {
    let mut scenario = Scenario::new(3);
    scenario.snapshot.classes[0].free_chunks = 251;
    let plan = { scenario.run(1, 0) };
    assert_eq!(plan, [0], "the first step moves no page");
    let page_move = scenario.second(0).moves[0];
    assert_eq!((page_move.victim, page_move.receiver), (ClassId(0), None));

    assert_eq!(scenario.policy.trigger(), Trigger::EveryTicks(0), "the next step follows at once");
    scenario.snapshot.classes[0].pages -= 1;
    assert_eq!(scenario.run(1, 0), [1], "giving a page starts no new window");
    scenario.snapshot.classes[0].pages += 1;
    assert_eq!(scenario.run(4, 0), [0, 0, 0, 1], "receiving a page starts a new window");

    scenario.snapshot.classes[0].free_chunks = 250;
    assert_eq!(scenario.run(3, 0), [0; 3], "a class keeps two and a half pages of free chunks");
    scenario.snapshot.classes[0].free_chunks = 1_000;
    scenario.snapshot.memory_full = false;
    assert_eq!(scenario.run(3, 0), [0; 3], "no page moves to the pool while memory is not full");
}
