//! Fuzzes the parsers of both text protocols with the corpus of the meta protocol. The checked invariants are in
//! `crates/protocol/tests/property`.
#![no_main]

#[path = "../../crates/protocol/tests/property/mod.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|input: &[u8]| property::text::check(input));
