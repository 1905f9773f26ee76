//! Changes of the memory limit of a cache in a memory file, and starts with another limit: the blocks of the file, and the
//! items.

use super::super::file::MemoryFile;
use super::super::meta::checksum;
use super::super::resize::{LimitError, set_limit};
use super::super::{self as restart};
use super::{OPERATIONS, STARTED, TestFile, config, contents, operate, seeds, stop};
use crate::config::EngineConfig;
use crate::engine::{Adoption, Engine};
use crate::layout::{ClassTable, ItemMeta};
use crate::mover::MoverStep;
use crate::ops::{Cache, StoreMode, StoreOutcome};
use crate::{RestartError, Start};
use slabwise_base::{Clock, Moment, Now, Random};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// The blocks of a file in addition to those of its pages: the last one, with the generation number.
const END_BYTES: u64 = 4096;

fn config_of(mib: u64) -> EngineConfig {
    let page_size_bytes = 16 << 10;
    let classes = ClassTable::default_for(page_size_bytes);
    EngineConfig { page_size_bytes, classes, ..EngineConfig::new(mib * MIB) }
}

/// Returns the length of the blocks of a file, in bytes.
fn block_bytes(file: &TestFile) -> u64 {
    std::fs::metadata(&file.0).expect("the file exists").blocks() * 512
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

fn value(number: u64) -> Vec<u8> {
    number.to_string().repeat(50).into_bytes()
}

/// Stores items of a few hundred bytes. Returns their number.
fn fill(engine: &Engine, bytes: u64) -> u64 {
    let (mut handle, count) = (engine.handle(), bytes / 256);
    for number in 0..count {
        let meta = ItemMeta::default();
        let stored =
            handle.set(&key(number), &value(number), meta, StoreMode::Set, Now::from_nanos(0));
        assert!(matches!(stored, StoreOutcome::Stored { .. }), "{stored:?}");
    }
    count
}

/// Returns the number of items that the cache holds. Fails if a value is wrong.
fn count_items(engine: &Engine, stored: u64) -> u64 {
    let (mut handle, mut count) = (engine.handle(), 0);
    for number in 0..stored {
        let seen = handle.peek(&key(number), Now::from_nanos(0), |view| {
            view.value().flatten().copied().collect::<Vec<u8>>()
        });
        count += u64::from(seen.is_some());
        assert!(seen.is_none_or(|seen| seen == value(number)), "key{number} has its value");
    }
    count
}

/// Lets the mover work until it has nothing to do.
fn settle(engine: &Engine) {
    let step = || engine.mover_step(1000, Moment::from_nanos(0));
    assert!((0..100_000).any(|_| step() == MoverStep::Idle), "the mover ends");
}

#[test]
fn the_blocks_of_the_file_follow_the_limit_down_and_up() {
    let (file, config) = (TestFile::new(), config_of(8));
    let (engine, _) = file.open_at(&config, STARTED);
    assert_eq!(block_bytes(&file), 8 * MIB + END_BYTES);
    let stored = fill(&engine, 12 * MIB);
    let full = count_items(&engine, stored);
    let mut expected = full;
    for (mib, share) in [(4, 0.5), (2, 0.25), (8, 0.25), (16, 0.25), (3, 0.25)] {
        engine.set_memory_limit(mib * MIB).expect("the file system has room");
        // A higher limit has its blocks at once.
        assert!(block_bytes(&file) >= mib * MIB, "{mib} MiB");
        settle(&engine);
        assert_eq!(block_bytes(&file), mib * MIB + END_BYTES, "{mib} MiB");
        engine.check();
        let items = count_items(&engine, stored);
        assert!(items <= expected, "no item returns");
        expected = items;
        let least = (full as f64 * share * 0.8) as u64;
        assert!(items > least, "{mib} MiB: {items} items, and not more than {least}");
    }
    fill(&engine, 12 * MIB);
    engine.check();
    settle(&engine);
    assert_eq!(block_bytes(&file), 3 * MIB + END_BYTES);
}

#[test]
fn pages_that_were_never_used_lose_their_blocks_too() {
    let (file, config) = (TestFile::new(), config_of(8));
    let (engine, _) = file.open_at(&config, STARTED);
    let stored = fill(&engine, MIB);
    engine.set_memory_limit(4 * MIB).expect("a lower limit is possible");
    settle(&engine);
    assert_eq!(block_bytes(&file), 4 * MIB + END_BYTES);
    assert_eq!(count_items(&engine, stored), stored);
    engine.check();
}

/// Opens a cache whose file system has room for this number of bytes beyond the blocks at the start.
fn open_with_room(file: &TestFile, config: &EngineConfig, room: u64) -> (Cache, MemoryFile) {
    let opened = restart::open(config.clone(), &file.0, STARTED, &mut |_| {});
    let (cache, memory_file, _) = opened.expect("the memory file is opened");
    memory_file.room_bytes.store(room, Relaxed);
    (cache, memory_file)
}

#[test]
fn a_full_file_system_refuses_a_higher_limit_and_keeps_the_old_one() {
    let (file, config) = (TestFile::new(), config_of(8));
    let (cache, memory_file) = open_with_room(&file, &config, 0);
    let (space, set) =
        (&cache.space, |mib: u64| set_limit(&cache.space, Some(&memory_file), mib * MIB));
    for room in [0, MIB, 64 * MIB] {
        memory_file.room_bytes.store(room, Relaxed);
        let before = std::fs::metadata(&file.0).expect("the file exists");
        let refused = set(200).expect_err("the file system is full");
        let text = refused.to_string();
        assert!(matches!(refused, LimitError::File { .. }), "{text}");
        for part in ["a limit of 209715200 bytes", "needs 201326592 more bytes", "No space left"] {
            assert!(text.contains(part), "{text}");
        }
        let after = std::fs::metadata(&file.0).expect("the file exists");
        assert_eq!((after.len(), after.blocks()), (before.len(), before.blocks()));
        assert_eq!(space.lock_pool().limit, 512);
    }
    // The refused calls have left nothing behind, so that a smaller step is possible.
    memory_file.room_bytes.store(8 * MIB, Relaxed);
    set(16).expect("the file system has room");
    assert!(set(17).is_err());
    // A lower limit needs no room. Its pages keep their blocks until they are released.
    set(8).expect("a lower limit is possible");
    set(16).expect("the blocks are there");
    set(8).expect("a lower limit is possible");
    while space.release_page() {}
    assert!(set(16).is_err(), "the holes need blocks");
    assert_eq!(block_bytes(&file), 8 * MIB + END_BYTES);
    memory_file.room_bytes.store(8 * MIB, Relaxed);
    set(16).expect("the file system has room");
    space.lock_pool().check(u32::MAX);
}

#[test]
fn a_limit_beyond_the_reserved_addresses_is_refused() {
    let (file, config) = (TestFile::new(), config_of(8));
    let (engine, _) = file.open_at(&config, STARTED);
    let refused =
        engine.set_memory_limit(1 << 45).expect_err("the addresses are reserved at the start");
    assert!(matches!(refused, LimitError::TooLarge { .. }), "{refused}");
    assert_eq!(engine.memory_limit_bytes(), 8 * MIB);
}

#[test]
fn a_start_with_another_limit_keeps_the_items() {
    // The limit at the first start, a limit that a command has set or 0, and the limit at the second start.
    for (first, command, second) in [
        (8, 0, 8),
        (8, 0, 4),
        (8, 0, 16),
        (8, 4, 4),
        (8, 4, 8),
        (8, 16, 16),
        (8, 16, 2),
        (4, 2, 32),
    ] {
        let file = TestFile::new();
        let (engine, _) = file.open_at(&config_of(first), STARTED);
        let stored = fill(&engine, 6 * MIB);
        if command > 0 {
            engine.set_memory_limit(command * MIB).expect("the file system has room");
            settle(&engine);
        }
        let items = count_items(&engine, stored);
        engine.close(stop(&Clock::manual())).expect("the cache is saved");

        let (engine, warm) = file.open_warm(&config_of(second));
        let context = format!("{first}, {command}, {second} MiB");
        assert_eq!((warm.items, count_items(&engine, stored)), (items, items), "{context}");
        engine.check();
        assert_eq!(engine.memory_limit_bytes(), second * MIB, "{context}");
        settle(&engine);
        assert_eq!(block_bytes(&file), second * MIB + END_BYTES, "{context}");
        engine.check();
        // The file is cut off behind its last page, and saved with its present size.
        fill(&engine, 6 * MIB);
        let items = count_items(&engine, stored);
        engine.close(stop(&Clock::manual())).expect("the cache is saved");
        let (engine, warm) = file.open_warm(&config_of(second));
        assert_eq!(warm.items, items, "{context}");
        engine.check();
    }
}

#[test]
fn a_larger_start_on_a_full_file_system_is_refused_and_keeps_the_saved_cache() {
    let file = TestFile::new();
    let (engine, _) = file.open_at(&config_of(8), STARTED);
    let stored = fill(&engine, MIB);
    engine.close(stop(&Clock::manual())).expect("the cache is saved");
    // No file system has room for this file.
    let huge = config_of(1 << 22);
    let before = std::fs::read(file.meta()).expect("the file was written");
    let refused = file.try_open(&huge).map(|_| ()).expect_err("the file system is too small");
    assert!(matches!(refused, RestartError::NoRoom { .. }), "{refused}");
    assert_eq!(std::fs::read(file.meta()).expect("the file was not removed"), before);
    let (engine, warm) = file.open_warm(&config_of(8));
    assert_eq!((warm.items, count_items(&engine, stored)), (stored, stored));
}

#[test]
fn a_file_of_the_earlier_format_is_restored() {
    let (file, config) = (TestFile::new(), config_of(8));
    let (engine, _) = file.open_at(&config, STARTED);
    let stored = fill(&engine, MIB);
    engine.close(stop(&Clock::manual())).expect("the cache is saved");
    let text = std::fs::read_to_string(file.meta()).expect("the file was written");
    let kept = |line: &&str| !line.starts_with("holes=") && !line.starts_with("checksum=");
    let lines: Vec<&str> = text.lines().filter(kept).collect();
    let body = lines.join("\n").replace("format 6", "format 5") + "\n";
    assert_ne!(body, text);
    std::fs::write(file.meta(), format!("{body}checksum={}\n", checksum(&body)))
        .expect("the file is writable");
    let (engine, warm) = file.open_warm(&config_of(4));
    assert_eq!((warm.items, count_items(&engine, stored)), (stored, stored));
    engine.check();
}

/// Hands a cache over to another engine.
fn hand_over(engine: Engine, file: &TestFile, clock: &Clock) -> Engine {
    let state = tempfile::tempfile().expect("a temporary file can be created");
    let lens = engine.save(stop(clock), Moment::from_nanos(clock.nanos()), &state);
    let lens = lens.expect("the file can be written");
    let arena = engine.arena().expect("the arena is in a file").try_clone_to_owned();
    let (config, buckets) = (engine.config().clone(), engine.index_buckets_max());
    drop(engine);
    let arena = arena.expect("a descriptor is free");
    let prepared = Adoption::prepare(config, arena, Some(&file.0), buckets);
    let unix_time = STARTED + Duration::from_nanos(clock.nanos());
    let adopted = prepared.and_then(|it| it.complete(&state, lens, unix_time));
    let engine = adopted.expect("the cache can be adopted").engine;
    engine.take_over().expect("the arena can be written");
    engine
}

#[test]
fn a_process_that_took_over_knows_the_blocks_and_changes_the_limit() {
    for mib in [2, 8, 16] {
        let (file, config) = (TestFile::new(), config_of(8));
        let (engine, _) = file.open_at(&config, STARTED);
        let stored = fill(&engine, 6 * MIB);
        engine.set_memory_limit(mib * MIB).expect("the file system has room");
        settle(&engine);
        let items = count_items(&engine, stored);
        let engine = hand_over(engine, &file, &Clock::manual());
        engine.check();
        assert_eq!(engine.memory_limit_bytes(), mib * MIB);
        assert_eq!(count_items(&engine, stored), items);
        assert_eq!(block_bytes(&file), mib * MIB + END_BYTES);
        for other in [4, 32, 3] {
            engine.set_memory_limit(other * MIB).expect("the file system has room");
            settle(&engine);
            assert_eq!(block_bytes(&file), other * MIB + END_BYTES);
            fill(&engine, MIB);
            engine.check();
        }
    }
}

#[test]
fn an_empty_cache_in_the_file_of_another_process_gives_blocks_to_its_holes() {
    let (file, config) = (TestFile::new(), config_of(8));
    let (engine, _) = file.open_at(&config, STARTED);
    engine.set_memory_limit(2 * MIB).expect("a lower limit is possible");
    settle(&engine);
    let arena = engine.arena().expect("the arena is in a file").try_clone_to_owned();
    drop(engine);
    let prepared =
        Adoption::prepare(config, arena.expect("a descriptor is free"), Some(&file.0), [0; 2]);
    let engine = prepared.and_then(Adoption::empty).expect("the file can be used");
    engine.take_over().expect("the arena can be written");
    assert_eq!(block_bytes(&file), 8 * MIB + END_BYTES);
    fill(&engine, 6 * MIB);
    engine.check();
}

/// Changes the limit of a cache at random between random operations, and starts it again at random with another limit.
#[test]
fn random_limits_break_no_invariant_and_lose_no_item_at_a_start() {
    let (mut restarts, mut items) = (0, 0);
    for seed in seeds() {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (file, mut config) = (TestFile::new(), config(&mut random));
        let (mut engine, _) = file.open_at(&config, STARTED);
        let mut clock = Clock::manual();
        for _ in 0..12 {
            operate(&engine, &clock, &mut random);
            let limit = (1 + random.below(8)) << 20;
            match random.below(5) {
                0 => {
                    let known = contents(&engine, clock.now());
                    engine.close(stop(&clock)).expect("the cache is saved");
                    config.memory_limit_bytes = limit;
                    let at = STARTED + Duration::from_nanos(clock.nanos());
                    let start;
                    (engine, start) = file.open_at(&config, at);
                    let Start::Warm(warm) = start else { panic!("seed {seed}: {start:?}") };
                    clock.resume(warm.elapsed - Duration::from_nanos(clock.nanos()));
                    assert_eq!(contents(&engine, clock.now()), known, "seed {seed}");
                    (restarts, items) = (restarts + 1, items + known.len());
                }
                1 => engine = hand_over(engine, &file, &clock),
                _ => {
                    engine.set_memory_limit(limit).expect("the file system has room");
                    for _ in 0..random.below(200) {
                        engine.mover_step(1 << 10, clock.moment());
                    }
                }
            }
            engine.check();
            let pool = engine.space().lock_pool();
            let blocks = pool.blocks().expect("the arena is a memory file").with_blocks();
            drop(pool);
            let bytes = u64::from(blocks) * config.page_size_bytes as u64;
            assert!(block_bytes(&file) <= bytes + END_BYTES, "seed {seed}: {bytes} bytes");
        }
    }
    println!("{OPERATIONS} operations between two changes, {restarts} starts, {items} items");
    assert!(seeds().len() == 1 || (restarts > 0 && items > 0), "there were starts with items");
}
