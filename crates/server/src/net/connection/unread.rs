//! The input that a connection keeps between two rounds.

/// Input that the session has not consumed. It is usually empty; otherwise it is a part of a request, or requests that
/// a later round serves.
#[derive(Default)]
pub(super) struct Unread {
    pub bytes: Vec<u8>,
    /// The number of bytes at the start of `bytes` that the session has consumed.
    start: usize,
}

impl Unread {
    /// Copies input. Without input it owns no buffer.
    pub fn of(input: &[u8]) -> Unread {
        Unread { bytes: input.to_vec(), start: 0 }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Removes the first `count` bytes. Frees the buffer if no byte is left.
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.bytes.len() {
            *self = Unread::default();
        }
    }
}
