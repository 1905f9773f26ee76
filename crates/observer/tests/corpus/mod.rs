//! The recorded corpus of a fuzz target of lines, and mutated inputs.

use slabwise_base::Random;
use std::path::Path;

const MUTATED_INPUTS: u64 = 3_000;

/// Reads all inputs of the target's corpus, in the order of their paths.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let unreadable = |error| -> ! { panic!("cannot read fuzz/corpus/{target}: {error}") };
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| unreadable(error));
    let mut paths: Vec<_> =
        entries.map(|entry| entry.unwrap_or_else(|error| unreadable(error)).path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "fuzz/corpus/{target} must have at least one input");
    paths.iter().map(|path| std::fs::read(path).expect("the input is readable")).collect()
}

/// Checks each input of the target's corpus.
pub fn check_recorded(target: &str, check: impl Fn(&[u8])) {
    corpus(target).iter().for_each(|input| check(input));
}

/// Checks inputs of the target's corpus after some changes. Inserted bytes are among `inserted`.
pub fn check_mutated(target: &str, inserted: &[u8; 5], check: impl Fn(&[u8])) {
    let corpus = corpus(target);
    for seed in 1..=MUTATED_INPUTS {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut below = |end: usize| random.below(end as u64) as usize;
        let mut input = corpus[below(corpus.len())].clone();
        for _ in 0..1 + below(6) {
            let at = below(input.len() + 1);
            match below(3) {
                0 if at < input.len() => input[at] = below(256) as u8,
                1 => input.insert(at, inserted[below(5)]),
                _ => input.truncate(at),
            }
        }
        check(&input);
    }
}
