//! The binary protocol's parser: the laws of `crates/protocol/tests/property` on any input.
#![no_main]

#[path = "../../crates/protocol/tests/property/mod.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|input: &[u8]| property::binary::check(input));
