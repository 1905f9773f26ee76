//! Which items a flush has ended.
//!
//! The engine's own CAS values rise with every store, so a flush ends all items at or below a bound. A
//! value that a client chose says nothing of that; of these items a flush ends those that were last
//! accessed before it ([`FlushMark`]).
//!
//! ```text
//!   time of last access -->        flush
//!   ------------------------------|-- margin --|mark
//!        ended                        ended        lives
//! ```
//!
//! Workers read the clock at different moments of a turn, so the mark lies a margin behind the flush.
//! Invariants: an item that is stored, or given such a value, is dated after the mark; its date never goes back.

use crate::mem::{Item, Right};
use slabwise_base::{Now, Seconds, Ticks};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// CAS values, and how far flushes have come.
#[derive(Debug, Default)]
pub struct Flush {
    /// The last CAS value that the engine gave.
    last_cas: AtomicU64,
    cas_bound: AtomicU64,
    /// The second at which a delayed flush takes effect; 0 for none.
    due_second: AtomicU32,
    mark: FlushMark,
}

/// What a restart keeps of a [`Flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushSaved {
    pub last_cas: u64,
    pub cas_bound: u64,
    pub due_second: u32,
    pub mark: u64,
}

impl Flush {
    /// Ends every item stored so far, at once or when `at` has come. A later call replaces a flush
    /// that is still to come.
    pub fn flush_all(&self, at: Option<Seconds>, now: Now) {
        self.settle(now);
        match at {
            Some(second) if second > now.seconds => self.due_second.store(second.0, Relaxed),
            _ => {
                self.due_second.store(0, Relaxed);
                self.mark.set(now);
                self.cas_bound.fetch_max(self.last_cas.load(Relaxed), Relaxed);
            }
        }
    }

    /// Gives an item that the caller owns, or whose stripe it holds, a new CAS value: the next, or one
    /// that a client chose.
    pub fn give_cas<R: Right>(&self, item: Item<'_, R>, given: Option<u64>, now: Now) {
        // In an order in which no step lets a living item look flushed; see `ends`.
        match given {
            Some(cas) => {
                item.set_time(self.mark.later(item.time(), now));
                item.set_given_cas(true);
                item.set_cas(cas);
            }
            None => {
                item.set_cas(self.last_cas.fetch_add(1, Relaxed) + 1);
                item.set_given_cas(false);
            }
        }
    }

    /// Carries a delayed flush out once its time has come. Every look-up begins with this: an item
    /// stored after that time must not be taken for one stored before.
    #[inline]
    pub fn settle(&self, now: Now) {
        let due = self.due_second.load(Acquire);
        if due == 0 || due > now.seconds.0 {
            return;
        }
        // The bound is read before the flush is claimed: a thread that loses the claim may have been
        // overtaken by stores that the winner's bound does not end.
        let bound = self.last_cas.load(Relaxed);
        if self.due_second.compare_exchange(due, 0, AcqRel, Acquire).is_ok() {
            self.mark.set(now);
            self.cas_bound.fetch_max(bound, Relaxed);
        }
    }

    /// Whether a flush has ended an item. A thread that holds its class and not its stripe may meet it while
    /// it is given another CAS value: a reading counts only if the value was of one kind before and after.
    #[inline(always)]
    pub fn ends<R: Right>(&self, item: Item<'_, R>, now: Now) -> bool {
        loop {
            let given = item.state().has_given_cas();
            let flushed = if given {
                self.mark.ends(item.time(), now)
            } else {
                item.cas() <= self.cas_bound.load(Relaxed)
            };
            if !flushed || item.state().has_given_cas() == given {
                return flushed;
            }
        }
    }

    /// The state to go on from after a restart.
    pub fn saved(&self) -> FlushSaved {
        FlushSaved {
            last_cas: self.last_cas.load(Relaxed),
            cas_bound: self.cas_bound.load(Relaxed),
            due_second: self.due_second.load(Relaxed),
            mark: self.mark.0.load(Relaxed),
        }
    }

