//! Scenarios of a single step, and a small cache of LRU classes whose ages the policy must balance.

use super::{TailAge, TailAgeOptions, Worth};
use crate::testing;
use crate::{ClassSnapshot, PageMove, Snapshot};
use slabwise_base::{ClassId, Random, Ticks};
use std::collections::{BTreeMap, HashMap};

const CHUNKS_PER_PAGE: u64 = 16;

fn class(index: u8, pages: u64, age_ticks: u32) -> ClassSnapshot {
    ClassSnapshot {
        pages,
        used_chunks: pages * CHUNKS_PER_PAGE,
        tail_age_ticks: age_ticks,
        ..ClassSnapshot::empty(ClassId(index), 96, CHUNKS_PER_PAGE as usize)
    }
}

/// Steps the policy once to record the counts, then again with evictions in the given classes, long enough after the
/// first step that no class is held.
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
        snapshot.classes[index].evicted += 100;
    }
    testing::step(&mut policy, &snapshot).moves
}

fn pairs(moves: &[PageMove]) -> Vec<(u8, Option<u8>)> {
    moves.iter().map(|m| (m.victim.0, m.receiver.map(|class| class.0))).collect()
}

#[test]
fn the_youngest_evicting_class_receives_from_the_oldest_tail() {
    let classes = [class(0, 100, 6_400), class(1, 100, 3_000), class(2, 10, 100)];
    let moves = second_step(&classes, &[1, 2]);
    assert_eq!(pairs(&moves), vec![(0, Some(2)); TailAgeOptions::default().moves_max]);
}

#[test]
fn space_time_keeps_small_items_longer() {
    let small = class(0, 100, 3_000);
    let large = ClassSnapshot { chunk_size_bytes: 960, ..class(1, 100, 1_000) };
    let step = |worth| {
        let policy = TailAge::balancing(worth);
        pairs(&second_step_of(policy, &[small, large], &[0, 1]))
    };
    let moves_max = TailAgeOptions::default().moves_max;
    assert_eq!(step(Worth::Age), vec![(0, Some(1)); moves_max], "age alone favours large items");
    assert_eq!(
        step(Worth::SpaceTime),
        vec![(1, Some(0)); moves_max],
        "a page of large items holds a tenth of the items"
    );
}

#[test]
fn nothing_moves_within_the_gap_or_without_evictions() {
    assert_eq!(second_step(&[class(0, 10, 1_000), class(1, 10, 801)], &[0, 1]), []);
    assert_eq!(second_step(&[class(0, 10, 1_000), class(1, 10, 10)], &[0]), []);
    assert_eq!(second_step(&[class(0, 10, 1_000), class(1, 10, 10)], &[]), []);
    assert_ne!(second_step(&[class(0, 10, 1_000), class(1, 10, 790)], &[1]), []);
    let unused = ClassSnapshot { free_chunks: CHUNKS_PER_PAGE, ..class(1, 10, 10) };
    assert_eq!(
        second_step(&[class(0, 10, 1_000), unused], &[1]),
        [],
        "it still has a page of free chunks"
    );
}

#[test]
fn a_step_stops_when_projected_ages_are_equal() {
    // 4 and 2 pages of ages 400 and 200: after one move, 300 and 300.
    let moves = second_step(&[class(0, 4, 400), class(1, 2, 200)], &[1]);
    assert_eq!(pairs(&moves), [(0, Some(1))]);
}

#[test]
fn a_class_in_use_keeps_its_last_page() {
    assert_eq!(second_step(&[class(0, 1, 10_000), class(1, 10, 10)], &[1]), []);
    let forgotten = [class(0, 1, 100_000), class(1, 10, 900), class(2, 10, 1_000)];
    assert_eq!(second_step(&forgotten, &[1, 2]), [], "an old single page puts no class in need");
    let empty = ClassSnapshot { used_chunks: 0, free_chunks: CHUNKS_PER_PAGE, ..class(0, 1, 0) };
    assert_eq!(pairs(&second_step(&[empty, class(1, 10, 10)], &[])), [(0, None)]);
}

#[test]
fn free_pages_go_to_a_class_in_need_or_to_the_pool() {
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
fn a_class_without_pages_that_is_refused_memory_receives_one() {
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
fn nothing_moves_while_the_pool_has_pages() {
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

/// An LRU of items over the chunks of its pages.
#[derive(Default)]
struct Lru {
    pages: u64,
    by_use: BTreeMap<u64, u64>,
    /// Last use (a serial number) and its tick, for each key.
    items: HashMap<u64, (u64, u32)>,
    evicted: u64,
}

/// Classes with a common pool, gets and sets, and page moves that are carried out at once.
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

    /// A get and, on a miss, a set.
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
            tail_age_ticks: lru.tail_age_ticks(self.now),
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
        assert!(victim.pages > 1 || victim.items.is_empty(), "invariant: one page stays");
        victim.pages -= 1;
        while victim.items.len() as u64 > victim.pages * CHUNKS_PER_PAGE {
            victim.drop_oldest();
        }
        match page_move.receiver {
            Some(receiver) => self.classes[receiver.index()].pages += 1,
            None => self.pages_free += 1,
        }
    }

    /// Runs `ticks` with `rates[i]` requests a tick to class i, uniform over `keys[i]` keys; returns the number of
    /// moves.
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
                assert!(plan.moves.len() <= TailAgeOptions::default().moves_max);
                moves += plan.moves.len();
                plan.moves.into_iter().for_each(|page_move| self.carry_out(page_move));
            }
        }
        moves
    }

    fn ages(&self) -> Vec<u32> {
        self.classes.iter().map(|lru| lru.tail_age_ticks(self.now)).collect()
    }
}

impl Lru {
    fn evict(&mut self) {
        self.drop_oldest();
        self.evicted += 1;
    }

    /// Drops the oldest item; in a class without pages, the item just inserted.
    fn drop_oldest(&mut self) {
        match self.by_use.pop_first() {
            Some((_, key)) => drop(self.items.remove(&key)),
            None => self.items.clear(),
        }
    }

    fn tail_age_ticks(&self, now: u32) -> u32 {
        let oldest = self.by_use.first_key_value().and_then(|(_, key)| self.items.get(key));
        oldest.map_or(0, |&(_, tick)| now - tick)
    }
}

/// The ratio of the greatest age to the least.
fn spread(ages: &[u32]) -> f64 {
    let (least, most) = (ages.iter().min(), ages.iter().max());
    f64::from(*most.unwrap_or(&0)) / f64::from(*least.unwrap_or(&0)).max(1.0)
}

#[test]
fn ages_become_equal_after_a_shift_and_moves_stop() {
    for seed in 1..=2 {
        let mut random = Random::new(seed);
        let mut policy = TailAge::default();
        let mut cache = Cache::new(2, 64);
        let keys = [5_000, 5_000];
        // First all memory goes to class 0; then both classes get requests, with different rates.
        cache.run(&mut policy, 1_000, &[8, 0], &keys, &mut random);
        assert_eq!(cache.classes[0].pages, 64, "seed {seed}: class 0 has all pages");
        for rates in [[4, 4], [2, 8], [9, 1]] {
            cache.run(&mut policy, 4_000, &rates, &keys, &mut random);
            let ages = cache.ages();
            assert!(spread(&ages) < 1.5, "seed {seed}, rates {rates:?}: ages {ages:?}");
            let moves = cache.run(&mut policy, 4_000, &rates, &keys, &mut random);
            assert!(moves <= 12, "seed {seed}, rates {rates:?}: {moves} moves when steady");
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
