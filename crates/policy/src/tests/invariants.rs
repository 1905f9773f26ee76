//! Tests of the invariants that hold for every policy, on caches with random counts.

use crate::page::marginal;
use crate::{ClassProfile, ClassSnapshot, Inputs, PagePolicy, PageSnapshot, Plan, Snapshot};
use slabwise_base::{ClassId, PageId, Random, Ticks};
use slabwise_profile::{Mrc, Point};

const STEPS: u32 = 1_000;
const SEEDS: u64 = 4;
const PAGE_SIZE_BYTES: usize = 16 << 10;

/// A cache whose counts increase by random numbers.
struct Cache {
    snapshot: Snapshot,
    inputs: Inputs,
    random: Random,
}

impl Cache {
    fn new(inputs: Inputs, seed: u64) -> Cache {
        let mut cache = Cache { snapshot: Snapshot::default(), inputs, random: Random::new(seed) };
        cache.change_table();
        cache
    }

    /// Replaces all classes by 0 to 12 new classes. Some of them have the number of an old class.
    fn change_table(&mut self) {
        let random = &mut self.random;
        let count = [0, 1, 2, 3, 6, 12][random.below(6) as usize];
        let mut numbers: Vec<u8> = (0..ClassId::NUMBERS as u8).collect();
        let mut chunk_size_bytes = 48;
        let mut class = |_| {
            let number = numbers.swap_remove(random.below(numbers.len() as u64) as usize);
            chunk_size_bytes += 8 + random.below(400) as usize;
            let pages = random.below(3) * random.below(20);
            ClassSnapshot {
                pages,
                used_chunks: pages * random.below(2),
                ..ClassSnapshot::empty(
                    ClassId(number),
                    chunk_size_bytes,
                    PAGE_SIZE_BYTES / chunk_size_bytes,
                )
            }
        };
        self.snapshot.classes = (0..count).map(&mut class).collect();
        self.snapshot.profiles.clear();
        if !matches!(self.inputs, Inputs::Counts | Inputs::Pages) {
            self.snapshot.profiles.resize(count, ClassProfile::default());
        }
    }

    /// Advances the time and changes all counts, profiles and the page pool at random.
    fn advance(&mut self) {
        let random = &mut self.random;
        let snapshot = &mut self.snapshot;
        snapshot.now.0 += random.below(u64::from(20 * Ticks::PER_SECOND)) as u32;
        snapshot.memory_full = random.below(8) > 0;
        snapshot.pages_free = if random.below(8) > 0 { 0 } else { random.below(4) };
        for class in &mut snapshot.classes {
            let mut some = |below| random.below(2) * random.below(2) * random.below(below);
            class.hits += some(10_000);
            let sets = some(1_000);
            class.sets += sets;
            class.inserted += sets;
            let with_cost = some(sets + 1);
            class.costs_known += with_cost;
            class.cost_paid += with_cost * some(1_000);
            class.cost_held = some(1_000_000);
            class.evicted += some(1_000);
            class.out_of_memory += some(3);
            class.tail_age_work = some(1_000_000) as u32;
            let chunks = class.pages * class.chunks_per_page as u64;
            let empty = random.below(4) == 0;
            class.used_chunks = if empty { 0 } else { random.below(chunks + 1) };
            class.free_chunks = chunks - class.used_chunks;
            let gets = random.below(1_000);
            snapshot.gets += gets;
            snapshot.misses += random.below(gets + 1);
        }
        for (class, profile) in snapshot.classes.iter().zip(&mut snapshot.profiles) {
            random_profile(class, profile, random);
        }
        if self.inputs == Inputs::Pages {
            self.list_pages();
        }
    }

    /// Lists the pages of all classes, with random times of their last accesses.
    fn list_pages(&mut self) {
        let Cache { snapshot, random, .. } = self;
        let now = snapshot.now.0;
        let owners = snapshot.classes.iter().flat_map(|it| (0..it.pages).map(|_| it.class));
        let page = |(number, class): (usize, ClassId)| PageSnapshot {
            page: PageId(number as u32),
            class,
            accessed_at: (random.below(4) > 0)
                .then(|| Ticks(random.below(u64::from(now) + 1) as u32)),
        };
        snapshot.pages = owners.enumerate().map(page).collect();
    }

