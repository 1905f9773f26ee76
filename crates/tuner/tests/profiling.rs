//! The control loop on virtual time, from the engine's accesses to moved pages.

use slabwise_base::{ClassId, Clock, Expiry, Moment, Random};
use slabwise_engine::{ClassTable, Engine, EngineConfig, Handle, ItemMeta, StoreMode};
use slabwise_policy::PagePolicy;
use slabwise_profile::{Access, AccessKind, ClassSize, Profiler, ProfilerOptions, is_sampled};
use slabwise_tuner::{
    Board, Load, MoveBudget, Profiling, ProfilingOptions, ProfilingStats, Sampler, Tuner,
    TunerStep, snapshot,
};
use std::sync::Arc;
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 16 << 10;
const SMALL_SIZE_BYTES: usize = 128;
const LARGE_SIZE_BYTES: usize = 1024;
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
/// Requests between two steps of the tuner.
const REQUESTS_PER_STEP: u64 = 100;
const REQUEST: Duration = Duration::from_micros(10);

/// Every key, and nothing fades.
const EVERYTHING: ProfilingOptions = ProfilingOptions {
    profiler: ProfilerOptions { keys_max: 100_000, rate_max: 1.0, window_references: u64::MAX },
    queue_len_max: 1_000,
    accesses_per_second_max: u64::MAX,
};

fn engine(pages: u64, seed: u64) -> Engine {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    let sizes = [SMALL_SIZE_BYTES, LARGE_SIZE_BYTES];
    config.classes = ClassTable::explicit(&sizes, PAGE_SIZE_BYTES).expect("a valid table");
    config.index_within_limit = false;
    config.hash_seed = seed;
    Engine::new(config).expect("the arena can be reserved")
}

/// A client of an engine, and its time.
struct Scene<'e> {
    engine: &'e Engine,
    handle: Handle<'e>,
    clock: Arc<Clock>,
    random: Random,
}

