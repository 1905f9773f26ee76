//! Tests that fill a cache at random, close it and open its memory file again. Some tests damage the file in between. A
//! failed test prints its seed; `SLABWISE_SEED=n` runs only that seed.

mod blocks;
mod damage;
mod handover;
mod origin;
mod resize;
mod warm;

use super::{Start, Stop, Warm};
use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::evict::{EvictionKind, EvictionOptions, LruConfig};
use crate::layout::{ClassTable, ItemMeta, SizeModel};
use crate::ops::{StoreMode, StoreOutcome};
use crate::{ColdReason, Delta, RestartError};
use slabwise_base::{Clock, Cost, Expiry, Now, Random, Seconds};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const SEEDS_DEFAULT: u64 = 8;
const OPERATIONS: usize = 1_000;
/// The Unix time at which every test starts.
const STARTED: Duration = Duration::from_secs(1_800_000_000);

/// The time from the start of a test until the cache is opened again. By then some items have expired, and a delayed
/// flush is not due yet.
const REOPENED_AFTER: Duration = Duration::from_secs(500);
/// The delay of a delayed flush.
const FLUSH_AFTER: Duration = Duration::from_secs(1_000);

fn seeds() -> Vec<u64> {
    match std::env::var("SLABWISE_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..SEEDS_DEFAULT).collect(),
    }
}

/// The path of a test's memory file. Dropping this value removes the file's directory.
struct TestFile(PathBuf);

impl TestFile {
    fn new() -> TestFile {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("slabwise-restart-{}-{number}", std::process::id());
        let ram = Path::new("/dev/shm");
        let base = if ram.is_dir() { ram.to_owned() } else { std::env::temp_dir() };
        let directory = base.join(name);
        std::fs::create_dir_all(&directory).expect("the directory is created");
        TestFile(directory.join("memory"))
    }

    fn meta(&self) -> PathBuf {
        self.0.with_extension("meta")
    }

    fn open_at(&self, config: &EngineConfig, unix: Duration) -> (Engine, Start) {
        Engine::open(config.clone(), &self.0, unix, &mut |_| {}).expect("the memory file is opened")
    }

    fn try_open(&self, config: &EngineConfig) -> Result<(Engine, Start), RestartError> {
        Engine::open(config.clone(), &self.0, STARTED + REOPENED_AFTER, &mut |_| {})
    }

    fn open_warm(&self, config: &EngineConfig) -> (Engine, Warm) {
        match self.try_open(config) {
            Ok((engine, Start::Warm(warm))) => (engine, warm),
            other => {
                panic!("the start must restore the items, but: {:?}", other.map(|(_, start)| start))
            }
        }
    }

    fn open_cold(&self, config: &EngineConfig) -> (Engine, ColdReason) {
        match self.try_open(config) {
            Ok((engine, Start::Cold(reason))) => (engine, reason),
            other => panic!("the cache must be empty, but: {:?}", other.map(|(_, start)| start)),
        }
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        // An error is ignored, because a file that stays in a temporary directory is not a test failure.
        let _ = std::fs::remove_dir_all(self.0.parent().expect("the path has a parent directory"));
    }
}

/// The contents of an item: the bytes and properties that a restart must restore.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownItem {
    value: Vec<u8>,
    client_flags: u32,
    cost: Option<Cost>,
    expiry: Expiry,
    cas: u64,
    fetched: bool,
    last_access: u32,
}

/// Draws a configuration with small pages, so that chained items and page moves of all kinds occur.
fn config(random: &mut Random) -> EngineConfig {
    let page_size_bytes = 4096 << random.below(4);
    let memcached = random.below(3) == 0;
    let memory_limit_bytes = (1 + random.below(4)) << 20;
    let temporary_ttl = (random.below(2) == 0).then_some(Seconds(20));
    EngineConfig {
        page_size_bytes,
        classes: ClassTable::default_for(page_size_bytes),
        size_model: if memcached { SizeModel::Memcached } else { SizeModel::Exact },
        first_page_beyond_limit: memcached,
        item_size_bytes_max: 256 << 10,
        eviction: EvictionKind::ALL[random.below(EvictionKind::ALL.len() as u64) as usize],
        eviction_options: EvictionOptions {
            lru: LruConfig { temporary_ttl, ..LruConfig::default() },
            ..EvictionOptions::default()
        },
        hash_seed: random.next_u64(),
        ..EngineConfig::new(memory_limit_bytes)
    }
}

