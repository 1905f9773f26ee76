//! The classic and the meta protocol.

use super::{Expecting, Reader, check_cuts, events};
use slabwise_protocol::meta;
use slabwise_protocol::text::{CostWire, NextKey, Parsed, next_key, parse};
use slabwise_protocol::{LIMITS, Request};

fn request_with_costs(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    request(reader, input, CostWire::On)
}

fn request_without_costs(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    request(reader, input, CostWire::Off)
}

fn request(reader: &mut Reader, input: &[u8], cost_wire: CostWire) -> Option<usize> {
    if meta::begins(input) {
        return meta_request(reader, input);
    }
    match parse(input, cost_wire) {
        Parsed::Incomplete => None,
        Parsed::Hangup => reader.hang_up(),
        Parsed::Refused { reply, consumed, skip_len } => {
            reader.events.push(format!("{reply:?} {skip_len}"));
            reader.expecting = Expecting::Skip(skip_len);
            assert!(consumed > 0, "a line has an end");
            Some(consumed)
        }
        Parsed::Request { request, noreply, consumed } => {
            reader.events.push(format!("{request:?} {noreply}"));
            reader.expecting = match request {
                Request::Get(_) => Expecting::Part(key),
                Request::Store(header) => {
                    assert!(header.key.len() <= LIMITS.key_len_max);
                    Expecting::Skip(header.value_len + 2)
                }
                _ => Expecting::Request,
            };
            assert!(consumed > 0, "a command has a name");
            Some(consumed)
        }
    }
}

fn meta_request(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    match meta::parse(input) {
        meta::Parsed::Incomplete => None,
        meta::Parsed::Hangup => reader.hang_up(),
        meta::Parsed::Refused { reply, consumed, skip_len } => {
            assert!(reply.ends_with(b"\r\n"), "a reply is a line");
            reader.events.push(format!("{reply:?} {skip_len}"));
            reader.expecting = Expecting::Skip(skip_len);
            Some(consumed)
        }
        meta::Parsed::Request { request, consumed } => {
            check_meta(&request);
            reader.events.push(format!("{request:?}"));
            if let meta::Verb::Set { value_len, .. } = request.verb {
                reader.expecting = Expecting::Skip(value_len + 2);
            }
            Some(consumed)
        }
    }
}

fn key(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    match next_key(input) {
        NextKey::Key { key, consumed } => {
            assert!((1..=LIMITS.key_len_max).contains(&key.len()));
            reader.events.push(format!("key {key:?}"));
            Some(consumed)
        }
        NextKey::End { consumed } => {
            reader.events.push("end".to_owned());
            reader.expecting = Expecting::Request;
            Some(consumed)
        }
        NextKey::Incomplete { consumed: 0 } => None,
        NextKey::Incomplete { consumed } => Some(consumed),
        NextKey::TooLong => {
            reader.events.push("key too long".to_owned());
            reader.expecting = Expecting::Part(line_end);
            Some(0)
        }
    }
}

/// The rest of a line that means nothing.
fn line_end(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    reader.expecting = Expecting::Request;
    Some(end + 1)
}

/// A request of the meta protocol can be carried out and answered.
fn check_meta(request: &meta::Request<'_>) {
    let mut buffer = [0; meta::KEY_BUFFER_LEN];
    let key = match request.key.is_base64() {
        true => request.key.decode(&mut buffer),
        false => request.key.wire(),
    };
    assert!(!key.is_empty() || request.verb == meta::Verb::NoOp, "an item has a key");
    assert!(key.len() <= LIMITS.key_len_max && request.echo.opaque().len() <= meta::OPAQUE_LEN_MAX);
    let mut letters = request.echo.letters().to_vec();
    assert!(letters.iter().all(|&letter| request.options.has(letter)), "each flag is noted");
    letters.sort_unstable();
    letters.dedup();
    assert_eq!(letters.len(), request.echo.letters().len(), "each flag is there once");
    let mut reply = Vec::new();
    let is_base64 = request.key.is_base64();
    meta::compose::bare_line(&mut reply, meta::reply::CODE_MISS, &request.echo, is_base64, key);
    assert!(reply.starts_with(b"EN") && reply.ends_with(b"\r\n"));
}

/// Panics unless the laws hold.
pub fn check(input: &[u8]) {
    // How a line beyond the limit is read depends on whether its end is in sight, as in memcached.
    let has_long_line =
        input.split(|&byte| byte == b'\n').any(|line| line.len() > LIMITS.line_len_max);
    let check = |request| match has_long_line {
        true => drop(events(request, [input])),
        false => check_cuts(request, input),
    };
    check(request_without_costs);
    // Most inputs mean the same with costs.
    if events(request_with_costs, [input]) != events(request_without_costs, [input]) {
        check(request_with_costs);
    }
}
