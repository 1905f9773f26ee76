//! Invariants of the parsers of the classic text protocol and the meta protocol.

use super::{Expecting, Reader, check_cuts, events};
use slabwise_protocol::text::{self, CostWire, NextKey, next_key};
use slabwise_protocol::{Answer, KEY_LEN_MAX, LINE_LEN_MAX, Parsed, Refusal, Request, meta};

fn request_with_costs(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    request(reader, input, CostWire::On)
}

fn request_without_costs(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    request(reader, input, CostWire::Off)
}

fn request(reader: &mut Reader, input: &[u8], cost_wire: CostWire) -> Option<usize> {
    let parsed = match meta::begins(input) {
        true => meta::parse(input),
        false => text::parse(input, cost_wire),
    };
    check_item(&parsed, input);
    match parsed {
        Parsed::Incomplete => None,
        Parsed::Hangup => reader.close(),
        Parsed::Refused { refusal, consumed, skip_len } => {
            let Refusal::Line(reply) = refusal else { panic!("the refusal is not that of a line") };
            assert!(reply.is_empty() || reply.ends_with(b"\r\n"), "a reply ends in CR LF");
            assert!(!reply.is_empty() || !meta::begins(input), "meta errors are never suppressed");
            reader.events.push(format!("{reply:?} {skip_len}"));
            reader.expecting = Expecting::Skip(skip_len);
            assert!(consumed > 0, "a line has an end");
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
            assert!(consumed > 0, "a command has a name");
            Some(consumed)
        }
    }
}

/// Checks that a retrieval parsed as a single item equals one whose keys are parsed one by one.
fn check_item(parsed: &Parsed<'_>, input: &[u8]) {
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
        panic!("{item:?}");
    };
    assert_eq!((get.touch, item_answer), (*touch, *answer));
    let NextKey::Key(key, key_len) = next_key(&input[*consumed..]) else {
        panic!("{parsed:?} has no keys");
    };
    assert_eq!(key, get.key);
    let rest = &input[consumed + key_len..];
    assert_eq!(next_key(rest), NextKey::End(end - consumed - key_len));
}

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

/// Consumes the rest of an ignored line.
fn line_end(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    reader.expecting = Expecting::Request;
    Some(end + 1)
}

/// Checks that a meta request can be executed and answered.
fn check_meta(request: &Request<'_>, answer: &Answer) {
    let Answer::Meta(echo) = answer else { panic!("{answer:?}") };
    let mut buffer = [0; meta::KEY_BUFFER_LEN];
    let key = match echo.key_is_base64 {
        true => meta::decode_key(request.key(), &mut buffer),
        false => request.key(),
    };
    assert!(!key.is_empty() || *request == Request::NoOp, "an item has a key");
    assert!(key.len() <= KEY_LEN_MAX && echo.opaque().len() <= meta::OPAQUE_LEN_MAX);
    let mut letters = echo.letters().to_vec();
    assert!(letters.iter().all(|&letter| echo.has(letter)), "each flag is recorded");
    letters.sort_unstable();
    letters.dedup();
    assert_eq!(letters.len(), echo.letters().len(), "each flag is recorded once");
    let mut reply = Vec::new();
    meta::compose::bare_line(&mut reply, meta::reply::CODE_MISS, echo, key);
    assert!(reply.starts_with(b"EN") && reply.ends_with(b"\r\n"));
}

/// Panics unless the invariants hold.
pub fn check(input: &[u8]) {
    // How a line above the limit is parsed depends on whether its end has arrived, as in memcached.
    let has_long_line = input.split(|&byte| byte == b'\n').any(|line| line.len() > LINE_LEN_MAX);
    let check = |request| match has_long_line {
        true => drop(events(request, [input])),
        false => check_cuts(request, input),
    };
    check(request_without_costs);
    // Most inputs are parsed the same way with costs enabled.
    if events(request_with_costs, [input]) != events(request_without_costs, [input]) {
        check(request_with_costs);
    }
}
