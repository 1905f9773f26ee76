//! Handovers of a cache from one engine to another. Both are in one process, where only one engine can map the arena, so the
//! first one is dropped before.

use super::{
    STARTED, TestFile, config, contents, operate, seeds, stop,
    warm::{queue_orders, small_config},
};
use crate::background::AdoptError;
use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::layout::{ClassTable, ItemMeta};
use crate::{ColdReason, Start};
use slabwise_base::{Clock, Random};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Returns a second descriptor of the file with the engine's arena.
fn descriptor(engine: &Engine) -> OwnedFd {
    let arena = engine.arena().expect("the arena is in a file");
    arena.try_clone_to_owned().expect("a descriptor is free")
}

/// Returns the bytes of the arena.
fn bytes(arena: &OwnedFd, len: usize) -> Vec<u8> {
    let file = std::fs::File::from(arena.try_clone().expect("a descriptor is free"));
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).expect("the file has this length");
    bytes
}

fn same(error: &AdoptError) -> Option<&str> {
    match error {
        AdoptError::State(ColdReason::OtherSetting { name, .. }) => Some(name),
        _ => None,
    }
}

#[test]
fn an_adopted_cache_has_every_item_and_is_only_read_until_it_is_taken_over() {
    let mut items = 0;
    for seed in seeds() {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (file, config) = (TestFile::new(), config(&mut random));
        let path = (seed % 2 == 0).then_some(file.0.as_path());
        let engine = match path {
            Some(_) => file.open_at(&config, STARTED).0,
            None => Engine::new_nameless(config.clone()).expect("the system has memory"),
        };
        let mut clock = Clock::manual();
        operate(&engine, &clock, &mut random);
        let mut handle = engine.handle();
        if let Ok(mut upload) = handle.reserve(b"half", 60_000, ItemMeta::default(), clock.now()) {
            upload.fill(&[b'h'; 30_000]);
            std::mem::forget(upload);
        }
        let pin =
            |number| handle.peek(format!("key{number}").as_bytes(), clock.now(), |it| it.pin());
        (0..400).filter_map(pin).take(3).for_each(std::mem::forget);
        let (known, orders) = (contents(&engine, clock.now()), queue_orders(&engine));
        let text = engine.save(stop(&clock));
        let unix_time = STARTED + std::time::Duration::from_nanos(clock.nanos());
        let arena = descriptor(&engine);
        let before = bytes(&arena, config.arena_size_bytes() as usize);
        drop(handle);
        drop(engine);

        let adopt = || {
            let config = EngineConfig { hash_seed: seed, ..config.clone() };
            let arena = arena.try_clone().expect("a descriptor is free");
            Engine::adopt(config, arena, path, text.as_bytes(), unix_time)
        };
        // A process that ends before it takes over leaves the arena as it was.
        drop(adopt().expect("the cache can be adopted"));
        assert!(bytes(&arena, before.len()) == before, "seed {seed}: the arena has changed");
        let (engine, warm) = adopt().expect("the cache can be adopted again");
        engine.take_over().expect("the arena can be written");
        engine.check();
        assert_eq!(warm.elapsed.as_nanos() as u64, clock.nanos());
        clock.resume(warm.elapsed - std::time::Duration::from_nanos(clock.nanos()));
        assert_eq!(contents(&engine, clock.now()), known);
        assert_eq!(queue_orders(&engine), orders);
        items += known.len();
        operate(&engine, &clock, &mut random);
        engine.check();
    }
    assert!(items > 20 * seeds().len() || seeds().len() == 1, "the caches held only {items} items");
}

#[test]
fn a_cache_with_another_layout_is_refused() {
    let config = small_config();
    let engine = Engine::new_nameless(config.clone()).expect("the system has memory");
    let (text, arena) = (engine.save(stop(&Clock::manual())), descriptor(&engine));
    drop(engine);
    let adopt = |config: &EngineConfig, text: &str| {
        let arena = arena.try_clone().expect("a descriptor is free");
        Engine::adopt(config.clone(), arena, None, text.as_bytes(), STARTED)
    };
    let classes = ClassTable::explicit(&[128, 1024], 1024).expect("the sizes are valid");
    for (other, name) in [
        (EngineConfig { memory_limit_bytes: 2 << 20, ..config.clone() }, "memory_limit_bytes"),
        (EngineConfig { classes, ..config.clone() }, "chunk_sizes"),
    ] {
        assert_ne!(Engine::layout(&other), Engine::layout(&config));
        let refused = adopt(&other, &text).err().expect("another layout is refused");
        assert_eq!(same(&refused), Some(name), "{refused}");
    }
    let refused = adopt(&config, &text.replace("format 5", "format 999"));
    let expected = ColdReason::OtherFormat("999".to_owned());
    assert!(matches!(refused, Err(AdoptError::State(reason)) if reason == expected));
    assert!(adopt(&config, "").is_err() && adopt(&config, &text[1..]).is_err());
    assert!(adopt(&config, &text).is_ok());
}

#[test]
fn only_the_file_of_the_running_process_is_adopted() {
    let (file, other, config) = (TestFile::new(), TestFile::new(), small_config());
    let (engine, start) = file.open_at(&config, STARTED);
    assert!(matches!(start, Start::Cold(_)));
    let (text, arena) = (engine.save(stop(&Clock::manual())), descriptor(&engine));
    drop(engine);
    std::fs::write(&other.0, b"").expect("the folder is writable");
    for path in [None, Some(other.0.as_path())] {
        let arena = arena.try_clone().expect("a descriptor is free");
        let refused = Engine::adopt(config.clone(), arena, path, text.as_bytes(), STARTED);
        assert!(refused.is_err(), "{path:?}");
    }
}
