//! Time as a value.
//!
//! [`Seconds`] decide expiry, as in memcached. [`Ticks`] (1/64 s) order accesses, so that the ages of queues are
//! precise within a second. Both count from the start of the process, and they are two types so that they cannot
//! be confused. One reading of the [`Clock`] returns both as [`Now`]. Every engine operation takes a `Now` as an
//! argument, so the lab simulates years without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whole seconds since the process started, plus [`Seconds::START`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub u32);

impl Seconds {
    /// The first reading of a clock: 2, so that [`Expiry::PAST`] (second 1) is already over.
    pub const START: Seconds = Seconds(2);
}

/// Ticks of 1/64 s since the process started. They wrap after two years, so compare them by
/// [`Ticks::age_at`] or [`Ticks::is_after`] only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticks(pub u32);

impl Ticks {
    /// The number of ticks in a second.
    pub const PER_SECOND: u32 = 64;

    /// A reading may be used late, after a newer one of another thread. This is the largest such difference.
    const SKEW_MAX: u32 = 1 << 20;

    /// Returns the ticks from `self` to `now`, or 0 if `self` is slightly later. Correct for ages under two years.
    pub fn age_at(self, now: Ticks) -> u32 {
        let age = now.0.wrapping_sub(self.0);
        if age > u32::MAX - Ticks::SKEW_MAX { 0 } else { age }
    }

    /// True if this reading is later than another. Correct if they are less than a year apart.
    pub fn is_after(self, other: Ticks) -> bool {
        self.0.wrapping_sub(other.0) as i32 > 0
    }
}

/// When an item expires: never, or at the start of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Expiry(u32);

impl Expiry {
    /// The item never expires.
    pub const NEVER: Expiry = Expiry(0);
    /// The item has expired when it is stored, as with a negative TTL.
    pub const PAST: Expiry = Expiry(1);

    /// Returns the expiry at `second`. Second 0 would mean never, so it becomes second 1.
    pub fn at(second: Seconds) -> Expiry {
        Expiry(second.0.max(1))
    }

    /// Returns the second at which the item expires, or `None` for never.
    pub fn second(self) -> Option<Seconds> {
        (self.0 != 0).then_some(Seconds(self.0))
    }

    /// True if an item with this expiry has expired at `now`.
    pub fn is_past(self, now: Seconds) -> bool {
        self.0 != 0 && self.0 <= now.0
    }

    /// Returns the word that an item stores: 0 for never.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// The inverse of [`Expiry::to_bits`].
    pub fn from_bits(bits: u32) -> Expiry {
        Expiry(bits)
    }
}

/// One reading of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Decides expiry.
    pub seconds: Seconds,
    /// Gives the order and the age of accesses.
    pub ticks: Ticks,
}

impl Now {
    /// Returns the reading `nanos` nanoseconds after the start.
    pub fn from_nanos(nanos: u64) -> Now {
        let seconds = nanos / 1_000_000_000 + u64::from(Seconds::START.0);
        let ticks = u128::from(nanos) * u128::from(Ticks::PER_SECOND) / 1_000_000_000;
        Now { seconds: Seconds(seconds as u32), ticks: Ticks(ticks as u32) }
    }
}

/// One reading of the clock with nanoseconds, to measure durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The reading that engine operations take.
    pub now: Now,
    /// Nanoseconds since the start.
    pub nanos: u64,
}

impl Moment {
    /// Returns the reading `nanos` nanoseconds after the start.
    pub fn from_nanos(nanos: u64) -> Moment {
        Moment { now: Now::from_nanos(nanos), nanos }
    }
}

impl From<Now> for Moment {
    /// Converts with the precision of a tick.
    fn from(now: Now) -> Moment {
        let nanos = u64::from(now.ticks.0) * 1_000_000_000 / u64::from(Ticks::PER_SECOND);
        Moment { now, nanos }
    }
}

/// A source of time: the machine's monotonic clock, or a manual clock for tests and simulations.
#[derive(Debug)]
pub struct Clock {
    /// When the clock was created; `None` for a manual clock.
    start: Option<Instant>,
    /// The Unix time at the start.
    start_unix: Duration,
    /// The time that [`Clock::advance`] and [`Clock::resume`] added.
    offset_nanos: AtomicU64,
    /// The machine's reading when the clock was paused; [`RUNNING`] otherwise.
    paused_nanos: AtomicU64,
}

/// The clock is not paused.
const RUNNING: u64 = u64::MAX;

/// The date at which a manual clock starts: larger than any relative TTL.
const MANUAL_START_UNIX_SECONDS: u64 = 1_700_000_000;

