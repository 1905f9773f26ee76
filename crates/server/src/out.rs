//! The output of one connection: replies that are not written to its socket yet.
//!
//! ```text
//!   bytes:  VALUE a 0 3\r\nfoo\r\nVALUE big 0 100000\r\n | \r\nEND\r\n
//!                                                        ^
//!   pins:                                  (position, value still in the arena)
//! ```
//!
//! Small replies are copied into one buffer. A large value is not copied: it is pinned, recorded with its position
//! among the bytes, and written from the arena in the same vectored write.
//!
//! Invariants: every pushed byte is written exactly once and in order, however the socket splits the writes. A pin is
//! released as soon as its last byte is written. `pending_bytes` is the number of bytes that are not written.
//!
//! The session pushes and the connection writes. A session stops producing when [`Out::is_full`].

use crate::os::sys;
use slabwise_engine::{ItemView, Pinned};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// A session yields at this number of pending bytes, which bounds the memory of a client that does not read.
pub const PENDING_BYTES_MAX: usize = 1 << 20;
/// A session yields at this number of pinned values, because pinned items cannot be evicted.
pub const PINNED_VALUES_MAX: usize = 64;
/// The most slices of one vectored write.
const SLICES_MAX: usize = 64;
/// The most bytes that one call of [`Out::write_to`] writes, so that a fast reader of a large value does not delay
/// other connections.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// A buffer that grew beyond this is not kept for the next connection.
const KEPT_CAPACITY_BYTES_MAX: usize = 256 << 10;

/// Values of at least this size are written from the arena. Copying a smaller one (16 KiB take about a microsecond)
/// costs less than the pin and two more slices in the write.
const PINNED_VALUE_LEN_MIN: usize = 16 << 10;

/// Pins a value that is too large to be copied. Returns `None` if the value has too many pins already; a copy instead
/// would use unbounded memory.
#[inline]
pub(crate) fn pin_if_large<'e>(view: &ItemView<'_, 'e>) -> Option<Option<Pinned<'e>>> {
    if view.value_len() < PINNED_VALUE_LEN_MIN { Some(None) } else { view.pin().map(Some) }
}

/// The replies of one connection that are not written yet. An empty output allocates no memory.
#[derive(Default)]
pub struct Out<'e> {
    bytes: Vec<u8>,
    bytes_written: usize,
    /// Values to be written when `bytes_written` reaches their position; positions ascend.
    pins: VecDeque<PinnedAt<'e>>,
    /// The number of bytes of the first pin that are written.
    pin_written: usize,
    /// Bytes of all pins, less `pin_written`.
    pins_pending_bytes: usize,
}

struct PinnedAt<'e> {
    position: usize,
    value: Pinned<'e>,
}

/// The target of replies: a socket, or a TLS stream over one. Like a socket it may accept a part of the bytes, and
/// returns `WouldBlock` if it accepts none.
pub trait Sink {
    /// Accepts some of the bytes; returns their number.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_vectored(&[IoSlice::new(bytes)])
    }
    /// Accepts some bytes of the concatenated slices; returns their number.
    fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
}

impl Sink for BorrowedFd<'_> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sys::send(*self, bytes)
    }

    fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::send_vectored(*self, slices)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    Drained,
    /// The socket accepts no more for now.
    Blocked,
    /// The limit of one call is reached; the socket may accept more.
    Paused,
}

impl<'e> Out<'e> {
    /// The buffer of reply bytes. Callers only append to it.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a value without copying it.
    pub fn push_pinned(&mut self, value: Pinned<'e>) {
        if value.value_len() > 0 {
            self.pins_pending_bytes += value.value_len();
            self.pins.push_back(PinnedAt { position: self.bytes.len(), value });
        }
    }

    /// Appends an item's value, pinned or else as a copy.
    #[inline]
    pub(crate) fn push_value(&mut self, view: &ItemView<'_, 'e>, pinned: Option<Pinned<'e>>) {
        match pinned {
            Some(pinned) => self.push_pinned(pinned),
            None => view.copy_value(&mut self.bytes),
        }
    }

