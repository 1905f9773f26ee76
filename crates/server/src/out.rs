//! The output of one connection: the replies that the server has not written to the connection's socket yet.
//!
//! ```text
//!   bytes:  VALUE a 0 3\r\nfoo\r\nVALUE big 0 100000\r\n | \r\nEND\r\n
//!                                                        ^
//!   pins:                                  (position, pin of the value in the arena)
//! ```
//!
//! The session appends replies, and the connection writes them to the socket. Small values are copied into the buffer
//! of bytes. A large value is not copied: the output stores a pin of the item and the position of the value in the
//! buffer. A vectored write then takes the bytes from the buffer and the value from the arena.
//!
//! Invariants: every appended byte is written exactly once and in order, even if the socket accepts only a part of a
//! write. A pin is released as soon as the last byte of its value is written. [`Out::pending_bytes`] is the number of
//! bytes that are not written yet. A session appends no further reply while [`Out::is_full`] is true.

use crate::os::sockets;
use crate::shared::{PINNED_VALUE_LEN_MIN, ReplyBytes};
use slabwise_engine::{ItemView, Pinned};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// The number of unwritten bytes at which an output is full. The limit bounds the memory for a client that does not
/// read.
pub const PENDING_BYTES_MAX: usize = 1 << 20;
/// The number of pinned values at which an output is full. There is a limit because pinned items cannot be evicted.
pub const PINNED_VALUES_MAX: usize = 64;
/// The maximum number of slices in one vectored write.
const SLICES_MAX: usize = 64;
/// The maximum number of bytes that one call of [`Out::write_to`] writes. The limit prevents a client that reads a
/// large value quickly from delaying other connections.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// The maximum number of unused outputs that a worker keeps for its next connections.
pub(crate) const KEPT_OUTPUTS_MAX: usize = 4;
/// The maximum capacity, in bytes, of a buffer that is kept for the next connection. A larger buffer is freed.
pub(crate) const KEPT_CAPACITY_BYTES_MAX: usize = 256 << 10;

/// Pins a value if it is large. Returns `Some(Some(pin))` for a large value, and `Some(None)` for a small value, which
/// the caller copies. Returns `None` if a large value already has the maximum number of pins: copies of large values
/// would use unbounded memory, so the value is not sent at all.
#[inline]
pub(crate) fn pin_if_large<'e>(view: &ItemView<'_, 'e>) -> Option<Option<Pinned<'e>>> {
    if is_large(view) { view.pin().map(Some) } else { Some(None) }
}

/// True if the item's value is pinned instead of copied.
#[inline]
pub(crate) fn is_large(view: &ItemView<'_, '_>) -> bool {
    view.value_len() >= PINNED_VALUE_LEN_MIN
}

/// The maximum length of an output that a worker with io_uring sends later, together with those of other connections.
pub(crate) const STAGED_BYTES_MAX: usize = 16 << 10;
/// The maximum number of these outputs, so that the first one does not wait for long.
pub(crate) const STAGED_OUTPUTS_MAX: usize = 32;
/// The maximum length of all these outputs of a worker.
pub(crate) const STAGED_TOTAL_BYTES_MAX: usize = STAGED_OUTPUTS_MAX * STAGED_BYTES_MAX;

/// The replies of one connection that are not written yet. A new output owns no heap memory. An output whose bytes are
/// all written keeps its buffer.
pub struct Out<'e> {
    /// The bytes of the replies without the pinned values.
    bytes: Vec<u8>,
    /// The number of bytes of `bytes` that are written.
    bytes_written: usize,
    /// The pinned values, in ascending order of their positions in `bytes`.
    pins: VecDeque<PositionedPin<'e>>,
    /// The number of bytes of the first pinned value that are written.
    pin_written: usize,
    /// The number of bytes of all pinned values that are not written.
    pins_pending_bytes: usize,
    /// The number of unwritten bytes from which the output is full.
    pending_bytes_max: usize,
}

