//! Fuzzes the parser of UDP datagrams. The checked invariants are in `crates/protocol/tests/udp_frames`.
#![no_main]

#[path = "../../crates/protocol/tests/udp_frames/mod.rs"]
mod udp_frames;

libfuzzer_sys::fuzz_target!(|input: &[u8]| udp_frames::check(input));
