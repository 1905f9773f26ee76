//! The history of one key, which decides whether an answer is permitted.
//!
//! Every operation takes a stamp from a common counter before it starts, and another stamp after it ends. So stamps
//! order operations in time. A write `u` takes effect at some time between its two stamps. The value of `u` is *dead*
//! when an operation that started after the end of `u` has taken effect, because that operation has replaced or removed
//! it:
//!
//! ```text
//!   u: |begin....end|
//!   w:                 |begin....end|          w is a later write, delete or flush, or a get that missed
//!   get:                              |...|    this get must not return the value of u
//!   get:                      |...|            this get may return the value of u
//! ```
//!
//! `dead_before` is the latest start stamp of an operation that is known to have taken effect. When `w` ends, or when a
//! get returns the value of `w`, `dead_before` is raised to the start stamp of `w`. When a get misses, `dead_before` is
//! raised to the start stamp of the get, because a lost value must not be returned later. So a get must not return the
//! value of `u` if the end stamp of `u` is below the `dead_before` that was read before the get.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The counter of stamps, and the end stamps of all writes.
pub struct Stamps {
    /// The next stamp.
    next: AtomicU64,
    /// The end stamp of each write, indexed by the write's start stamp; 0 while the write is running.
    ends: Vec<AtomicU64>,
}

impl Stamps {
    pub fn new(stamps_max: usize) -> Stamps {
        let ends = std::iter::repeat_with(AtomicU64::default).take(stamps_max + 1).collect();
        Stamps { next: AtomicU64::new(1), ends }
    }

    /// Returns a new stamp, which is higher than all earlier stamps.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, SeqCst)
    }

    /// Records the end of the write that started at `begin`.
    fn record_end(&self, begin: u64) {
        self.ends[begin as usize].store(self.take(), SeqCst);
    }
}

/// The history of one key.
#[derive(Default)]
pub struct History {
    /// The latest start stamp of an operation that is known to have taken effect.
    dead_before: AtomicU64,
    /// The latest start stamp of a write that has ended.
    write_begin_last: AtomicU64,
    /// The number of deletes and flushes that have started.
    removals_started: AtomicU64,
    /// The number of deletes and flushes that have ended.
    removals_ended: AtomicU64,
    /// The latest end stamp of a delete or flush.
    removal_end_last: AtomicU64,
}

/// The state of the history when a get started.
pub struct GetStart {
    /// The start stamp of the get.
    at: u64,
    dead_before: u64,
    write_begin_last: u64,
}

impl History {
    /// Records the end of the write that started at `begin`.
    pub fn write_ended(&self, begin: u64, stamps: &Stamps) {
        stamps.record_end(begin);
        self.dead_before.fetch_max(begin, SeqCst);
        self.write_begin_last.fetch_max(begin, SeqCst);
    }

    /// Records the start of a delete or flush.
    pub fn removal_started(&self) {
        self.removals_started.fetch_add(1, SeqCst);
    }

    /// Records the end of the delete or flush that started at `begin`.
    pub fn removal_ended(&self, begin: u64, stamps: &Stamps) {
        self.removal_end_last.fetch_max(stamps.take(), SeqCst);
        self.removals_ended.fetch_add(1, SeqCst);
        self.dead_before.fetch_max(begin, SeqCst);
    }

    /// Takes a stamp for the start of a get, and returns it with the state of the history before it.
    pub fn get_started(&self, stamps: &Stamps) -> GetStart {
        GetStart {
            dead_before: self.dead_before.load(SeqCst),
            write_begin_last: self.write_begin_last.load(SeqCst),
            at: stamps.take(),
        }
    }

    /// Checks a get that has returned the value of the write that started at `begin`.
    pub fn hit(&self, get: &GetStart, begin: u64, stamps: &Stamps) {
        let end = stamps.ends[begin as usize].load(SeqCst);
        assert!(
            end == 0 || end >= get.dead_before,
            "invariant FRESH: the get at stamp {} returned the value written from {begin} to {end}, dead since {}",
            get.at,
            get.dead_before
        );
        self.dead_before.fetch_max(begin, SeqCst);
    }

    /// Checks a lookup that has missed. Before the lookup, the caller called `get_started`.
    pub fn miss(&self, get: &GetStart, losses_allowed: bool) {
        let ended = self.removals_ended.load(SeqCst);
        let idle = ended == self.removals_started.load(SeqCst);
        let removed = self.removal_end_last.load(SeqCst);
        assert!(
            losses_allowed || !idle || get.write_begin_last <= removed,
            "invariant NO-LOSS: the get at stamp {} missed the value written from {}, although the last removal ended \
             before, at {removed}",
            get.at,
            get.write_begin_last
        );
        self.dead_before.fetch_max(get.at, SeqCst);
    }
}
