//! Tests of learning the class table, on virtual time: the tuner changes the table to one that suits the items' sizes,
//! and then keeps it.

use slabwise_base::{Clock, Expiry, Moment, Random};
use slabwise_engine::{ClassStats, ClassTable, Engine, EngineConfig, Handle, ItemMeta, StoreMode};
use slabwise_policy::PagePolicy;
use slabwise_policy::sizes::{LearnerOptions, Method, Waiting};
use slabwise_tuner::{
    Learning, MoveBudget, Profiling, ProfilingOptions, SizesReport, Tuner, WorkerTime,
};
use std::sync::Arc;
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 16 << 10;
const PAGES: u64 = 512;
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
const REQUESTS_PER_STEP: u64 = 50;
const REQUEST: Duration = Duration::from_millis(20);
const SEED: u64 = 11;

fn engine() -> Engine {
    let mut config = EngineConfig::new(PAGES * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    // Each chunk size is 1.5 times the size before.
    config.classes = ClassTable::geometric(64, 1.5, PAGE_SIZE_BYTES / 2);
    config.index_within_limit = false;
    config.hash_seed = SEED;
    Engine::new(config).expect("the arena can be reserved")
}

/// A client that gets keys and stores values after misses.
struct Client<'e> {
    engine: &'e Engine,
    handle: Handle<'e>,
    clock: Arc<Clock>,
    random: Random,
    hits: u64,
}

impl<'e> Client<'e> {
    fn new(engine: &'e Engine) -> Client<'e> {
        let (clock, random) = (Arc::new(Clock::manual()), Random::new(SEED));
        Client { engine, handle: engine.handle(), clock, random, hits: 0 }
    }

    /// Sends requests for `keys` random keys, whose values are up to 40 bytes longer than `value_len`. Steps the tuner
    /// after every [`REQUESTS_PER_STEP`] requests.
    fn serve(&mut self, tuner: &mut Tuner, requests: u64, keys: u64, value_len: usize) {
        for number in 0..requests {
            self.clock.advance(REQUEST);
            let now = self.clock.now();
            let drawn = self.random.below(keys);
            let key = format!("{value_len}-{drawn}");
            if self.handle.get(key.as_bytes(), now, |_| ()).is_some() {
                self.hits += 1;
            } else {
                let value = vec![b'v'; value_len + (drawn % 41) as usize];
                self.handle.set(key.as_bytes(), &value, META, StoreMode::Set, now);
            }
            if number % REQUESTS_PER_STEP == 0 {
                tuner.step(
                    self.engine,
                    WorkerTime::default(),
                    Moment { nanos: self.clock.nanos(), now },
                );
            }
        }
    }

    fn items(&self) -> u64 {
        self.engine.item_sizes().item_count()
    }
}

fn tuner(policy: PagePolicy, learning: Option<Learning>) -> Tuner {
    let mut tuner = Tuner::new(policy, MoveBudget::default(), SEED);
    tuner.set_learning(learning);
    tuner
}

fn space_time() -> PagePolicy {
    PagePolicy::parse("space_time").expect("the policy is valid")
}

fn learning() -> Option<Learning> {
    Some(Learning::new(LearnerOptions::default()))
}

fn report(tuner: &Tuner) -> SizesReport {
    let learning = tuner.learning().expect("sizes are learned");
    SizesReport::clone(learning.report().expect("the sizes were evaluated"))
}

#[test]
fn a_learned_table_holds_more_items_and_then_does_not_change() {
    let (learned, fixed) = (engine(), engine());
    let (mut client, mut other) = (Client::new(&learned), Client::new(&fixed));
    let (mut learner, mut control) = (tuner(space_time(), learning()), tuner(space_time(), None));
    for (client, tuner) in [(&mut client, &mut learner), (&mut other, &mut control)] {
        client.serve(tuner, 150_000, 30_000, 800);
        client.engine.check();
    }
    let report = report(&learner);
    assert!((1..=2).contains(&report.changes), "seed {SEED}: one or two changes: {report:?}");
    assert!(
        matches!(report.waiting, Some(Waiting::Gain { .. })),
        "seed {SEED}: no table is better: {report:?}"
    );
    // Under the first table, these items of 834 to 878 bytes are in chunks of 1,120 bytes.
    let (items, items_fixed) = (client.items(), other.items());
    assert!(
        items as f64 > items_fixed as f64 * 1.2,
        "seed {SEED}: {items} items with the learned table, {items_fixed} with the first table"
    );
    let (hits, hits_fixed) = (client.hits, other.hits);
    assert!(
        hits > hits_fixed,
        "seed {SEED}: {hits} hits with the learned table, {hits_fixed} with the first table"
    );
    let (changes, started) = (report.changes, client.clock.nanos());
    client.serve(&mut learner, 180_000, 30_000, 800);
    assert!(client.clock.nanos() - started >= 3_600_000_000_000, "the requests take an hour");
    let after = self::report(&learner).changes;
    assert_eq!(after, changes, "seed {SEED}: a steady cache keeps its table");
}

/// The policy is `marginal`, and the value of a byte comes from curves.
#[test]
fn a_policy_with_curves_keeps_the_table_of_a_steady_cache() {
    let seed = SEED;
    let engine = engine();
    let mut client = Client::new(&engine);
    let policy = PagePolicy::parse("marginal").expect("the policy is valid");
    let options = ProfilingOptions::within(ProfilingOptions::MEMORY_BYTES_MIN + (1 << 20));
    let options = options.expect("the memory is enough");
    let clock = Arc::clone(&client.clock);
    let profiling = Profiling::start(&engine, options, clock, client.clock.now());
    let mut tuner = tuner(policy, learning()).with_profiling(profiling);
    let mut serve = |tuner: &mut Tuner, requests: u64| {
        for number in 0..requests {
            client.clock.advance(REQUEST);
            let now = client.clock.now();
            // Keys with small numbers are requested more often.
            let drawn = (60_000.0 * client.random.unit().powi(3)) as u64;
            let key = format!("{seed}-{drawn}");
            if client.handle.get(key.as_bytes(), now, |_| ()).is_none() {
                // Each key has its own value length. The logarithms of the lengths are uniformly distributed.
                let part = Random::new(seed << 32 | drawn).unit();
                let value = vec![b'v'; (40.0 * 50f64.powf(part)) as usize];
                client.handle.set(key.as_bytes(), &value, META, StoreMode::Set, now);
            }
            if number % REQUESTS_PER_STEP == 0 {
                let at = Moment { nanos: client.clock.nanos(), now };
                tuner.step(&engine, WorkerTime::default(), at);
            }
        }
    };
    serve(&mut tuner, 150_000);
    let before = report(&tuner);
    assert!(before.changes >= 1, "seed {seed}: the first table was changed: {before:?}");
    serve(&mut tuner, 180_000);
    let after = report(&tuner);
    let changes = after.changes - before.changes;
    assert!(changes <= 2, "seed {seed}: at most 2 changes in an hour, not {changes}: {after:?}");
    engine.check();
}

/// Gets of two kinds of items: items of about 330 bytes that are reused, and a scan of items of about 1,530 bytes, which
/// fills the cache but is never reused.
struct Scanned<'e> {
    client: Client<'e>,
    gets: u64,
}

