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
//!   time of the last access -->    flush
//!   ------------------------------|-- margin --| mark ---------------
//!     invalid                       invalid      valid
//! ```
//!
//! Workers read the clock at slightly different times, so the mark is later than the flush by a margin of one second.
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

use crate::mem::{Item, ReadAccess};
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;
use slabwise_base::{Now, Seconds, Ticks};
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
    pub fn invalidate_all(&self, now: Now, await_operations: impl FnOnce()) {
        self.invalidate(now);
        await_operations();
        self.invalidate(now);
    }

    fn invalidate(&self, now: Now) {
        self.mark.set(now);
        self.cas_bound.fetch_max(self.last_cas.load(Relaxed), Relaxed);
    }

    /// Assigns a CAS value to an item: the value that a client chose, or the engine's next value. The caller owns the
    /// item or holds the lock of its stripe.
    pub fn assign_cas<R: ReadAccess>(&self, item: Item<'_, R>, chosen: Option<u64>, now: Now) {
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
    pub fn has_invalidated<R: ReadAccess>(&self, item: Item<'_, R>, now: Now) -> bool {
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

/// The largest difference between the times that two workers read from the clock at the same moment.
const CLOCK_MARGIN: Ticks = Ticks(Ticks::PER_SECOND);

/// The age above which a flush mark is ignored. Ticks wrap around, so older marks cannot be compared. The items that
/// such an old flush invalidated have been removed by then.
const IGNORED_AFTER_SECONDS: u32 = 365 * 24 * 60 * 60;

/// The mark of the last flush. The upper 32 bits are the second of the flush; the lower 32 bits are the mark in ticks.
/// 0: there was no flush.
#[derive(Debug, Default)]
struct FlushMark(AtomicU64);

impl FlushMark {
    /// Records a flush at this time. Access times that [`FlushMark::time_past_mark`] moved past the previous mark are
    /// not after the new mark.
    fn set(&self, now: Now) {
        let next = |_| {
            let ticks = self.time_past_mark(Ticks(now.ticks.0.wrapping_add(CLOCK_MARGIN.0)), now);
            Some(u64::from(now.seconds.0) << 32 | u64::from(ticks.0))
        };
        let updated = self.0.fetch_update(Relaxed, Relaxed, next);
        debug_assert!(updated.is_ok(), "the update function returns a value in every case");
    }

    /// True if the last flush invalidated an item that was last accessed at `time`.
    fn has_invalidated(&self, time: Ticks, now: Now) -> bool {
        self.recent_mark(now).is_some_and(|mark| !time.is_after(mark))
    }

    /// Returns the later of `time` and the first tick after the mark.
    fn time_past_mark(&self, time: Ticks, now: Now) -> Ticks {
        match self.recent_mark(now) {
            Some(mark) if !time.is_after(mark) => Ticks(mark.0.wrapping_add(1)),
            _ => time,
        }
    }

    /// Returns the mark in ticks. `None`: there was no flush, or the last one is too old to be considered.
    fn recent_mark(&self, now: Now) -> Option<Ticks> {
        let word = self.0.load(Relaxed);
        let age_seconds = now.seconds.0.saturating_sub((word >> 32) as u32);
        (word != 0 && age_seconds < IGNORED_AFTER_SECONDS).then_some(Ticks(word as u32))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{FlushMark, IGNORED_AFTER_SECONDS};
    use slabwise_base::{Now, Seconds, Ticks};

    fn now_at(seconds: u32) -> Now {
        Now { seconds: Seconds(seconds), ticks: Ticks(seconds.wrapping_mul(Ticks::PER_SECOND)) }
    }

    #[test]
    fn a_flush_invalidates_only_items_accessed_before_its_mark() {
        let mark = FlushMark::default();
        assert!(
            !mark.has_invalidated(now_at(5).ticks, now_at(10)),
            "without a flush, every item is valid"
        );
        assert_eq!(mark.time_past_mark(now_at(10).ticks, now_at(10)), now_at(10).ticks);
        mark.set(now_at(10));
        assert!(
            mark.has_invalidated(now_at(5).ticks, now_at(10))
                && mark.has_invalidated(now_at(11).ticks, now_at(10))
        );
        let stored = mark.time_past_mark(now_at(10).ticks, now_at(10));
        assert!(
            !mark.has_invalidated(stored, now_at(10))
                && !mark.has_invalidated(stored, now_at(1000))
        );
        assert!(mark.has_invalidated(now_at(5).ticks, now_at(1000)));
        assert!(!mark.has_invalidated(now_at(12).ticks, now_at(1000)));
        mark.set(now_at(10));
        assert!(
            mark.has_invalidated(stored, now_at(10)),
            "a second flush in the same tick invalidates the items stored after the first"
        );
        assert!(
            !mark.has_invalidated(mark.time_past_mark(now_at(10).ticks, now_at(10)), now_at(10))
        );
    }

    #[test]
    fn a_mark_is_valid_when_ticks_wrap_around_and_is_ignored_after_years() {
        let mark = FlushMark::default();
        let wrap_seconds = (1u64 << 32) as u32 / Ticks::PER_SECOND;
        let flushed = now_at(u32::MAX / Ticks::PER_SECOND);
        mark.set(flushed);
        let stored = mark.time_past_mark(flushed.ticks, flushed);
        assert!(!mark.has_invalidated(stored, now_at(flushed.seconds.0 + 5)));
        assert!(
            mark.has_invalidated(
                now_at(flushed.seconds.0 - 5).ticks,
                now_at(flushed.seconds.0 + 5)
            )
        );
        let much_later = now_at(flushed.seconds.0 + IGNORED_AFTER_SECONDS + wrap_seconds);
        assert!(!mark.has_invalidated(much_later.ticks, much_later));
    }
}
