//! Tests of a tuner that is driven as by a server's thread, on virtual time. The driver reports the workers' processor
//! time and the time of each step, sets the policy that commands requested, and waits between steps for the time that
//! the pace returns.

use slabwise_base::{Clock, Expiry, Random};
use slabwise_engine::{ClassTable, Engine, EngineConfig, Handle, ItemMeta, StoreMode};
use slabwise_policy::PagePolicy;
use slabwise_tuner::{
    AutomoveSettings, Backoff, MoveBudget, RequestedPolicy, StepTime, Tuner, TunerPace, WorkerTime,
};
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 16 << 10;
const PAGES: u64 = 256;
/// The time in which the mover visits a chunk.
const VISIT: Duration = Duration::from_micros(200);
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
/// The time between two requests.
const REQUEST: Duration = Duration::from_micros(100);
const SEED: u64 = 5;
/// The settings with which the configured policy moves pages.
const ON: AutomoveSettings = AutomoveSettings { level: 1, window_seconds: 10, age_ratio: 0.8 };

fn engine() -> Engine {
    let mut config = EngineConfig::new(PAGES * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::geometric(64, 1.5, PAGE_SIZE_BYTES / 2);
    config.index_within_limit = false;
    config.hash_seed = SEED;
    Engine::new(config).expect("the arena can be reserved")
}

/// A client, and the driver of the tuner.
struct Server<'e> {
    engine: &'e Engine,
    handle: Handle<'e>,
    clock: Clock,
    random: Random,
    /// The bytes that the client has sent.
    bytes_read: u64,
    tuner: Tuner,
    requested: RequestedPolicy,
    pace: TunerPace,
    /// The time for which the worker was busy.
    busy: Duration,
    /// The time that the mover has worked.
    mover: Duration,
    /// The time of the last step.
    woken_at: Duration,
}

impl<'e> Server<'e> {
    fn new(engine: &'e Engine) -> Server<'e> {
        let configured = PagePolicy::parse("space_time").expect("the policy is valid");
        Server {
            engine,
            handle: engine.handle(),
            clock: Clock::manual(),
            random: Random::new(SEED),
            bytes_read: 0,
            tuner: Tuner::new(PagePolicy::none(), MoveBudget::default(), SEED),
            requested: RequestedPolicy::new(Some(configured)),
            pace: TunerPace::default(),
            busy: Duration::ZERO,
            mover: Duration::ZERO,
            woken_at: Duration::ZERO,
        }
    }

    /// Takes the steps that are due.
    fn tune(&mut self, automove: AutomoveSettings) {
        for _ in 0..100_000 {
            let at = self.clock.moment();
            if Duration::from_nanos(at.nanos) < self.woken_at + self.pace.wait() {
                return;
            }
            self.woken_at = Duration::from_nanos(at.nanos);
            if let Some(policy) = self.requested.change(automove) {
                self.tuner.set_policy(policy);
            }
            let visits = self.engine.mover_counters().visits;
            let workers = WorkerTime { busy: self.busy, workers: 1 };
            let step = self.tuner.step(self.engine, workers, at);
            let visits = self.engine.mover_counters().visits - visits;
            self.tuner.charge(StepTime::without_wait(VISIT * visits as u32));
            self.mover += VISIT * visits as u32;
            self.pace.step(&step, self.bytes_read);
        }
        panic!("seed {SEED}: the tuner has work for more than 100,000 steps");
    }

    /// Stores random keys. The worker is always busy.
    fn serve(&mut self, requests: u64, keys: u64, value_len: usize, automove: AutomoveSettings) {
        let value = vec![b'v'; value_len];
        for _ in 0..requests {
            self.clock.advance(REQUEST);
            self.busy += REQUEST;
            let key = format!("{value_len}-{}", self.random.below(keys));
            self.handle.set(key.as_bytes(), &value, META, StoreMode::Set, self.clock.now());
            self.bytes_read += (key.len() + value_len) as u64;
            self.tune(automove);
        }
    }

    /// Advances the time without requests.
    fn idle(&mut self, time: Duration) {
        for _ in 0..time.as_millis() {
            self.clock.advance(Duration::from_millis(1));
            self.tune(ON);
        }
    }

    fn moved(&self) -> u64 {
        self.engine.mover_counters().moved
    }
}

#[test]
fn moves_take_a_share_of_the_workers_time_and_are_immediate_without_load() {
    let engine = engine();
    // Stores do not help, so that the mover does all the work.
    engine.set_help_chunks(0.0);
    let mut server = Server::new(&engine);
    server.serve(20_000, 20_000, 1_200, ON);
    let (moved, busy, mover) = (server.moved(), server.busy, server.mover);
    // The class of the smaller items needs pages of the class of the larger items.
    server.serve(20_000, 40_000, 300, ON);
    let share = (server.mover - mover).as_secs_f64() / (server.busy - busy).as_secs_f64();
    assert!((0.02..0.26).contains(&share), "seed {SEED}: a share of {share}");
    assert!(server.moved() > moved + 8, "seed {SEED}: {} pages move", server.moved() - moved);
    // When clients send nothing, the planned moves run at once, and then the tuner has nothing to do.
    server.idle(Duration::from_secs(10));
    assert_eq!(server.pace.wait(), Backoff::WAIT_MAX);
    engine.check();
}

#[test]
fn a_command_turns_page_moves_off_and_on() {
    let engine = engine();
    let mut server = Server::new(&engine);
    let off = AutomoveSettings { level: 0, ..ON };
    server.serve(20_000, 20_000, 1_200, off);
    server.serve(20_000, 40_000, 300, off);
    // Under every policy, a store takes a page from another class if its own class has none.
    let moved = server.moved();
    assert_eq!(
        (moved, server.tuner.policy().name()),
        (1, "none"),
        "seed {SEED}: one page moves under the policy none"
    );
    server.serve(20_000, 40_000, 300, ON);
    assert_eq!(server.tuner.policy().name(), "space_time");
    let pages = server.moved() - moved;
    assert!(pages > 8, "seed {SEED}: more than 8 pages move after the command, not {pages}");
}
