//! Stand-in: replies on their way to a socket.
use slabwise_engine::Pinned;

/// Stand-in: replies on their way to a socket.
#[derive(Default)]
pub struct Out<'e> {
    bytes: Vec<u8>,
    pins: Vec<(usize, Pinned<'e>)>,
}

impl<'e> Out<'e> {
    /// An empty buffer.
    pub fn new() -> Out<'e> {
        Out::default()
    }

    /// The buffer to append to.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a value without copying it.
    pub fn push_pinned(&mut self, value: Pinned<'e>) {
        self.pins.push((self.bytes.len(), value));
    }

    /// Bytes that are not written yet.
    pub fn pending_bytes(&self) -> usize {
        self.bytes.len() + self.pins.iter().map(|(_, pin)| pin.value_len()).sum::<usize>()
    }

    /// Whether the session should yield.
    pub fn is_full(&self) -> bool {
        self.pending_bytes() >= 1 << 20
    }

    /// Takes everything out, as the socket would see it.
    pub fn drain(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut start = 0;
        for (position, pin) in self.pins.drain(..) {
            all.extend_from_slice(&self.bytes[start..position]);
            pin.value().for_each(|part| all.extend_from_slice(part));
            start = position;
        }
        all.extend_from_slice(&self.bytes[start..]);
        self.bytes.clear();
        all
    }
}