    /// Carries out the first moves of the plan: a random number of them, from none to all.
    fn carry_out(&mut self, plan: &Plan) {
        let count = self.random.below(plan.moves.len() as u64 + 1) as usize;
        for page_move in &plan.moves[..count] {
            self.class(page_move.victim).pages -= 1;
            if let Some(receiver) = page_move.receiver {
                self.class(receiver).pages += 1;
            }
        }
    }

    fn class(&mut self, id: ClassId) -> &mut ClassSnapshot {
        let found = self.snapshot.classes.iter_mut().find(|class| class.class == id);
        found.expect("a move is between classes of the snapshot")
    }
}

fn random_profile(class: &ClassSnapshot, profile: &mut ClassProfile, random: &mut Random) {
    let mut some = |most: f64| random.below(2) as f64 * most * random.unit();
    profile.misses += some(1_000.0);
    profile.misses_by_eviction += some(500.0);
    profile.stored_before += some(500.0);
    profile.shadow_hits += some(500.0);
    profile.partition_shadow_hits += some(500.0);
    profile.hit_time_us = some(100.0);
    profile.miss_time_us = some(10_000.0);
    let references = [some(1e6), some(1e6)];
    profile.curve = random_curve(class, references[0], random);
    profile.footprint_curve = random_curve(class, references[1], random);
}

fn random_curve(class: &ClassSnapshot, references: f64, random: &mut Random) -> Mrc {
    let mut point = Point { chunks: 0, misses: references };
    let mut points = vec![point];
    for _ in 0..random.below(40) {
        point.chunks += 1 + random.below(4 * class.chunks_per_page as u64);
        point.misses *= [1.0, random.unit(), 0.99][random.below(3) as usize];
        points.push(point);
    }
    Mrc::new(points)
}

/// Returns the maximum number of moves that the policy may plan in a step on this cache.
fn moves_max(policy: &PagePolicy, snapshot: &Snapshot) -> usize {
    let pages: u64 = snapshot.classes.iter().map(|class| class.pages).sum();
    if let Some(moves_max) = policy.value("moves_max") {
        // Only `tail_age` and `space_time` permit 0.
        return match moves_max.parse().expect("moves_max is a whole number") {
            0 => 8.max(pages as usize / 256),
            moves_max => moves_max,
        };
    }
    match policy.name() {
        "none" => 0,
        "eager" => snapshot.classes.len(),
        "marginal" => marginal::moves_max(pages),
        _ => 1,
    }
}

/// Checks the invariants of a plan. `at` names the policy and the step, for messages.
fn check(policy: &PagePolicy, snapshot: &Snapshot, plan: &Plan, at: &str) {
    let (moves, moves_max) = (plan.moves.len(), moves_max(policy, snapshot));
    assert!(moves <= moves_max, "{at}: a plan has at most {moves_max} moves, not {moves}");
    let name = policy.name();
    let takes_last_pages = name.starts_with("twemcache");
    for (index, class) in snapshot.classes.iter().enumerate() {
        let taken = plan.moves.iter().filter(|m| m.victim == class.class).count() as u64;
        assert!(
            taken <= class.pages,
            "{at}: a plan takes at most {} pages, not {taken}",
            class.pages
        );
        let in_use = class.used_chunks > 0;
        assert!(
            takes_last_pages || !in_use || taken == 0 || taken < class.pages,
            "{at}: class {index} has items and keeps its last page"
        );
    }
    let mut named: Vec<_> = plan.moves.iter().filter_map(|it| it.page).collect();
    named.sort_unstable();
    assert!(named.is_sorted_by(|a, b| a < b), "{at}: no page is taken twice: {named:?}");
    let known = |id: ClassId| snapshot.classes.iter().any(|class| class.class == id);
    for page_move in &plan.moves {
        assert!(known(page_move.victim), "{at}: the victim is in the snapshot: {page_move:?}");
        let receiver = page_move.receiver;
        assert!(receiver.is_none_or(known), "{at}: the receiver is in the snapshot: {page_move:?}");
        let differ = receiver != Some(page_move.victim);
        assert!(differ || page_move.page.is_some(), "{at}: victim and receiver differ");
        let is_of_victim = |page| {
            let named = snapshot.pages.iter().find(|known| known.page == page);
            named.is_some_and(|known| known.class == page_move.victim)
        };
        assert!(page_move.page.is_none_or(is_of_victim), "{at}: the victim owns the page");
        assert!(!page_move.reason.is_empty(), "{at}: a move has a reason");
    }
}

