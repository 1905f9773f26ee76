//! The invariants of the parser of lines, for the fuzz target `watch` and for the property test.

use slabwise_observer::traffic::line::{Line, key_len, parse};

/// Parses each line of the input. A parsed key is a part of its line, and a line that the server could have sent keeps
/// its number.
pub fn check(input: &[u8]) {
    for line in input.split(|&byte| byte == b'\n') {
        let parsed = parse(line);
        assert_eq!(parsed.is_some_and(|it| matches!(it, Line::Skipped(_))), is_skipped(line));
        let Some(Line::Access(access)) = parsed else { continue };
        assert!(line.starts_with(b"ts="), "an access starts with its time");
        assert!(!access.key.contains(&b' '), "a key has no space");
        assert!(key_len(access.key) <= access.key.len());
        let mut words = line.split(|&byte| byte == b' ');
        assert!(words.any(|word| word.strip_prefix(b"key=") == Some(access.key)));
    }
}

fn is_skipped(line: &[u8]) -> bool {
    let count = line.strip_prefix(b"skipped=").and_then(|it| std::str::from_utf8(it).ok());
    count
        .is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()) && it.parse::<u64>().is_ok())
}
