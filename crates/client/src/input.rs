//! A buffer of received bytes.
//!
//! The buffer holds bytes that are already read, then unread bytes, then free space for the next received bytes.

use std::ops::Range;

#[derive(Debug)]
pub struct Input {
    bytes: Vec<u8>,
    /// Positions of the unread bytes in `bytes`.
    unread: Range<usize>,
}

impl Input {
    pub fn new(size_bytes: usize) -> Input {
        Input { bytes: vec![0; size_bytes], unread: 0..0 }
    }

    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.unread.clone()]
    }

    /// Marks the next `count` unread bytes as read, and returns them. Panics if fewer than `count` bytes are unread.
    pub fn consume(&mut self, count: usize) -> &[u8] {
        let start = self.unread.start;
        self.unread.start += count;
        assert!(self.unread.start <= self.unread.end, "a caller consumes only received bytes");
        &self.bytes[start..self.unread.start]
    }

    /// Moves the unread bytes to the start of the buffer, and grows the buffer to at least `size_bytes`.
    pub fn make_room(&mut self, size_bytes: usize) {
        if self.unread.start > 0 {
            self.bytes.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        if self.bytes.len() < size_bytes {
            self.bytes.resize(size_bytes.next_power_of_two(), 0);
        }
    }

    /// Returns the free space of the buffer. After the caller has written bytes there, it must call
    /// [`Input::mark_received`] with their number.
    pub fn room(&mut self) -> &mut [u8] {
        if self.unread.is_empty() {
            self.unread = 0..0;
        }
        &mut self.bytes[self.unread.end..]
    }

    /// Adds the first `count` bytes of the free space to the unread bytes.
    pub fn mark_received(&mut self, count: usize) {
        self.unread.end += count;
    }
}