#[test]
fn every_policy_keeps_its_invariants_on_any_cache() {
    for name in PagePolicy::NAMES {
        let mut moves = 0;
        for seed in 0..SEEDS {
            let mut policy = PagePolicy::named(name).expect("the name is in PagePolicy::NAMES");
            let mut twin = policy.clone();
            let mut cache = Cache::new(policy.inputs(), seed);
            let (mut random, mut same_random) = (Random::new(seed), Random::new(seed));
            for step in 0..STEPS {
                if cache.random.below(50) == 0 {
                    cache.change_table();
                }
                cache.advance();
                let at = format!("{name}, seed {seed}, step {step}");
                let plan = policy.step(&cache.snapshot, &mut random);
                check(&policy, &cache.snapshot, &plan, &at);
                let same = twin.step(&cache.snapshot, &mut same_random);
                assert_eq!(plan, same, "{at}: a plan depends only on snapshots and the generator");
                assert_eq!(policy.name(), name, "{at}: the name of a policy does not change");
                cache.carry_out(&plan);
                moves += plan.moves.len();
            }
        }
        assert_eq!(
            moves > 0,
            name != "none",
            "{name}: every policy except none plans moves: {moves}"
        );
    }
}

#[test]
fn with_equal_costs_plans_for_cost_equal_plans_for_the_miss_ratio() {
    for name in ["lama", "lama:curve=distance", "marginal"] {
        let mut moves = 0;
        for seed in 0..SEEDS {
            let of = |objective| {
                let text = format!("{name}:objective={objective}");
                PagePolicy::parse(&text).expect("the text is valid")
            };
            let (mut by_cost, mut by_misses) = (of("cost"), of("miss_ratio"));
            let mut cache = Cache::new(by_cost.inputs(), seed);
            let cost = if seed == 0 { 0 } else { cache.random.below(1 << 32) };
            let mut random = Random::new(seed);
            for step in 0..STEPS {
                if cache.random.below(200) == 0 {
                    cache.change_table();
                }
                cache.advance();
                cache
                    .snapshot
                    .classes
                    .iter_mut()
                    .for_each(|it| it.cost_paid = it.costs_known * cost);
                let plan = by_cost.step(&cache.snapshot, &mut random);
                let same = by_misses.step(&cache.snapshot, &mut random);
                assert_eq!(
                    plan, same,
                    "{name}, seed {seed}, cost {cost}, step {step}: both objectives give the same plan"
                );
                cache.carry_out(&plan);
                moves += plan.moves.len();
            }
        }
        assert!(moves > 100, "{name}: more than 100 pages move, not {moves}");
    }
}

#[test]
fn every_policy_keeps_its_invariants_without_profiles() {
    for name in PagePolicy::NAMES {
        for seed in 0..SEEDS {
            let mut policy = PagePolicy::named(name).expect("the name is in PagePolicy::NAMES");
            let mut cache = Cache::new(Inputs::FreshProfiles, seed);
            let mut random = Random::new(seed);
            for step in 0..STEPS / 10 {
                cache.advance();
                let kept = cache.snapshot.profiles.clone();
                if cache.random.below(2) == 0 {
                    cache.snapshot.profiles.clear();
                }
                let plan = policy.step(&cache.snapshot, &mut random);
                check(
                    &policy,
                    &cache.snapshot,
                    &plan,
                    &format!("{name}, seed {seed}, step {step}"),
                );
                cache.snapshot.profiles = kept;
                cache.carry_out(&plan);
            }
        }
    }
}
