//! Tests of the control loop on virtual time, from the accesses of an engine to moved pages, and of the limits of
//! profiling.

use slabwise_base::{ClassId, Clock, Expiry, Moment, Random};
use slabwise_engine::{ClassTable, Engine, EngineConfig, Handle, ItemMeta, StoreMode};
use slabwise_policy::PagePolicy;
use slabwise_profile::{Access, AccessKind, ClassSize, Profiler, ProfilerOptions, is_sampled};
use slabwise_tuner::{
    MoveBudget, MoveShares, Profiling, ProfilingOptions, ProfilingStats, Sampler, StepTime, Tuner,
    TunerStatus, TunerStep, WorkerTime, snapshot,
};
use std::sync::Arc;
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 16 << 10;
const SMALL_SIZE_BYTES: usize = 128;
const LARGE_SIZE_BYTES: usize = 1024;
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
/// The number of requests between two steps of the tuner.
const REQUESTS_PER_STEP: u64 = 100;
/// The time between two requests.
const REQUEST: Duration = Duration::from_micros(10);

/// Options with which every key is sampled and no count decays.
const EVERYTHING: ProfilingOptions = ProfilingOptions {
    profiler: ProfilerOptions { keys_max: 100_000, rate_max: 1.0, half_life_references: u64::MAX },
    queue_len_max: 1_000,
    lowers_rate_if_full: false,
};

fn engine(pages: u64, seed: u64) -> Engine {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    let sizes = [SMALL_SIZE_BYTES, LARGE_SIZE_BYTES];
    config.classes = ClassTable::explicit(&sizes, PAGE_SIZE_BYTES).expect("the table is valid");
    config.index_within_limit = false;
    config.hash_seed = seed;
    Engine::new(config).expect("the arena can be reserved")
}

/// A client of an engine, with its clock.
struct Client<'e> {
    engine: &'e Engine,
    handle: Handle<'e>,
    clock: Arc<Clock>,
    random: Random,
}

