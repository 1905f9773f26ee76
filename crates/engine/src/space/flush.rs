//! Flushes: how `flush_all` invalidates all items at once without visiting them, and the source of CAS values.
//!
//! A flush invalidates the items that were stored before the flush. There are two kinds of items:
//!
//! - The engine has assigned the CAS value of most items. These values rise with every store. So the flush invalidates
//!   all items whose CAS value is at most a bound, the last value assigned before the flush.
//! - A client has chosen the CAS value of some items. Values that clients choose show no order. So the flush
//!   invalidates an item with such a value if the last access to the item was before a point in time, the mark
//!   ([`FlushMark`]).
//!
//! ```text
//!   time of the last access -->    flush = mark
//!   ------------------------------------|-----------------
//!     invalid                              valid
//! ```
//!
//! The mark is the reading of the work clock at the flush. The flush also advances the clock, so that every later access
//! is after the mark.
//!
//! An operation such as incr finds a valid item, and then gives it, or the item in its place, a new CAS value. If a flush
//! happened in between, the item would survive the flush. So a flush invalidates twice. Between the two, it locks each
//! stripe once, and so waits for the operations that found their items before:
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

use super::work_clock::{AGE_MAX, WorkClock};
use crate::mem::{Item, ReadAccess};
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;
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
    last_cas: AtomicU64,
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
        self.mark.set(clock.now_and_advance());
        self.cas_bound.fetch_max(self.last_cas.load(Relaxed), Relaxed);
    }

    /// Assigns a CAS value to an item: the value that a client chose, or the engine's next value. The caller owns the
    /// item or holds the lock of its stripe.
    pub fn assign_cas<R: ReadAccess>(&self, item: Item<'_, R>, chosen: Option<u64>, now: WorkTime) {
        // The order of these stores matters: another thread may call `has_invalidated` between them, and must not find
        // a valid item to be flushed.
        match chosen {
            Some(cas) => {
                item.set_time(self.mark.time_past_mark(item.time(), now));
                item.marks().set_given_cas(true);
                item.set_cas(cas);
            }
            None => {
                item.set_cas(self.last_cas.fetch_add(1, Relaxed) + 1);
                item.marks().set_given_cas(false);
            }
        }
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
    pub fn has_invalidated<R: ReadAccess>(&self, item: Item<'_, R>, now: WorkTime) -> bool {
        loop {
            let is_chosen = item.state().has_given_cas();
            let flushed = if is_chosen {
                self.mark.has_invalidated(item.time(), now)
            } else {
                item.cas() <= self.cas_bound.load(Relaxed)
            };
            if !flushed || item.state().has_given_cas() == is_chosen {
                return flushed;
            }
        }
    }

    /// Forgets a flush that is so old that the sweep has removed the items that it invalidated. Otherwise its mark would
    /// seem to be recent again after the work clock has wrapped.
    pub fn forget_old(&self, now: WorkTime) {
        let word = self.mark.0.load(Relaxed);
        if FlushMark::of_word(word).is_some_and(|mark| mark.age_at(now) >= AGE_MAX) {
            // An error means that there was another flush.
            let _: Result<u64, u64> = self.mark.0.compare_exchange(word, 0, Relaxed, Relaxed);
        }
    }

    /// Returns the state that survives a restart.
    pub fn saved(&self) -> FlushSaved {
        FlushSaved {
            last_cas: self.last_cas.load(Relaxed),
            cas_bound: self.cas_bound.load(Relaxed),
            due_second: self.due_second.load(Relaxed),
            mark: self.mark.0.load(Relaxed),
        }
    }

    /// Restores the state of an earlier process.
    pub fn restore(&self, saved: FlushSaved) {
        self.last_cas.store(saved.last_cas, Relaxed);
        self.cas_bound.store(saved.cas_bound, Relaxed);
        self.due_second.store(saved.due_second, Relaxed);
        self.mark.0.store(saved.mark, Relaxed);
    }
}

/// The mark of the last flush, in the lower 32 bits, with [`FlushMark::EXISTS`] above them. 0: there was no flush.
#[derive(Debug, Default)]
struct FlushMark(AtomicU64);

impl FlushMark {
    /// The bit that tells a mark from no mark.
    const EXISTS: u64 = 1 << 32;

    /// Records a flush at this time, which is after all earlier accesses. Another thread may have recorded a later flush
    /// meanwhile.
    fn set(&self, time: WorkTime) {
        let next = |word| {
            let is_later = Self::of_word(word).is_none_or(|mark| time.is_after(mark));
            is_later.then_some(Self::EXISTS | u64::from(time.0))
        };
        // An error means that the other flush is later.
        let _: Result<u64, u64> = self.0.fetch_update(Relaxed, Relaxed, next);
    }

    /// True if the last flush invalidated an item that was last accessed at `time`.
    fn has_invalidated(&self, time: WorkTime, now: WorkTime) -> bool {
        self.recent(now).is_some_and(|mark| !time.is_after(mark))
    }

    /// Returns the later of `time` and the first reading after the mark.
    fn time_past_mark(&self, time: WorkTime, now: WorkTime) -> WorkTime {
        match self.recent(now) {
            Some(mark) if !time.is_after(mark) => WorkTime(mark.0.wrapping_add(1)),
            _ => time,
        }
    }

    /// Returns the mark. `None`: there was no flush, or it is so old that the sweep has removed the items that it
    /// invalidated.
    fn recent(&self, now: WorkTime) -> Option<WorkTime> {
        Self::of_word(self.0.load(Relaxed)).filter(|mark| mark.age_at(now) < AGE_MAX)
    }

    fn of_word(word: u64) -> Option<WorkTime> {
        (word != 0).then_some(WorkTime(word as u32))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{AGE_MAX, FlushMark};
    use slabwise_base::WorkTime;

    #[test]
    fn a_flush_invalidates_items_accessed_up_to_its_mark() {
        let (mark, now) = (FlushMark::default(), WorkTime(20));
        assert!(!mark.has_invalidated(WorkTime(5), now), "without a flush, all items are valid");
        assert_eq!(mark.time_past_mark(WorkTime(10), now), WorkTime(10));
        mark.set(WorkTime(10));
        let invalid = [5, 10, 11].map(|time| mark.has_invalidated(WorkTime(time), now));
        assert_eq!(invalid, [true, true, false]);
        assert_eq!(mark.time_past_mark(WorkTime(10), now), WorkTime(11));
        assert_eq!(mark.time_past_mark(WorkTime(15), now), WorkTime(15));
        mark.set(WorkTime(9));
        assert!(mark.has_invalidated(WorkTime(10), now), "an earlier flush changes nothing");
        mark.set(WorkTime(11));
        assert!(mark.has_invalidated(WorkTime(11), now));
    }

    #[test]
    fn a_mark_is_valid_when_the_clock_wraps_to_0_and_is_ignored_when_it_is_old() {
        let (mark, flushed) = (FlushMark::default(), WorkTime(u32::MAX));
        mark.set(flushed);
        let (stored, now) = (mark.time_past_mark(flushed, WorkTime(0)), WorkTime(7));
        assert_eq!(stored, WorkTime(0));
        assert!(mark.has_invalidated(WorkTime(u32::MAX - 5), now));
        assert!(!mark.has_invalidated(stored, now));
        let much_later = WorkTime(AGE_MAX);
        assert!(!mark.has_invalidated(WorkTime(5), much_later));
    }
}
