//! The fuzz targets' property on their recorded corpora, and on random changes of them.

mod property;

use slabwise_base::Random;
use std::path::Path;

/// Words that mean something somewhere, so that changes reach further than random bytes would.
const WORDS: &[&[u8]] = &[
    b"get ",
    b"gets ",
    b"gat 10 ",
    b"set k 0 0 3\r\n",
    b"cas k 0 0 1 9\r\n",
    b"delete k ",
    b"incr k ",
    b"noreply",
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\0",
    b"-1",
    b"4294967296",
    b"stats ",
    b"HTTP/1.1",
    b"slabs automove ",
    b"lru_crawler metadump all",
    b"flush_all ",
    b"mg k ",
    b"ms k 3 ",
    b"ma k ",
    b"md k ",
    b"me k",
    b"mn\r\n",
    b" b",
    b" v",
    b" q",
    b" T30",
    b" Oabc",
    b" C18446744073709551615",
    b" MA",
    b"Zm9v",
    b"==",
];

const MUTATIONS: u64 = 4_000;

fn corpus() -> Vec<Vec<u8>> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let entries = |folder: &str| {
        std::fs::read_dir(corpora.join(folder)).expect("the corpora are part of the repository")
    };
    let mut paths: Vec<_> = ["text", "meta"]
        .into_iter()
        .flat_map(entries)
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}

fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(input.len() as u64 + 1) as usize;
    match random.below(4) {
        0 => {
            let word = WORDS[random.below(WORDS.len() as u64) as usize];
            input.splice(at..at, word.iter().copied());
        }
        1 => input.truncate(at),
        2 if at < input.len() => input[at] = random.next_u64() as u8,
        _ => {
            let end = (at + random.below(8) as usize).min(input.len());
            input.drain(at..end);
        }
    }
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
    for seed in 0..MUTATIONS {
        let mut random = Random::new(seed);
        let mut input = corpus[random.below(corpus.len() as u64) as usize].clone();
        for _ in 0..1 + random.below(6) {
            mutate(&mut input, &mut random);
        }
        let result = std::panic::catch_unwind(|| property::check(&input));
        assert!(result.is_ok(), "seed {seed}: {:?}", String::from_utf8_lossy(&input));
    }
}
