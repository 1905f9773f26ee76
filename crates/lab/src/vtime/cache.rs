//! A look-aside client in the process: it gets, and stores after a miss.
//!
//! Value bytes are not written, because no experiment reads them and memory bandwidth limits a run.

use slabwise_base::{Cost, Now};
use slabwise_engine::{Engine, Handle, ItemMeta, StoreMode};
use slabwise_replay::workload::{Op, Request};
use slabwise_replay::{KEY_SIZE_BYTES, key_bytes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Hit,
    Miss,
    Other,
}

impl Access {
    pub fn operations(self) -> u64 {
        match self {
            Access::Hit | Access::Other => 1,
            Access::Miss => 2,
        }
    }
}

pub struct Cache<'e> {
    handle: Handle<'e>,
}

impl<'e> Cache<'e> {
    pub const BATCH_MAX: usize = 32;

    pub fn new(engine: &'e Engine) -> Cache<'e> {
        Cache { handle: engine.handle() }
    }

    /// Prefetches the memory of the next requests, at most [`Cache::BATCH_MAX`].
    pub fn prefetch(&self, requests: &[Request]) {
        let mut keys = [[0; KEY_SIZE_BYTES]; Cache::BATCH_MAX];
        let mut hashed = [self.handle.hashed(&[]); Cache::BATCH_MAX];
        for ((key, hashed), request) in keys.iter_mut().zip(&mut hashed).zip(requests) {
            *key = key_bytes(request.key);
            *hashed = self.handle.hashed(key);
        }
        self.handle.prefetch(&hashed[..requests.len()]);
    }

    pub fn request(&mut self, request: &Request, now: Now) -> Access {
        let access = self.look_up(request, now);
        if access == Access::Miss {
            self.store(request, None, now);
        }
        access
    }

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

    /// Stores the item of a request. A store without memory is ignored, as by a look-aside client.
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
