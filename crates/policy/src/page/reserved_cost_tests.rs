//! Tests of `reserved_cost`: when a page moves, and between which classes.

use super::ReservedCost;
use crate::testing;
use crate::{ClassSnapshot, PagePolicy, Snapshot, Trigger};
use slabwise_base::ClassId;

/// The events of a class in a second, the cost of each of its items, and its pages. Chunks have 100 bytes.
#[derive(Clone, Copy)]
struct Class {
    hits: u64,
    misses: u64,
    cost: u64,
    pages: u64,
}

const PLAIN: Class = Class { hits: 900, misses: 100, cost: 10, pages: 5 };

/// A cache and its policy, which takes a step each second.
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

    /// Steps the policy through `count` seconds, each with the events of `classes`. Returns the victim and the receiver
    /// of the move of each second.
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
            assert!(plan.moves.len() <= 1, "a step moves at most one page");
            let pair = plan
                .moves
                .first()
                .map(|m| (m.victim.0, m.receiver.expect("a class receives the page").0));
            moves.push(pair);
        }
        moves
    }

    /// Returns the move of the first evaluation after the hits of these classes have dropped to a ninth.
    fn after_a_drop(classes: &[Class]) -> Option<(u8, u8)> {
        let mut cache = Cache::new(classes.len());
        assert_eq!(cache.seconds(3, classes), [None; 3]);
        let dropped: Vec<Class> =
            classes.iter().map(|class| Class { hits: class.hits / 9, ..*class }).collect();
        cache.seconds(4, &dropped)[3]
    }
}

#[test]
fn one_page_moves_after_the_hit_ratio_drops_by_a_tenth_of_the_best() {
    let with_misses = |misses: u64| {
        let busy = Class { hits: 1_000 - misses, misses, ..PLAIN };
        [PLAIN, Class { cost: 20, ..busy }]
    };
    let none = [None; 4];
    let mut cache = Cache::new(2);
    // `Cache::new` has taken the first of the four steps before the evaluation.
    cache.seconds(3, &with_misses(100));
    // The best hit ratio is 90 %, so a page moves after a hit ratio below 81 %. With 279 misses per 1,000 gets of one
    // class, the hit ratio of the cache is just above 81 %; with 281 misses it is just below.
    assert_eq!(cache.seconds(4, &with_misses(279)), none);
    let at_the_evaluation = [None, None, None, Some((0, 1))];
    assert_eq!(cache.seconds(4, &with_misses(281)), at_the_evaluation);
    // One second with a low hit ratio is enough.
    let mut moves = cache.seconds(1, &with_misses(400));
    moves.extend(cache.seconds(3, &with_misses(100)));
    assert_eq!(moves, at_the_evaluation);
    assert_eq!(
        cache.seconds(4, &with_misses(100)),
        none,
        "no page moves after the hit ratio has recovered"
    );
}

#[test]
fn weakness_a_permanent_drop_moves_pages_forever() {
    let mut cache = Cache::new(2);
    cache.seconds(3, &[PLAIN, Class { cost: 20, ..PLAIN }]);
    let low = Class { hits: 300, misses: 700, ..PLAIN };
    let moves = cache.seconds(4_000, &[low, Class { cost: 20, ..low }]);
    assert_eq!(moves.iter().flatten().count(), 1_000, "a page moves at each evaluation");
}

#[test]
fn a_page_moves_from_the_least_to_the_most_miss_ratio_times_cost() {
    let costly = Class { cost: 20, ..PLAIN };
    let cheap = Class { cost: 5, ..PLAIN };
    assert_eq!(Cache::after_a_drop(&[PLAIN, costly, cheap]), Some((2, 1)), "the costs decide");
    let missing = Class { hits: 450, ..PLAIN };
    assert_eq!(Cache::after_a_drop(&[PLAIN, missing]), Some((0, 1)), "the miss ratios decide");
    let hitting = Class { hits: 3_600, cost: 30, ..PLAIN };
    assert_eq!(Cache::after_a_drop(&[PLAIN, hitting]), Some((1, 0)), "the products decide");
    assert_eq!(Cache::after_a_drop(&[PLAIN, costly, Class { pages: 1, ..cheap }]), Some((0, 1)));
    assert_eq!(Cache::after_a_drop(&[PLAIN, PLAIN]), None, "no page moves between equal classes");
    assert_eq!(Cache::after_a_drop(&[PLAIN]), None);
}

#[test]
fn without_costs_a_chunk_costs_one() {
    let mut free = PLAIN;
    free.cost = 0;
    assert_eq!(Cache::after_a_drop(&[free, Class { hits: 450, ..free }]), Some((0, 1)));
}

#[test]
fn seconds_with_few_gets_and_the_warm_up_make_no_sample() {
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
fn the_policy_takes_a_step_each_second() {
    let policy = PagePolicy::parse("reserved_cost:hit_ratio_drop=0.2").expect("the text is valid");
    assert_eq!(policy.trigger(), Trigger::EveryTicks(64));
}