impl Scanned<'_> {
    fn get(&mut self, tuner: &mut Tuner) {
        let Client { engine, handle, clock, random, hits } = &mut self.client;
        clock.advance(Duration::from_micros(100));
        let now = clock.now();
        let drawn = (30_000.0 * random.unit().powi(2)) as u64;
        let (key, value_len) = match self.gets % 2 {
            0 => (format!("reused-{drawn}"), 280 + drawn % 41),
            _ => (format!("scanned-{}", self.gets), 1_460 + drawn % 81),
        };
        self.gets += 1;
        if handle.get(key.as_bytes(), now, |_| ()).is_some() {
            *hits += 1;
        } else {
            let value = vec![b'v'; value_len as usize];
            handle.set(key.as_bytes(), &value, META, StoreMode::Set, now);
        }
        if self.gets.is_multiple_of(REQUESTS_PER_STEP) {
            tuner.step(engine, WorkerTime::default(), Moment { nanos: clock.nanos(), now });
        }
    }

    /// Returns the number of hits in this number of gets.
    fn hits_of(&mut self, tuner: &mut Tuner, gets: u64) -> u64 {
        let before = self.client.hits;
        (0..gets).for_each(|_| self.get(tuner));
        self.client.hits - before
    }
}

#[test]
fn after_a_change_of_the_table_the_policy_knows_the_new_classes() {
    let engine = engine();
    let client = Client::new(&engine);
    let policy = PagePolicy::parse("marginal").expect("the policy is valid");
    let options = ProfilingOptions::within(ProfilingOptions::MEMORY_BYTES_MIN + (1 << 20));
    let options = options.expect("the memory is enough");
    let clock = Arc::clone(&client.clock);
    let profiling = Profiling::start(&engine, options, clock, client.clock.now());
    let mut tuner = tuner(policy, None).with_profiling(profiling);
    let mut gets = Scanned { client, gets: 0 };
    gets.hits_of(&mut tuner, 600_000);
    let before = gets.hits_of(&mut tuner, 50_000);
    let now = gets.client.clock.now();
    let references = |tuner: &Tuner| -> f64 {
        let profiling = tuner.profiling().expect("profiling is on");
        let profiles = profiling.profiles(&slabwise_tuner::snapshot(&engine, now));
        profiles.iter().map(|profile| profile.curve.references()).sum()
    };
    let known = references(&tuner);
    // No old class has one of these sizes, and each kind of items has its own class.
    engine.change_classes(&[72, 200, 368, 600, 1_000, 1_576, 3_000]).expect("the table is valid");
    tuner.observe(&engine, now);
    let lost = 1.0 - references(&tuner) / known;
    assert!(lost.abs() < 0.01, "seed {SEED}: the curves lose {lost} of their references");
    let is_retired = |it: &ClassStats| it.retired;
    while engine.class_stats(gets.client.clock.now()).iter().any(is_retired) {
        gets.get(&mut tuner);
    }
    let drained = gets.gets;
    let has_most_pages = |it: &ClassStats| it.chunk_size_bytes == 368 && it.pages > PAGES * 19 / 20;
    while !engine.class_stats(gets.client.clock.now()).iter().any(has_most_pages) {
        gets.get(&mut tuner);
        let since = gets.gets - drained;
        // Two hundred and fifty pages have to move, as fast as the class fills them.
        assert!(since < 130_000, "seed {SEED}: the pages are divided as before after {since} gets");
    }
    // The last pages that moved are still empty.
    gets.hits_of(&mut tuner, 50_000);
    let after = gets.hits_of(&mut tuner, 50_000);
    assert!(after >= before, "seed {SEED}: {after} hits after the change, {before} before");
    engine.check();
}

