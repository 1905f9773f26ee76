//! The fuzz target's property on the recorded corpus, and on random requests and changes of them.

#[path = "property/binary.rs"]
mod property;

use slabwise_base::Random;
use std::path::Path;

const ROUNDS: u64 = 20_000;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/binary");
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect("fuzz/corpus/binary is part of the repository")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}

/// A request whose lengths agree, with an opcode and parts that may or may not go together.
fn request(random: &mut Random) -> Vec<u8> {
    const OPCODES: u64 = 0x28;
    let extras_len = [0, 0, 4, 8, 20][random.below(5) as usize];
    let key_len = [0, 1, 5, 250, 251][random.below(5) as usize];
    let value_len = [0, 0, 3, 2000][random.below(4) as usize];
    let body_len = extras_len + key_len + value_len;
    let mut bytes = vec![0x80, random.below(OPCODES) as u8];
    bytes.extend((key_len as u16).to_be_bytes());
    bytes.extend([extras_len as u8, 0, 0, 0]);
    bytes.extend((body_len as u32).to_be_bytes());
    bytes.extend(random.next_u64().to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend((0..body_len).map(|_| random.next_u64() as u8));
    bytes
}

fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(input.len() as u64 + 1) as usize;
    match random.below(5) {
        0 => drop(input.splice(at..at, request(random))),
        1 => input.truncate(at),
        2 if at < input.len() => input[at] = random.next_u64() as u8,
        3 => input.extend(request(random)),
        _ => {
            let end = (at + random.below(8) as usize).min(input.len());
            input.drain(at..end);
        }
    }
}

fn check(input: &[u8], seed: u64) {
    let result = std::panic::catch_unwind(|| property::check(input));
    assert!(result.is_ok(), "seed {seed}: {}", input.escape_ascii());
}

#[test]
fn every_recorded_input_keeps_the_laws() {
    let corpus = corpus();
    assert!(corpus.len() >= 10, "the corpus is part of the repository");
    for input in &corpus {
        property::check(input);
    }
}

#[test]
fn every_random_change_of_them_keeps_the_laws() {
    let corpus = corpus();
    for seed in 0..ROUNDS / 10 {
        let mut random = Random::new(seed);
        let mut input = corpus[random.below(corpus.len() as u64) as usize].clone();
        for _ in 0..1 + random.below(6) {
            mutate(&mut input, &mut random);
        }
        check(&input, seed);
    }
}

#[test]
fn requests_of_all_shapes_keep_the_laws() {
    for seed in 0..ROUNDS {
        let mut random = Random::new(seed);
        let input: Vec<u8> = (0..1 + random.below(2)).flat_map(|_| request(&mut random)).collect();
        check(&input[..input.len().min(600)], seed);
    }
}
