//! When the policy moves a page, and which one.

use super::ReservedCost;
use crate::testing;
use crate::{ClassSnapshot, PagePolicy, Snapshot, Trigger};
use slabwise_base::ClassId;

/// A class's events in a second and its contents; chunks have 100 bytes.
#[derive(Clone, Copy)]
struct Class {
    hits: u64,
    misses: u64,
    cost: u64,
    pages: u64,
}

const PLAIN: Class = Class { hits: 900, misses: 100, cost: 10, pages: 5 };

/// A cache and its policy, a step a second.
struct Cache {
    policy: ReservedCost,
    snapshot: Snapshot,
}

impl Cache {
    fn new(classes: usize) -> Cache {
        let class = |index| ClassSnapshot::empty(ClassId(index as u8), 100, 10);
        let classes = (0..classes).map(class).collect();
        let snapshot = Snapshot { memory_full: true, classes, ..Snapshot::default() };
        let mut policy = ReservedCost::default();
        assert!(testing::step(&mut policy, &snapshot).moves.is_empty());
        Cache { policy, snapshot }
    }

    /// Steps the policy through this many seconds with these events; returns the move of each.
    fn seconds(&mut self, count: usize, classes: &[Class]) -> Vec<Option<(u8, u8)>> {
        let mut moves = Vec::new();
        for _ in 0..count {
            for (class, like) in self.snapshot.classes.iter_mut().zip(classes) {
                (class.pages, class.used_chunks) = (like.pages, 10 * like.pages);
                class.cost_held = class.used_chunks * like.cost;
                class.hits += like.hits;
                class.inserted += like.misses;
                self.snapshot.gets += like.hits + like.misses;
                self.snapshot.misses += like.misses;
            }
            let plan = testing::step(&mut self.policy, &self.snapshot);
            assert!(plan.moves.len() <= 1, "invariant: one page a step");
            let pair = plan.moves.first().map(|m| (m.victim.0, m.receiver.expect("a class").0));
            moves.push(pair);
        }
        moves
    }

    /// The move of the evaluation after the hits of these classes drop to a ninth.
    fn after_a_drop(classes: &[Class]) -> Option<(u8, u8)> {
        let mut cache = Cache::new(classes.len());
        assert_eq!(cache.seconds(3, classes), [None; 3]);
        let dropped: Vec<Class> =
            classes.iter().map(|class| Class { hits: class.hits / 9, ..*class }).collect();
        cache.seconds(4, &dropped)[3]
    }
}

#[test]
fn one_page_moves_after_a_drop_by_a_tenth_of_the_best() {
    let like = |misses: u64| {
        let busy = Class { hits: 1_000 - misses, misses, ..PLAIN };
        [PLAIN, Class { cost: 20, ..busy }]
    };
    let none = [None; 4];
    let mut cache = Cache::new(2);
    // The constructor has made a step already.
    cache.seconds(3, &like(100));
    // A drop from 90 % to just above 81 % is less than a tenth of the best; one below 81 % is more.
    assert_eq!(cache.seconds(4, &like(279)), none);
    let at_the_evaluation = [None, None, None, Some((0, 1))];
    assert_eq!(cache.seconds(4, &like(281)), at_the_evaluation);
    // One low second is enough.
    let mut moves = cache.seconds(1, &like(400));
    moves.extend(cache.seconds(3, &like(100)));
    assert_eq!(moves, at_the_evaluation);
    assert_eq!(cache.seconds(4, &like(100)), none, "the hit ratio has recovered");
}

#[test]
fn weakness_a_permanent_drop_moves_pages_forever() {
    let mut cache = Cache::new(2);
    cache.seconds(3, &[PLAIN, Class { cost: 20, ..PLAIN }]);
    let low = Class { hits: 300, misses: 700, ..PLAIN };
    let moves = cache.seconds(4_000, &[low, Class { cost: 20, ..low }]);
    assert_eq!(moves.iter().flatten().count(), 1_000, "at each evaluation");
}

#[test]
fn moves_from_the_least_to_the_most_miss_ratio_times_cost() {
    let costly = Class { cost: 20, ..PLAIN };
    let cheap = Class { cost: 5, ..PLAIN };
    assert_eq!(Cache::after_a_drop(&[PLAIN, costly, cheap]), Some((2, 1)), "by cost");
    let missing = Class { hits: 450, ..PLAIN };
    assert_eq!(Cache::after_a_drop(&[PLAIN, missing]), Some((0, 1)), "by the miss ratio");
    let hitting = Class { hits: 3_600, cost: 30, ..PLAIN };
    assert_eq!(Cache::after_a_drop(&[PLAIN, hitting]), Some((1, 0)), "by both");
    assert_eq!(Cache::after_a_drop(&[PLAIN, costly, Class { pages: 1, ..cheap }]), Some((0, 1)));
    assert_eq!(Cache::after_a_drop(&[PLAIN, PLAIN]), None, "all scores are equal");
    assert_eq!(Cache::after_a_drop(&[PLAIN]), None);
}

#[test]
fn without_costs_a_chunk_costs_one() {
    let mut free = PLAIN;
    free.cost = 0;
    assert_eq!(Cache::after_a_drop(&[free, Class { hits: 450, ..free }]), Some((0, 1)));
}

#[test]
fn ignores_samples_of_few_gets_and_the_warm_up() {
    let mut cache = Cache::new(2);
    cache.seconds(3, &[PLAIN, Class { cost: 20, ..PLAIN }]);
    let idle = Class { hits: 0, misses: 1, ..PLAIN };
    assert_eq!(cache.seconds(40, &[idle, idle]), [None; 40]);
    let mut cache = Cache::new(2);
    cache.policy = ReservedCost::default();
    cache.snapshot.memory_full = false;
    cache.seconds(5, &[PLAIN, Class { cost: 20, ..PLAIN }]);
    cache.snapshot.memory_full = true;
    let low = Class { hits: 300, misses: 700, ..PLAIN };
    assert_eq!(cache.seconds(40, &[low, Class { cost: 20, ..low }]), [None; 40]);
}

#[test]
fn samples_once_a_second() {
    let policy = PagePolicy::parse("reserved_cost:hit_ratio_drop=0.2").expect("the text is valid");
    assert_eq!(policy.trigger(), Trigger::EveryTicks(64));
}
