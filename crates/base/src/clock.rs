//! Time as a value.
//!
//! Two clocks that must not be mixed up are two types: [`Seconds`] decide expiry, as in memcached;
//! [`Ticks`] (1/64 s) order accesses, so that queue ages mean something within a second. Both count
//! from the start of the process. One read of the [`Clock`] gives both, as [`Now`], and every engine
//! operation takes that `Now` as an argument: the lab runs years of it without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whole seconds since the process started, plus [`Seconds::START`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub u32);

impl Seconds {
    /// What a clock reads at the start: 2, so that [`Expiry::PAST`] (second 1) is past at once.
    pub const START: Seconds = Seconds(2);
}

/// Ticks of 1/64 s since the process started. They wrap after two years, so they are only ever
/// compared by [`Ticks::age_at`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticks(pub u32);

impl Ticks {
    /// Ticks in a second.
    pub const PER_SECOND: u32 = 64;

    /// How far one reading may lie behind another that was taken earlier: readings are handed on.
    const SKEW_MAX: u32 = 1 << 20;

    /// The ticks from `self` to `now`, 0 if `self` is the later of two readings close together. Right for
    /// ages under two years.
    pub fn age_at(self, now: Ticks) -> u32 {
        let age = now.0.wrapping_sub(self.0);
        if age > u32::MAX - Ticks::SKEW_MAX { 0 } else { age }
    }

    /// Whether this moment lies after another, both within a year.
    pub fn is_after(self, other: Ticks) -> bool {
        self.0.wrapping_sub(other.0) as i32 > 0
    }
}

/// When an item ends: never, or at the start of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Expiry(u32);

impl Expiry {
    /// The item has no end.
    pub const NEVER: Expiry = Expiry(0);
    /// The item has ended before it began, as a negative TTL asks for.
    pub const PAST: Expiry = Expiry(1);

    /// Ends at `second`; second 0 cannot be asked for, it means never.
    pub fn at(second: Seconds) -> Expiry {
        Expiry(second.0.max(1))
    }

    /// The second it ends at, if it ever does.
    pub fn second(self) -> Option<Seconds> {
        (self.0 != 0).then_some(Seconds(self.0))
    }

    /// Whether an item with this expiry is gone at `now`.
    pub fn is_past(self, now: Seconds) -> bool {
        self.0 != 0 && self.0 <= now.0
    }

    /// The word kept in an item: 0 for never.
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
    /// For expiry.
    pub seconds: Seconds,
    /// For the order and age of accesses.
    pub ticks: Ticks,
}

impl Now {
    /// The reading `nanos` nanoseconds after the start.
    pub fn from_nanos(nanos: u64) -> Now {
        let seconds = nanos / 1_000_000_000 + u64::from(Seconds::START.0);
        let ticks = u128::from(nanos) * u128::from(Ticks::PER_SECOND) / 1_000_000_000;
        Now { seconds: Seconds(seconds as u32), ticks: Ticks(ticks as u32) }
    }
}

/// A reading for who measures how long work takes, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// For the engine.
    pub now: Now,
    /// Nanoseconds since the start, for durations.
    pub nanos: u64,
}

impl Moment {
    /// The reading `nanos` nanoseconds after the start.
    pub fn from_nanos(nanos: u64) -> Moment {
        Moment { now: Now::from_nanos(nanos), nanos }
    }
}

impl From<Now> for Moment {
    /// As fine as a tick.
    fn from(now: Now) -> Moment {
        let nanos = u64::from(now.ticks.0) * 1_000_000_000 / u64::from(Ticks::PER_SECOND);
        Moment { now, nanos }
    }
}

/// Where time comes from: the machine's monotonic clock, or a test's or simulation's hand.
#[derive(Debug)]
pub struct Clock {
    /// The instant that it was made at; `None`: it moves only by [`Clock::advance`].
    start: Option<Instant>,
    /// The date then, as the time since 1970.
    start_unix: Duration,
    /// What [`Clock::advance`] and [`Clock::resume`] have added.
    offset_nanos: AtomicU64,
    /// What the machine's clock read when it was paused; [`RUNNING`] otherwise.
    paused_nanos: AtomicU64,
}

