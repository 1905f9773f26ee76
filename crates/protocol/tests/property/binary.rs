//! Invariants of the binary protocol's parser. Beyond the common ones, the parser never waits for unbounded input.

use super::{Expecting, Reader, check_cuts};
use slabwise_protocol::binary::{HEAD_LEN, REQUEST_MAGIC, compose, parse};
use slabwise_protocol::{
    Answer, BODY_LEN_MAX, KEY_LEN_MAX, LINE_LEN_MAX, Parsed, Refusal, Request, VALUE_LEN_MAX,
};

fn request(reader: &mut Reader, input: &[u8]) -> Option<usize> {
    match parse(input) {
        Parsed::Incomplete => {
            assert!(input.len() < LINE_LEN_MAX, "the parser waits for more than a line");
            None
        }
        Parsed::Hangup => {
            assert_ne!(input[0], REQUEST_MAGIC);
            reader.close()
        }
        Parsed::Refused { refusal, consumed, skip_len } => {
            let Refusal::Packet(head, fault) = refusal else {
                panic!("the refusal is not that of a packet")
            };
            assert!(consumed >= HEAD_LEN, "a request is at least a header");
            reader.events.push(format!("{head:?} {fault:?} {skip_len}"));
            if fault.closes() {
                reader.expecting = Expecting::Nothing;
                return None;
            }
            reader.expecting = Expecting::Skip(skip_len);
            Some(consumed)
        }
        Parsed::Request { request, answer, consumed } => {
            let Answer::Binary(head) = answer else { panic!("{answer:?}") };
            assert!(consumed >= HEAD_LEN, "a request is at least a header");
            reader.events.push(format!("{head:?} {request:?}"));
            reader.expecting = match request {
                Request::Store(order) => {
                    assert!((1..=KEY_LEN_MAX).contains(&order.key.len()));
                    assert!(order.value_len <= BODY_LEN_MAX);
                    Expecting::Skip(order.value_len)
                }
                Request::Get(get) => {
                    // The length fields of a reply are large enough for its echoed parts.
                    compose::hit(&mut Vec::new(), &head, 0, get.key, VALUE_LEN_MAX, 0);
                    compose::miss_with_key(&mut Vec::new(), &head, get.key);
                    Expecting::Request
                }
                Request::Quit => Expecting::Nothing,
                _ => Expecting::Request,
            };
            Some(consumed)
        }
    }
}

/// Panics unless the invariants hold.
pub fn check(input: &[u8]) {
    check_cuts(request, input);
}
