//! Threads that use one cache without a server, for bench/scaling: `slabwise-bench-threads name=value ...`.
//!
//! ```text
//!   fill the cache
//!   repeat `rounds` times, for each number in `threads`:
//!     thread 1 -- handle 1: batches of gets and sets of random keys, until the time of the run is over
//!     thread N -- handle N: the same, with other random keys
//! ```
//!
//! The threads work as the workers of a server do: they hash the keys of a batch once and prefetch them, and a get copies
//! the value. A wrong value ends the program by a panic. Keys are `k` and 14 digits.
//!
//! Each run prints one line of JSON: the number of threads, the number of operations, the duration in seconds, the
//! processor time of the threads in seconds, and the counts of the locks with the names of `stats locks`.

#![forbid(unsafe_code)]

use slabwise_base::{Clock, HashedKey, Random};
use slabwise_engine::{
    Engine, EngineConfig, EvictionKind, Handle, ItemMeta, LockStats, SpareConfig, StoreMode,
    StoreOutcome,
};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const USAGE: &str = "usage: slabwise-bench-threads [threads=1,2] [rounds=5] [millis=1000] [keys=1000000] [value_len=100] \
                     [gets_per_set=10] [batch=8] [hot_percent=0] [memory_mib=512]";
/// The largest number of keys in a batch, as in the server.
const BATCH_MAX: usize = 8;
const KEY_LEN: usize = 15;

/// What the threads do.
struct Plan {
    /// The number of threads of each run of a round.
    threads: Vec<u64>,
    rounds: u64,
    /// The duration of a run in milliseconds.
    millis: u64,
    /// The number of different keys.
    keys: u64,
    value_len: u64,
    gets_per_set: u64,
    /// The number of operations whose keys are prefetched together. 1 means no prefetch.
    batch: u64,
    /// The percentage of the operations that use one key, in addition to the random ones.
    hot_percent: u64,
    memory_mib: u64,
}

impl Plan {
    /// Parses the command line.
    fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Plan, String> {
        let mut plan = Plan {
            threads: vec![1, 2],
            rounds: 5,
            millis: 1_000,
            keys: 1_000_000,
            value_len: 100,
            gets_per_set: 10,
            batch: BATCH_MAX as u64,
            hot_percent: 0,
            memory_mib: 512,
        };
        for argument in arguments {
            let (name, value) = argument.split_once('=').ok_or(USAGE)?;
            let number = |text: &str| {
                text.parse::<u64>()
                    .map_err(|_| format!("{argument}: the value must be a whole number"))
            };
            if name == "threads" {
                plan.threads = value.split(',').map(number).collect::<Result<_, _>>()?;
                continue;
            }
            let (field, least) = match name {
                "rounds" => (&mut plan.rounds, 1),
                "millis" => (&mut plan.millis, 1),
                "keys" => (&mut plan.keys, 1),
                "value_len" => (&mut plan.value_len, 0),
                "gets_per_set" => (&mut plan.gets_per_set, 0),
                "batch" => (&mut plan.batch, 1),
                "hot_percent" => (&mut plan.hot_percent, 0),
                "memory_mib" => (&mut plan.memory_mib, 1),
                _ => return Err(format!("{argument}: unknown name; {USAGE}")),
            };
            *field = number(value)?;
            if *field < least {
                return Err(format!("{argument}: the value must be at least {least}"));
            }
        }
        for (name, value, most) in
            [("batch", plan.batch, BATCH_MAX as u64), ("hot_percent", plan.hot_percent, 100)]
        {
            if value > most {
                return Err(format!("{name}={value}: the value must be at most {most}"));
            }
        }
        Ok(plan)
    }

    fn threads_max(&self) -> u64 {
        self.threads.iter().copied().max().unwrap_or(1)
    }
}

