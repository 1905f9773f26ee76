//! Checks the invariants of the fuzz target `advise` on its recorded corpus and on mutated inputs.

mod lines;

use slabwise_base::Random;
use std::path::Path;

const MUTATED_INPUTS: u64 = 3_000;

/// Reads all inputs of the corpus, in the order of their paths.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/advise");
    let entries = std::fs::read_dir(folder).expect("the folder fuzz/corpus/advise is readable");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("the folder fuzz/corpus/advise is readable").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "fuzz/corpus/advise must have at least one input");
    paths.iter().map(|path| std::fs::read(path).expect("the input is readable")).collect()
}

#[test]
fn the_corpus_keeps_the_invariants() {
    corpus().iter().for_each(|input| lines::check(input));
}

#[test]
fn mutated_inputs_keep_the_invariants() {
    let corpus = corpus();
    for seed in 1..=MUTATED_INPUTS {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut below = |end: usize| random.below(end as u64) as usize;
        let mut input = corpus[below(corpus.len())].clone();
        for _ in 0..1 + below(6) {
            let at = below(input.len() + 1);
            match below(3) {
                0 if at < input.len() => input[at] = below(256) as u8,
                1 => input.insert(at, b"= ,\n0"[below(5)]),
                _ => input.truncate(at),
            }
        }
        lines::check(&input);
    }
}
