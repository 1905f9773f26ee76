//! The history of one key, and the answers that it permits.
//!
//! Every operation takes a stamp before it starts and another after it ends, from one counter. A write `u` takes effect
//! between its two stamps. It is dead once an operation that started after `u` ended has itself taken effect:
//!
//! ```text
//!   u: |begin....end|
//!   w:                 |begin....end|          a later write, delete or flush, or a get that missed
//!   get:                              |...|    must not return u
//!   get:                      |...|            may return u
//! ```
//!
//! `dead_before` is the latest start of an operation known to have taken effect. It is raised to `w.begin` when `w`
//! ends or when a get returns `w`'s value, and to the start of a get when that get misses, because a lost value must
//! not return. A get may return `u` unless `u.end` is below the `dead_before` read before the get.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The counter of stamps, and the end stamp of each write by its start stamp.
pub struct Stamps {
    next: AtomicU64,
    /// Zero while the write is running.
    ends: Vec<AtomicU64>,
}

impl Stamps {
    pub fn new(stamps_max: usize) -> Stamps {
        let ends = std::iter::repeat_with(AtomicU64::default).take(stamps_max + 1).collect();
        Stamps { next: AtomicU64::new(1), ends }
    }

    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, SeqCst)
    }

    fn end(&self, begin: u64) {
        self.ends[begin as usize].store(self.take(), SeqCst);
    }
}

/// The history of one key.
#[derive(Default)]
pub struct History {
    dead_before: AtomicU64,
    /// The latest start of a write that has ended.
    write_begin_last: AtomicU64,
    removals_started: AtomicU64,
    removals_ended: AtomicU64,
    removal_end_last: AtomicU64,
}

/// The state of the history when a get started.
pub struct GetStart {
    at: u64,
    dead_before: u64,
    write_begin_last: u64,
}

impl History {
    pub fn write_ended(&self, begin: u64, stamps: &Stamps) {
        stamps.end(begin);
        self.dead_before.fetch_max(begin, SeqCst);
        self.write_begin_last.fetch_max(begin, SeqCst);
    }

    pub fn removal_started(&self) {
        self.removals_started.fetch_add(1, SeqCst);
    }

    pub fn removal_ended(&self, begin: u64, stamps: &Stamps) {
        self.removal_end_last.fetch_max(stamps.take(), SeqCst);
        self.removals_ended.fetch_add(1, SeqCst);
        self.dead_before.fetch_max(begin, SeqCst);
    }

    pub fn get_started(&self, stamps: &Stamps) -> GetStart {
        GetStart {
            dead_before: self.dead_before.load(SeqCst),
            write_begin_last: self.write_begin_last.load(SeqCst),
            at: stamps.take(),
        }
    }

    /// Checks a get that returned the value of the write that started at `begin`.
    pub fn hit(&self, get: &GetStart, begin: u64, stamps: &Stamps) {
        let end = stamps.ends[begin as usize].load(SeqCst);
        assert!(
            end == 0 || end >= get.dead_before,
            "invariant FRESH: the get at {} shows the write of {begin} to {end}, dead since {}",
            get.at,
            get.dead_before
        );
        self.dead_before.fetch_max(begin, SeqCst);
    }

    /// Checks a get, or any lookup that started with `get_started`, that missed.
    pub fn miss(&self, get: &GetStart, losses_allowed: bool) {
        let ended = self.removals_ended.load(SeqCst);
        let idle = ended == self.removals_started.load(SeqCst);
        let removed = self.removal_end_last.load(SeqCst);
        assert!(
            losses_allowed || !idle || get.write_begin_last <= removed,
            "invariant NO-LOSS: the get at {} misses what was written from {}, last removal ended at \
             {removed}",
            get.at,
            get.write_begin_last
        );
        self.dead_before.fetch_max(get.at, SeqCst);
    }
}