impl Default for Out<'_> {
    fn default() -> Self {
        Out {
            bytes: Vec::new(),
            bytes_written: 0,
            pins: VecDeque::new(),
            pin_written: 0,
            pins_pending_bytes: 0,
            pending_bytes_max: PENDING_BYTES_MAX,
        }
    }
}

/// A pinned value, and its position in the output.
struct PositionedPin<'e> {
    /// The number of bytes of [`Out::bytes`] that are written before the value.
    position: usize,
    value: Pinned<'e>,
}

/// A target of replies: a socket, or a TLS stream over a socket. A call may accept only a part of the bytes. If it
/// accepts no byte, it returns the error `WouldBlock`.
pub trait Sink {
    /// Accepts bytes from the start of `bytes`, and returns the number of accepted bytes.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_vectored(&[IoSlice::new(bytes)])
    }
    /// Accepts bytes from the start of the concatenated slices, and returns the number of accepted bytes.
    fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Accepts all bytes of a buffer by taking the buffer, and leaves an empty one. Returns false if the buffer was not
    /// taken.
    fn send_buffer(&mut self, _buffer: &mut Vec<u8>) -> bool {
        false
    }
}

impl Sink for BorrowedFd<'_> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sockets::send(*self, bytes)
    }

    fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        sockets::send_vectored(*self, slices)
    }
}

/// How a call that writes an output ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// All bytes are written.
    Drained,
    /// The socket accepts no more bytes until the event loop reports that it is writable.
    Blocked,
    /// The call wrote the maximum number of bytes of one call. The socket may accept more bytes.
    Paused,
}

impl<'e> Out<'e> {
    /// Returns the buffer of reply bytes. The caller may only append to the buffer.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a value without copying it.
    pub fn push_pinned(&mut self, value: Pinned<'e>) {
        if value.value_len() > 0 {
            self.pins_pending_bytes += value.value_len();
            self.pins.push_back(PositionedPin { position: self.bytes.len(), value });
        }
    }

    /// Appends an item's value: as the pin `pinned` if there is one, otherwise as a copy.
    #[inline]
    pub(crate) fn push_value(&mut self, view: &ItemView<'_, 'e>, pinned: Option<Pinned<'e>>) {
        match pinned {
            Some(pinned) => self.push_pinned(pinned),
            None => view.copy_value(&mut self.bytes),
        }
    }

    /// Returns the number of bytes that are not written yet, including those of pinned values.
    pub fn pending_bytes(&self) -> usize {
        self.bytes.len() - self.bytes_written + self.pins_pending_bytes
    }

    /// Returns the number of bytes that can be appended before the output is full.
    pub(crate) fn room_bytes(&self) -> usize {
        self.pending_bytes_max.saturating_sub(self.pending_bytes())
    }

    /// Sets the number of unwritten bytes from which the output is full.
    #[inline]
    pub fn set_pending_bytes_max(&mut self, bytes_max: usize) {
        self.pending_bytes_max = bytes_max.min(PENDING_BYTES_MAX);
    }

    /// Frees unused memory of the buffer, and returns the memory that the output holds. If an item has n pins, the n-th
    /// one counts as an n-th of the value, because all pins of an item hold the same memory.
    pub(crate) fn shrink(&mut self) -> ReplyBytes {
        self.bytes.shrink_to_fit();
        self.held()
    }

    /// Returns the memory that the output holds, as [`Out::shrink`].
    pub(crate) fn held(&self) -> ReplyBytes {
        let share = |pin: &PositionedPin<'_>| pin.value.value_len() / pin.value.pin_count();
        let pinned = self.pins.iter().map(share).sum();
        ReplyBytes { buffered: self.bytes.capacity(), pinned }
    }

    /// True if every byte is written.
    pub fn is_empty(&self) -> bool {
        self.pending_bytes() == 0
    }

    /// True if the session must append no further reply before bytes are written.
    pub fn is_full(&self) -> bool {
        self.pending_bytes() >= self.pending_bytes_max || self.pins.len() >= PINNED_VALUES_MAX
    }

