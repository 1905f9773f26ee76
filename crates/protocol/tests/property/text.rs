//! Invariants of the parsers of the classic text protocol and the meta protocol.

use super::{Expecting, Reader, check_splits, events};
use slabwise_protocol::text::{self, CostWire, NextKey, next_key};
use slabwise_protocol::{Answer, KEY_LEN_MAX, LINE_LEN_MAX, Parsed, Refusal, Request, meta};

fn request_with_costs(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    request(reader, input, CostWire::On)
}

fn request_without_costs(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    request(reader, input, CostWire::Off)
}

/// Parses one request at the start of `input`, and checks its parts.
fn request(reader: &mut Reader, input: &[u8], cost_wire: CostWire) -> Option<usize> {
    let parsed = match meta::begins(input) {
        true => meta::parse(input),
        false => text::parse(input, cost_wire),
    };
    check_sole_key(&parsed, input);
    match parsed {
        Parsed::Incomplete => None,
        Parsed::Hangup => reader.close(),
        Parsed::Refused { refusal, consumed, skip_len } => {
            let Refusal::Line(reply) = refusal else {
                panic!("a line is refused with a line, not with {refusal:?}")
            };
            assert!(reply.is_empty() || reply.ends_with(b"\r\n"), "a reply ends with a line end");
            assert!(
                !reply.is_empty() || !meta::begins(input),
                "an error of the meta protocol is always sent"
            );
            reader.events.push(format!("{reply:?} {skip_len}"));
            reader.expecting = Expecting::Skip(skip_len);
            assert!(consumed > 0, "a refused line has at least its line end");
            Some(consumed)
        }
        Parsed::Request { request, answer, consumed } => {
            if meta::begins(input) {
                check_meta(&request, &answer);
            }
            reader.events.push(format!("{request:?} {answer:?}"));
            reader.expecting = match request {
                Request::Retrieve(_) => Expecting::Part(key),
                Request::Store(store) => {
                    assert!(store.key.len() <= KEY_LEN_MAX);
                    Expecting::Skip(store.value_len + answer.value_end().len())
                }
                _ => Expecting::Request,
            };
            assert!(consumed > 0, "a request has at least the name of its command");
            Some(consumed)
        }
    }
}

/// Checks that `join_sole_key` changes only the retrieval of one key, and that the key is the same as if the keys are
/// parsed one by one.
fn check_sole_key(parsed: &Parsed<'_>, input: &[u8]) {
    let mut item = *parsed;
    text::join_sole_key(&mut item, input);
    let (Parsed::Request { request: Request::Retrieve(touch), consumed, answer }, false) =
        (parsed, item == *parsed)
    else {
        assert_eq!(item, *parsed);
        return;
    };
    let Parsed::Request { request: Request::Get(get), answer: item_answer, consumed: end } = item
    else {
        panic!("`join_sole_key` returned {item:?}, which is not a get");
    };
    assert_eq!((get.touch, item_answer), (*touch, *answer));
    let NextKey::Key(key, key_len) = next_key(&input[*consumed..]) else {
        panic!("{parsed:?} must be followed by a key");
    };
    assert_eq!(key, get.key);
    let rest = &input[consumed + key_len..];
    assert_eq!(next_key(rest), NextKey::End(end - consumed - key_len));
}

/// Parses the next key of a retrieval.
fn key(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    match next_key(input) {
        NextKey::Key(key, consumed) => {
            assert!((1..=KEY_LEN_MAX).contains(&key.len()));
            reader.events.push(format!("key {key:?}"));
            Some(consumed)
        }
        NextKey::End(consumed) => {
            reader.events.push("end".to_owned());
            reader.expecting = Expecting::Request;
            Some(consumed)
        }
        NextKey::Incomplete(0) => None,
        NextKey::Incomplete(consumed) => Some(consumed),
        NextKey::TooLong => {
            reader.events.push("key too long".to_owned());
            reader.expecting = Expecting::Part(line_end);
            Some(0)
        }
    }
}

/// Skips the rest of a line whose key is too long.
fn line_end(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    reader.expecting = Expecting::Request;
    Some(end + 1)
}

/// Checks that the key, the flags and the opaque token of a meta request are valid, and that a reply can be composed.
fn check_meta(request: &Request<'_>, answer: &Answer) {
    let Answer::Meta(echo) = answer else {
        panic!("the reply to a meta request is a line, not {answer:?}")
    };
    let mut buffer = [0; meta::KEY_BUFFER_LEN];
    let key = match echo.key_is_base64 {
        true => meta::decode_key(request.key(), &mut buffer),
        false => request.key(),
    };
    assert!(!key.is_empty() || *request == Request::NoOp, "a request about an item has a key");
    assert!(key.len() <= KEY_LEN_MAX && echo.opaque().len() <= meta::OPAQUE_LEN_MAX);
    let mut letters = echo.letters().to_vec();
    assert!(
        letters.iter().all(|&letter| echo.has(letter)),
        "the set of letters contains the letter of each flag"
    );
    letters.sort_unstable();
    letters.dedup();
    assert_eq!(letters.len(), echo.letters().len(), "no flag occurs twice");
    let mut reply = Vec::new();
    meta::compose::write_line_without_item(&mut reply, meta::reply::CODE_MISS, echo, key);
    assert!(reply.starts_with(b"EN") && reply.ends_with(b"\r\n"));
}

/// Panics if the parsers violate an invariant for this input.
pub fn check(input: &[u8]) {
    // As in memcached, the result for a line above the maximum length depends on whether the end of the line has
    // already arrived. So an input with such a line is not split.
    let has_long_line = input.split(|&byte| byte == b'\n').any(|line| line.len() > LINE_LEN_MAX);
    let check = |request| match has_long_line {
        true => drop(events(request, [input])),
        false => check_splits(request, input),
    };
    check(request_without_costs);
    // Most inputs have the same results with costs enabled. Such an input is not checked a second time.
    if events(request_with_costs, [input]) != events(request_without_costs, [input]) {
        check(request_with_costs);
    }
}
