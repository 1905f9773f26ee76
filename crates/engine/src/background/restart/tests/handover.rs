//! Handovers of a cache from one engine to another. Both are in one process, where only one engine can map the arena, so the
//! first one is dropped before.

use super::super::image::{Held, find_held};
use super::{
    STARTED, TestFile, config, contents, operate, seeds, stop,
    warm::{queue_orders, small_config},
};
use crate::background::AdoptError;
use crate::config::EngineConfig;
use crate::engine::{AdoptedEngine, Adoption, Engine};
use crate::layout::{ClassTable, ItemMeta};
use crate::{ColdReason, Start, StateLens};
use slabwise_base::{Clock, Moment, Random};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The state of a stopped cache, in a file.
struct Saved {
    file: File,
    lens: StateLens,
    arena: OwnedFd,
    buckets: [u32; 2],
}

impl Saved {
    fn of(engine: &Engine, clock: &Clock) -> Saved {
        let file = tempfile::tempfile().expect("a temporary file can be created");
        let lens = engine.save(stop(clock), Moment::from_nanos(clock.nanos()), &file);
        let lens = lens.expect("the file can be written");
        Saved { file, lens, arena: descriptor(engine), buckets: engine.index_buckets_max() }
    }

    fn text(&self) -> String {
        let mut bytes = vec![0; self.lens.text as usize];
        self.file.read_exact_at(&mut bytes, 0).expect("the file has a text");
        String::from_utf8(bytes).expect("the text is UTF-8")
    }

    /// Replaces the text, without a change of the image.
    fn with_text(&self, text: &str) -> Saved {
        let file = tempfile::tempfile().expect("a temporary file can be created");
        file.write_all_at(text.as_bytes(), 0).expect("the file can be written");
        let lens = StateLens { text: text.len() as u64, image_words: 0 };
        Saved { file, lens, arena: self.arena.try_clone().expect("a descriptor"), ..*self }
    }

    fn adopt(
        &self,
        config: &EngineConfig,
        path: Option<&Path>,
        unix_time: Duration,
    ) -> Result<AdoptedEngine, AdoptError> {
        let arena = self.arena.try_clone().expect("a descriptor is free");
        let prepared = Adoption::prepare(config.clone(), arena, path, self.buckets)?;
        prepared.complete(&self.file, self.lens, unix_time)
    }
}

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
    let (mut items, mut ways) = (0, [0; 2]);
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
        let saved = Saved::of(&engine, &clock);
        let unix_time = STARTED + Duration::from_nanos(clock.nanos());
        let before = bytes(&saved.arena, config.arena_size_bytes() as usize);
        drop(handle);
        drop(engine);

        let other_seed = EngineConfig { hash_seed: config.hash_seed + 1, ..config.clone() };
        let is_rebuilt = random.below(2) == 1;
        let config = if is_rebuilt { other_seed } else { config };
        let adopt = || saved.adopt(&config, path, unix_time).expect("the cache can be adopted");
        // A process that ends before it takes over leaves the arena as it was.
        drop(adopt());
        assert!(bytes(&saved.arena, before.len()) == before, "seed {seed}: the arena has changed");
        let AdoptedEngine { engine, warm, rebuilt_because } = adopt();
        assert_eq!(rebuilt_because.is_some(), is_rebuilt, "seed {seed}: {rebuilt_because:?}");
        ways[usize::from(is_rebuilt)] += 1;
        engine.take_over().expect("the arena can be written");
        engine.check();
        assert_eq!(find_held(engine.space()), Some(Held::default()), "seed {seed}: nothing leaks");
        assert_eq!(warm.elapsed.as_nanos() as u64, clock.nanos());
        clock.resume(warm.elapsed - std::time::Duration::from_nanos(clock.nanos()));
        assert_eq!(contents(&engine, clock.now()), known);
        assert_eq!(queue_orders(&engine), orders);
        items += known.len();
        operate(&engine, &clock, &mut random);
        engine.check();
    }
    assert!(seeds().len() == 1 || ways.iter().all(|&count| count > 0), "{ways:?}");
    assert!(items > 20 * seeds().len() || seeds().len() == 1, "the caches held only {items} items");
}

