//! Units of time, and the clock that code reads instead of the machine's clock.
//!
//! An expiry is a number of [`Seconds`], as in memcached. Periods of policies are numbers of [`Ticks`] (1/64 s). Both
//! units count from the start of the clock, which after a warm restart ([`Clock::resume`]) is the start of the earlier
//! process's clock. They are two types, so that the compiler finds a confusion of the two. One reading of the [`Clock`]
//! returns the time in both units as [`Now`]. Every engine operation takes a `Now` as an argument. The lab therefore
//! simulates years of operation without waiting.
//!
//! The time of an access to an item is a [`WorkTime`], a reading of the engine's work clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whole seconds since the start of the clock, plus 2 ([`Seconds::START`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub u32);

impl Seconds {
    /// The first reading of a clock. It is 2, so that [`Expiry::PAST`] (second 1) is in the past from the start.
    pub const START: Seconds = Seconds(2);
}

/// Defines a type of readings of a counter that wraps to 0.
macro_rules! wrapping_readings {
    ($($(#[$doc:meta])* pub struct $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The maximum number by which a reading that one thread has stored may be later than the `now` of another
            /// thread. A thread may still use an old reading while another thread stores a newer one.
            const SKEW_MAX: u32 = 1 << 20;

            /// Returns the difference between `self` and `now`. Returns 0 if `self` is later than `now` by less than
            /// 2^20. The result is correct if `self` is earlier by less than 2^32 - 2^20.
            pub fn age_at(self, now: $name) -> u32 {
                let age = now.0.wrapping_sub(self.0);
                if age > u32::MAX - $name::SKEW_MAX { 0 } else { age }
            }

            /// True if `self` is later than `other`. The result is correct if they differ by less than 2^31.
            pub fn is_after(self, other: $name) -> bool {
                self.0.wrapping_sub(other.0) as i32 > 0
            }
        }
    )+};
}

wrapping_readings! {
    /// Ticks of 1/64 s since the start of the clock. The number wraps to 0 after two years, so compare two readings
    /// only by [`Ticks::age_at`] or [`Ticks::is_after`].
    pub struct Ticks;
    /// A reading of a cache's work clock, which counts the bytes that are stored, and the seconds. The number wraps to
    /// 0, so compare two readings only by [`WorkTime::age_at`] or [`WorkTime::is_after`].
    pub struct WorkTime;
}

impl Ticks {
    /// The number of ticks in a second.
    pub const PER_SECOND: u32 = 64;
}

/// The time at which an item expires: never, or the start of a second of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Expiry(u32);

impl Expiry {
    /// The item never expires.
    pub const NEVER: Expiry = Expiry(0);
    /// The item is already expired when it is stored. A negative TTL in a command has this effect.
    pub const PAST: Expiry = Expiry(1);

    /// Returns the expiry at the start of `second`. The stored word 0 means never, so second 0 is replaced by second 1,
    /// which is also in the past.
    pub fn at(second: Seconds) -> Expiry {
        Expiry(second.0.max(1))
    }

    /// Returns the second at which the item expires, or `None` if the item never expires.
    pub fn second(self) -> Option<Seconds> {
        (self.0 != 0).then_some(Seconds(self.0))
    }

    /// True if an item with this expiry has expired at `now`.
    pub fn is_past(self, now: Seconds) -> bool {
        self.0 != 0 && self.0 <= now.0
    }

    /// Returns the word that represents this expiry in an item's header: the number of the second, or 0 for never.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// Returns the expiry that [`Expiry::to_bits`] converted to this word.
    pub fn from_bits(bits: u32) -> Expiry {
        Expiry(bits)
    }
}

/// One reading of the clock, in seconds and in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The time in seconds, which is compared with the expiry of items.
    pub seconds: Seconds,
    /// The time in ticks, which gives the time since an earlier event.
    pub ticks: Ticks,
}

impl Now {
    /// Returns the reading of a clock `nanos` nanoseconds after its start.
    pub fn from_nanos(nanos: u64) -> Now {
        let seconds = nanos / 1_000_000_000 + u64::from(Seconds::START.0);
        let ticks = u128::from(nanos) * u128::from(Ticks::PER_SECOND) / 1_000_000_000;
        Now { seconds: Seconds(seconds as u32), ticks: Ticks(ticks as u32) }
    }
}

/// One reading of the clock in seconds, ticks and nanoseconds. Code that measures a duration subtracts the nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The same time in seconds and ticks, as engine operations take it.
    pub now: Now,
    /// Nanoseconds since the start of the clock.
    pub nanos: u64,
}

impl Moment {
    /// Returns the reading of a clock `nanos` nanoseconds after its start.
    pub fn from_nanos(nanos: u64) -> Moment {
        Moment { now: Now::from_nanos(nanos), nanos }
    }
}

impl From<Now> for Moment {
    /// Computes the nanoseconds from the ticks, so they are precise to 1/64 s.
    fn from(now: Now) -> Moment {
        let nanos = u64::from(now.ticks.0) * 1_000_000_000 / u64::from(Ticks::PER_SECOND);
        Moment { now, nanos }
    }
}

/// A source of time: the machine's monotonic clock, or a manual clock for tests and simulations.
#[derive(Debug)]
pub struct Clock {
    /// The machine's monotonic time when the clock was created; `None` for a manual clock.
    start: Option<Instant>,
    /// The Unix time when the clock was created. [`Clock::resume`] moves it back.
    start_unix: Duration,
    /// Nanoseconds that [`Clock::advance`] and [`Clock::resume`] added since the clock was created.
    offset_nanos: AtomicU64,
    /// While the clock is paused: the nanoseconds from `start` to the pause. Otherwise [`NOT_PAUSED`].
    paused_nanos: AtomicU64,
}

