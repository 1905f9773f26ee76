//! Flushes: how `flush_all` invalidates all items at once without visiting them, and the source of CAS values.
//!
//! A flush invalidates the items that were stored before the flush. There are two kinds of items:
//!
//! - The engine has assigned the CAS value of most items. These values rise with every store. So the flush invalidates
//!   all items whose CAS value is at most a bound, the last value assigned before the flush.
//! - A client has chosen the CAS value of some items. Values that clients choose show no order. So the flush
//!   invalidates an item with such a value if the last access to the item was at or before a point in time, the mark
//!   ([`FlushMark`]).
//!
//! ```text
//!   time of the last access -->    flush = mark
//!   ------------------------------------|-----------------
//!     invalid                              valid
//! ```
//!
//! The mark is the reading of the work clock at the flush. The flush also advances the clock, so that every later
//! access is after the mark.
//!
//! An operation such as incr finds a valid item, and then gives it, or the item in its place, a new CAS value. If a
//! flush happened in between, the item would survive the flush. So a flush invalidates twice. Between the two, it locks
//! each stripe once, and so waits for the operations that found their items before:
//!
//! ```text
//!   flush:  invalidate ----- lock and unlock each stripe ----- invalidate
//!   incr:     '-- finds a valid item only before               '-- the new CAS value is within the bound
//! ```
//!
//! Invariants:
//! - No item that was in the cache before a flush, and no item made from it, is valid after the flush. An item that is
//!   stored during the flush may be invalid, too.
//! - An item that gets a CAS value chosen by a client also gets an access time after the mark. While the item has this
//!   CAS value, its access time never decreases.

use super::work_clock::WorkClock;
use crate::mem::{Item, ReadAccess};
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;
use slabwise_base::sync::OwnLines;
use slabwise_base::{Now, Seconds, WorkTime};
#[cfg(not(loom))]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// The source of CAS values, and the state of flushes.
#[derive(Debug, Default)]
pub struct Flush {
    /// The last CAS value that the engine assigned.
    last_cas: OwnLines<AtomicU64>,
    /// The highest CAS value of the items that the last flush invalidated. Applies only to CAS values that the engine
    /// assigned.
    cas_bound: AtomicU64,
    /// The second at which a delayed flush takes effect; 0: no flush is pending.
    due_second: AtomicU32,
    /// The time before which items with CAS values chosen by clients are invalid.
    mark: FlushMark,
}

/// The state of a [`Flush`] that survives a restart. Each field has the value of the field of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushSaved {
    pub last_cas: u64,
    pub cas_bound: u64,
    pub due_second: u32,
    pub mark: u64,
}

impl Flush {
    /// Requests a delayed flush at this second, in place of an earlier request. `None` withdraws the request.
    pub fn set_due(&self, second: Option<Seconds>) {
        self.due_second.store(second.map_or(0, |second| second.0), Relaxed);
    }

    /// Invalidates every item that is in the cache. `await_operations` must wait for all operations that hold the lock
    /// of a stripe.
    pub fn invalidate_all(&self, clock: &WorkClock, await_operations: impl FnOnce()) {
        self.invalidate(clock);
        await_operations();
        self.invalidate(clock);
    }

    fn invalidate(&self, clock: &WorkClock) {
        self.mark.set(clock.read_and_advance());
        self.cas_bound.fetch_max(self.last_cas.0.load(Relaxed), Relaxed);
    }

    /// Assigns a CAS value to an item: the value that a client chose, or the engine's next value. The caller owns the
    /// item or holds the lock of its stripe.
    pub fn assign_cas<R: ReadAccess>(
        &self,
        item: Item<'_, R>,
        chosen: Option<u64>,
        clock: &WorkClock,
    ) {
        // The order of these stores matters: another thread may call `has_invalidated` between them, and must not find
        // a valid item to be flushed.
        match chosen {
            Some(cas) => {
                item.set_time(self.mark.time_past_mark(item.time(), clock));
                item.marks().set_given_cas(true);
                item.set_cas(cas);
            }
            None => {
                item.set_cas(self.last_cas.0.fetch_add(1, Relaxed) + 1);
                item.marks().set_given_cas(false);
            }
        }
    }

    /// True if a flush may have invalidated items.
    #[inline]
    pub fn has_happened(&self) -> bool {
        self.cas_bound.load(Relaxed) != 0 || self.mark.0.load(Relaxed) != 0
    }

