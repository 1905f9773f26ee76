//! Starts with damaged and forged files. Such a start never crashes: it restores items and keeps every invariant, or it
//! creates an empty cache, or it returns an error.

use super::{STARTED, Start, TestFile, config, operate, operate_and_close, seeds, stop};
use crate::background::restart::meta::{checksum, parse};
use crate::config::EngineConfig;
use crate::evict::EvictionKind;
use crate::layout::{HEADER_SIZE_BYTES, ItemMeta};
use crate::ops::{StoreMode, StoreOutcome};
use crate::{ColdReason, RestartError};
use slabwise_base::{Clock, Random};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Opens the memory file, runs operations on the cache and checks all invariants. Returns true if items were restored.
fn opens_without_broken_invariants(
    file: &TestFile,
    config: &EngineConfig,
    random: &mut Random,
) -> bool {
    let (engine, start) = file.try_open(config).expect("slabwise wrote the .meta file");
    engine.check();
    let mut clock = Clock::manual();
    if let Start::Warm(warm) = &start {
        clock.resume(warm.elapsed.min(Duration::from_secs(1 << 30)));
    }
    operate(&engine, &clock, random);
    engine.check();
    matches!(start, Start::Warm(_))
}

/// Returns the offsets in the memory file of all chunks of owned pages.
fn chunk_offsets(file: &TestFile, config: &EngineConfig) -> Vec<u64> {
    let meta = std::fs::read(file.meta()).expect("the file was written");
    let saved = parse(&meta, config, config.arena_size_bytes())
        .expect("slabwise wrote the file")
        .expect("the file is undamaged");
    let mut offsets = Vec::new();
    for (page, owner) in saved.owners.iter().enumerate() {
        let Some(class) = owner else { continue };
        let mut classes = saved.table.classes().chain(saved.retired.iter().copied());
        let (_, size) =
            classes.find(|(id, _)| id == class).expect("the .meta file lists the owner as a class");
        let start = page * config.page_size_bytes;
        offsets.extend((0..config.page_size_bytes / size).map(|slot| (start + slot * size) as u64));
    }
    offsets
}

#[test]
fn flipped_header_bits_break_no_invariant() {
    let (mut warm, mut cold) = (0, 0);
    for seed in seeds() {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let config = config(&mut random);
        for _ in 0..4 {
            let file = TestFile::new();
            operate_and_close(&file, &config, &mut random);
            let offsets = chunk_offsets(&file, &config);
            let memory = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&file.0)
                .expect("the memory file exists");
            for _ in 0..1 + random.below(3) {
                // Selects a byte of the header, the flags, the expiry, the chain link or the start of the key.
                let field = random.below(HEADER_SIZE_BYTES as u64 + 20);
                let at = offsets[random.below(offsets.len() as u64) as usize] + field;
                let mut byte = [0];
                memory.read_exact_at(&mut byte, at).expect("the offset is in the file");
                byte[0] ^= 1 << random.below(8);
                memory.write_all_at(&byte, at).expect("the offset is in the file");
            }
            drop(memory);
            let is_warm = opens_without_broken_invariants(&file, &config, &mut random);
            *(if is_warm { &mut warm } else { &mut cold }) += 1;
        }
    }
    println!("{warm} warm starts, {cold} cold starts");
    assert!(seeds().len() == 1 || (warm > 0 && cold > 0), "some starts must be warm and some cold");
}

#[test]
fn a_start_with_an_unexpected_rank_in_an_item_is_cold() {
    // The offset of the state word in the header, and the bit of the state for an item with a rank.
    const STATE_OFFSET: u64 = 12;
    const HAS_RANK: u32 = 1 << 11;
    let config = EngineConfig { eviction: EvictionKind::Segmented, ..EngineConfig::new(1 << 20) };
    let file = TestFile::new();
    let (engine, _) = file.open_at(&config, STARTED);
    let clock = Clock::manual();
    let stored =
        engine.handle().set(b"key", b"v", ItemMeta::default(), StoreMode::Set, clock.now());
    assert!(matches!(stored, StoreOutcome::Stored { .. }), "the item is stored in the empty cache");
    engine.close(stop(&clock)).expect("the cache is saved");
    let memory =
        OpenOptions::new().read(true).write(true).open(&file.0).expect("the memory file exists");
    let mut state = [0; 4];
    let at =
        chunk_offsets(&file, &config).into_iter().map(|chunk| chunk + STATE_OFFSET).find(|&at| {
            memory.read_exact_at(&mut state, at).expect("the offset is in the file");
            state != [0; 4]
        });
    let state = u32::from_le_bytes(state) ^ HAS_RANK;
    memory
        .write_all_at(&state.to_le_bytes(), at.expect("a chunk holds the item"))
        .expect("the offset is in the file");
    let (_, reason) = file.open_cold(&config);
    let ColdReason::Damaged { invariant, .. } = reason else {
        panic!("the file must be found damaged, but: {reason}")
    };
    assert_eq!(invariant, "an item has a rank exactly if items are ranked");
}

