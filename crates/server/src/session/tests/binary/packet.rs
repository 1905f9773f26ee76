//! Composes requests and parses replies for tests.

use super::super::super::testing::{Client, Fixture};
use crate::shared::Shared;

/// The opaque number of every request in these tests. Every reply must repeat this number.
pub(super) const OPAQUE: u32 = 0x0bad_cafe;

/// A request.
#[derive(Clone)]
pub(super) struct Packet {
    opcode: u8,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    cas: u64,
}

/// Returns a request with this opcode, and without extras, key, value and CAS value.
pub(super) fn packet(opcode: u8) -> Packet {
    Packet { opcode, extras: Vec::new(), key: Vec::new(), value: Vec::new(), cas: 0 }
}

/// Returns a set, add or replace with client flags 7 and no expiry.
pub(super) fn store(opcode: u8, key: &str, value: &[u8]) -> Packet {
    packet(opcode).extras(&[0, 0, 0, 7, 0, 0, 0, 0]).key(key).value(value)
}

/// Returns an increment or decrement.
pub(super) fn arithmetic(opcode: u8, key: &str, delta: u64, initial: u64, exptime: u32) -> Packet {
    let parts = [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &exptime.to_be_bytes()];
    packet(opcode).extras(&parts.concat()).key(key)
}

impl Packet {
    pub(super) fn extras(mut self, extras: &[u8]) -> Packet {
        self.extras = extras.to_vec();
        self
    }

    pub(super) fn key(mut self, key: &str) -> Packet {
        self.key = key.as_bytes().to_vec();
        self
    }

    pub(super) fn value(mut self, value: &[u8]) -> Packet {
        self.value = value.to_vec();
        self
    }

    pub(super) fn cas(mut self, cas: u64) -> Packet {
        self.cas = cas;
        self
    }

    /// Returns the request as it is sent.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let body_len = self.extras.len() + self.key.len() + self.value.len();
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend((self.key.len() as u16).to_be_bytes());
        bytes.extend([self.extras.len() as u8, 0, 0, 0]);
        bytes.extend((body_len as u32).to_be_bytes());
        bytes.extend(OPAQUE.to_be_bytes());
        bytes.extend(self.cas.to_be_bytes());
        for part in [&self.extras, &self.key, &self.value] {
            bytes.extend_from_slice(part);
        }
        bytes
    }
}

/// A parsed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) opcode: u8,
    pub(super) status: u16,
    pub(super) cas: u64,
    pub(super) extras: Vec<u8>,
    pub(super) key: String,
    pub(super) value: Vec<u8>,
}

impl Answer {
    /// Returns the value as text. Bytes that are not printable are escaped.
    pub(super) fn text(&self) -> String {
        self.value.escape_ascii().to_string()
    }
}

/// Parses replies. Panics if a reply is incomplete, or if its magic byte, data type or opaque number is wrong.
pub(super) fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at(24);
        assert_eq!((head[0], head[5]), (0x81, 0), "the magic byte and the data type of a reply");
        assert_eq!(
            head[12..16],
            OPAQUE.to_be_bytes(),
            "a reply repeats the opaque number of its request"
        );
        let key_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let extras_len = usize::from(head[4]);
        let body_len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let (body, after) = rest.split_at(body_len);
        let (extras, key_and_value) = body.split_at(extras_len);
        let (key, value) = key_and_value.split_at(key_len);
        answers.push(Answer {
            opcode: head[1],
            status: u16::from_be_bytes([head[6], head[7]]),
            cas: u64::from_be_bytes(
                *head[16..].first_chunk().expect("eight bytes of the head are the CAS value"),
            ),
            extras: extras.to_vec(),
            key: String::from_utf8(key.to_vec()).expect("the keys of these tests are UTF-8"),
            value: value.to_vec(),
        });
        bytes = after;
    }
    answers
}

/// A client of the binary protocol.
pub(super) struct Talk<'e> {
    pub(super) client: Client<'e>,
}

impl<'e> Talk<'e> {
    pub(super) fn new(fixture: &'e Fixture, shared: &'e Shared<'e>) -> Talk<'e> {
        Talk { client: Client::new(fixture.worker(shared)) }
    }

    /// Sends requests in one piece, and returns the replies.
    pub(super) fn send(&mut self, packets: &[Packet]) -> Vec<Answer> {
        let bytes: Vec<u8> = packets.iter().flat_map(Packet::bytes).collect();
        self.client.received.clear();
        self.client.send(&bytes);
        answers(&self.client.received)
    }

    /// Sends a request, and returns its reply. Panics unless there is exactly one reply.
    #[track_caller]
    pub(super) fn ask(&mut self, packet: &Packet) -> Answer {
        let mut answers = self.send(std::slice::from_ref(packet));
        assert_eq!(answers.len(), 1, "{answers:?}");
        let answer = answers.remove(0);
        assert_eq!(answer.opcode, packet.opcode);
        answer
    }

    /// Sends a request, and returns the status and the text of its reply.
    #[track_caller]
    pub(super) fn outcome(&mut self, packet: &Packet) -> (u16, String) {
        let answer = self.ask(packet);
        (answer.status, answer.text())
    }

    /// Sends a request. Panics if there is a reply.
    #[track_caller]
    pub(super) fn expect_no_reply(&mut self, packet: &Packet) {
        assert_eq!(self.send(std::slice::from_ref(packet)), []);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed
    }
}