impl<'e> Client<'e> {
    fn new(engine: &'e Engine) -> Client<'e> {
        let random = Random::new(engine.config().hash_seed);
        Client { engine, handle: engine.handle(), clock: Arc::new(Clock::manual()), random }
    }

    fn profiling(&self, options: ProfilingOptions) -> Profiling {
        let clock = Arc::clone(&self.clock);
        Profiling::start(self.engine, options, clock, self.clock.now())
    }

    fn tuner(&self, policy: PagePolicy, options: ProfilingOptions) -> Tuner {
        let budget = MoveBudget::default();
        Tuner::new(policy, budget, 1).with_profiling(self.profiling(options))
    }

    /// Gets one of `keys` random keys and stores it after a miss. Returns true if the get hits.
    fn request(&mut self, keys: u64, value_len: usize) -> bool {
        let key = format!("{value_len}-{}", self.random.below(keys));
        self.clock.advance(REQUEST);
        let now = self.clock.now();
        if self.handle.get(key.as_bytes(), now, |_| ()).is_some() {
            return true;
        }
        // The client needs this time to recompute the value.
        self.clock.advance(Duration::from_millis(3));
        self.handle.set(key.as_bytes(), &vec![b'v'; value_len], META, StoreMode::Set, now);
        false
    }

    /// Sends requests for random keys of both classes; `keys` has the number of keys of each class. Steps the tuner
    /// after every [`REQUESTS_PER_STEP`] requests. Returns the miss ratio.
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

/// Steps the tuner until it has nothing to do at this time.
fn step(tuner: &mut Tuner, engine: &Engine, clock: &Clock) {
    let mut at: Moment = clock.moment();
    loop {
        match tuner.step(engine, WorkerTime::default(), at) {
            TunerStep::Working => {}
            TunerStep::Pause(pause) => at = Moment::from_nanos(at.nanos + pause.as_nanos() as u64),
            TunerStep::Idle { .. } => return,
        }
    }
}

fn policy(text: &str) -> PagePolicy {
    PagePolicy::parse(text).expect("the policy is valid")
}

#[test]
fn profiles_have_the_measured_misses_and_the_curve_of_uniform_keys() {
    let seed = 5;
    let engine = engine(16, seed);
    let mut client = Client::new(&engine);
    let mut tuner = client.tuner(PagePolicy::none(), EVERYTHING);
    client.serve(&mut tuner, 100_000, [1_500, 100]);
    let view = snapshot(client.engine, client.clock.now());
    let profiling = tuner.profiling().expect("profiling is on");
    let profiles = profiling.profiles(&view);
    assert_eq!(profiling.stats().accesses_dropped, 0);
    assert_eq!(profiles.len(), 2);
    let references: f64 = profiles.iter().map(|profile| profile.curve.references()).sum();
    let close = |a: f64, b: f64, part: f64| (a - b).abs() <= part * b;
    assert!(close(references, view.gets as f64, 0.01), "seed {seed}: {references}");
    let misses: f64 = profiles.iter().map(|profile| profile.misses).sum();
    assert!(close(misses, view.misses as f64, 0.01), "seed {seed}: {misses}");
    for (class, profile) in view.classes.iter().zip(&profiles) {
        // Keys are uniformly distributed. So the hit ratio is the number of chunks divided by the number of keys, apart
        // from first references.
        let keys = if class.chunk_size_bytes == SMALL_SIZE_BYTES { 1_500 } else { 100 };
        let half = profile.curve.misses(keys / 2) / profile.curve.references();
        assert!(
            (half - 0.5).abs() < 0.05,
            "seed {seed}, {keys} keys: with chunks for half of the keys the miss ratio is {half}"
        );
        assert!(close(profile.miss_time_us, 3_000.0, 0.02), "seed {seed}: {profile:?}");
    }
}

#[test]
fn profiles_are_reported_once_a_second_when_they_change() {
    let seed = 6;
    let engine = engine(16, seed);
    let mut client = Client::new(&engine);
    let status = Arc::new(TunerStatus::default());
    let mut tuner = client.tuner(PagePolicy::none(), EVERYTHING).with_status(Arc::clone(&status));
    step(&mut tuner, client.engine, &client.clock);
    let report = || status.read().profile.expect("profiling is on");
    let first = report();
    assert_eq!((first.stats.accesses, first.what_if.as_slice()), (0, [].as_slice()));
    let (mut reports, mut predictions) = (vec![first], 0);
    let mut note = |seed| {
        let (last, new) = (reports.last().expect("there is a first report"), report());
        if !Arc::ptr_eq(last, &new) {
            assert!(new.stats.accesses >= last.stats.accesses, "seed {seed}: accesses increase");
            predictions += usize::from(new.what_if != last.what_if);
            reports.push(new);
        }
        (reports.len(), predictions)
    };
    let started_at = client.clock.now().seconds;
    while client.clock.now().seconds.0 - started_at.0 < 40 {
        client.serve(&mut tuner, REQUESTS_PER_STEP, [1_500, 100]);
        note(seed);
    }
    let (reported, predicted) = note(seed);
    assert!((35..=41).contains(&reported), "seed {seed}: {reported} reports in 40 s");
    // Predictions are computed when the number of accesses has doubled, and later every ten seconds.
    assert!((5..=9).contains(&predicted), "seed {seed}: {predicted} predictions in 40 s");
    // No more accesses arrive. The accesses since the last report are reported.
    for _ in 0..60 {
        client.clock.advance(Duration::from_secs(1));
        step(&mut tuner, client.engine, &client.clock);
        note(seed);
    }
    let (reported_after, _) = note(seed);
    assert!(
        reported_after <= reported + 2,
        "seed {seed}: {reported_after} reports, {reported} of them before the last access"
    );
    let (reported_last, known) = (report(), tuner.profiling().expect("profiling is on"));
    let accesses = known.stats().accesses;
    assert_eq!(reported_last.stats.accesses, accesses, "seed {seed}: all accesses are reported");
    assert_eq!(
        reported_last.snapshot.profiles,
        known.profiles(&reported_last.snapshot),
        "seed {seed}: the last report has the current profiles"
    );
}

#[test]
fn a_policy_stepped_by_gets_has_a_record_of_its_plan() {
    let seed = 9;
    let engine = engine(32, seed);
    let mut client = Client::new(&engine);
    let mut tuner = client.tuner(PagePolicy::none(), EVERYTHING);
    // Only large items are stored until their class has all pages.
    while !client.engine.page_stats().memory_full() {
        client.request(10_000, 900);
    }
    client.serve(&mut tuner, 10_000, [1, 10_000]);
    let before = client.serve(&mut tuner, 40_000, [2_000, 10_000]);
    assert_eq!(tuner.last_plan(), None);
    tuner.set_policy(policy("lama:period_gets=20000"));
    client.serve(&mut tuner, 19_000, [2_000, 10_000]);
    assert_eq!(tuner.last_plan(), None, "seed {seed}: the policy is not due before 20,000 gets");
    client.serve(&mut tuner, 3_000, [2_000, 10_000]);
    let first = *tuner.last_plan().expect("the policy was due and has planned moves");
    assert_eq!((first.moves, first.refused), (first.started, 0), "seed {seed}: {first:?}");
    let after = client.serve(&mut tuner, 110_000, [2_000, 10_000]);
    let last = *tuner.last_plan().expect("the plan has a record");
    assert!(
        after < before - 0.3,
        "seed {seed}: miss ratio {before} before, {after} after the moves"
    );
    let found = first.before.misses_per_thousand() / 1_000.0;
    assert!((found - before).abs() < 0.1, "seed {seed}: {found} recorded, {before} counted");
    let predicted = first.predicted.expect("curves predict misses").misses_after / 1_000.0;
    assert!((predicted - after).abs() < 0.1, "seed {seed}: {predicted} predicted, {after} counted");
    let recorded = last.after.misses_per_thousand() / 1_000.0;
    assert!((recorded - after).abs() < 0.1, "seed {seed}: {recorded} recorded, {after} counted");
}

#[test]
fn a_policy_stepped_by_time_waits_for_its_period() {
    let engine = engine(4, 1);
    let client = Client::new(&engine);
    let automove = PagePolicy::named("automove").expect("the policy exists");
    let mut tuner = Tuner::new(automove, MoveBudget::default(), 1);
    let mut step = || tuner.step(client.engine, WorkerTime::default(), client.clock.moment());
    assert_eq!(step(), TunerStep::Idle { wait: Some(Duration::from_secs(1)) });
    client.clock.advance(Duration::from_millis(500));
    assert_eq!(step(), TunerStep::Idle { wait: Some(Duration::from_millis(500)) });
    let mut none = Tuner::new(PagePolicy::none(), MoveBudget::default(), 1);
    let idle = none.step(client.engine, WorkerTime::default(), client.clock.moment());
    assert_eq!(idle, TunerStep::Idle { wait: None });
}

#[test]
fn during_a_pause_a_tuner_moves_no_chunk_but_counts_accesses() {
    let seed = 8;
    let engine = engine(8, seed);
    let mut client = Client::new(&engine);
    let options = ProfilingOptions { queue_len_max: 64, ..EVERYTHING };
    let shares = MoveShares { steady: 0.05, pressed: 0.05 };
    let budget = MoveBudget { chunks_per_step: 8, shares };
    let profiling = client.profiling(options);
    let mut tuner = Tuner::new(PagePolicy::none(), budget, 1).with_profiling(profiling);
    while client.engine.evictions_ever() == 0 {
        client.request(10_000, 50);
        step(&mut tuner, client.engine, &client.clock);
    }
    // The worker is busy all the time.
    let busy_step = |tuner: &mut Tuner, clock: &Clock| {
        let workers = WorkerTime { busy: Duration::from_nanos(clock.nanos()), workers: 1 };
        tuner.step(&engine, workers, clock.moment())
    };
    // The averages of the load follow within some tens of milliseconds.
    for _ in 0..40 {
        busy_step(&mut tuner, &client.clock);
        client.clock.advance(Duration::from_millis(5));
    }
    let [small, large] = [0, 1].map(ClassId);
    engine
        .reassign(Some(small), Some(large), "test", client.clock.now())
        .expect("the class has pages");
    busy_step(&mut tuner, &client.clock);
    let is_charged = tuner.charge(StepTime::without_wait(Duration::from_millis(4)));
    assert!(is_charged, "seed {seed}: the step visited chunks");
    let TunerStep::Pause(pause) = busy_step(&mut tuner, &client.clock) else {
        panic!("seed {seed}: the tuner pauses after a step that took longer than its share");
    };
    assert!(pause > Duration::from_millis(5), "seed {seed}: {pause:?}");
    let visits = || engine.mover_counters().work();
    let (visited, started_at) = (visits(), client.clock.nanos());
    while client.clock.nanos() - started_at < pause.as_nanos() as u64 / 2 {
        client.request(1, 50);
        let step = busy_step(&mut tuner, &client.clock);
        assert!(matches!(step, TunerStep::Pause(_)), "seed {seed}: {step:?}");
    }
    assert_eq!(visits(), visited, "seed {seed}: no chunk is visited during the pause");
    let stats = tuner.profiling().expect("profiling is on").stats();
    assert_eq!(stats.accesses_dropped, 0, "seed {seed}: no access is dropped");
    for _ in 0..10 {
        client.clock.advance(pause);
        busy_step(&mut tuner, &client.clock);
    }
    assert!(visits() > visited, "seed {seed}: chunks are visited after the pause");
}

/// Profiles gets of 3,000 small keys and 30 large keys until all keys are stored. Returns the statistics at the end.
fn steady_state(keys_max: usize, seed: u64) -> ProfilingStats {
    let engine = engine(256, seed);
    let mut client = Client::new(&engine);
    let profiler = ProfilerOptions { keys_max, ..EVERYTHING.profiler };
    let options = ProfilingOptions { profiler, ..EVERYTHING };
    let mut tuner = client.tuner(PagePolicy::none(), options);
    let stats = |tuner: &Tuner| tuner.profiling().expect("profiling is on").stats();
    for _ in 0..4_000 {
        client.serve(&mut tuner, REQUESTS_PER_STEP, [3_000, 30]);
        assert!(stats(&tuner).keys <= keys_max, "seed {seed}: {:?}", stats(&tuner));
    }
    client.serve(&mut tuner, 100_000, [3_000, 30]);
    let after = stats(&tuner);
    assert_eq!(after.accesses_dropped, 0, "seed {seed}: {after:?}");
    after
}

#[test]
fn the_sampling_rate_decreases_only_as_far_as_the_limit_of_keys_demands() {
    for seed in 3..6 {
        let stats = steady_state(10_000, seed);
        assert_eq!((stats.rate, stats.keys), (1.0, 3_030), "seed {seed}: {stats:?}");
        // The rate decreases by an eighth at a time, so almost all of the 500 keys are used.
        let stats = steady_state(500, seed);
        assert!(stats.keys > 400, "seed {seed}: {stats:?}");
        let rate = stats.keys as f64 / 3_030.0;
        assert!((stats.rate / rate - 1.0).abs() < 0.2, "seed {seed}: {stats:?}");
    }
}

#[test]
fn fewer_keys_are_sampled_while_accesses_are_dropped() {
    let (engine, seed) = (engine(256, 3), 3);
    let mut client = Client::new(&engine);
    // The tuner takes a step after twice as many requests.
    let queue_len_max = REQUESTS_PER_STEP as usize / 2;
    let options = ProfilingOptions { queue_len_max, lowers_rate_if_full: true, ..EVERYTHING };
    let mut tuner = client.tuner(PagePolicy::none(), options);
    let rate = |tuner: &Tuner| tuner.profiling().expect("profiling is on").stats().rate;
    client.serve(&mut tuner, 400_000, [3_000, 30]);
    let lowered = rate(&tuner);
    assert!((0.2..0.7).contains(&lowered), "seed {seed}: {lowered}");
    client.serve(&mut tuner, 400_000, [3_000, 30]);
    assert_eq!(rate(&tuner), lowered, "seed {seed}: no access is dropped any more");
}

/// Returns the hash of the sampled key with the number `place`, below `keys`. The hashes of all these keys are sampled
/// and evenly spread.
fn sampled_hash(place: u64, keys: u64, threshold: u64) -> u64 {
    // The multiplier is that of `is_sampled`. Newton's iteration computes its inverse modulo 2^64.
    let multiplier = 0x9e37_79b9_7f4a_7c15u64;
    let newton =
        |inverse: u64, _| inverse.wrapping_mul(2u64.wrapping_sub(multiplier.wrapping_mul(inverse)));
    let inverse = (0..6).fold(1, newton);
    let hash = (place * (threshold / keys)).wrapping_mul(inverse);
    assert!(is_sampled(hash, threshold), "key {place} of {keys} is in the sample");
    hash
}

/// The largest number of classes.
const CLASSES: u64 = ClassId::COUNT_MAX as u64;

/// Returns a profiler with the largest number of classes, after `accesses_per_key` accesses for each key that it can
/// have. `class_of` returns the class of an access, given the numbers of the access and of the key.
fn profiler_of_all_classes(
    options: ProfilerOptions,
    footprint_gets: Option<u64>,
    accesses_per_key: u64,
    class_of: impl Fn(u64, u64) -> u64,
) -> Profiler {
    let keys = options.keys_max as u64;
    let mut profiler = Profiler::new(options);
    profiler.keep_footprints(footprint_gets);
    let size = |number| ClassSize {
        class: ClassId(number as u8),
        chunks: (options.keys_max as f64 / options.rate_max) as u64,
        chunks_per_page: 10,
        chunk_size_bytes: 100,
    };
    let sizes: Vec<ClassSize> = (0..CLASSES).map(size).collect();
    let (threshold, seed) = (profiler.threshold(), 3);
    let mut random = Random::new(seed);
    for number in 0..accesses_per_key * keys {
        if number % (keys / 4) == 0 {
            profiler.set_sizes(&sizes, 0);
        }
        let place = if number < keys { number } else { random.below(keys) };
        let hash = sampled_hash(place, keys, threshold);
        let class = Some(ClassId(class_of(number, place) as u8));
        let access = |kind| Access { hash, kind, class, size_bytes: 0, at_nanos: number };
        profiler.access(&access(AccessKind::Miss));
        profiler.access(&access(AccessKind::Store));
    }
    if footprint_gets.is_none() {
        assert_eq!(profiler.keys() as u64, keys, "the profiler has all keys");
    }
    profiler.check();
    profiler
}

fn size_bytes(profiler: &Profiler, options: &ProfilingOptions) -> usize {
    profiler.size_bytes() + options.queue_len_max * Sampler::ACCESS_SIZE_BYTES
}

#[test]
fn with_all_classes_memory_is_within_its_limit_at_any_sampling_rate() {
    for memory_bytes in [ProfilingOptions::MEMORY_BYTES_MIN, 1_200_000, 2_342_177, 6_000_000] {
        for rate_max in [1e-2, 1e-5, 1e-8] {
            let options = ProfilingOptions::within(memory_bytes).expect("the memory is enough");
            let few = ProfilerOptions { rate_max, ..options.profiler };
            for footprint_gets in [None, Some(100_000)] {
                let profiler =
                    profiler_of_all_classes(few, footprint_gets, 8, |_, key| key % CLASSES);
                let profile = |number| profiler.profile(ClassId(number as u8));
                let curves_bytes: usize =
                    (0..CLASSES).map(|number| profile(number).curves_size_bytes()).sum();
                // The curves of two sets of profiles may be in memory: of the last computed and of the last reported.
                let found = size_bytes(&profiler, &options) + 2 * curves_bytes;
                assert!(
                    found as u64 <= memory_bytes,
                    "rate {rate_max}: profiling takes at most {memory_bytes} bytes, not {found}"
                );
            }
        }
    }
}

#[test]
fn footprints_are_kept_while_a_policy_uses_them() {
    let seed = 3;
    let engine = engine(16, seed);
    let mut client = Client::new(&engine);
    let mut tuner = client.tuner(policy("lama:curve=footprint"), EVERYTHING);
    let mut gets = |tuner: &mut Tuner, policy| {
        tuner.set_policy(policy);
        client.serve(tuner, 20_000, [1_500, 100]);
        let view = snapshot(client.engine, client.clock.now());
        let profiles = tuner.profiling().expect("profiling is on").profiles(&view);
        profiles.iter().map(|profile| profile.footprint_curve.references()).sum::<f64>()
    };
    let footprints = gets(&mut tuner, policy("lama:curve=footprint"));
    assert!(
        (footprints / 20_000.0 - 1.0).abs() < 0.1,
        "seed {seed}: footprints cover about 20,000 gets, not {footprints}"
    );
    for policy in [PagePolicy::none(), policy("lama:curve=distance")] {
        assert_eq!(gets(&mut tuner, policy), 0.0, "seed {seed}: footprints are not kept");
    }
}

#[test]
fn memory_is_within_its_limit_if_keys_change_their_class() {
    for memory_bytes in [ProfilingOptions::MEMORY_BYTES_MIN, 1_400_000] {
        let options = ProfilingOptions::within(memory_bytes).expect("the memory is enough");
        let few = ProfilerOptions { rate_max: 1e-5, ..options.profiler };
        let keys = few.keys_max as u64;
        let profiler =
            profiler_of_all_classes(few, None, 2 * CLASSES, |number, _| number / keys / 2);
        let found = size_bytes(&profiler, &options);
        assert!(
            found as u64 <= memory_bytes,
            "profiling takes at most {memory_bytes} bytes, not {found}"
        );
    }
}

#[test]
fn the_memory_of_a_servers_profiling_is_within_its_limit() {
    assert_eq!(ProfilingOptions::within(ProfilingOptions::MEMORY_BYTES_MIN - 1), None);
    for memory_bytes in [ProfilingOptions::MEMORY_BYTES_MIN, 2_342_177, 20 << 20] {
        let options = ProfilingOptions::within(memory_bytes).expect("the memory is enough");
        let engine = engine(256, 4);
        let mut client = Client::new(&engine);
        let mut tuner = client.tuner(PagePolicy::none(), options);
        let keys = options.profiler.keys_max as u64;
        for policy in [PagePolicy::none(), policy("lama")] {
            tuner.set_policy(policy);
            client.serve(&mut tuner, 40_000, [8 * keys, 30]);
            let stats = tuner.profiling().expect("profiling is on").stats();
            let size_bytes = stats.size_bytes as u64;
            assert!(size_bytes <= memory_bytes, "at most {memory_bytes} bytes are used: {stats:?}");
        }
    }
}