/// The clock is not paused.
const RUNNING: u64 = u64::MAX;

/// The date that a manual clock starts at: one that no TTL could be mistaken for.
const MANUAL_START_UNIX_SECONDS: u64 = 1_700_000_000;

impl Clock {
    /// The machine's clock, starting now.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
    pub fn real() -> Clock {
        Clock::starting(Some(Instant::now()), unix_time())
    }

    /// A clock that stands at the start until [`Clock::advance`] moves it.
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

    /// Nanoseconds since the start.
    pub fn nanos(&self) -> u64 {
        let elapsed = match self.paused_nanos.load(Ordering::Relaxed) {
            RUNNING => self.elapsed_nanos(),
            paused => paused,
        };
        elapsed + self.offset_nanos.load(Ordering::Relaxed)
    }

    /// The present reading.
    pub fn now(&self) -> Now {
        Now::from_nanos(self.nanos())
    }

    /// The present reading, with nanoseconds.
    pub fn moment(&self) -> Moment {
        Moment::from_nanos(self.nanos())
    }

    /// The Unix time at which [`Seconds`] would read 0.
    pub fn zero_unix_seconds(&self) -> u64 {
        self.start_unix.as_secs().saturating_sub(u64::from(Seconds::START.0))
    }

    /// Lets this clock go on from one that read `elapsed` since its start when this one was made. A real clock's
    /// start then lies that much earlier, so that what the other has dated keeps its date.
    pub fn resume(&mut self, elapsed: Duration) {
        if self.start.is_some() {
            self.start_unix = self.start_unix.saturating_sub(elapsed);
        }
        self.advance(elapsed);
    }

    /// Moves the clock forward: a manual clock's only way to move, and for a real one the jump that
    /// memcached's `debugtime` makes.
    pub fn advance(&self, by: Duration) {
        self.offset_nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Stops the machine's clock here, as memcached's `debugtime p` does; [`Clock::advance`] still moves
    /// it. A clock that stands already stays where it is.
    pub fn pause(&self) {
        let (now, paused) = (self.elapsed_nanos(), &self.paused_nanos);
        let _ = paused.compare_exchange(RUNNING, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Lets it go on, from the machine's present time.
    pub fn unpause(&self) {
        self.paused_nanos.store(RUNNING, Ordering::Relaxed);
    }
}

/// The machine's date, as the time since 1970.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Clock, Expiry, Now, Seconds, Ticks, unix_time};
    use std::time::Duration;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = Clock::manual();
        assert_eq!(clock.now(), Now { seconds: Seconds::START, ticks: Ticks(0) });
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.now(), Now { seconds: Seconds(3), ticks: Ticks(96) });
    }

    #[test]
    fn a_paused_clock_moves_only_by_hand() {
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
    fn a_resumed_clock_keeps_the_dates_of_the_one_before() {
        let mut clock = Clock::real();
        let zero = clock.zero_unix_seconds();
        clock.resume(Duration::from_secs(1_000));
        assert_eq!(zero - clock.zero_unix_seconds(), 1_000);
        let dated = clock.zero_unix_seconds() + u64::from(clock.now().seconds.0);
        assert!(unix_time().as_secs().abs_diff(dated) <= 1, "now is now");
    }

    #[test]
    fn past_is_past_from_the_start_and_never_is_never() {
        assert!(Expiry::PAST.is_past(Seconds::START));
        assert!(!Expiry::NEVER.is_past(Seconds(u32::MAX)));
        assert!(!Expiry::at(Seconds(5)).is_past(Seconds(4)));
        assert!(Expiry::at(Seconds(5)).is_past(Seconds(5)));
    }

    #[test]
    fn ages_survive_the_wrap_of_ticks() {
        assert_eq!(Ticks(u32::MAX).age_at(Ticks(4)), 5);
        assert_eq!(Ticks(5).age_at(Ticks(4)), 0, "a reading may be handed on late");
    }
}
