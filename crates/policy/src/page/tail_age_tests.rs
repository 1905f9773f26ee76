//! Tests of `tail_age` and `space_time`: single steps, and a small cache of LRU classes whose tail ages become equal.

use super::{MOVES_MAX, Quantity, TailAge, TailAgeOptions};
use crate::testing;
use crate::{ClassSnapshot, PageMove, Snapshot};
use slabwise_base::{ClassId, Random, Ticks};
use std::collections::{BTreeMap, HashMap};

const CHUNKS_PER_PAGE: u64 = 16;
/// The number of items that an evicting class evicts in a step.
const EVICTED: u64 = 100;

fn class(index: u8, pages: u64, age_work: u32) -> ClassSnapshot {
    ClassSnapshot {
        pages,
        used_chunks: pages * CHUNKS_PER_PAGE,
        tail_age_work: age_work,
        ..ClassSnapshot::empty(ClassId(index), 96, CHUNKS_PER_PAGE as usize)
    }
}

/// Steps the policy twice: first to record the counts, then after evictions in the classes with the indexes `evicting`.
/// The time between the steps exceeds the cooldown. Returns the moves of the second step.
fn second_step(classes: &[ClassSnapshot], evicting: &[usize]) -> Vec<PageMove> {
    second_step_of(TailAge::default(), classes, evicting)
}

fn second_step_of(
    mut policy: TailAge,
    classes: &[ClassSnapshot],
    evicting: &[usize],
) -> Vec<PageMove> {
    let mut snapshot =
        Snapshot { memory_full: true, classes: classes.to_vec(), ..Snapshot::default() };
    testing::step(&mut policy, &snapshot);
    snapshot.now = Ticks(1_000);
    for &index in evicting {
        snapshot.classes[index].evicted += EVICTED;
    }
    testing::step(&mut policy, &snapshot).moves
}

fn pairs(moves: &[PageMove]) -> Vec<(u8, Option<u8>)> {
    moves.iter().map(|m| (m.victim.0, m.receiver.map(|class| class.0))).collect()
}

#[test]
fn the_evicting_class_with_the_youngest_tail_receives_from_the_oldest() {
    let classes = [class(0, 100, 6_400), class(1, 100, 3_000), class(2, 10, 100)];
    let moves = second_step(&classes, &[1, 2]);
    assert_eq!(pairs(&moves), vec![(0, Some(2)); MOVES_MAX]);
}

#[test]
fn a_step_moves_more_pages_of_a_large_cache_unless_an_option_limits_it() {
    let classes = [class(0, 4_000, 6_400), class(1, 4_000, 3_000), class(2, 192, 100)];
    let moved = |moves_max| {
        let options = TailAgeOptions { moves_max, ..TailAgeOptions::default() };
        let policy = TailAge { options, ..TailAge::default() };
        second_step_of(policy, &classes, &[2]).len()
    };
    assert_eq!(moved(0), (4_000 + 4_000 + 192) / 256);
    assert_eq!(moved(3), 3);
}

#[test]
fn a_class_that_fills_more_than_its_free_chunks_receives_pages_under_space_time() {
    // The class takes EVICTED chunks in a step, which is a little more than six pages.
    let received = |quantity, free_pages: u64| {
        let free_chunks = free_pages * CHUNKS_PER_PAGE;
        let needy = ClassSnapshot { free_chunks, ..class(1, 20, 100) };
        second_step_of(TailAge::balancing(quantity), &[class(0, 100, 6_400), needy], &[1]).len()
    };
    let by_space_time = [0, 2, 7].map(|free| received(Quantity::SpaceTime, free));
    assert_eq!(by_space_time, [7, 5, 0], "the pages that it begins to fill, less its free ones");
    assert_eq!(received(Quantity::Age, 2), 0, "tail_age waits until the free chunks are filled");
}

/// A class whose chunks hold only heads of chained items has no queued item.
#[test]
fn a_class_without_queued_items_receives_one_page_a_step() {
    let moves = second_step(&[class(0, 100, 6_400), class(1, 1, 0)], &[1]);
    assert_eq!(pairs(&moves), [(0, Some(1))]);
}

