//! Requests of the binary protocol as bytes.

pub use slabwise_protocol::binary::opcode::{
    ADD, ADDQ, APPEND, APPENDQ, DECREMENT, DECREMENTQ, DELETE, DELETEQ, FLUSH, FLUSHQ, GAT, GATK,
    GATKQ, GATQ, GET, GETK, GETKQ, GETQ, INCREMENT, INCREMENTQ, NOOP, PREPEND, PREPENDQ, QUIT,
    QUITQ, REPLACE, REPLACEQ, SASL_AUTH, SASL_LIST_MECHS, SASL_STEP, SET, SETQ, STAT, TOUCH,
    VERSION,
};

/// A request.
#[derive(Clone, Debug)]
pub struct Packet {
    opcode: u8,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    cas: Cas,
    opaque: u32,
    /// The body length in the header; `None` for the true length.
    body_len: Option<u32>,
}

/// The CAS value in a request.
#[derive(Clone, Copy, Debug)]
pub enum Cas {
    /// This value.
    Is(u64),
    /// The CAS value of the last reply to this step, plus an offset.
    OfStep(usize, u64),
}

/// An opcode that client libraries define and neither server implements.
pub const VERBOSITY: u8 = 0x1b;

/// The expiration time that makes `incr` and `decr` fail on a missing key.
pub const DO_NOT_CREATE: u32 = u32::MAX;

pub fn packet(opcode: u8) -> Packet {
    let (extras, key, value) = (Vec::new(), Vec::new(), Vec::new());
    Packet { opcode, extras, key, value, cas: Cas::Is(0), opaque: 0x6f70_6171, body_len: None }
}

/// A request that consists of a key.
pub fn keyed(opcode: u8, key: &str) -> Packet {
    packet(opcode).key(key.as_bytes())
}

/// A set, add or replace request with flags 0x01020304 and no expiration.
pub fn store(opcode: u8, key: &str, value: &[u8]) -> Packet {
    keyed(opcode, key).extras(&[1, 2, 3, 4, 0, 0, 0, 0]).value(value)
}

/// An append or prepend request.
pub fn extend(opcode: u8, key: &str, value: &[u8]) -> Packet {
    keyed(opcode, key).value(value)
}

/// A touch or get-and-touch request.
pub fn touch(opcode: u8, key: &str, exptime: u32) -> Packet {
    keyed(opcode, key).extras(&exptime.to_be_bytes())
}

/// An increment or decrement request.
pub fn arithmetic(opcode: u8, key: &str, delta: u64, initial: u64, exptime: u32) -> Packet {
    let parts = [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &exptime.to_be_bytes()];
    keyed(opcode, key).extras(&parts.concat())
}

impl Packet {
    pub fn extras(mut self, extras: &[u8]) -> Packet {
        self.extras = extras.to_vec();
        self
    }

    pub fn key(mut self, key: &[u8]) -> Packet {
        self.key = key.to_vec();
        self
    }

    pub fn value(mut self, value: &[u8]) -> Packet {
        self.value = value.to_vec();
        self
    }

    pub fn cas(mut self, cas: u64) -> Packet {
        self.cas = Cas::Is(cas);
        self
    }

    /// Uses the CAS value of the reply to an earlier step.
    pub fn cas_of(mut self, step: usize) -> Packet {
        self.cas = Cas::OfStep(step, 0);
        self
    }

    /// Uses a CAS value other than that of the reply to an earlier step.
    pub fn cas_mismatch(mut self, step: usize) -> Packet {
        self.cas = Cas::OfStep(step, 1000);
        self
    }

    pub fn opaque(mut self, opaque: u32) -> Packet {
        self.opaque = opaque;
        self
    }

    pub fn body_len(mut self, body_len: u32) -> Packet {
        self.body_len = Some(body_len);
        self
    }

    /// Returns the encoded request; `cas_of_step` returns the CAS value of a step's reply.
    pub fn bytes(&self, cas_of_step: &dyn Fn(usize) -> u64) -> Vec<u8> {
        let body_len = self.extras.len() + self.key.len() + self.value.len();
        let body_len = self.body_len.unwrap_or(u32::try_from(body_len).expect("a short body"));
        let cas = match self.cas {
            Cas::Is(cas) => cas,
            Cas::OfStep(step, more) => cas_of_step(step) + more,
        };
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend(u16::try_from(self.key.len()).expect("a short key").to_be_bytes());
        bytes.extend([u8::try_from(self.extras.len()).expect("short extras"), 0, 0, 0]);
        bytes.extend(body_len.to_be_bytes());
        bytes.extend(self.opaque.to_be_bytes());
        bytes.extend(cas.to_be_bytes());
        for part in [&self.extras, &self.key, &self.value] {
            bytes.extend_from_slice(part);
        }
        bytes
    }
}
