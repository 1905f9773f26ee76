//! Invariants of the parser of the binary protocol: the invariants of all parsers, and that the parser never waits for
//! more than [`LINE_LEN_MAX`] bytes.

use super::{Expecting, Reader, check_splits};
use slabwise_protocol::binary::{HEAD_LEN, REQUEST_MAGIC, compose, parse};
use slabwise_protocol::{
    Answer, BODY_LEN_MAX, KEY_LEN_MAX, LINE_LEN_MAX, Parsed, Refusal, Request, VALUE_LEN_MAX,
};

/// Parses one request at the start of `input`, and checks its parts. Returns the number of bytes consumed, or `None` if
/// the reader needs more input or must not read on.
fn request(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    match parse(input) {
        Parsed::Incomplete => {
            assert!(
                input.len() < LINE_LEN_MAX,
                "the parser waits for more than {LINE_LEN_MAX} bytes"
            );
            None
        }
        Parsed::Hangup => {
            assert_ne!(input[0], REQUEST_MAGIC);
            reader.close()
        }
        Parsed::Refused { refusal, consumed, skip_len } => {
            let Refusal::Packet(head, fault) = refusal else {
                panic!("a binary request is refused with a packet, not with {refusal:?}")
            };
            assert!(consumed >= HEAD_LEN, "a request has at least {HEAD_LEN} bytes");
            reader.events.push(format!("{head:?} {fault:?} {skip_len}"));
            if fault.closes() {
                reader.expecting = Expecting::Nothing;
                return None;
            }
            reader.expecting = Expecting::Skip(skip_len);
            Some(consumed)
        }
        Parsed::Request { request, answer, consumed } => {
            let Answer::Binary(head) = answer else {
                panic!("the reply to a binary request is a packet, not {answer:?}")
            };
            assert!(consumed >= HEAD_LEN, "a request has at least {HEAD_LEN} bytes");
            reader.events.push(format!("{head:?} {request:?}"));
            reader.expecting = match request {
                Request::Store(store) => {
                    assert!((1..=KEY_LEN_MAX).contains(&store.key.len()));
                    assert!(store.value_len <= BODY_LEN_MAX);
                    Expecting::Skip(store.value_len)
                }
                Request::Get(get) => {
                    // Composing a reply panics if the key or the value is too long for the length fields of its head.
                    compose::write_hit(&mut Vec::new(), &head, 0, get.key, VALUE_LEN_MAX, 0);
                    compose::write_miss_with_key(&mut Vec::new(), &head, get.key);
                    Expecting::Request
                }
                Request::Quit => Expecting::Nothing,
                _ => Expecting::Request,
            };
            Some(consumed)
        }
    }
}

/// Panics if the parser violates an invariant for this input.
pub fn check(input: &[u8]) {
    check_splits(request, input);
}
