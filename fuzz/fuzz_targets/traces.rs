//! Fuzzes the readers of traces. The checked invariants are in `crates/replay/tests/traces`.
#![no_main]

#[path = "../../crates/replay/tests/traces/mod.rs"]
mod traces;

libfuzzer_sys::fuzz_target!(|file: &[u8]| traces::check(file));
