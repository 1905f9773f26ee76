//! The binary protocol's parser: the laws of `crates/protocol/tests/property/binary.rs` on any input.
#![no_main]

#[path = "../../crates/protocol/tests/property/binary.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|input: &[u8]| property::check(input));
