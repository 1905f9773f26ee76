//! A buffer of received bytes.

use std::ops::Range;

#[derive(Debug)]
pub struct Input {
    bytes: Vec<u8>,
    unread: Range<usize>,
}

impl Input {
    pub fn new(size_bytes: usize) -> Input {
        Input { bytes: vec![0; size_bytes], unread: 0..0 }
    }

    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.unread.clone()]
    }

    /// Marks bytes as read and returns them.
    pub fn consume(&mut self, count: usize) -> &[u8] {
        let start = self.unread.start;
        self.unread.start += count;
        assert!(self.unread.start <= self.unread.end, "consumed more than received");
        &self.bytes[start..self.unread.start]
    }

    /// Grows the buffer to `size_bytes`, counted from the first unread byte.
    pub fn make_room(&mut self, size_bytes: usize) {
        if self.unread.start > 0 {
            self.bytes.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        if self.bytes.len() < size_bytes {
            self.bytes.resize(size_bytes.next_power_of_two(), 0);
        }
    }

    /// Returns the free part of the buffer. [`Input::received`] must follow with the number of bytes written to it.
    pub fn room(&mut self) -> &mut [u8] {
        if self.unread.is_empty() {
            self.unread = 0..0;
        }
        &mut self.bytes[self.unread.end..]
    }

    pub fn received(&mut self, count: usize) {
        self.unread.end += count;
    }
}