/// Runs random operations on a cache. At the end, a page move may be unfinished and a delayed flush pending.
fn operate(engine: &Engine, clock: &Clock, random: &mut Random) {
    let mut handle = engine.handle();
    for _ in 0..OPERATIONS {
        let now = clock.now();
        let key = format!("key{}", random.below(400)).into_bytes();
        match random.below(100) {
            0..45 => {
                let value = value(random);
                let expiry = expiry(random, now);
                let client_flags = random.below(3) as u32 * 77;
                let cost = (random.below(2) == 0)
                    .then(|| Cost::from_units(random.next_u64() as u32 >> random.below(32)));
                let meta = ItemMeta { client_flags, expiry, cost };
                // The test reads the expected contents from the cache, so it does not need the outcome.
                let _: StoreOutcome = handle.set(&key, &value, meta, StoreMode::Set, now);
            }
            45..70 => {
                handle.get(&key, now, |_| ());
            }
            70..76 => {
                handle.delete(&key, now);
            }
            76..80 => {
                let meta = ItemMeta::default();
                let _: StoreOutcome = handle.set(&key, b"more", meta, StoreMode::Append, now);
            }
            80..83 => {
                let _ = handle.arithmetic(&key, Delta::Increment(1), &Default::default(), now);
            }
            83..86 => {
                let _ = handle.touch(&key, expiry(random, now), now);
            }
            86 if random.below(3) == 0 => change_classes(engine, random),
            86..90 => clock.advance(Duration::from_millis(random.below(400))),
            90..93 => {
                engine.maintain_step(20, now);
            }
            93 if random.below(20) == 0 => engine.flush_all(None, now),
            93..96 => {
                let ids = engine.class_ids();
                let class =
                    |random: &mut Random| Some(ids[random.below(ids.len() as u64) as usize]);
                let _ = engine.reassign(class(random), class(random), "test", now);
            }
            _ => {
                engine.mover_step(random.below(40) as usize, now);
            }
        }
    }
    if random.below(2) == 0 {
        let now = clock.now();
        engine.flush_all(Some(Seconds(now.seconds.0 + FLUSH_AFTER.as_secs() as u32)), now);
    }
}

/// Replaces the class table by one with some of the current chunk sizes and some new ones.
fn change_classes(engine: &Engine, random: &mut Random) {
    let largest = engine.config().classes.chunk_size_bytes_max();
    let present = engine.class_table();
    let kept = present.sizes().iter().map(|&size| size as usize);
    let mut sizes: Vec<usize> = kept.filter(|_| random.below(3) == 0).collect();
    sizes.extend((0..random.below(6)).map(|_| 64 + 8 * random.below(largest as u64 / 8) as usize));
    sizes.retain(|&size| size < largest);
    sizes.push(largest);
    sizes.sort_unstable();
    sizes.dedup();
    engine.change_classes(&sizes).expect("the table is valid, and enough class numbers are vacant");
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(10) {
        0 => 0,
        1 => return b"41".to_vec(),
        2..8 => random.below(300),
        8 => random.below(6_000),
        _ => random.below(100_000),
    };
    let mut words = Random::new(random.next_u64());
    let words = std::iter::repeat_with(|| words.next_u64().to_le_bytes());
    words.flatten().take(len as usize).collect()
}

fn expiry(random: &mut Random, now: Now) -> Expiry {
    match random.below(3) {
        0 => Expiry::at(Seconds(now.seconds.0 + 10 + random.below(2_000) as u32)),
        _ => Expiry::NEVER,
    }
}

fn contents(engine: &Engine, now: Now) -> HashMap<Vec<u8>, KnownItem> {
    let mut handle = engine.handle();
    let mut known = HashMap::new();
    for number in 0..400 {
        let key = format!("key{number}").into_bytes();
        let seen = handle.peek(&key, now, |view| KnownItem {
            value: view.value().flatten().copied().collect(),
            client_flags: view.client_flags(),
            cost: view.cost(),
            expiry: view.expiry(),
            cas: view.cas(),
            fetched: view.fetched(),
            last_access: view.last_access().0,
        });
        if let Some(seen) = seen {
            known.insert(key, seen);
        }
    }
    known
}

/// Runs random operations on a new cache and closes it. At that time an upload is unfinished, items are pinned, and a
/// page move may be unfinished. Returns the contents of the closed cache, and the clock.
fn operate_and_close(
    file: &TestFile,
    config: &EngineConfig,
    random: &mut Random,
) -> (HashMap<Vec<u8>, KnownItem>, Clock) {
    let (engine, _) = file.open_at(config, STARTED);
    let clock = Clock::manual();
    operate(&engine, &clock, random);
    let known = contents(&engine, clock.now());
    let mut handle = engine.handle();
    if let Ok(mut upload) = handle.reserve(b"half", 60_000, ItemMeta::default(), clock.now()) {
        upload.fill(&[b'h'; 30_000]);
        std::mem::forget(upload);
    }
    let pins = (0..400).filter_map(|number| {
        let key = format!("key{number}").into_bytes();
        handle.peek(&key, clock.now(), |view| view.pin())
    });
    pins.take(3).for_each(std::mem::forget);
    // The upload may have evicted items, so the contents are read again.
    let now = clock.now();
    let kept = contents(&engine, now);
    let unchanged = kept.iter().all(|(key, item)| known.get(key) == Some(item));
    assert!(unchanged, "an upload and pins change no item");
    drop(handle);
    engine.close(stop(&clock)).expect("the cache is saved");
    (kept, clock)
}

fn stop(clock: &Clock) -> Stop {
    let elapsed = Duration::from_nanos(clock.nanos());
    Stop { unix_time: STARTED + elapsed, elapsed }
}