    /// The number of bytes that are not written yet.
    pub fn pending_bytes(&self) -> usize {
        self.bytes.len() - self.bytes_written + self.pins_pending_bytes
    }

    /// True if everything is written.
    pub fn is_empty(&self) -> bool {
        self.pending_bytes() == 0
    }

    /// True if the session should yield instead of producing more.
    pub fn is_full(&self) -> bool {
        self.pending_bytes() >= PENDING_BYTES_MAX || self.pins.len() >= PINNED_VALUES_MAX
    }

    /// Writes as much as the sink accepts, at most 1 MiB. Returns how the call ended and the number of bytes written.
    pub fn write_to(&mut self, sink: &mut impl Sink) -> io::Result<(Flush, usize)> {
        let mut total = 0;
        while !self.is_empty() {
            if total == WRITE_BYTES_MAX {
                return Ok((Flush::Paused, total));
            }
            match self.write_once(sink, WRITE_BYTES_MAX - total) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    total += count;
                    self.written(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok((Flush::Blocked, total));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((Flush::Drained, total))
    }

    fn write_once(&self, sink: &mut impl Sink, len_max: usize) -> io::Result<usize> {
        if self.pins.is_empty() {
            let bytes = &self.bytes[self.bytes_written..];
            return sink.send(&bytes[..bytes.len().min(len_max)]);
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = self.gather(&mut slices, len_max);
        sink.send_vectored(&slices[..count])
    }

    /// Fills `slices` with the next pending bytes, at most `len_max`. Returns the number of slices filled.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>], len_max: usize) -> usize {
        let mut count = 0;
        let mut room = len_max;
        let mut position = self.bytes_written;
        let mut skip = self.pin_written;
        let mut push = |slice: &'a [u8]| {
            if slice.is_empty() {
                return true;
            }
            if count == slices.len() || room == 0 {
                return false;
            }
            let slice = &slice[..slice.len().min(room)];
            room -= slice.len();
            slices[count] = IoSlice::new(slice);
            count += 1;
            true
        };
        for pin in &self.pins {
            if !push(&self.bytes[position..pin.position]) {
                return count;
            }
            position = pin.position;
            for part in pin.value.value() {
                let skipped = skip.min(part.len());
                skip -= skipped;
                if !push(&part[skipped..]) {
                    return count;
                }
            }
        }
        push(&self.bytes[position..]);
        count
    }

    /// Copies the next pending bytes into `target`. Returns their number.
    pub(crate) fn copy_next(&self, target: &mut [u8]) -> usize {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = self.gather(&mut slices, target.len());
        let mut filled = 0;
        for slice in &slices[..count] {
            target[filled..filled + slice.len()].copy_from_slice(slice);
            filled += slice.len();
        }
        filled
    }

    pub(crate) fn discard(&mut self) {
        self.written(self.pending_bytes());
    }

    /// Marks the next `count` bytes as written, and releases pins that are written completely.
    pub(crate) fn written(&mut self, mut count: usize) {
        while let Some(pin) = self.pins.front() {
            let before = count.min(pin.position - self.bytes_written);
            self.bytes_written += before;
            count -= before;
            let pinned = count.min(pin.value.value_len() - self.pin_written);
            self.pin_written += pinned;
            self.pins_pending_bytes -= pinned;
            count -= pinned;
            if self.bytes_written < pin.position || self.pin_written < pin.value.value_len() {
                debug_assert_eq!(count, 0);
                return;
            }
            self.pins.pop_front();
            self.pin_written = 0;
        }
        self.bytes_written += count;
        debug_assert!(self.bytes_written <= self.bytes.len());
        if self.is_empty() {
            self.bytes.clear();
            self.bytes_written = 0;
        }
    }

    /// Removes and returns all pending bytes.
    #[cfg(test)]
    pub(crate) fn drain(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.gather(&mut slices, usize::MAX);
            let taken: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            self.written(taken.len());
            all.extend(taken);
        }
        all
    }

