//! Which items with a CAS value of a client's choice a flush has ended.
//!
//! The engine's own CAS values rise with every store, so a flush ends all items at or below a bound. A
//! value that a client chose says nothing of that; of these items a flush ends those that were last
//! accessed before it.
//!
//! ```text
//!   time of last access -->        flush
//!   ------------------------------|-- margin --|mark
//!        ended                        ended        lives
//! ```
//!
//! Workers read the clock at different moments of a turn, so the mark lies a margin behind the flush. Laws:
//! an item that is stored, or given such a value, is dated after the mark; its date never goes back.

use slabwise_base::{Now, Ticks};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How far one worker's reading of the clock may be ahead of another's.
const MARGIN: Ticks = Ticks(Ticks::PER_SECOND);

/// After so long ticks no longer tell before from after, and whatever the flush ended has long been met.
const FORGOTTEN_AFTER_SECONDS: u32 = 365 * 24 * 60 * 60;

/// The moment of the last flush, as seconds and ticks; 0 for none.
#[derive(Debug, Default)]
pub(crate) struct FlushMark(AtomicU64);

impl FlushMark {
    /// Notes a flush. The mark passes every date that was given because of the one before.
    pub fn set(&self, now: Now) {
        let next = |_| {
            let ticks = self.later(Ticks(now.ticks.0.wrapping_add(MARGIN.0)), now);
            Some(u64::from(now.seconds.0) << 32 | u64::from(ticks.0))
        };
        let updated = self.0.fetch_update(Relaxed, Relaxed, next);
        debug_assert!(updated.is_ok());
    }

    /// Whether the flush ended an item that was last accessed at `time`.
    pub fn ends(&self, time: Ticks, now: Now) -> bool {
        self.recent(now).is_some_and(|mark| !is_later(time, mark))
    }

    /// `time`, or the first moment after the mark if that is later.
    pub fn later(&self, time: Ticks, now: Now) -> Ticks {
        match self.recent(now) {
            Some(mark) if !is_later(time, mark) => Ticks(mark.0.wrapping_add(1)),
            _ => time,
        }
    }

    fn recent(&self, now: Now) -> Option<Ticks> {
        let word = self.0.load(Relaxed);
        let age_seconds = now.seconds.0.saturating_sub((word >> 32) as u32);
        (word != 0 && age_seconds < FORGOTTEN_AFTER_SECONDS).then_some(Ticks(word as u32))
    }
}

/// Whether `time` lies after `other`, both within a year.
pub(crate) fn is_later(time: Ticks, other: Ticks) -> bool {
    time.0.wrapping_sub(other.0) as i32 > 0
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