#[test]
fn space_time_moves_pages_from_large_items_to_small_items() {
    let small = class(0, 100, 3_000);
    let large = ClassSnapshot { chunk_size_bytes: 960, ..class(1, 100, 1_000) };
    let step = |quantity| {
        let policy = TailAge::balancing(quantity);
        pairs(&second_step_of(policy, &[small, large], &[0, 1]))
    };
    assert_eq!(step(Quantity::Age), vec![(0, Some(1)); MOVES_MAX], "the tail of class 0 is older");
    let filled_pages = EVICTED.div_ceil(CHUNKS_PER_PAGE) as usize;
    assert!(filled_pages < MOVES_MAX, "the test shows which limit applies");
    assert_eq!(
        step(Quantity::SpaceTime),
        vec![(1, Some(0)); filled_pages],
        "age times chunk size of class 1 is greater, and class 0 fills this number of pages a step"
    );
}

/// A class's age grows with its memory. So a page that doubles or halves a class must not move back and forth.
#[test]
fn space_time_moves_no_page_between_a_small_class_and_the_others_and_back() {
    let step = |small: ClassSnapshot, quantity| {
        let policy = TailAge::balancing(quantity);
        pairs(&second_step_of(policy, &[small, class(1, 100, 1_000)], &[0, 1])).len()
    };
    let (one_page, two_pages) = (class(0, 1, 600), class(0, 2, 1_200));
    assert!(step(one_page, Quantity::Age) > 0, "the age of one page is 40 % below the others");
    assert_eq!(step(one_page, Quantity::SpaceTime), 0, "a second page would double the age");
    assert_eq!(step(two_pages, Quantity::SpaceTime), 0, "and then it stays");
    assert!(step(class(0, 1, 480), Quantity::SpaceTime) > 0, "1.44 * 480 is 30 % below 1,000");
    assert_eq!(step(class(0, 1, 490), Quantity::SpaceTime), 0);
    assert!(step(class(0, 2, 2_000), Quantity::SpaceTime) > 0, "2,000 / 1.39 is far above 1,000");
    assert_eq!(step(class(0, 2, 1_900), Quantity::SpaceTime), 0);
}

#[test]
fn no_page_moves_within_the_tolerance_or_without_evictions() {
    assert_eq!(second_step(&[class(0, 10, 1_000), class(1, 10, 801)], &[0, 1]), []);
    assert_eq!(second_step(&[class(0, 10, 1_000), class(1, 10, 10)], &[0]), []);
    assert_eq!(second_step(&[class(0, 10, 1_000), class(1, 10, 10)], &[]), []);
    assert_ne!(second_step(&[class(0, 10, 1_000), class(1, 10, 790)], &[1]), []);
    let unused = ClassSnapshot { free_chunks: CHUNKS_PER_PAGE, ..class(1, 10, 10) };
    assert_eq!(
        second_step(&[class(0, 10, 1_000), unused], &[1]),
        [],
        "a class with a page of free chunks receives no page"
    );
}

#[test]
fn a_step_plans_no_more_moves_when_projected_ages_are_equal() {
    // Four pages with tail age 400 and two pages with tail age 200. After one move both tail ages are 300.
    let moves = second_step(&[class(0, 4, 400), class(1, 2, 200)], &[1]);
    assert_eq!(pairs(&moves), [(0, Some(1))]);
}

#[test]
fn a_class_with_items_keeps_its_last_page() {
    assert_eq!(second_step(&[class(0, 1, 10_000), class(1, 10, 10)], &[1]), []);
    let with_unused = [class(0, 1, 100_000), class(1, 10, 900), class(2, 10, 1_000)];
    let moves = second_step(&with_unused, &[1, 2]);
    assert_eq!(moves, [], "the old tail of a class with one page does not count in the mean");
    let empty = ClassSnapshot { used_chunks: 0, free_chunks: CHUNKS_PER_PAGE, ..class(0, 1, 0) };
    assert_eq!(pairs(&second_step(&[empty, class(1, 10, 10)], &[])), [(0, None)]);
}