impl<'e> Scene<'e> {
    fn new(engine: &'e Engine) -> Scene<'e> {
        let random = Random::new(engine.config().hash_seed);
        Scene { engine, handle: engine.handle(), clock: Arc::new(Clock::manual()), random }
    }

    fn profiling(&self, options: ProfilingOptions) -> Profiling {
        let clock = Arc::clone(&self.clock);
        Profiling::start(self.engine, options, clock, self.clock.now())
    }

    fn tuner(&self, policy: PagePolicy, options: ProfilingOptions) -> Tuner {
        let budget = MoveBudget::for_pages_of(PAGE_SIZE_BYTES);
        Tuner::new(policy, budget, 1).with_profiling(self.profiling(options))
    }

    /// A get of one of so many keys, in turn or drawn, and on a miss a set; true: it hit.
    fn request(&mut self, keys: u64, value_len: usize) -> bool {
        let key = format!("{value_len}-{}", self.random.below(keys));
        self.clock.advance(REQUEST);
        let now = self.clock.now();
        if self.handle.get(key.as_bytes(), now, |_| ()).is_some() {
            return true;
        }
        // So long the client takes to find the value.
        self.clock.advance(Duration::from_millis(3));
        self.handle.set(key.as_bytes(), &vec![b'v'; value_len], META, StoreMode::Set, now);
        false
    }

    /// Mixed requests for so many keys of either class, with the tuner stepped in between. The miss ratio.
    fn serve(&mut self, tuner: &mut Tuner, requests: u64, keys: [u64; 2]) -> f64 {
        let mut misses = 0;
        for number in 0..requests {
            let is_small = self.random.below(2) == 0;
            let hit = if is_small { self.request(keys[0], 50) } else { self.request(keys[1], 900) };
            misses += u64::from(!hit);
            if number % REQUESTS_PER_STEP == 0 {
                step(tuner, self.engine, &self.clock);
            }
        }
        misses as f64 / requests as f64
    }
}

/// Steps until the tuner has nothing more to do at this moment.
fn step(tuner: &mut Tuner, engine: &Engine, clock: &Clock) {
    let mut at: Moment = clock.moment();
    loop {
        match tuner.step(engine, Load::Idle, at) {
            TunerStep::Working | TunerStep::Asked { .. } => {}
            TunerStep::Rest(rest) => at = Moment::from_nanos(at.nanos + rest.as_nanos() as u64),
            TunerStep::Idle { .. } => return,
        }
    }
}

fn policy(text: &str) -> PagePolicy {
    PagePolicy::parse(text).expect("it is well written")
}

#[test]
fn a_profile_tells_what_the_cache_did_and_would_have_done() {
    let seed = 5;
    let engine = engine(16, seed);
    let mut scene = Scene::new(&engine);
    let mut tuner = scene.tuner(PagePolicy::none(), EVERYTHING);
    scene.serve(&mut tuner, 100_000, [1_500, 100]);
    let view = snapshot(scene.engine, scene.clock.now());
    let profiling = tuner.profiling().expect("it profiles");
    let profiles = profiling.profiles(&view);
    assert_eq!(profiling.stats().accesses_dropped, 0);
    assert_eq!(profiles.len(), 2);
    let references: f64 = profiles.iter().map(|profile| profile.curve.references()).sum();
    let close = |a: f64, b: f64, part: f64| (a - b).abs() <= part * b;
    assert!(close(references, view.gets as f64, 0.01), "seed {seed}: {references}");
    let misses: f64 = profiles.iter().map(|profile| profile.misses).sum();
    assert!(close(misses, view.misses as f64, 0.01), "seed {seed}: {misses}");
    for (class, profile) in view.classes.iter().zip(&profiles) {
        // Uniform references: any size hits its share of the keys, but for the first of each.
        let keys = if class.chunk_size_bytes == SMALL_SIZE_BYTES { 1_500 } else { 100 };
        let half = profile.curve.misses(keys / 2) / profile.curve.references();
        assert!((half - 0.5).abs() < 0.05, "seed {seed}, {keys} keys: {half} missed at half");
        assert!(close(profile.miss_time_us, 3_000.0, 0.02), "seed {seed}: {profile:?}");
    }
}

#[test]
fn profiles_are_reported_once_a_second_while_there_is_something_new() {
    let seed = 6;
    let engine = engine(16, seed);
    let mut scene = Scene::new(&engine);
    let board = Arc::new(Board::default());
    let mut tuner = scene.tuner(PagePolicy::none(), EVERYTHING).shown_on(Arc::clone(&board));
    step(&mut tuner, scene.engine, &scene.clock);
    let report = || board.read().profile.expect("it profiles");
    let first = report();
    assert_eq!((first.stats.accesses, first.what_if.as_slice()), (0, [].as_slice()));
    let (mut reports, mut answers) = (vec![first], 0);
    let mut note = |seed| {
        let (last, new) = (reports.last().expect("the first"), report());
        if !Arc::ptr_eq(last, &new) {
            assert!(new.stats.accesses >= last.stats.accesses, "seed {seed}");
            answers += usize::from(new.what_if != last.what_if);
            reports.push(new);
        }
        (reports.len(), answers)
    };
    let begun_at = scene.clock.now().seconds;
    while scene.clock.now().seconds.0 - begun_at.0 < 40 {
        scene.serve(&mut tuner, REQUESTS_PER_STEP, [1_500, 100]);
        note(seed);
    }
    let (reported, answered) = note(seed);
    assert!((35..=41).contains(&reported), "seed {seed}: {reported} reports in 40 s");
    // Early, as accesses double, and then every ten seconds.
    assert!((5..=9).contains(&answered), "seed {seed}: {answered} answers in 40 s");
    // Nothing happens, but what has come since the last report is still to be told.
    for _ in 0..60 {
        scene.clock.advance(Duration::from_secs(1));
        step(&mut tuner, scene.engine, &scene.clock);
        note(seed);
    }
    let (then, _) = note(seed);
    assert!(then <= reported + 2, "seed {seed}: {then} reports, {reported} before the silence");
    let (told, known) = (report(), tuner.profiling().expect("it profiles"));
    assert_eq!(told.stats.accesses, known.stats().accesses, "seed {seed}");
    assert_eq!(told.snapshot.profiles, known.profiles(&told.snapshot), "seed {seed}");
}

#[test]
fn a_policy_by_counts_is_stepped_as_often_as_they_say_and_its_plan_is_recorded() {
    let seed = 9;
    let engine = engine(32, seed);
    let mut scene = Scene::new(&engine);
    let mut tuner = scene.tuner(PagePolicy::none(), EVERYTHING);
    // Large items only, until they have all pages.
    while !scene.engine.page_stats().memory_full() {
        scene.request(10_000, 900);
    }
    scene.serve(&mut tuner, 10_000, [1, 10_000]);
    let before = scene.serve(&mut tuner, 40_000, [2_000, 10_000]);
    assert_eq!(tuner.last_plan(), None);
    tuner.set_policy(policy("lama:period_gets=20000"));
    scene.serve(&mut tuner, 19_000, [2_000, 10_000]);
    assert_eq!(tuner.last_plan(), None, "seed {seed}: not due before 20,000 gets");
    scene.serve(&mut tuner, 3_000, [2_000, 10_000]);
    let first = *tuner.last_plan().expect("it was due");
    assert_eq!((first.moves, first.refused), (first.begun, 0), "seed {seed}: {first:?}");
    let after = scene.serve(&mut tuner, 110_000, [2_000, 10_000]);
    let last = *tuner.last_plan().expect("it was recorded");
    assert!(after < before - 0.3, "seed {seed}: {after} after {before}");
    let found = first.before.misses_per_thousand() / 1_000.0;
    assert!((found - before).abs() < 0.1, "seed {seed}: {found} measured, {before} counted");
    let predicted = first.predicted.expect("curves foresee").misses_after / 1_000.0;
    assert!((predicted - after).abs() < 0.1, "seed {seed}: {predicted} foreseen, {after} came");
    let measured = last.after.misses_per_thousand() / 1_000.0;
    assert!((measured - after).abs() < 0.1, "seed {seed}: {measured} measured, {after} counted");
}

#[test]
fn without_profiles_a_policy_by_time_waits_its_ticks() {
    let engine = engine(4, 1);
    let scene = Scene::new(&engine);
    let automove = PagePolicy::named("automove").expect("it is known");
    let mut tuner = Tuner::new(automove, MoveBudget::for_pages_of(PAGE_SIZE_BYTES), 1);
    let mut step = || tuner.step(scene.engine, Load::Idle, scene.clock.moment());
    assert_eq!(step(), TunerStep::Idle { ticks: Some(64) });
    scene.clock.advance(Duration::from_millis(500));
    assert_eq!(step(), TunerStep::Idle { ticks: Some(32) });
    let mut none = Tuner::new(PagePolicy::none(), MoveBudget::for_pages_of(PAGE_SIZE_BYTES), 1);
    let idle = none.step(scene.engine, Load::Idle, scene.clock.moment());
    assert_eq!(idle, TunerStep::Idle { ticks: None });
}

#[test]
fn a_tuner_that_is_called_while_it_rests_moves_nothing_and_takes_in_what_waits() {
    let seed = 8;
    let engine = engine(8, seed);
    let mut scene = Scene::new(&engine);
    let options = ProfilingOptions { queue_len_max: 64, ..EVERYTHING };
    let budget = MoveBudget { chunks_per_step: 8, pages_per_second: 1 };
    let profiling = scene.profiling(options);
    let mut tuner = Tuner::new(PagePolicy::none(), budget, 1).with_profiling(profiling);
    while scene.engine.evictions_ever() == 0 {
        scene.request(10_000, 50);
        step(&mut tuner, scene.engine, &scene.clock);
    }
    let [small, large] = [0, 1].map(ClassId);
    engine.reassign(Some(small), Some(large), "test", scene.clock.now()).expect("it has pages");
    let TunerStep::Rest(rest) = tuner.step(&engine, Load::Serving, scene.clock.moment()) else {
        panic!("seed {seed}: it does not rest");
    };
    let visits = || engine.mover_counters().visits;
    let (visited, begun_at) = (visits(), scene.clock.nanos());
    let rest_nanos = rest.as_nanos() as u64;
    for _ in 0..1_000 {
        scene.request(1, 50);
        let passed = scene.clock.nanos() - begun_at;
        let expected = TunerStep::Rest(Duration::from_nanos(rest_nanos - passed));
        assert_eq!(tuner.step(&engine, Load::Serving, scene.clock.moment()), expected);
    }
    assert_eq!(visits(), visited, "seed {seed}");
    let stats = tuner.profiling().expect("it profiles").stats();
    assert_eq!(stats.accesses_dropped, 0, "seed {seed}");
    for _ in 0..10 {
        scene.clock.advance(rest);
        tuner.step(&engine, Load::Serving, scene.clock.moment());
    }
    assert!(visits() > visited, "seed {seed}: rests end");
}

/// What profiling 3,000 small keys and some large ones at 100,000 hits a second comes to: its stats, and the
/// accesses a second that it took in.
fn settled(
    large_keys: u64,
    keys_max: usize,
    accesses_per_second_max: u64,
    seed: u64,
) -> (ProfilingStats, f64) {
    let engine = engine(256, seed);
    let mut scene = Scene::new(&engine);
    let profiler = ProfilerOptions { keys_max, ..EVERYTHING.profiler };
    let options = ProfilingOptions { profiler, accesses_per_second_max, ..EVERYTHING };
    let mut tuner = scene.tuner(PagePolicy::none(), options);
    let stats = |tuner: &Tuner| tuner.profiling().expect("it profiles").stats();
    for _ in 0..4_000 {
        scene.serve(&mut tuner, REQUESTS_PER_STEP, [3_000, large_keys]);
        assert!(stats(&tuner).keys <= keys_max, "seed {seed}: {:?}", stats(&tuner));
    }
    let (before, begun_at) = (stats(&tuner), scene.clock.nanos());
    scene.serve(&mut tuner, 100_000, [3_000, large_keys]);
    let after = stats(&tuner);
    assert_eq!(after.accesses_dropped, 0, "seed {seed}: {after:?}");
    let seconds = (scene.clock.nanos() - begun_at) as f64 / 1e9;
    (after, (after.accesses - before.accesses) as f64 / seconds)
}

#[test]
fn keys_are_made_no_fewer_than_they_must_be() {
    for seed in 3..6 {
        let (stats, _) = settled(30, 10_000, u64::MAX, seed);
        assert_eq!((stats.rate, stats.keys), (1.0, 3_030), "seed {seed}: {stats:?}");
        // An eighth goes at a time.
        let (stats, _) = settled(30, 500, u64::MAX, seed);
        assert!(stats.keys > 400, "seed {seed}: {stats:?}");
        let rate = stats.keys as f64 / 3_030.0;
        assert!((stats.rate / rate - 1.0).abs() < 0.2, "seed {seed}: {stats:?}");
    }
}

#[test]
fn accesses_are_made_no_fewer_than_they_must_be() {
    for seed in 3..6 {
        let (stats, per_second) = settled(30, 10_000, 20_000, seed);
        assert!((14_000.0..21_000.0).contains(&per_second), "seed {seed}: {per_second}, {stats:?}");
    }
}

#[test]
fn few_keys_are_kept_though_they_are_asked_for_often_but_not_at_any_price() {
    for seed in 3..6 {
        // A 32nd of the keys have more accesses than that, and less than four times as many.
        let (stats, per_second) = settled(3_000, 10_000, 1_400, seed);
        assert!((0.8..=1.0).contains(&(stats.rate * 32.0)), "seed {seed}: {stats:?}");
        assert!((1_400.0..5_600.0).contains(&per_second), "seed {seed}: {per_second}, {stats:?}");
        let (stats, per_second) = settled(3_000, 10_000, 100, seed);
        assert!((100.0..450.0).contains(&per_second), "seed {seed}: {per_second}, {stats:?}");
    }
}

/// The hash of the `place`th key of the sample, of so many: evenly spread below the threshold.
fn sampled_hash(place: u64, keys: u64, threshold: u64) -> u64 {
    // What `is_sampled` multiplies by, and by Newton's iteration its inverse.
    let multiplier = 0x9e37_79b9_7f4a_7c15u64;
    let newton =
        |inverse: u64, _| inverse.wrapping_mul(2u64.wrapping_sub(multiplier.wrapping_mul(inverse)));
    let inverse = (0..6).fold(1, newton);
    let hash = (place * (threshold / keys)).wrapping_mul(inverse);
    assert!(is_sampled(hash, threshold), "key {place} of {keys} is not in the sample");
    hash
}

const CLASSES: u64 = ClassId::COUNT_MAX as u64;

/// A profiler of as many classes as there may be, after so many accesses for each key that it may remember; the
/// class of each follows from its turn and its key.
fn profiler_of_all_classes(
    options: ProfilerOptions,
    footprint_gets: Option<u64>,
    turns_a_key: u64,
    class_of: impl Fn(u64, u64) -> u64,
) -> Profiler {
    let keys = options.keys_max as u64;
    let mut profiler = Profiler::new(options);
    profiler.keep_footprints(footprint_gets);
    let size = |number| ClassSize {
        class: ClassId(number as u8),
        chunks: (options.keys_max as f64 / options.rate_max) as u64,
        chunks_per_page: 10,
    };
    let sizes: Vec<ClassSize> = (0..CLASSES).map(size).collect();
    let (threshold, seed) = (profiler.threshold(), 3);
    let mut random = Random::new(seed);
    for turn in 0..turns_a_key * keys {
        if turn % (keys / 4) == 0 {
            profiler.set_sizes(&sizes);
        }
        let place = if turn < keys { turn } else { random.below(keys) };
        let hash = sampled_hash(place, keys, threshold);
        let class = Some(ClassId(class_of(turn, place) as u8));
        let access = |kind| Access { hash, kind, class, at_nanos: turn };
        profiler.access(&access(AccessKind::Miss));
        profiler.access(&access(AccessKind::Store));
    }
    if footprint_gets.is_none() {
        assert_eq!(profiler.keys() as u64, keys, "all are remembered");
    }
    profiler.check();
    profiler
}

fn size_bytes(profiler: &Profiler, options: &ProfilingOptions) -> usize {
    profiler.size_bytes() + options.queue_len_max * Sampler::ACCESS_SIZE_BYTES
}

#[test]
fn as_many_classes_as_there_may_be_take_the_memory_that_is_given_whatever_the_rate() {
    for memory_bytes in [ProfilingOptions::MEMORY_BYTES_MIN, 1_200_000, 2_342_177, 6_000_000] {
        for rate_max in [1e-2, 1e-5, 1e-8] {
            let options = ProfilingOptions::within(memory_bytes).expect("it is enough");
            let few = ProfilerOptions { rate_max, ..options.profiler };
            for footprint_gets in [None, Some(100_000)] {
                let profiler =
                    profiler_of_all_classes(few, footprint_gets, 8, |_, key| key % CLASSES);
                let profile = |number| profiler.profile(ClassId(number as u8));
                let curves_bytes: usize =
                    (0..CLASSES).map(|number| profile(number).curves_size_bytes()).sum();
                // One generation is shown, another made.
                let found = size_bytes(&profiler, &options) + 2 * curves_bytes;
                assert!(found as u64 <= memory_bytes, "{found} of {memory_bytes}, rate {rate_max}");
            }
        }
    }
}

#[test]
fn footprints_are_kept_while_a_policy_goes_by_them() {
    let seed = 3;
    let engine = engine(16, seed);
    let mut scene = Scene::new(&engine);
    let mut tuner = scene.tuner(policy("lama:curve=footprint"), EVERYTHING);
    let mut gets = |tuner: &mut Tuner, policy| {
        tuner.set_policy(policy);
        scene.serve(tuner, 20_000, [1_500, 100]);
        let view = snapshot(scene.engine, scene.clock.now());
        let profiles = tuner.profiling().expect("it profiles").profiles(&view);
        profiles.iter().map(|profile| profile.footprint_curve.references()).sum::<f64>()
    };
    let footprints = gets(&mut tuner, policy("lama:curve=footprint"));
    assert!((footprints / 20_000.0 - 1.0).abs() < 0.1, "seed {seed}: {footprints}");
    for policy in [PagePolicy::none(), policy("lama:curve=distance")] {
        assert_eq!(gets(&mut tuner, policy), 0.0, "seed {seed}");
    }
}

#[test]
fn keys_that_go_from_class_to_class_leave_no_memory_behind() {
    for memory_bytes in [ProfilingOptions::MEMORY_BYTES_MIN, 1_400_000] {
        let options = ProfilingOptions::within(memory_bytes).expect("it is enough");
        let few = ProfilerOptions { rate_max: 1e-5, ..options.profiler };
        let keys = few.keys_max as u64;
        let profiler = profiler_of_all_classes(few, None, 2 * CLASSES, |turn, _| turn / keys / 2);
        let found = size_bytes(&profiler, &options);
        assert!(found as u64 <= memory_bytes, "{found} of {memory_bytes}");
    }
}

#[test]
fn what_a_server_profiles_with_takes_the_memory_it_is_given() {
    assert_eq!(ProfilingOptions::within(ProfilingOptions::MEMORY_BYTES_MIN - 1), None);
    for memory_bytes in [ProfilingOptions::MEMORY_BYTES_MIN, 2_342_177, 20 << 20] {
        let options = ProfilingOptions::within(memory_bytes).expect("it is enough");
        let engine = engine(256, 4);
        let mut scene = Scene::new(&engine);
        let mut tuner = scene.tuner(PagePolicy::none(), options);
        let keys = options.profiler.keys_max as u64;
        for policy in [PagePolicy::none(), policy("lama")] {
            tuner.set_policy(policy);
            scene.serve(&mut tuner, 40_000, [8 * keys, 30]);
            let stats = tuner.profiling().expect("it profiles").stats();
            assert!(stats.size_bytes as u64 <= memory_bytes, "{memory_bytes}: {stats:?}");
        }
    }
}