/// The value of `Clock::paused_nanos` while the clock is not paused.
const NOT_PAUSED: u64 = u64::MAX;

/// The Unix time at which a manual clock starts. It is larger than 30 days, so that a client-supplied Unix time is not
/// read as a relative TTL.
const MANUAL_START_UNIX_SECONDS: u64 = 1_700_000_000;

impl Clock {
    /// Returns a clock that starts now and advances with the machine's monotonic clock.
    #[expect(clippy::disallowed_methods, reason = "only this module reads the machine's clocks")]
    pub fn real() -> Clock {
        Clock::with_start(Some(Instant::now()), unix_time())
    }

    /// Returns a clock that advances only when [`Clock::advance`] is called.
    pub fn manual() -> Clock {
        Clock::with_start(None, Duration::from_secs(MANUAL_START_UNIX_SECONDS))
    }

    fn with_start(start: Option<Instant>, start_unix: Duration) -> Clock {
        let (offset_nanos, paused_nanos) = (AtomicU64::new(0), AtomicU64::new(NOT_PAUSED));
        Clock { start, start_unix, offset_nanos, paused_nanos }
    }

    #[expect(clippy::disallowed_methods, reason = "only this module reads the machine's clocks")]
    fn elapsed_nanos(&self) -> u64 {
        self.start.map_or(0, |start| Instant::now().duration_since(start).as_nanos() as u64)
    }

    /// Returns the nanoseconds since the start of the clock, including those that [`Clock::advance`] added.
    pub fn nanos(&self) -> u64 {
        let elapsed = match self.paused_nanos.load(Ordering::Relaxed) {
            NOT_PAUSED => self.elapsed_nanos(),
            paused => paused,
        };
        elapsed + self.offset_nanos.load(Ordering::Relaxed)
    }

    /// Reads the clock in seconds and ticks.
    pub fn now(&self) -> Now {
        Now::from_nanos(self.nanos())
    }

    /// Reads the clock in seconds, ticks and nanoseconds.
    pub fn moment(&self) -> Moment {
        Moment::from_nanos(self.nanos())
    }

    /// Returns the Unix time, in seconds, at which the clock's [`Seconds`] are 0: 2 s before its start. The Unix time
    /// of any reading is the sum of this number and the reading's seconds.
    pub fn zero_unix_seconds(&self) -> u64 {
        self.start_unix.as_secs().saturating_sub(u64::from(Seconds::START.0))
    }

    /// Continues an earlier clock that showed `elapsed` when this clock was created. Advances this clock by `elapsed`,
    /// and moves the start date of a real clock back by `elapsed`. Readings that the earlier clock recorded then still
    /// correspond to the same dates.
    pub fn resume(&mut self, elapsed: Duration) {
        if self.start.is_some() {
            self.start_unix = self.start_unix.saturating_sub(elapsed);
        }
        self.advance(elapsed);
    }

    /// Advances the clock by this duration. memcached's command `debugtime` advances a real clock in this way.
    pub fn advance(&self, by: Duration) {
        self.offset_nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Pauses the clock, as memcached's command `debugtime p` does. During the pause only [`Clock::advance`] advances
    /// the clock. Does nothing if the clock is already paused.
    pub fn pause(&self) {
        let (now, paused) = (self.elapsed_nanos(), &self.paused_nanos);
        let _ = paused.compare_exchange(NOT_PAUSED, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Ends the pause. The clock jumps forward by the duration of the pause.
    pub fn unpause(&self) {
        self.paused_nanos.store(NOT_PAUSED, Ordering::Relaxed);
    }
}

/// Calls `work`. Returns its result, and the time that it took in nanoseconds.
#[expect(clippy::disallowed_methods, reason = "only this module reads the machine's clocks")]
pub fn timed<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_nanos() as u64)
}

/// Returns the machine's current Unix time.
#[expect(clippy::disallowed_methods, reason = "only this module reads the machine's clocks")]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Clock, Expiry, Now, Seconds, Ticks, unix_time};
    use std::time::Duration;

    #[test]
    fn only_advance_moves_a_manual_clock() {
        let clock = Clock::manual();
        assert_eq!(clock.now(), Now { seconds: Seconds::START, ticks: Ticks(0) });
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.now(), Now { seconds: Seconds(3), ticks: Ticks(96) });
    }

    #[test]
    fn only_advance_moves_a_paused_clock() {
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
        let zero_before = clock.zero_unix_seconds();
        clock.resume(Duration::from_secs(1_000));
        assert_eq!(zero_before - clock.zero_unix_seconds(), 1_000);
        let clock_unix_seconds = clock.zero_unix_seconds() + u64::from(clock.now().seconds.0);
        assert!(
            unix_time().as_secs().abs_diff(clock_unix_seconds) <= 1,
            "the date of the clock differs by at most 1 s from the machine's"
        );
    }

    #[test]
    fn an_item_is_expired_from_the_second_of_its_expiry() {
        assert!(Expiry::PAST.is_past(Seconds::START));
        assert!(!Expiry::NEVER.is_past(Seconds(u32::MAX)));
        assert!(!Expiry::at(Seconds(5)).is_past(Seconds(4)));
        assert!(Expiry::at(Seconds(5)).is_past(Seconds(5)));
    }

    #[test]
    fn ages_are_correct_when_ticks_wrap_to_0() {
        assert_eq!(Ticks(u32::MAX).age_at(Ticks(4)), 5);
        assert_eq!(Ticks(5).age_at(Ticks(4)), 0, "an access slightly later than `now` has age 0");
    }
}
