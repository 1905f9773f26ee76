//! A look-aside client inside the process: get, and on a miss set.
//!
//! Value bytes are left unwritten: no experiment reads them, and memory bandwidth is what bounds a run.

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

    /// Tells the processor which memory the next requests, at most [`Cache::BATCH_MAX`], will need.
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
            self.bring_in(request, None, now);
        }
        access
    }

    pub fn look_up(&mut self, request: &Request, now: Now) -> Access {
        let key = key_bytes(request.key);
        match request.op {
            Op::Get if self.handle.get(&key, now, |_| ()).is_some() => return Access::Hit,
            Op::Get => return Access::Miss,
            Op::Set => self.bring_in(request, None, now),
            Op::Delete => drop(self.handle.delete(&key, now)),
        }
        Access::Other
    }

    /// A store that finds no memory is what a client would shrug at, too.
    pub fn bring_in(&mut self, request: &Request, cost: Option<Cost>, now: Now) {
        let (key, value_len) = (&key_bytes(request.key), request.value_len as usize);
        let meta = ItemMeta { cost, ..ItemMeta::default() };
        let Ok(mut reservation) = self.handle.reserve(key, value_len, meta, now) else {
            self.handle.discard(key, now);
            return;
        };
        while reservation.remaining() > 0 {
            let room = reservation.unfilled().len();
            if room == 0 {
                drop(reservation);
                self.handle.discard(key, now);
                return;
            }
            reservation.advance(room);
        }
        self.handle.store(reservation, StoreMode::Set, now);
    }
}
