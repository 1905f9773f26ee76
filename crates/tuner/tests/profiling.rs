//! The control loop on virtual time, from the engine's accesses to moved pages.

use slabwise_base::{Clock, Expiry, Moment, Random};
use slabwise_engine::{ClassTable, Engine, EngineConfig, Handle, ItemMeta, StoreMode};
use slabwise_policy::{CurveSource, Lama, LamaOptions, PagePolicy};
use slabwise_profile::ProfilerOptions;
use slabwise_tuner::{Load, MoveBudget, Profiling, ProfilingOptions, Tuner, TunerStep, snapshot};
use std::sync::Arc;
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 16 << 10;
const SMALL_SIZE_BYTES: usize = 128;
const LARGE_SIZE_BYTES: usize = 1024;
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER };
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

#[test]
fn a_profile_tells_what_the_cache_did_and_would_have_done() {
    let seed = 5;
    let engine = engine(16, seed);
    let mut scene = Scene::new(&engine);
    let mut tuner = scene.tuner(PagePolicy::None, EVERYTHING);
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
fn a_policy_by_counts_is_stepped_as_often_as_they_say_and_its_plan_is_recorded() {
    let seed = 9;
    let engine = engine(32, seed);
    let mut scene = Scene::new(&engine);
    let options = LamaOptions { period_gets: 20_000, ..LamaOptions::default() };
    let mut tuner = scene.tuner(PagePolicy::None, EVERYTHING);
    // Large items only, until they have all pages.
    while !scene.engine.page_stats().memory_full() {
        scene.request(10_000, 900);
    }
    scene.serve(&mut tuner, 10_000, [1, 10_000]);
    let before = scene.serve(&mut tuner, 40_000, [2_000, 10_000]);
    assert_eq!(tuner.last_plan(), None);
    tuner.set_policy(PagePolicy::Lama(Lama::new(options)));
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
    let mut none = Tuner::new(PagePolicy::None, MoveBudget::for_pages_of(PAGE_SIZE_BYTES), 1);
    let idle = none.step(scene.engine, Load::Idle, scene.clock.moment());
    assert_eq!(idle, TunerStep::Idle { ticks: None });
}

#[test]
fn keys_are_made_fewer_where_there_are_too_many_of_them_or_of_their_accesses() {
    for (keys_max, accesses_per_second_max) in [(500, u64::MAX), (10_000, 20_000)] {
        let seed = 3;
        let engine = engine(64, seed);
        let mut scene = Scene::new(&engine);
        let profiler = ProfilerOptions { keys_max, ..EVERYTHING.profiler };
        let options = ProfilingOptions { profiler, accesses_per_second_max, ..EVERYTHING };
        let mut tuner = scene.tuner(PagePolicy::None, options);
        // 100,000 requests a second, nearly all hits in the end.
        scene.serve(&mut tuner, 20_000, [3_000, 30]);
        for _ in 0..20 {
            scene.serve(&mut tuner, 20_000, [3_000, 30]);
        }
        let before = tuner.profiling().expect("it profiles").stats();
        let elapsed = scene.clock.nanos();
        scene.serve(&mut tuner, 100_000, [3_000, 30]);
        let stats = tuner.profiling().expect("it profiles").stats();
        assert!(stats.keys <= keys_max, "seed {seed}: {stats:?}");
        assert!(stats.rate < 0.5, "seed {seed}: {stats:?}");
        let seconds = (scene.clock.nanos() - elapsed) as f64 / 1e9;
        let per_second = (stats.accesses - before.accesses) as f64 / seconds;
        let is_bounded = per_second <= 1.05 * accesses_per_second_max as f64;
        assert!(is_bounded, "seed {seed}: {per_second} a second, {stats:?}");
        assert_eq!(stats.accesses_dropped, 0, "seed {seed}: {stats:?}");
    }
}

#[test]
fn footprints_are_kept_while_a_policy_goes_by_them() {
    let seed = 3;
    let engine = engine(16, seed);
    let mut scene = Scene::new(&engine);
    let lama = |curve| Lama::new(LamaOptions { curve, ..LamaOptions::default() });
    let mut tuner = scene.tuner(PagePolicy::Lama(lama(CurveSource::Footprint)), EVERYTHING);
    let mut gets = |tuner: &mut Tuner, policy| {
        tuner.set_policy(policy);
        scene.serve(tuner, 20_000, [1_500, 100]);
        let view = snapshot(scene.engine, scene.clock.now());
        let profiles = tuner.profiling().expect("it profiles").profiles(&view);
        profiles.iter().map(|profile| profile.footprint_curve.references()).sum::<f64>()
    };
    let footprints = gets(&mut tuner, PagePolicy::Lama(lama(CurveSource::Footprint)));
    assert!((footprints / 20_000.0 - 1.0).abs() < 0.1, "seed {seed}: {footprints}");
    for policy in [PagePolicy::None, PagePolicy::Lama(lama(CurveSource::Distance))] {
        assert_eq!(gets(&mut tuner, policy), 0.0, "seed {seed}");
    }
}

#[test]
fn a_queue_that_nobody_empties_drops_and_counts() {
    let engine = engine(64, 2);
    let mut scene = Scene::new(&engine);
    let mut tuner =
        scene.tuner(PagePolicy::None, ProfilingOptions { queue_len_max: 8, ..EVERYTHING });
    for _ in 0..5 {
        scene.request(1_000_000, 50);
    }
    assert_eq!(tuner.profiling().expect("it profiles").stats().accesses_dropped, 2);
    step(&mut tuner, scene.engine, &scene.clock);
    assert_eq!(tuner.profiling().expect("it profiles").stats().accesses, 8);
}

#[test]
fn what_a_server_profiles_with_takes_the_memory_it_is_given() {
    assert_eq!(ProfilingOptions::within(ProfilingOptions::MEMORY_BYTES_MIN - 1), None);
    for memory_bytes in [ProfilingOptions::MEMORY_BYTES_MIN, 2_342_177, 20 << 20] {
        let options = ProfilingOptions::within(memory_bytes).expect("it is enough");
        let engine = engine(256, 4);
        let mut scene = Scene::new(&engine);
        let mut tuner = scene.tuner(PagePolicy::None, options);
        let keys = options.profiler.keys_max as u64;
        for policy in [PagePolicy::None, PagePolicy::Lama(Lama::new(LamaOptions::default()))] {
            tuner.set_policy(policy);
            scene.serve(&mut tuner, 40_000, [8 * keys, 30]);
            let stats = tuner.profiling().expect("it profiles").stats();
            assert!(stats.size_bytes as u64 <= memory_bytes, "{memory_bytes}: {stats:?}");
        }
    }
}
