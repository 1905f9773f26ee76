//! Fuzzes the parsers of the lines from which `slabwise advise` and `slabwise classes` read item sizes: those of
//! `lru_crawler metadump`, of `stats sizes` and of files. The checked invariants are in `crates/advisor/tests/lines`. The
//! targets `watch` and `observer` fuzz the other replies that `slabwise advise` reads.
#![no_main]

#[path = "../../crates/advisor/tests/lines/mod.rs"]
mod lines;

libfuzzer_sys::fuzz_target!(|input: &[u8]| lines::check(input));