#[test]
fn a_cache_with_another_layout_is_refused() {
    let config = small_config();
    let engine = Engine::new_nameless(config.clone()).expect("the system has memory");
    let saved = Saved::of(&engine, &Clock::manual());
    drop(engine);
    let adopt = |config: &EngineConfig, saved: &Saved| saved.adopt(config, None, STARTED);
    let classes = ClassTable::explicit(&[128, 1024], 1024).expect("the sizes are valid");
    for (other, name) in [
        (EngineConfig { page_size_bytes: 32 << 10, ..config.clone() }, "page_size_bytes"),
        (EngineConfig { classes, ..config.clone() }, "chunk_sizes"),
    ] {
        assert_ne!(Engine::layout(&other), Engine::layout(&config));
        let refused = adopt(&other, &saved).err().expect("another layout is refused");
        assert_eq!(same(&refused), Some(name), "{refused}");
    }
    let text = saved.text();
    let refused = adopt(&config, &saved.with_text(&text.replace("format 6", "format 999")));
    let expected = ColdReason::OtherFormat("999".to_owned());
    assert!(matches!(refused, Err(AdoptError::State(reason)) if reason == expected));
    for damaged in ["", &text[1..]] {
        assert!(adopt(&config, &saved.with_text(damaged)).is_err());
    }
    assert!(adopt(&config, &saved.with_text(&text)).is_ok_and(|it| it.rebuilt_because.is_some()));
    assert!(adopt(&config, &saved).is_ok_and(|it| it.rebuilt_because.is_none()));
}

#[test]
fn a_damaged_image_is_not_used() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let config = config(&mut random);
        let engine = Engine::new_nameless(config.clone()).expect("the system has memory");
        let clock = Clock::manual();
        operate(&engine, &clock, &mut random);
        let (known, saved) = (contents(&engine, clock.now()), Saved::of(&engine, &clock));
        drop(engine);
        let at = saved.lens.text.next_multiple_of(4096);
        let mut used = 0;
        for damage in 0..8 {
            // The first words, of which each has a check: the mark, the hash, and the number of tables.
            let word = [0, 1, 2, saved.lens.image_words / 8 - 1][damage % 4];
            let mut bytes = [0; 8];
            saved.file.read_exact_at(&mut bytes, at + word * 8).expect("the image has this word");
            let changed = (u64::from_le_bytes(bytes) ^ (1 << random.below(64))).to_le_bytes();
            saved.file.write_all_at(&changed, at + word * 8).expect("the file can be written");
            let adopted = saved.adopt(&config, None, STARTED).expect("the index can be rebuilt");
            println!("seed {seed}, word {word}: {:?}", adopted.rebuilt_because);
            assert!(adopted.rebuilt_because.is_some(), "seed {seed}: word {word}");
            adopted.engine.take_over().expect("the arena can be written");
            adopted.engine.check();
            assert_eq!(contents(&adopted.engine, clock.now()).len(), known.len());
            saved.file.write_all_at(&bytes, at + word * 8).expect("the file can be written");
            used += 1;
        }
        assert_eq!(used, 8);
    }
}

#[test]
fn only_the_file_of_the_running_process_is_adopted() {
    let (file, other, config) = (TestFile::new(), TestFile::new(), small_config());
    let (engine, start) = file.open_at(&config, STARTED);
    assert!(matches!(start, Start::Cold(_)));
    let saved = Saved::of(&engine, &Clock::manual());
    drop(engine);
    std::fs::write(&other.0, b"").expect("the folder is writable");
    for path in [None, Some(other.0.as_path())] {
        assert!(saved.adopt(&config, path, STARTED).is_err(), "{path:?}");
    }
}
