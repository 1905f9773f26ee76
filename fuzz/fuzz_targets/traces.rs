//! The readers of traces: the laws of `crates/replay/tests/traces` on any file.
#![no_main]

#[path = "../../crates/replay/tests/traces/mod.rs"]
mod traces;

libfuzzer_sys::fuzz_target!(|file: &[u8]| traces::check(file));
