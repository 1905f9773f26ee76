//! What has been done to one key, and which answers it leaves legal.
//!
//! Every operation takes a stamp before it begins and another after it ends, from one counter. A
//! write `u` took effect somewhere between its stamps, so it is over for good once something that
//! began after `u` ended has itself taken effect:
//!
//! ```text
//!   u: |begin....end|
//!   w:                 |begin....end|          a later write, delete or flush, or a get that missed
//!   get:                              |...|    u here would be a lie
//!   get:                      |...|            u here is legal
//! ```
//!
//! `dead_before` is the greatest such beginning known to be in effect: raised to `w.begin` when `w`
//! ends, when a get sees `w`'s value, and to the get's own beginning when it misses (what is lost
//! stays lost). A get may show `u` unless `u.end` is below the `dead_before` read before the get.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The counter behind all stamps, and the end of each write by its beginning.
pub struct Stamps {
    next: AtomicU64,
    /// 0 while the write is under way.
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
    /// The last beginning among writes that have ended.
    write_begin_last: AtomicU64,
    removals_begun: AtomicU64,
    removals_ended: AtomicU64,
    removal_end_last: AtomicU64,
}

/// What was known when a get began.
pub struct GetBegun {
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

    pub fn removal_begun(&self) {
        self.removals_begun.fetch_add(1, SeqCst);
    }

    pub fn removal_ended(&self, begin: u64, stamps: &Stamps) {
        self.removal_end_last.fetch_max(stamps.take(), SeqCst);
        self.removals_ended.fetch_add(1, SeqCst);
        self.dead_before.fetch_max(begin, SeqCst);
    }

    pub fn get_begun(&self, stamps: &Stamps) -> GetBegun {
        GetBegun {
            dead_before: self.dead_before.load(SeqCst),
            write_begin_last: self.write_begin_last.load(SeqCst),
            at: stamps.take(),
        }
    }

    /// Judges a get that showed the value of the write that began at `begin`.
    pub fn hit(&self, get: &GetBegun, begin: u64, stamps: &Stamps) {
        let end = stamps.ends[begin as usize].load(SeqCst);
        assert!(
            end == 0 || end >= get.dead_before,
            "law FRESH: the get at {} shows the write of {begin} to {end}, dead since {}",
            get.at,
            get.dead_before
        );
        self.dead_before.fetch_max(begin, SeqCst);
    }

    /// Judges a get, or any look-up begun the same way, that found nothing.
    pub fn miss(&self, get: &GetBegun, losses_allowed: bool) {
        let ended = self.removals_ended.load(SeqCst);
        let idle = ended == self.removals_begun.load(SeqCst);
        let removed = self.removal_end_last.load(SeqCst);
        assert!(
            losses_allowed || !idle || get.write_begin_last <= removed,
            "law NO-LOSS: the get at {} misses what was written from {}, last removal ended at \
             {removed}",
            get.at,
            get.write_begin_last
        );
        self.dead_before.fetch_max(get.at, SeqCst);
    }
}