    /// Returns the second of a delayed flush that is due.
    #[inline]
    pub fn due(&self, now: Now) -> Option<Seconds> {
        let due = self.due_second.load(Acquire);
        (due != 0 && due <= now.seconds.0).then_some(Seconds(due))
    }

    /// Withdraws the request of a delayed flush, which the caller carries out. Returns false if another thread has done
    /// so.
    pub fn claim(&self, due: Seconds) -> bool {
        self.due_second.compare_exchange(due.0, 0, AcqRel, Acquire).is_ok()
    }

    /// True if a flush has invalidated the item. A caller may hold the lock of the item's class without the lock of its
    /// stripe. Another thread may then change the CAS value during this call. So this function reads the item again if
    /// the CAS value was assigned by the engine at the first read and chosen by a client at the second, or vice versa.
    #[inline(always)]
    pub fn has_invalidated<R: ReadAccess>(&self, item: Item<'_, R>, clock: &WorkClock) -> bool {
        loop {
            let is_chosen = item.state().has_given_cas();
            let flushed = if is_chosen {
                self.mark.has_invalidated(item.time(), clock)
            } else {
                item.cas() <= self.cas_bound.load(Relaxed)
            };
            if !flushed || item.state().has_given_cas() == is_chosen {
                return flushed;
            }
        }
    }

    /// Returns the state that survives a restart.
    pub fn saved(&self) -> FlushSaved {
        FlushSaved {
            last_cas: self.last_cas.0.load(Relaxed),
            cas_bound: self.cas_bound.load(Relaxed),
            due_second: self.due_second.load(Relaxed),
            mark: self.mark.0.load(Relaxed),
        }
    }

    /// Restores the state of an earlier process.
    pub fn restore(&self, saved: FlushSaved) {
        self.last_cas.0.store(saved.last_cas, Relaxed);
        self.cas_bound.store(saved.cas_bound, Relaxed);
        self.due_second.store(saved.due_second, Relaxed);
        self.mark.0.store(saved.mark, Relaxed);
    }
}

/// The mark of the last flush: the reading of the work clock at the flush, plus one. 0: there was no flush.
#[derive(Debug, Default)]
struct FlushMark(AtomicU64);

impl FlushMark {
    /// Records a flush at this reading, which is at or after all earlier accesses. Does nothing if another thread has
    /// recorded a later flush.
    fn set(&self, reading: u64) {
        self.0.fetch_max(reading + 1, Relaxed);
    }

    /// True if the last flush invalidated an item that was last accessed at `time`.
    fn has_invalidated(&self, time: WorkTime, clock: &WorkClock) -> bool {
        // Most caches have no flush, and then no reading is needed.
        let word = self.0.load(Relaxed);
        word != 0 && clock.reading_of(time) < word
    }

    /// Returns the later of `time` and the first reading after the mark.
    fn time_past_mark(&self, time: WorkTime, clock: &WorkClock) -> WorkTime {
        let first = self.0.load(Relaxed);
        if clock.reading_of(time) < first { WorkTime(first as u32) } else { time }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{FlushMark, WorkClock};
    use slabwise_base::WorkTime;

    #[test]
    fn a_flush_invalidates_items_accessed_up_to_its_mark() {
        // The times of accesses wrap to 0 within the test.
        for start in [0, u64::from(u32::MAX) - 10, u64::from(u32::MAX) - 11] {
            let (mark, clock) = (FlushMark::default(), WorkClock::new(1 << 20));
            clock.advance(start + 20);
            let at = |reading: u64| WorkTime((start + reading) as u32);
            let is_invalid = |reading| mark.has_invalidated(at(reading), &clock);
            assert!(!is_invalid(5), "without a flush, all items are valid");
            assert_eq!(mark.time_past_mark(at(10), &clock), at(10));
            mark.set(start + 10);
            assert_eq!([5, 10, 11].map(is_invalid), [true, true, false]);
            assert_eq!(mark.time_past_mark(at(10), &clock), at(11));
            assert_eq!(mark.time_past_mark(at(15), &clock), at(15));
            mark.set(start + 9);
            assert!(is_invalid(10), "an earlier flush changes nothing");
            mark.set(start + 11);
            assert!(is_invalid(11));
        }
    }
}
