//! The escapes in transcripts, with which readable text represents any bytes.
//!
//! `\r \n \t \\ \{ \xNN` represent one byte. `{250*a}` represents 250 repetitions of a text, which may contain escapes.
//! `{=name}` represents the number that a pattern stored under this name.

use std::collections::HashMap;

/// The numbers that patterns stored, by name.
pub type Memory = HashMap<String, String>;

/// Decodes the text of a transcript line into bytes.
pub fn decode(text: &str, memory: &Memory) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(special) = rest.find(['\\', '{']) {
        bytes.extend_from_slice(&rest.as_bytes()[..special]);
        rest = &rest[special..];
        rest = if rest.starts_with('\\') {
            decode_escape(rest, &mut bytes)?
        } else {
            decode_braces(rest, memory, &mut bytes)?
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// Decodes an escape that begins with a backslash. Returns the text after the escape.
fn decode_escape<'t>(text: &'t str, bytes: &mut Vec<u8>) -> Result<&'t str, String> {
    let simple = match text.as_bytes().get(1) {
        Some(b'r') => b'\r',
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'\\') => b'\\',
        Some(b'{') => b'{',
        Some(b'x') => {
            let digits = text.get(2..4).ok_or("\\x needs two hexadecimal digits")?;
            let byte =
                u8::from_str_radix(digits, 16).map_err(|_| "\\x needs two hexadecimal digits")?;
            bytes.push(byte);
            return Ok(&text[4..]);
        }
        _ => return Err(format!("the escape at the start of {text:?} is unknown")),
    };
    bytes.push(simple);
    Ok(&text[2..])
}

/// Decodes an escape in braces. Returns the text after the escape.
fn decode_braces<'t>(
    text: &'t str,
    memory: &Memory,
    bytes: &mut Vec<u8>,
) -> Result<&'t str, String> {
    let end = text
        .find('}')
        .ok_or_else(|| format!("the brace at the start of {text:?} is not closed"))?;
    let inner = &text[1..end];
    if let Some(name) = inner.strip_prefix('=') {
        let value = memory
            .get(name)
            .ok_or_else(|| format!("no pattern has stored a number named {name:?}"))?;
        bytes.extend_from_slice(value.as_bytes());
    } else {
        let (count, repeated) =
            inner.split_once('*').ok_or("braces contain COUNT*text or =name")?;
        let count: usize = count.parse().map_err(|_| "braces contain COUNT*text or =name")?;
        bytes.extend(decode(repeated, memory)?.repeat(count));
    }
    Ok(&text[end + 1..])
}

/// Encodes bytes with the escapes of a transcript.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\\' => text.push_str("\\\\"),
            b'{' => text.push_str("\\{"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// Encodes bytes for a message. Shows at most the first 200 bytes.
pub fn excerpt(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 200;
    match bytes.get(..SHOWN_MAX) {
        Some(start) => format!("{}... ({} bytes)", encode(start), bytes.len()),
        None => encode(bytes),
    }
}

#[test]
fn escapes_are_decoded_and_unknown_escapes_are_errors() {
    let memory = Memory::from([("cas".to_owned(), "7".to_owned())]);
    let decoded = |text| decode(text, &memory);
    assert_eq!(decoded(r"a\x00\r\n\\\{b"), Ok(b"a\0\r\n\\{b".to_vec()));
    assert_eq!(decoded(r"{3*a\x01}!"), Ok(b"a\x01a\x01a\x01!".to_vec()));
    assert_eq!(decoded("x {=cas} y"), Ok(b"x 7 y".to_vec()));
    assert!(decoded("{=other}").is_err());
    assert!(decoded(r"\q").is_err());
    assert!(decoded("{3a}").is_err());
}