#[test]
fn free_pages_move_to_a_class_that_needs_one_or_to_the_pool() {
    let spare = ClassSnapshot {
        used_chunks: 7 * CHUNKS_PER_PAGE,
        free_chunks: 3 * CHUNKS_PER_PAGE,
        ..class(0, 10, 50)
    };
    let others = [class(1, 10, 1_000), class(2, 10, 10)];
    let moves = second_step(&[spare, others[0], others[1]], &[2]);
    assert_eq!(pairs(&moves)[..2], [(0, Some(2)), (0, Some(2))]);
    assert_ne!(pairs(&moves).get(2), Some(&(0, Some(2))));
    assert_eq!(pairs(&second_step(&[spare, others[0]], &[])), [(0, None), (0, None)]);
}

#[test]
fn a_class_without_pages_that_refuses_a_store_receives_a_page() {
    let mut policy = TailAge::default();
    let mut snapshot = Snapshot {
        memory_full: true,
        classes: vec![class(0, 10, 1_000), class(1, 0, 0)],
        ..Snapshot::default()
    };
    testing::step(&mut policy, &snapshot);
    snapshot.now = Ticks(100);
    snapshot.classes[1].out_of_memory = 1;
    assert_eq!(
        testing::step(&mut policy, &snapshot).moves.first().map(|m| m.receiver),
        Some(Some(ClassId(1)))
    );
}

#[test]
fn no_page_moves_while_the_pool_has_pages() {
    let mut policy = TailAge::default();
    let mut snapshot = Snapshot {
        memory_full: true,
        pages_free: 1,
        classes: vec![class(0, 10, 1_000), class(1, 10, 10)],
        ..Snapshot::default()
    };
    testing::step(&mut policy, &snapshot);
    snapshot.classes[1].evicted = 5;
    assert_eq!(testing::step(&mut policy, &snapshot).moves, []);
}

/// A class whose pages hold items in LRU order.
#[derive(Default)]
struct Lru {
    pages: u64,
    /// The key of each item, by the serial number of the item's last use.
    by_use: BTreeMap<u64, u64>,
    /// For each key, the serial number and the tick of the last use.
    items: HashMap<u64, (u64, u32)>,
    evicted: u64,
}

/// A cache of LRU classes with a page pool. Page moves are carried out at once.
struct Cache {
    classes: Vec<Lru>,
    pages_free: u64,
    serial: u64,
    now: u32,
}

impl Cache {
    fn new(class_count: usize, pages: u64) -> Cache {
        let classes = std::iter::repeat_with(Lru::default).take(class_count).collect();
        Cache { classes, pages_free: pages, serial: 0, now: 0 }
    }

    /// Gets a key and stores it after a miss.
    fn request(&mut self, class: usize, key: u64) {
        self.serial += 1;
        let lru = &mut self.classes[class];
        if let Some((used, _)) = lru.items.insert(key, (self.serial, self.now)) {
            lru.by_use.remove(&used);
        } else if lru.items.len() as u64 > lru.pages * CHUNKS_PER_PAGE {
            if self.pages_free > 0 {
                self.pages_free -= 1;
                lru.pages += 1;
            } else {
                lru.evict();
            }
        }
        if lru.items.contains_key(&key) {
            lru.by_use.insert(self.serial, key);
        }
    }

    fn snapshot(&self) -> Snapshot {
        let classes = self.classes.iter().enumerate().map(|(index, lru)| ClassSnapshot {
            pages: lru.pages,
            used_chunks: lru.items.len() as u64,
            free_chunks: lru.pages * CHUNKS_PER_PAGE - lru.items.len() as u64,
            evicted: lru.evicted,
            tail_age_work: lru.tail_age_work(self.now),
            ..ClassSnapshot::empty(ClassId(index as u8), 96, CHUNKS_PER_PAGE as usize)
        });
        Snapshot {
            now: Ticks(self.now),
            pages_free: self.pages_free,
            memory_full: true,
            classes: classes.collect(),
            ..Snapshot::default()
        }
    }

