//! Composes requests of the binary protocol.

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
    /// The length in the header, instead of the true length of extras, key and value; `None` means the true length.
    body_len: Option<u32>,
}

/// The CAS value of a request.
#[derive(Clone, Copy, Debug)]
pub enum Cas {
    /// A fixed value.
    Is(u64),
    /// The CAS value of the last reply to the step with this index, plus an offset.
    OfStep(usize, u64),
}

/// An opcode that client libraries define, but that neither slabwise nor memcached implements.
pub const VERBOSITY: u8 = 0x1b;

/// The expiration time with which an increment or decrement of a missing key fails.
pub const DO_NOT_CREATE: u32 = u32::MAX;

/// Returns a request with this opcode, and without extras, key and value.
pub fn packet(opcode: u8) -> Packet {
    let (extras, key, value) = (Vec::new(), Vec::new(), Vec::new());
    Packet { opcode, extras, key, value, cas: Cas::Is(0), opaque: 0x6f70_6171, body_len: None }
}

/// Returns a request with a key, and without extras and value.
pub fn keyed(opcode: u8, key: &str) -> Packet {
    packet(opcode).key(key.as_bytes())
}

/// Returns a set, add or replace with client flags 0x01020304 and no expiration.
pub fn store(opcode: u8, key: &str, value: &[u8]) -> Packet {
    keyed(opcode, key).extras(&[1, 2, 3, 4, 0, 0, 0, 0]).value(value)
}

/// Returns an append or prepend.
pub fn extend(opcode: u8, key: &str, value: &[u8]) -> Packet {
    keyed(opcode, key).value(value)
}

/// Returns a touch or get-and-touch.
pub fn touch(opcode: u8, key: &str, exptime: u32) -> Packet {
    keyed(opcode, key).extras(&exptime.to_be_bytes())
}

/// Returns an increment or decrement.
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

    /// Sets the CAS value to that of the reply to the step with this index.
    pub fn cas_of(mut self, step: usize) -> Packet {
        self.cas = Cas::OfStep(step, 0);
        self
    }

    /// Sets a CAS value that differs from that of the reply to the step with this index.
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

    /// Returns the request as it is sent. `cas_of_step` returns the CAS value of the last reply to a step.
    pub fn bytes(&self, cas_of_step: &dyn Fn(usize) -> u64) -> Vec<u8> {
        let body_len = self.extras.len() + self.key.len() + self.value.len();
        let body_len = self
            .body_len
            .unwrap_or(u32::try_from(body_len).expect("the length of the body fits into 32 bits"));
        let cas = match self.cas {
            Cas::Is(cas) => cas,
            Cas::OfStep(step, more) => cas_of_step(step) + more,
        };
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend(
            u16::try_from(self.key.len())
                .expect("the length of the key fits into 16 bits")
                .to_be_bytes(),
        );
        bytes.extend([
            u8::try_from(self.extras.len()).expect("the length of the extras fits into 8 bits"),
            0,
            0,
            0,
        ]);
        bytes.extend(body_len.to_be_bytes());
        bytes.extend(self.opaque.to_be_bytes());
        bytes.extend(cas.to_be_bytes());
        for part in [&self.extras, &self.key, &self.value] {
            bytes.extend_from_slice(part);
        }
        bytes
    }
}