fn key(number: u64) -> [u8; KEY_LEN] {
    let mut key = [b'0'; KEY_LEN];
    key[0] = b'k';
    let mut rest = number;
    for digit in key[1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A thread that uses the cache.
struct Worker<'e> {
    plan: &'e Plan,
    handle: Handle<'e>,
    random: Random,
    value: Vec<u8>,
    received: Vec<u8>,
}

impl<'e> Worker<'e> {
    fn new(plan: &'e Plan, engine: &'e Engine, seed: u64) -> Worker<'e> {
        Worker {
            plan,
            handle: engine.handle(),
            random: Random::new(seed),
            value: vec![b'v'; plan.value_len as usize],
            received: Vec::new(),
        }
    }

    /// Carries out operations until `stop` is set. Returns their number.
    fn run(&mut self, clock: &Clock, stop: &AtomicBool) -> u64 {
        let mut count = 0;
        while !stop.load(Relaxed) {
            self.run_batch(clock);
            count += self.plan.batch;
        }
        count
    }

    fn run_batch(&mut self, clock: &Clock) {
        let batch = self.plan.batch as usize;
        let (mut keys, mut sets) = ([[0; KEY_LEN]; BATCH_MAX], [false; BATCH_MAX]);
        for (key_bytes, is_set) in keys.iter_mut().zip(&mut sets).take(batch) {
            *key_bytes = key(self.random_key());
            *is_set = self.random.below(self.plan.gets_per_set + 1) == 0;
        }
        let hashed: [HashedKey<'_>; BATCH_MAX] =
            std::array::from_fn(|index| self.handle.hashed(&keys[index]));
        if batch > 1 && sets.contains(&true) {
            self.handle.prefetch_for_writes(&hashed[..batch]);
        } else if batch > 1 {
            self.handle.prefetch(&hashed[..batch]);
        }
        let now = clock.now();
        for (&key, &is_set) in hashed.iter().zip(&sets).take(batch) {
            if is_set {
                let (mode, meta) = (StoreMode::Set, ItemMeta::default());
                let outcome = self.handle.set(key, &self.value, meta, mode, now);
                assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
                continue;
            }
            self.received.clear();
            let received = &mut self.received;
            if self.handle.get(key, now, |view| view.copy_value(received)).is_some() {
                assert!(self.received == self.value, "the value of a get is wrong");
            }
        }
    }

    /// Returns the number of a key: that of the hot key, or a random one.
    fn random_key(&mut self) -> u64 {
        if self.plan.hot_percent > 0 && self.random.below(100) < self.plan.hot_percent {
            return 0;
        }
        self.random.below(self.plan.keys)
    }
}

/// Returns the processor time of this thread in seconds.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")
        .expect("the system counts the processor time of threads");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok());
    nanos.expect("the first number is the processor time in nanoseconds") as f64 / 1e9
}

/// Stores a value for each key.
fn fill(plan: &Plan, engine: &Engine, clock: &Clock) {
    let mut worker = Worker::new(plan, engine, 0);
    for number in 0..plan.keys {
        let (mode, meta) = (StoreMode::Set, ItemMeta::default());
        let outcome = worker.handle.set(&key(number), &worker.value, meta, mode, clock.now());
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    }
}

/// Runs a number of threads, and prints the result.
#[expect(clippy::disallowed_methods, reason = "the program waits for the end of the run")]
fn run(plan: &Plan, engine: &Engine, clock: &Clock, (threads, round): (u64, u64)) {
    let (stop, barrier) = (AtomicBool::new(false), Barrier::new(threads as usize + 1));
    let before = engine.lock_stats();
    let (mut seconds, mut cpu, mut operations) = (0.0, 0.0, 0);
    std::thread::scope(|scope| {
        let (stop, barrier) = (&stop, &barrier);
        let work = |index| {
            move || {
                let mut worker = Worker::new(plan, engine, round * 1_000 + index + 1);
                barrier.wait();
                let start = cpu_seconds();
                let count = worker.run(clock, stop);
                (count, cpu_seconds() - start)
            }
        };
        let running: Vec<_> = (0..threads).map(|index| scope.spawn(work(index))).collect();
        barrier.wait();
        let start = clock.nanos();
        std::thread::sleep(Duration::from_millis(plan.millis));
        stop.store(true, Relaxed);
        seconds = (clock.nanos() - start) as f64 / 1e9;
        for thread in running {
            let (count, cpu_of_thread) = thread.join().expect("the thread does not panic");
            operations += count;
            cpu += cpu_of_thread;
        }
    });
    let locks: Vec<String> = engine
        .lock_stats()
        .iter()
        .zip(&before)
        .map(|(now, then)| lock_rows(&now.since(Some(then))))
        .collect();
    println!(
        "{{\"threads\": {threads}, \"operations\": {operations}, \"seconds\": {seconds:.6}, \
         \"cpu_seconds\": {cpu:.6}, {}}}",
        locks.join(", ")
    );
}

/// Returns the counts of a kind of lock as fields of a JSON object, with the names of the rows of `stats locks`.
fn lock_rows(locks: &LockStats) -> String {
    let (kind, total, busiest) = (locks.kind.name(), locks.total(), locks.busiest());
    format!(
        "\"{kind}:locks\": {}, \"{kind}:taken\": {}, \"{kind}:contended\": {}, \"{kind}:wait_ns\": {}, \
         \"{kind}:busiest_taken\": {}, \"{kind}:busiest_contended\": {}, \"{kind}:busiest_wait_ns\": {}",
        locks.used_count(),
        total.taken,
        total.contended,
        total.wait_nanos,
        busiest.taken,
        busiest.contended,
        busiest.wait_nanos,
    )
}

fn main() -> Result<(), String> {
    let plan = Plan::from_arguments(std::env::args().skip(1))?;
    let config = EngineConfig {
        eviction: EvictionKind::Density,
        spares: SpareConfig::for_workers(plan.threads_max() as u32),
        ..EngineConfig::new(plan.memory_mib << 20)
    };
    let engine = Engine::new(config).map_err(|error| error.to_string())?;
    let clock = Clock::real();
    fill(&plan, &engine, &clock);
    for round in 0..plan.rounds {
        // The order alternates, so that each number of threads is first in half of the rounds.
        let mut threads = plan.threads.clone();
        if round % 2 == 1 {
            threads.reverse();
        }
        threads.into_iter().for_each(|count| run(&plan, &engine, &clock, (count, round)));
    }
    Ok(())
}
