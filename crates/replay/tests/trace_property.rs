//! Checks the invariants of the fuzz target `traces` on its recorded corpus and on mutated files.

mod traces;

use slabwise_base::Random;
use std::path::Path;

const MUTATED_FILES: u64 = 3_000;

/// Bytes that have a meaning in one of the trace formats.
const PIECES: [&[u8]; 8] = [b",", b"\n", b"\r", b" ", b"\0", b"-1", b"18446744073709551616", b"#"];

/// Reads all files of the corpus, in the order of their paths.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/traces");
    let entries = std::fs::read_dir(folder).expect("the folder fuzz/corpus/traces is readable");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("the folder fuzz/corpus/traces is readable").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "fuzz/corpus/traces must have at least one file");
    paths.iter().map(|path| std::fs::read(path).expect("the file is readable")).collect()
}

#[test]
fn the_corpus_keeps_the_invariants() {
    corpus().iter().for_each(|file| traces::check(file));
}

#[test]
fn mutated_files_keep_the_invariants() {
    let corpus = corpus();
    for seed in 1..=MUTATED_FILES {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut below = |end: usize| random.below(end as u64) as usize;
        let mut file = corpus[below(corpus.len())].repeat(1 + below(3));
        for _ in 0..below(6) {
            let at = below(file.len() + 1);
            match below(3) {
                0 if at < file.len() => file[at] = below(256) as u8,
                1 => file.truncate(at),
                _ => drop(file.splice(at..at, PIECES[below(PIECES.len())].iter().copied())),
            }
        }
        if below(3) == 0 {
            file = zstd::encode_all(&*file, 1).unwrap_or_else(|error| panic!("{error}"));
            let at = below(file.len());
            file[at] ^= 1 << below(8);
        }
        traces::check(&file);
    }
}
