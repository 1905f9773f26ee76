//! Patterns for replies that vary: `*` is any text, `{n}` a number, and `{n:name}` a number to store. All other text
//! is literal and uses the escapes of a transcript.

use super::text::{Memory, encode};

/// True if the whole line matches the pattern. On a match, adds the stored numbers to `memory`.
pub fn fits(pattern: &str, line: &[u8], memory: &mut Memory) -> bool {
    let line = encode(line);
    let mut found = Vec::new();
    let fits = matches_from(pattern, &line, &mut found);
    if fits {
        memory.extend(found.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    fits
}

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
        (Some(wanted), Some(got)) if wanted == got => {
            matches_from(&pattern[wanted.len_utf8()..], &line[got.len_utf8()..], found)
        }
        _ => false,
    }
}

/// Splits off a leading `{n}` or `{n:name}` and returns its name and the rest of the pattern.
fn number(pattern: &str) -> Option<(&str, &str)> {
    let (inner, rest) = pattern.strip_prefix("{n")?.split_once('}')?;
    Some((inner.strip_prefix(':').unwrap_or(inner), rest))
}

#[test]
fn patterns_match_lines_and_store_numbers() {
    let mut memory = Memory::new();
    assert!(fits("STAT pid {n}", b"STAT pid 123", &mut memory));
    assert!(!fits("STAT pid {n}", b"STAT pid ", &mut memory));
    assert!(!fits("STAT pid {n}", b"STAT pid 1x", &mut memory));
    assert!(fits("a*c*", b"abcd", &mut memory));
    assert!(!fits("a*c", b"abcd", &mut memory));
    assert!(fits(r"\x00*\n", b"\0...\n", &mut memory));
    assert!(fits("VALUE k 0 {n} {n:cas}", b"VALUE k 0 5 99", &mut memory));
    assert_eq!(memory.get("cas").map(String::as_str), Some("99"));
}
