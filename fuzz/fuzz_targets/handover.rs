//! The messages of an upgrade: a message that is accepted has exactly one text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(text) = slabwise_server::recompose_handover_message(bytes) {
        assert_eq!(text.as_bytes(), bytes);
    }
});