    fn carry_out(&mut self, page_move: PageMove) {
        let victim = &mut self.classes[page_move.victim.index()];
        assert!(victim.pages > 1 || victim.items.is_empty(), "a class with items keeps a page");
        victim.pages -= 1;
        while victim.items.len() as u64 > victim.pages * CHUNKS_PER_PAGE {
            victim.drop_oldest();
        }
        match page_move.receiver {
            Some(receiver) => self.classes[receiver.index()].pages += 1,
            None => self.pages_free += 1,
        }
    }

    /// Runs this many ticks. In each tick class i has `rates[i]` requests, uniformly distributed over `keys[i]` keys.
    /// Returns the number of moves.
    fn run(
        &mut self,
        policy: &mut TailAge,
        ticks: u32,
        rates: &[u64],
        keys: &[u64],
        random: &mut Random,
    ) -> usize {
        let mut moves = 0;
        for _ in 0..ticks {
            self.now += 1;
            for (class, (&rate, &keys)) in rates.iter().zip(keys).enumerate() {
                (0..rate).for_each(|_| self.request(class, random.below(keys)));
            }
            if self.now.is_multiple_of(4) {
                let plan = testing::step(policy, &self.snapshot());
                assert!(plan.moves.len() <= MOVES_MAX);
                moves += plan.moves.len();
                plan.moves.into_iter().for_each(|page_move| self.carry_out(page_move));
            }
        }
        moves
    }

    fn ages(&self) -> Vec<u32> {
        self.classes.iter().map(|lru| lru.tail_age_work(self.now)).collect()
    }
}

impl Lru {
    fn evict(&mut self) {
        self.drop_oldest();
        self.evicted += 1;
    }

    /// Drops the least recently used item. In a class without pages this is the item that was just inserted.
    fn drop_oldest(&mut self) {
        match self.by_use.pop_first() {
            Some((_, key)) => drop(self.items.remove(&key)),
            None => self.items.clear(),
        }
    }

    fn tail_age_work(&self, now: u32) -> u32 {
        let oldest = self.by_use.first_key_value().and_then(|(_, key)| self.items.get(key));
        oldest.map_or(0, |&(_, tick)| now - tick)
    }
}

/// Returns the greatest age divided by the least age.
fn spread(ages: &[u32]) -> f64 {
    let (least, most) = (ages.iter().min(), ages.iter().max());
    f64::from(*most.unwrap_or(&0)) / f64::from(*least.unwrap_or(&0)).max(1.0)
}

#[test]
fn after_a_change_of_load_ages_become_equal_and_moves_stop() {
    for seed in 1..=2 {
        let mut random = Random::new(seed);
        let mut policy = TailAge::default();
        let mut cache = Cache::new(2, 64);
        let keys = [5_000, 5_000];
        // First only class 0 has requests and takes all pages; then both classes have requests, at different rates.
        cache.run(&mut policy, 1_000, &[8, 0], &keys, &mut random);
        assert_eq!(cache.classes[0].pages, 64, "seed {seed}: class 0 has all pages");
        for rates in [[4, 4], [2, 8], [9, 1]] {
            cache.run(&mut policy, 4_000, &rates, &keys, &mut random);
            let ages = cache.ages();
            assert!(spread(&ages) < 1.5, "seed {seed}, rates {rates:?}: ages {ages:?}");
            let moves = cache.run(&mut policy, 4_000, &rates, &keys, &mut random);
            assert!(moves <= 12, "seed {seed}, rates {rates:?}: {moves} moves under a steady load");
        }
    }
}

#[test]
fn an_unused_class_gives_all_but_its_last_page() {
    let mut random = Random::new(9);
    let mut policy = TailAge::default();
    let mut cache = Cache::new(3, 60);
    let keys = [2_000, 2_000, 2_000];
    cache.run(&mut policy, 4_000, &[4, 4, 4], &keys, &mut random);
    cache.run(&mut policy, 10_000, &[0, 4, 4], &keys, &mut random);
    assert_eq!(cache.classes[0].pages, 1);
    assert!(spread(&cache.ages()[1..]) < 1.5, "ages {:?}", cache.ages());
}
