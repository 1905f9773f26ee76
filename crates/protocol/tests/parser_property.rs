//! Checks the invariants of the fuzz targets on their recorded corpora and on random and mutated inputs.

mod property;

use slabwise_base::Random;
use std::path::Path;

/// Words of the text protocols. Inputs that are mutated with them reach more code than random bytes.
const WORDS: &[&[u8]] = &[
    b"get ",
    b"gets ",
    b"gat 10 ",
    b"set k 0 0 3\r\n",
    b"cas k 0 0 1 9\r\n",
    b"set k 7 0 0 3\r\n",
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
    b" g",
    b" G30",
    b" Oabc",
    b" C18446744073709551615",
    b" MA",
    b"Zm9v",
    b"==",
];

/// A protocol whose parser the tests check.
struct Subject {
    /// The folders of `fuzz/corpus` with inputs of the protocol.
    corpora: &'static [&'static str],
    /// Panics if an invariant does not hold for an input.
    check: fn(&[u8]),
    /// Returns random bytes of the protocol to insert into an input.
    random_piece: fn(&mut Random) -> Vec<u8>,
}

const TEXT: Subject =
    Subject { corpora: &["text", "meta"], check: property::text::check, random_piece: word };
const BINARY: Subject =
    Subject { corpora: &["binary"], check: property::binary::check, random_piece: packet };

fn word(random: &mut Random) -> Vec<u8> {
    WORDS[random.below(WORDS.len() as u64) as usize].to_vec()
}

/// Returns a binary request with consistent lengths, and with random opcode, extras, key and value.
fn packet(random: &mut Random) -> Vec<u8> {
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

impl Subject {
    /// Reads all inputs of the corpora, in the order of their paths.
    fn corpus(&self) -> Vec<Vec<u8>> {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let entries = |folder| {
            std::fs::read_dir(corpora.join(folder)).expect("the folder of the corpus is readable")
        };
        let mut paths: Vec<_> = self
            .corpora
            .iter()
            .flat_map(entries)
            .map(|entry| entry.expect("the folder of the corpus is readable").path())
            .collect();
        paths.sort();
        assert!(paths.len() >= 10, "the corpus has {} inputs, but needs at least 10", paths.len());
        paths.iter().map(|path| std::fs::read(path).expect("the input is readable")).collect()
    }

    fn check_corpus(&self) {
        self.corpus().iter().for_each(|input| (self.check)(input));
    }

    /// Checks one mutated input of the corpus for each seed from 0.
    fn check_mutations(&self, seeds: u64) {
        let corpus = self.corpus();
        for seed in 0..seeds {
            let mut random = Random::new(seed);
            let mut input = corpus[random.below(corpus.len() as u64) as usize].clone();
            for _ in 0..1 + random.below(6) {
                self.mutate(&mut input, &mut random);
            }
            self.check_seeded(&input, seed);
        }
    }

    /// Inserts, appends, truncates, overwrites or removes bytes of an input at random.
    fn mutate(&self, input: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(input.len() as u64 + 1) as usize;
        match random.below(5) {
            0 => drop(input.splice(at..at, (self.random_piece)(random))),
            1 => input.extend((self.random_piece)(random)),
            2 => input.truncate(at),
            3 if at < input.len() => input[at] = random.next_u64() as u8,
            _ => {
                let end = (at + random.below(8) as usize).min(input.len());
                input.drain(at..end);
            }
        }
    }

    /// Checks an input, and names its seed if the check panics.
    fn check_seeded(&self, input: &[u8], seed: u64) {
        let result = std::panic::catch_unwind(|| (self.check)(input));
        assert!(result.is_ok(), "seed {seed}: {}", input.escape_ascii());
    }
}

#[test]
fn the_text_corpus_keeps_the_invariants() {
    TEXT.check_corpus();
}

#[test]
fn the_binary_corpus_keeps_the_invariants() {
    BINARY.check_corpus();
}

#[test]
fn mutated_text_keeps_the_invariants() {
    TEXT.check_mutations(4_000);
}

#[test]
fn mutated_packets_keep_the_invariants() {
    BINARY.check_mutations(2_000);
}

#[test]
fn random_packets_keep_the_invariants() {
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let input: Vec<u8> = (0..1 + random.below(2)).flat_map(|_| packet(&mut random)).collect();
        BINARY.check_seeded(&input[..input.len().min(600)], seed);
    }
}
