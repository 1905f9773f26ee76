//! The lines that one watcher has not been given yet.
//!
//! Laws: it never holds more than its bound; what is taken is what was pushed, in order, with the
//! number of dropped lines where they would have been.

use std::io::Write;

/// Lines that wait, up to a number of bytes.
#[derive(Debug)]
pub(super) struct LineBuffer {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// Lines dropped since the buffer was taken last. While there are any nothing is kept, so that all
    /// of them lie behind the lines that are kept.
    skipped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    Kept,
    Skipped,
}

impl LineBuffer {
    pub fn new(bytes_max: usize) -> LineBuffer {
        LineBuffer { bytes: Vec::new(), bytes_max, skipped: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.skipped == 0
    }

    pub fn push(&mut self, line: &[u8]) -> Pushed {
        if self.skipped > 0 || self.bytes.len() + line.len() > self.bytes_max {
            self.skipped += 1;
            return Pushed::Skipped;
        }
        self.make_room(line.len());
        self.bytes.extend_from_slice(line);
        Pushed::Kept
    }

    /// Grows by doubling, up to the bound and not beyond.
    fn make_room(&mut self, len: usize) {
        let needed = self.bytes.len() + len;
        if needed > self.bytes.capacity() {
            let capacity = needed.max(2 * self.bytes.capacity()).min(self.bytes_max);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    /// Puts everything into `lines`, which must be empty, and goes on with its memory.
    pub fn take(&mut self, lines: &mut Vec<u8>) {
        debug_assert!(lines.is_empty(), "what was taken before must be done with");
        std::mem::swap(&mut self.bytes, lines);
        if self.skipped > 0 {
            writeln!(lines, "skipped={}", self.skipped).expect("a Vec takes every write");
            self.skipped = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LineBuffer, Pushed};
    use slabwise_base::Random;

    /// What must be taken, kept in the plainest way.
    #[derive(Default)]
    struct Model {
        lines: Vec<String>,
        skipped: u64,
    }

    #[test]
    fn it_never_outgrows_its_bound_and_every_line_is_kept_or_counted() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let bytes_max = random.below(300) as usize;
            let mut buffer = LineBuffer::new(bytes_max);
            let mut model = Model::default();
            let mut lines = Vec::new();
            let (mut kept, mut told, mut pushed) = (0, 0, 0);
            for number in 0..500 {
                if random.below(8) == 0 {
                    buffer.take(&mut lines);
                    let mut expected = std::mem::take(&mut model.lines).concat();
                    if model.skipped > 0 {
                        expected += &format!("skipped={}\n", model.skipped);
                        told += std::mem::take(&mut model.skipped);
                    }
                    assert_eq!(String::from_utf8_lossy(&lines), expected, "seed {seed}");
                    assert!(buffer.is_empty(), "seed {seed}");
                    lines.clear();
                }
                let line = format!("{number} {}\n", "x".repeat(random.below(60) as usize));
                let held: usize = model.lines.iter().map(String::len).sum();
                let fits = model.skipped == 0 && held + line.len() <= bytes_max;
                let expected = if fits { Pushed::Kept } else { Pushed::Skipped };
                assert_eq!(buffer.push(line.as_bytes()), expected, "seed {seed}");
                assert!(buffer.bytes.len() <= bytes_max, "seed {seed}");
                pushed += 1;
                if fits {
                    model.lines.push(line);
                    kept += 1;
                } else {
                    model.skipped += 1;
                }
            }
            assert_eq!(kept + told + model.skipped, pushed, "seed {seed}");
        }
    }

    #[test]
    fn a_buffer_without_room_tells_all_the_same() {
        let mut buffer = LineBuffer::new(0);
        assert!(buffer.is_empty());
        buffer.push(b"line\n");
        assert!(!buffer.is_empty());
        let mut lines = Vec::new();
        buffer.take(&mut lines);
        assert_eq!(lines, b"skipped=1\n");
    }
}