#[test]
fn random_bytes_in_the_arena_break_no_invariant() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (file, config) = (TestFile::new(), config(&mut random));
        operate_and_close(&file, &config, &mut random);
        let memory = OpenOptions::new().write(true).open(&file.0).expect("the memory file exists");
        let page: Vec<u8> = std::iter::repeat_with(|| random.next_u64().to_le_bytes())
            .flatten()
            .take(config.page_size_bytes)
            .collect();
        memory.write_all_at(&page, 0).expect("the offset is in the file");
        drop(memory);
        opens_without_broken_invariants(&file, &config, &mut random);
    }
}

#[test]
fn a_start_with_a_damaged_meta_file_is_cold_or_refused() {
    let mut random = Random::new(7);
    let config = config(&mut random);
    let file = TestFile::new();
    operate_and_close(&file, &config, &mut random);
    let (meta, memory) = (std::fs::read(file.meta()), std::fs::read(&file.0));
    let (meta, memory) =
        (meta.expect("the file was written"), memory.expect("the file was written"));
    for _ in 0..60 {
        let mut damaged = meta.clone();
        let at = random.below(meta.len() as u64) as usize;
        if random.below(2) == 0 {
            damaged.truncate(at);
        } else {
            damaged[at] ^= 1 << random.below(8);
        }
        std::fs::write(file.meta(), &damaged).expect("the file is written");
        std::fs::write(&file.0, &memory).expect("the file is written");
        match file.try_open(&config) {
            Ok((engine, Start::Cold(_))) => engine.check(),
            Err(RestartError::MalformedMeta(_)) => {
                assert!(at < 30, "a file with an intact first line is not refused")
            }
            other => panic!(
                "the .meta file is damaged at byte {at}, but: {:?}",
                other.map(|(_, start)| start)
            ),
        }
    }
    for malformed in [&b""[..], b"\n", b"something else\n", &meta[1..]] {
        std::fs::write(file.meta(), malformed).expect("the file is written");
        assert!(matches!(file.try_open(&config), Err(RestartError::MalformedMeta(_))));
        assert!(file.meta().exists(), "a file that slabwise did not write is not removed");
    }
    for (other, reason) in [
        (&b"Tmain\nKslab_config 1.25\n"[..], ColdReason::ByMemcached),
        (b"slabwise memory file, format 0\nx", ColdReason::OtherFormat("0".to_owned())),
    ] {
        std::fs::write(file.meta(), other).expect("the file is written");
        assert_eq!(file.open_cold(&config).1, reason);
    }
}

#[test]
fn a_forged_meta_file_with_a_valid_checksum_breaks_no_invariant() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let config = config(&mut random);
        let file = TestFile::new();
        operate_and_close(&file, &config, &mut random);
        let meta = std::fs::read_to_string(file.meta()).expect("the file was written");
        let memory = std::fs::read(&file.0).expect("the file was written");
        for _ in 0..5 {
            std::fs::write(file.meta(), forged(&meta, &mut random)).expect("the file is written");
            std::fs::write(&file.0, &memory).expect("the file is written");
            opens_without_broken_invariants(&file, &config, &mut random);
        }
    }
}

/// Returns the text of a .meta file in which one number is changed and the checksum is valid.
fn forged(meta: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = meta.lines().map(str::to_owned).collect();
    lines.pop();
    // The lines before `cas=` are not changed: other settings, clocks and generation numbers only cause cold starts.
    let first =
        lines.iter().position(|line| line.starts_with("cas=")).expect("the text has the line cas=");
    let index = first + random.below((lines.len() - first) as u64) as usize;
    let (name, value) = lines[index].split_once('=').expect("each line is name=value");
    let mut parts: Vec<String> = value.split(',').map(str::to_owned).collect();
    let part = random.below(parts.len() as u64) as usize;
    let replaced = [
        "0",
        "8",
        "-",
        "255*1",
        "0*1000000",
        "-*3",
        "4096",
        "18446744073709551615",
        "0:64",
        "5:72",
        "126:80",
        "3:0",
        "",
    ];
    parts[part] = match random.below(15) {
        choice if choice < 13 => replaced[choice as usize].to_owned(),
        _ => (random.below(1 << 20) * 8).to_string(),
    };
    lines[index] = format!("{name}={}", parts.join(","));
    let body = lines.join("\n") + "\n";
    format!("{body}checksum={}\n", checksum(&body))
}

#[test]
fn a_start_with_a_memory_file_of_another_size_is_cold() {
    let mut random = Random::new(3);
    let config = config(&mut random);
    for change in [-1, 1] {
        let file = TestFile::new();
        operate_and_close(&file, &config, &mut random);
        let size = std::fs::metadata(&file.0).expect("the memory file exists").len();
        assert_eq!(size, config.arena_size_bytes() + 16);
        let memory = OpenOptions::new().write(true).open(&file.0).expect("the memory file exists");
        memory.set_len(size.saturating_add_signed(change)).expect("the file is resized");
        drop(memory);
        assert_eq!(file.open_cold(&config).1, ColdReason::OtherArena);
    }
}
