//! Samples of the keys of gets, from which the HTTP server computes the hot keys (`-o http_hot_keys`).
//!
//! ```text
//!   worker, in a timed round:  get --key--> KeySamples of the worker --once a second--> HotKeys: the HTTP thread
//!                                             '- full, or locked: the key is dropped, and counted
//! ```
//!
//! The samples of the profiler cannot find hot keys: they have all accesses to some keys. These samples have some accesses
//! to all keys. A worker takes the keys of its timed rounds, on average one round of 64, whose distances are random, so
//! that each get has the same probability to be in the sample.
//!
//! Invariants:
//! - NO-WAIT: a worker never waits for the HTTP thread.
//! - BOUNDED: each worker has at most [`KEY_SAMPLES_SIZE_BYTES`] of keys. So the HTTP thread also has bounded work. If
//!   there are more keys in a second, the sample has those of its first part.
//! - FAIR-LENGTHS: whether a key is dropped does not depend on its length.
//! - OFF-IS-FREE: without the option, a get makes no test that it would not make without this module: it already tests
//!   [`KeyObservers`](super::key_observers::KeyObservers).

use slabwise_base::sync::{Mutex, lock, try_lock};
use slabwise_protocol::KEY_LEN_MAX;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory of the keys of one worker, in bytes.
pub const KEY_SAMPLES_SIZE_BYTES: usize = 64 << 10;

/// Keys of the gets of one worker.
#[derive(Debug, Default)]
pub struct KeySamples {
    buffer: Mutex<KeyBuffer>,
    /// The number of keys dropped since the start.
    dropped: AtomicU64,
}

/// A list of keys. Each key is preceded by a byte with its length.
#[derive(Debug)]
pub struct KeyBuffer(Vec<u8>);

impl Default for KeyBuffer {
    fn default() -> KeyBuffer {
        KeyBuffer(Vec::with_capacity(KEY_SAMPLES_SIZE_BYTES))
    }
}

impl KeyBuffer {
    /// Adds a key, unless a key of the maximum length would not fit. Returns true if the key was added.
    fn push(&mut self, key: &[u8]) -> bool {
        let has_room = self.0.len() + 1 + KEY_LEN_MAX <= KEY_SAMPLES_SIZE_BYTES;
        if has_room {
            self.0.push(u8::try_from(key.len()).expect("a key has at most 250 bytes"));
            self.0.extend_from_slice(key);
        }
        has_room
    }

    /// Returns all keys in the order in which they were added.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (&len, after) = rest.split_first()?;
            let (key, after) = after.split_at(len.into());
            rest = after;
            Some(key)
        })
    }
}

impl KeySamples {
    /// Adds a key, or drops it if there is no room for it or [`KeySamples::take`] runs.
    pub fn push(&self, key: &[u8]) {
        if !try_lock(&self.buffer).is_some_and(|mut buffer| buffer.push(key)) {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Replaces the contents of `buffer` by all keys since the last call.
    pub fn take(&self, buffer: &mut KeyBuffer) {
        buffer.0.clear();
        std::mem::swap(&mut *lock(&self.buffer), buffer);
    }

    /// Returns the number of keys dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{KEY_SAMPLES_SIZE_BYTES, KeyBuffer, KeySamples};
    use slabwise_base::sync::lock;

    #[test]
    fn take_returns_each_key_once_and_in_order() {
        let (samples, mut buffer) = (KeySamples::default(), KeyBuffer::default());
        let long = [0xff; 250];
        for key in [&b"a"[..], b"", &long, b"b"] {
            samples.push(key);
        }
        samples.take(&mut buffer);
        assert!(buffer.keys().eq([&b"a"[..], b"", &long, b"b"]));
        samples.push(b"c");
        samples.take(&mut buffer);
        assert!(buffer.keys().eq([b"c"]));
        samples.take(&mut buffer);
        assert_eq!((buffer.keys().count(), samples.dropped()), (0, 0));
    }

    #[test]
    fn keys_without_room_are_dropped_whatever_their_length_and_counted() {
        for len in [1, 250] {
            let (samples, mut buffer) = (KeySamples::default(), KeyBuffer::default());
            let keys_max = (KEY_SAMPLES_SIZE_BYTES - 251) / (1 + len) + 1;
            (0..keys_max + 5).for_each(|_| samples.push(&vec![b'k'; len]));
            samples.push(b"short");
            assert_eq!(samples.dropped(), 6, "keys of {len} bytes");
            samples.take(&mut buffer);
            assert_eq!(buffer.keys().count(), keys_max);
            assert_eq!(buffer.0.capacity(), KEY_SAMPLES_SIZE_BYTES, "the memory does not grow");
            samples.push(b"short");
            assert_eq!(samples.dropped(), 6, "there is room again");
        }
    }

    #[test]
    fn a_worker_drops_a_key_instead_of_waiting() {
        let samples = KeySamples::default();
        let guard = lock(&samples.buffer);
        samples.push(b"key");
        drop(guard);
        assert_eq!(samples.dropped(), 1);
    }
}
