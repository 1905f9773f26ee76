//! Fuzzes the files that list servers (`slabwise top file:PATH`). Each server of a file must have an address that can be
//! written into a file and read again.
#![no_main]

use slabwise_fleet::{parse_document, parse_lines};

libfuzzer_sys::fuzz_target!(|text: &str| {
    for servers in [parse_lines(text), parse_document(text)].into_iter().flatten() {
        let lines: String = servers.iter().map(|server| format!("{server}\n")).collect();
        // A `#` begins a comment.
        if !lines.contains('#') {
            assert_eq!(parse_lines(&lines).as_ref(), Ok(&servers), "{text:?}");
        }
    }
});