#[test]
fn without_a_page_policy_the_table_changes_for_new_sizes() {
    let engine = engine();
    let mut client = Client::new(&engine);
    let mut tuner = tuner(PagePolicy::none(), learning());
    client.serve(&mut tuner, 150_000, 30_000, 800);
    let before = engine.class_table();
    client.serve(&mut tuner, 300_000, 30_000, 500);
    assert_ne!(engine.class_table(), before, "seed {SEED}: the table has changed");
    let size = |value_len: usize| engine.class_table().class_for(value_len + 30 + 10);
    let class = size(540).expect("a class holds an item of 579 bytes");
    let chunk_size_bytes = engine.class_table().chunk_size_bytes(class);
    assert!(
        chunk_size_bytes <= 600,
        "seed {SEED}: items of 579 bytes are in chunks of at most 600 bytes, not {chunk_size_bytes}"
    );
    engine.check();
}

#[test]
fn the_table_does_not_change_while_learning_is_off() {
    let engine = engine();
    let mut client = Client::new(&engine);
    let mut tuner = tuner(space_time(), None);
    let before = engine.class_table();
    client.serve(&mut tuner, 100_000, 30_000, 800);
    assert_eq!(engine.class_table(), before);
    tuner.set_learning(learning());
    client.serve(&mut tuner, 100_000, 30_000, 800);
    assert_ne!(engine.class_table(), before, "the table changes after learning was turned on");
    assert!(report(&tuner).changed_at.is_some());
}

#[test]
fn a_table_learned_by_hill_climbing_has_as_many_classes_and_holds_more_items() {
    let (learned, fixed) = (engine(), engine());
    let (mut client, mut other) = (Client::new(&learned), Client::new(&fixed));
    let options = LearnerOptions { method: Method::HillClimb, ..LearnerOptions::default() };
    let mut learner = tuner(space_time(), Some(Learning::new(options)));
    let mut control = tuner(space_time(), None);
    for (client, tuner) in [(&mut client, &mut learner), (&mut other, &mut control)] {
        client.serve(tuner, 150_000, 30_000, 800);
        client.engine.check();
    }
    assert!(report(&learner).changes > 0, "the table has changed: {:?}", report(&learner));
    let [count, before] = [&learned, &fixed].map(|it| it.class_table().sizes().len());
    assert_eq!(count, before, "the number of classes stays");
    let (items, fewer) = (client.items(), other.items());
    assert!(items as f64 > 1.02 * fewer as f64, "{items} items, and {fewer} with fixed sizes");
}