impl Clock {
    /// Returns a clock that starts now and follows the machine's.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
    pub fn real() -> Clock {
        Clock::starting(Some(Instant::now()), unix_time())
    }

    /// Returns a clock that only [`Clock::advance`] moves.
    pub fn manual() -> Clock {
        Clock::starting(None, Duration::from_secs(MANUAL_START_UNIX_SECONDS))
    }

    fn starting(start: Option<Instant>, start_unix: Duration) -> Clock {
        let (offset_nanos, paused_nanos) = (AtomicU64::new(0), AtomicU64::new(RUNNING));
        Clock { start, start_unix, offset_nanos, paused_nanos }
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
    fn elapsed_nanos(&self) -> u64 {
        self.start.map_or(0, |start| Instant::now().duration_since(start).as_nanos() as u64)
    }

    /// Returns the nanoseconds since the start.
    pub fn nanos(&self) -> u64 {
        let elapsed = match self.paused_nanos.load(Ordering::Relaxed) {
            RUNNING => self.elapsed_nanos(),
            paused => paused,
        };
        elapsed + self.offset_nanos.load(Ordering::Relaxed)
    }

    /// Reads the clock.
    pub fn now(&self) -> Now {
        Now::from_nanos(self.nanos())
    }

    /// Reads the clock with nanoseconds.
    pub fn moment(&self) -> Moment {
        Moment::from_nanos(self.nanos())
    }

    /// Returns the Unix time at which [`Seconds`] would be 0.
    pub fn zero_unix_seconds(&self) -> u64 {
        self.start_unix.as_secs().saturating_sub(u64::from(Seconds::START.0))
    }

    /// Continues an earlier clock that had run for `elapsed` when this one was created. A real clock's start moves
    /// back by `elapsed`, so that times the earlier clock recorded keep their dates.
    pub fn resume(&mut self, elapsed: Duration) {
        if self.start.is_some() {
            self.start_unix = self.start_unix.saturating_sub(elapsed);
        }
        self.advance(elapsed);
    }

    /// Moves the clock forward. For a real clock this is the jump that memcached's `debugtime` makes.
    pub fn advance(&self, by: Duration) {
        self.offset_nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Pauses the clock, as memcached's `debugtime p` does. [`Clock::advance`] still moves it. Does nothing if the
    /// clock is already paused.
    pub fn pause(&self) {
        let (now, paused) = (self.elapsed_nanos(), &self.paused_nanos);
        let _ = paused.compare_exchange(RUNNING, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Ends the pause. The clock jumps to the machine's current time.
    pub fn unpause(&self) {
        self.paused_nanos.store(RUNNING, Ordering::Relaxed);
    }
}

/// Returns the machine's Unix time.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Clock, Expiry, Now, Seconds, Ticks, unix_time};
    use std::time::Duration;

    #[test]
    fn a_manual_clock_moves_only_by_advance() {
        let clock = Clock::manual();
        assert_eq!(clock.now(), Now { seconds: Seconds::START, ticks: Ticks(0) });
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.now(), Now { seconds: Seconds(3), ticks: Ticks(96) });
    }

    #[test]
    fn a_paused_clock_moves_only_by_advance() {
        let clock = Clock::real();
        clock.pause();
        let before = clock.nanos();
        clock.pause();
        assert_eq!(clock.nanos(), before);
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.nanos(), before + 5_000_000_000);
        clock.unpause();
        assert!(clock.nanos() >= before + 5_000_000_000);
    }

    #[test]
    fn a_resumed_clock_keeps_the_dates_of_the_earlier_clock() {
        let mut clock = Clock::real();
        let zero = clock.zero_unix_seconds();
        clock.resume(Duration::from_secs(1_000));
        assert_eq!(zero - clock.zero_unix_seconds(), 1_000);
        let dated = clock.zero_unix_seconds() + u64::from(clock.now().seconds.0);
        assert!(unix_time().as_secs().abs_diff(dated) <= 1, "the clock reads the current date");
    }

    #[test]
    fn past_has_expired_at_the_start_and_never_does_not_expire() {
        assert!(Expiry::PAST.is_past(Seconds::START));
        assert!(!Expiry::NEVER.is_past(Seconds(u32::MAX)));
        assert!(!Expiry::at(Seconds(5)).is_past(Seconds(4)));
        assert!(Expiry::at(Seconds(5)).is_past(Seconds(5)));
    }

    #[test]
    fn ages_survive_the_wrap_of_ticks() {
        assert_eq!(Ticks(u32::MAX).age_at(Ticks(4)), 5);
        assert_eq!(Ticks(5).age_at(Ticks(4)), 0, "a reading may be used late");
    }
}