    /// Goes on from a saved state.
    pub fn restore(&self, saved: FlushSaved) {
        self.last_cas.store(saved.last_cas, Relaxed);
        self.cas_bound.store(saved.cas_bound, Relaxed);
        self.due_second.store(saved.due_second, Relaxed);
        self.mark.0.store(saved.mark, Relaxed);
    }
}

/// How far one worker's reading of the clock may be ahead of another's.
const MARGIN: Ticks = Ticks(Ticks::PER_SECOND);

/// After so long ticks no longer tell before from after, and whatever the flush ended has long been met.
const FORGOTTEN_AFTER_SECONDS: u32 = 365 * 24 * 60 * 60;

/// The moment of the last flush, as seconds and ticks; 0 for none.
#[derive(Debug, Default)]
struct FlushMark(AtomicU64);

impl FlushMark {
    /// Notes a flush. The mark passes every date that was given because of the one before.
    fn set(&self, now: Now) {
        let next = |_| {
            let ticks = self.later(Ticks(now.ticks.0.wrapping_add(MARGIN.0)), now);
            Some(u64::from(now.seconds.0) << 32 | u64::from(ticks.0))
        };
        let updated = self.0.fetch_update(Relaxed, Relaxed, next);
        debug_assert!(updated.is_ok());
    }

    /// Whether the flush ended an item that was last accessed at `time`.
    fn ends(&self, time: Ticks, now: Now) -> bool {
        self.recent(now).is_some_and(|mark| !time.is_after(mark))
    }

    /// `time`, or the first moment after the mark if that is later.
    fn later(&self, time: Ticks, now: Now) -> Ticks {
        match self.recent(now) {
            Some(mark) if !time.is_after(mark) => Ticks(mark.0.wrapping_add(1)),
            _ => time,
        }
    }

    fn recent(&self, now: Now) -> Option<Ticks> {
        let word = self.0.load(Relaxed);
        let age_seconds = now.seconds.0.saturating_sub((word >> 32) as u32);
        (word != 0 && age_seconds < FORGOTTEN_AFTER_SECONDS).then_some(Ticks(word as u32))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{FORGOTTEN_AFTER_SECONDS, FlushMark};
    use slabwise_base::{Now, Seconds, Ticks};

    fn at(seconds: u32) -> Now {
        Now { seconds: Seconds(seconds), ticks: Ticks(seconds.wrapping_mul(Ticks::PER_SECOND)) }
    }

    #[test]
    fn what_was_dated_before_a_flush_ends_and_what_is_dated_after_it_lives() {
        let mark = FlushMark::default();
        assert!(!mark.ends(at(5).ticks, at(10)), "nothing was flushed");
        assert_eq!(mark.later(at(10).ticks, at(10)), at(10).ticks);
        mark.set(at(10));
        assert!(mark.ends(at(5).ticks, at(10)) && mark.ends(at(11).ticks, at(10)));
        let stored = mark.later(at(10).ticks, at(10));
        assert!(!mark.ends(stored, at(10)) && !mark.ends(stored, at(1000)));
        assert!(mark.ends(at(5).ticks, at(1000)));
        assert!(!mark.ends(at(12).ticks, at(1000)));
        mark.set(at(10));
        assert!(mark.ends(stored, at(10)), "flushed again within the same tick");
        assert!(!mark.ends(mark.later(at(10).ticks, at(10)), at(10)));
    }

    #[test]
    fn ticks_may_wrap_but_a_flush_of_years_ago_ends_nothing() {
        let mark = FlushMark::default();
        let wrap_seconds = (1u64 << 32) as u32 / Ticks::PER_SECOND;
        let flushed = at(u32::MAX / Ticks::PER_SECOND);
        mark.set(flushed);
        let stored = mark.later(flushed.ticks, flushed);
        assert!(!mark.ends(stored, at(flushed.seconds.0 + 5)));
        assert!(mark.ends(at(flushed.seconds.0 - 5).ticks, at(flushed.seconds.0 + 5)));
        let much_later = at(flushed.seconds.0 + FORGOTTEN_AFTER_SECONDS + wrap_seconds);
        assert!(!mark.ends(much_later.ticks, much_later));
    }
}
