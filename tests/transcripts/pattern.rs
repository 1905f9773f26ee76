//! Patterns for lines of replies that vary. `*` matches any text, `{n}` a number, and `{n:name}` a number, which is
//! stored under this name. Other text matches itself, with the escapes of a transcript.

use super::text::{Memory, encode};

/// True if the whole line matches the pattern. If it matches, adds the numbers with names to `memory`.
pub fn matches(pattern: &str, line: &[u8], memory: &mut Memory) -> bool {
    let line = encode(line);
    let mut found = Vec::new();
    let is_match = matches_from(pattern, &line, &mut found);
    if is_match {
        memory.extend(found.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    is_match
}

/// True if the rest of the line matches the rest of the pattern. Adds the numbers with names to `found`.
fn matches_from<'t>(pattern: &'t str, line: &'t str, found: &mut Vec<(&'t str, &'t str)>) -> bool {
    if let Some(rest) = pattern.strip_prefix('*') {
        return (0..=line.len())
            .filter(|&skipped| line.is_char_boundary(skipped))
            .any(|skipped| matches_from(rest, &line[skipped..], found));
    }
    if let Some((name, rest)) = number(pattern) {
        let end = line.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-');
        let (value, after) = line.split_at(end.unwrap_or(line.len()));
        if value.is_empty() || !matches_from(rest, after, found) {
            return false;
        }
        if !name.is_empty() {
            found.push((name, value));
        }
        return true;
    }
    match (pattern.chars().next(), line.chars().next()) {
        (None, None) => true,
        (Some(expected), Some(actual)) if expected == actual => {
            matches_from(&pattern[expected.len_utf8()..], &line[actual.len_utf8()..], found)
        }
        _ => false,
    }
}

/// Returns the name in a leading `{n}` or `{n:name}`, which is empty for `{n}`, and the rest of the pattern.
fn number(pattern: &str) -> Option<(&str, &str)> {
    let (inner, rest) = pattern.strip_prefix("{n")?.split_once('}')?;
    Some((inner.strip_prefix(':').unwrap_or(inner), rest))
}

#[test]
fn patterns_match_lines_and_store_numbers() {
    let mut memory = Memory::new();
    assert!(matches("STAT pid {n}", b"STAT pid 123", &mut memory));
    assert!(!matches("STAT pid {n}", b"STAT pid ", &mut memory));
    assert!(!matches("STAT pid {n}", b"STAT pid 1x", &mut memory));
    assert!(matches("a*c*", b"abcd", &mut memory));
    assert!(!matches("a*c", b"abcd", &mut memory));
    assert!(matches(r"\x00*\n", b"\0...\n", &mut memory));
    assert!(matches("VALUE k 0 {n} {n:cas}", b"VALUE k 0 5 99", &mut memory));
    assert_eq!(memory.get("cas").map(String::as_str), Some("99"));
}
