//! Checks the invariants of the fuzz target `udp` on its recorded corpus and on random datagrams.

mod udp_frames;

use slabwise_base::Random;
use std::path::Path;

const RANDOM_DATAGRAMS: u64 = 5_000;

#[test]
fn the_corpus_keeps_the_invariants() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/udp");
    let mut inputs = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder fuzz/corpus/udp is readable") {
        let path = entry.expect("the folder fuzz/corpus/udp is readable").path();
        udp_frames::check(&std::fs::read(path).expect("the input is readable"));
        inputs += 1;
    }
    assert!(inputs > 0, "fuzz/corpus/udp must have at least one input");
}

#[test]
fn random_datagrams_keep_the_invariants() {
    for seed in 0..RANDOM_DATAGRAMS {
        let mut random = Random::new(seed);
        let len_max = [12, 100, 10_000][random.below(3) as usize];
        let mut datagram: Vec<u8> =
            (0..random.below(len_max)).map(|_| random.next_u64() as u8).collect();
        // Half of the datagrams have a valid header and random bytes after it.
        if random.below(2) == 0 && datagram.len() >= 6 {
            datagram[2..6].copy_from_slice(&[0, 0, 0, 1]);
        }
        println!("seed {seed}");
        udp_frames::check(&datagram);
    }
}
