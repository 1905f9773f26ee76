//! A look-aside client in the process: the client gets a key, and stores the item after a miss.
//!
//! The client does not write the bytes of values. No experiment reads these bytes, and writing them would slow down a
//! run.

use slabwise_base::{Cost, Now};
use slabwise_engine::{Engine, Handle, ItemMeta, StoreMode};
use slabwise_replay::workload::{Op, Request};
use slabwise_replay::{KEY_SIZE_BYTES, key_bytes};

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A get found its item.
    Hit,
    /// A get did not find its item.
    Miss,
    /// The request was a set or a delete.
    Other,
}

impl Access {
    /// Returns the number of operations of the request. A miss has two: the get and the set that follows.
    pub fn operations(self) -> u64 {
        match self {
            Access::Hit | Access::Other => 1,
            Access::Miss => 2,
        }
    }
}

/// A look-aside client of an engine.
pub struct Cache<'e> {
    handle: Handle<'e>,
}

impl<'e> Cache<'e> {
    /// The largest number of requests that [`Cache::prefetch`] accepts.
    pub const BATCH_MAX: usize = 32;

    pub fn new(engine: &'e Engine) -> Cache<'e> {
        Cache { handle: engine.handle() }
    }

    /// Loads the memory that the next requests need into the processor's caches.
    ///
    /// # Panics
    /// If there are more than [`Cache::BATCH_MAX`] requests.
    pub fn prefetch(&self, requests: &[Request]) {
        let mut keys = [[0; KEY_SIZE_BYTES]; Cache::BATCH_MAX];
        let mut hashed = [self.handle.hashed(&[]); Cache::BATCH_MAX];
        for ((key, hashed), request) in keys.iter_mut().zip(&mut hashed).zip(requests) {
            *key = key_bytes(request.key);
            *hashed = self.handle.hashed(key);
        }
        self.handle.prefetch(&hashed[..requests.len()]);
    }

    /// Executes a request, and stores the item after a miss.
    pub fn request(&mut self, request: &Request, now: Now) -> Access {
        let access = self.look_up(request, now);
        if access == Access::Miss {
            self.store(request, None, now);
        }
        access
    }

    /// Executes a request, but does not store the item after a miss.
    pub fn look_up(&mut self, request: &Request, now: Now) -> Access {
        let key = key_bytes(request.key);
        match request.op {
            Op::Get if self.handle.get(&key, now, |_| ()).is_some() => return Access::Hit,
            Op::Get => return Access::Miss,
            Op::Set => self.store(request, None, now),
            Op::Delete => drop(self.handle.delete(&key, now)),
        }
        Access::Other
    }

    /// Stores the item of a request. If the engine has no memory for the item, the key has no item afterwards.
    pub fn store(&mut self, request: &Request, cost: Option<Cost>, now: Now) {
        let (key, value_len) = (&key_bytes(request.key), request.value_len as usize);
        let meta = ItemMeta { cost, ..ItemMeta::default() };
        let Ok(mut reservation) = self.handle.reserve(key, value_len, meta, now) else {
            self.handle.discard(key, now);
            return;
        };
        while reservation.remaining() > 0 {
            let unfilled = reservation.unfilled().len();
            if unfilled == 0 {
                drop(reservation);
                self.handle.discard(key, now);
                return;
            }
            reservation.advance(unfilled);
        }
        self.handle.store(reservation, StoreMode::Set, now);
    }
}
