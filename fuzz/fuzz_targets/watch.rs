//! Fuzzes the parser of the lines of `watch`. The checked invariants are in `crates/observer/tests/lines`.
#![no_main]

#[path = "../../crates/observer/tests/lines/mod.rs"]
mod lines;

libfuzzer_sys::fuzz_target!(|input: &[u8]| lines::check(input));