    /// Writes bytes until the sink accepts no more, at most 1 MiB. Returns how the call ended and the number of written
    /// bytes.
    pub fn write_to(&mut self, sink: &mut impl Sink) -> io::Result<(Flush, usize)> {
        let mut total = 0;
        if self.pins.is_empty() && self.bytes_written == 0 {
            let len = self.bytes.len();
            if sink.send_buffer(&mut self.bytes) {
                debug_assert!(self.is_empty(), "a taken buffer leaves an empty one");
                return Ok((Flush::Drained, len));
            }
        }
        while !self.is_empty() {
            if total == WRITE_BYTES_MAX {
                return Ok((Flush::Paused, total));
            }
            match self.write_once(sink, WRITE_BYTES_MAX - total) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    total += count;
                    self.mark_written(count);
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

    /// Calls the sink once with at most `len_max` unwritten bytes. Returns the number of bytes that the sink accepted.
    fn write_once(&self, sink: &mut impl Sink, len_max: usize) -> io::Result<usize> {
        if self.pins.is_empty() {
            let bytes = &self.bytes[self.bytes_written..];
            return sink.send(&bytes[..bytes.len().min(len_max)]);
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = self.gather_slices(&mut slices, len_max);
        sink.send_vectored(&slices[..count])
    }

    /// Fills `slices` with references to the next unwritten bytes, at most `len_max` bytes. Returns the number of
    /// filled slices.
    fn gather_slices<'a>(&'a self, slices: &mut [IoSlice<'a>], len_max: usize) -> usize {
        let mut count = 0;
        let mut room = len_max;
        let mut position = self.bytes_written;
        // The written bytes of the first pinned value are skipped.
        let mut skip = self.pin_written;
        // Appends a slice. Returns false if not all slices and bytes fit.
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

    /// Copies the next unwritten bytes into `target`, without marking them as written. Returns the number of copied
    /// bytes.
    pub(crate) fn copy_next(&self, target: &mut [u8]) -> usize {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = self.gather_slices(&mut slices, target.len());
        let mut filled = 0;
        for slice in &slices[..count] {
            target[filled..filled + slice.len()].copy_from_slice(slice);
            filled += slice.len();
        }
        filled
    }

    /// Removes all unwritten bytes and releases their pins.
    pub(crate) fn discard_all(&mut self) {
        self.mark_written(self.pending_bytes());
    }

    /// Marks the next `count` unwritten bytes as written, and releases the pins of values that are written completely.
    pub(crate) fn mark_written(&mut self, mut count: usize) {
        while let Some(pin) = self.pins.front() {
            let before = count.min(pin.position - self.bytes_written);
            self.bytes_written += before;
            count -= before;
            let pinned = count.min(pin.value.value_len() - self.pin_written);
            self.pin_written += pinned;
            self.pins_pending_bytes -= pinned;
            count -= pinned;
            if self.bytes_written < pin.position || self.pin_written < pin.value.value_len() {
                debug_assert_eq!(
                    count, 0,
                    "all `count` bytes are before the end of this pinned value"
                );
                return;
            }
            self.pins.pop_front();
            self.pin_written = 0;
        }
        self.bytes_written += count;
        debug_assert!(
            self.bytes_written <= self.bytes.len(),
            "`count` is at most the number of unwritten bytes"
        );
        if self.is_empty() {
            self.bytes.clear();
            self.bytes_written = 0;
        }
    }

    /// Removes and returns all unwritten bytes.
    #[cfg(test)]
    pub(crate) fn drain(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.gather_slices(&mut slices, usize::MAX);
            let taken: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            self.mark_written(taken.len());
            all.extend(taken);
        }
        all
    }

    /// True if the buffer of bytes is small enough to be kept for the next connection.
    pub(crate) fn is_small_enough_to_keep(&self) -> bool {
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

    fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut random = Random::new(seed);
        (0..len).map(|_| random.next_u64() as u8).collect()
    }

    /// Appends copied bytes and pinned values in random order. Returns the bytes that a client must receive.
    fn append_random_parts<'e>(
        out: &mut Out<'e>,
        handle: &mut Handle<'e>,
        clock: &Clock,
        seed: u64,
    ) -> Vec<u8> {
        let mut random = Random::new(seed);
        let mut expected = Vec::new();
        for index in 0..30u64 {
            let part = random_bytes(seed ^ index, random.below(20_000) as usize);
            if random.below(2) == 0 {
                out.bytes().extend_from_slice(&part);
            } else {
                let key = format!("key{index}");
                let meta = ItemMeta::default();
                handle.set(key.as_bytes(), &part, meta, StoreMode::Set, clock.now());
                let pinned = handle.get(key.as_bytes(), clock.now(), |item| item.pin());
                let pinned = pinned.expect("a get of a stored item hits");
                out.push_pinned(
                    pinned.expect("the item has fewer than the maximum number of pins"),
                );
            }
            expected.extend_from_slice(&part);
        }
        expected
    }

    #[test]
    fn a_client_receives_every_byte_once_and_in_order() {
        let engine = Engine::new(EngineConfig::new(64 << 20)).expect("64 MiB can be reserved");
        let clock = Clock::manual();
        let mut handle = engine.handle();
        for seed in 0..50 {
            let (server_socket, mut client_socket) =
                UnixStream::pair().expect("a socket pair can be opened");
            server_socket.set_nonblocking(true).expect("a socket can be made non-blocking");
            client_socket.set_nonblocking(true).expect("a socket can be made non-blocking");
            let mut out = Out::default();
            let expected = append_random_parts(&mut out, &mut handle, &clock, seed);
            assert_eq!(out.pending_bytes(), expected.len(), "seed {seed}");
            let mut received = Vec::new();
            let mut random = Random::new(seed);
            while received.len() < expected.len() {
                let (flush, _) =
                    out.write_to(&mut server_socket.as_fd()).expect("the peer's socket is open");
                let mut part = vec![0; 1 + random.below(30_000) as usize];
                match client_socket.read(&mut part) {
                    Ok(count) => received.extend_from_slice(&part[..count]),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "seed {seed}"),
                }
                assert_eq!(flush == Flush::Drained, out.is_empty(), "seed {seed}");
            }
            assert!(received == expected, "seed {seed}: the client received other bytes");
            assert!(out.is_empty() && out.pins.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn one_call_of_write_to_writes_at_most_1_mib() {
        let engine = Engine::new(EngineConfig::new(64 << 20)).expect("64 MiB can be reserved");
        let clock = Clock::manual();
        let mut handle = engine.handle();
        let (server_socket, mut client_socket) =
            UnixStream::pair().expect("a socket pair can be opened");
        server_socket.set_nonblocking(true).expect("a socket can be made non-blocking");
        let mut out = Out::default();
        let mut expected = random_bytes(0, 1_500_000);
        out.bytes().extend_from_slice(&expected);
        for seed in 1..5 {
            expected.extend_from_slice(&append_random_parts(&mut out, &mut handle, &clock, seed));
        }
        let len = expected.len();
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; len];
            client_socket.read_exact(&mut received).expect("the client receives every byte");
            received
        });
        while !out.is_empty() {
            let (flush, count) =
                out.write_to(&mut server_socket.as_fd()).expect("the peer's socket is open");
            assert!(count <= super::WRITE_BYTES_MAX, "one call wrote {count} bytes");
            assert_eq!(flush == Flush::Paused, count == super::WRITE_BYTES_MAX && !out.is_empty());
            std::thread::yield_now();
        }
        let received = reader.join().expect("the reader ends without a panic");
        assert!(received == expected, "the client received other bytes");
    }

    #[test]
    fn an_output_with_the_maximum_of_unwritten_bytes_is_full() {
        let mut out = Out::default();
        assert!(!out.is_full());
        out.bytes().resize(super::PENDING_BYTES_MAX, b'x');
        assert!(out.is_full());
    }
}