    /// True if the buffer is small enough to be kept for the next connection.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        self.bytes.capacity() <= KEPT_CAPACITY_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::{Flush, Out};
    use slabwise_base::{Clock, Random};
    use slabwise_engine::{Engine, EngineConfig, Handle, ItemMeta, StoreMode};
    use std::io::{ErrorKind, Read};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn value(seed: u64, len: usize) -> Vec<u8> {
        let mut random = Random::new(seed);
        (0..len).map(|_| random.next_u64() as u8).collect()
    }

    /// Pushes a mix of bytes and pinned values; returns all bytes in order.
    fn fill<'e>(out: &mut Out<'e>, handle: &mut Handle<'e>, clock: &Clock, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        let mut expected = Vec::new();
        for index in 0..30u64 {
            let part = value(seed ^ index, random.below(20_000) as usize);
            if random.below(2) == 0 {
                out.bytes().extend_from_slice(&part);
            } else {
                let key = format!("key{index}");
                let meta = ItemMeta::default();
                handle.set(key.as_bytes(), &part, meta, StoreMode::Set, clock.now());
                let pinned = handle.get(key.as_bytes(), clock.now(), |item| item.pin());
                out.push_pinned(pinned.expect("the item is there").expect("it can be pinned"));
            }
            expected.extend_from_slice(&part);
        }
        expected
    }

    #[test]
    fn every_byte_is_written_once_and_in_order() {
        let engine = Engine::new(EngineConfig::new(64 << 20)).expect("an engine");
        let clock = Clock::manual();
        let mut handle = engine.handle();
        for seed in 0..50 {
            let (near, mut far) = UnixStream::pair().expect("a socket pair");
            near.set_nonblocking(true).expect("non-blocking");
            far.set_nonblocking(true).expect("non-blocking");
            let mut out = Out::default();
            let expected = fill(&mut out, &mut handle, &clock, seed);
            assert_eq!(out.pending_bytes(), expected.len(), "seed {seed}");
            let mut received = Vec::new();
            let mut random = Random::new(seed);
            while received.len() < expected.len() {
                let (flush, _) = out.write_to(&mut near.as_fd()).expect("the peer is there");
                let mut part = vec![0; 1 + random.below(30_000) as usize];
                match far.read(&mut part) {
                    Ok(count) => received.extend_from_slice(&part[..count]),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "seed {seed}"),
                }
                assert_eq!(flush == Flush::Drained, out.is_empty(), "seed {seed}");
            }
            assert!(received == expected, "bytes differ with seed {seed}");
            assert!(out.is_empty() && out.pins.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn one_call_writes_a_bounded_number_of_bytes() {
        let engine = Engine::new(EngineConfig::new(64 << 20)).expect("an engine");
        let clock = Clock::manual();
        let mut handle = engine.handle();
        let (near, mut far) = UnixStream::pair().expect("a socket pair");
        near.set_nonblocking(true).expect("non-blocking");
        let mut out = Out::default();
        let mut expected = value(0, 1_500_000);
        out.bytes().extend_from_slice(&expected);
        for seed in 1..5 {
            expected.extend_from_slice(&fill(&mut out, &mut handle, &clock, seed));
        }
        let len = expected.len();
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; len];
            far.read_exact(&mut received).expect("all arrives");
            received
        });
        while !out.is_empty() {
            let (flush, count) = out.write_to(&mut near.as_fd()).expect("the peer is there");
            assert!(count <= super::WRITE_BYTES_MAX, "{count} bytes in one call");
            assert_eq!(flush == Flush::Paused, count == super::WRITE_BYTES_MAX && !out.is_empty());
            std::thread::yield_now();
        }
        assert!(reader.join().expect("the reader ends") == expected, "bytes differ");
    }

    #[test]
    fn an_output_that_is_not_written_becomes_full() {
        let mut out = Out::default();
        assert!(!out.is_full());
        out.bytes().resize(super::PENDING_BYTES_MAX, b'x');
        assert!(out.is_full());
    }
}
