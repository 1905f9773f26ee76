//! The work clock: the time of accesses to items, counted in work instead of seconds.
//!
//! The ages of items decide what is evicted and which class gives up memory. A small busy cache replaces its items many
//! times a second, and a large one within days, so no fixed unit of time suits both. The work clock therefore advances
//! by one
//!
//! - whenever 1/1,024 of the memory was stored, and
//! - every second, so that ages also grow in a cache that stores nothing.
//!
//! ```text
//!   stores --bytes, in batches--> stored --every unit--.
//!                                                      +--> reading --low 32 bits--> the last access of an item
//!   operations --the second they run in----------------'       '--> SecondStarts: the reading at which seconds began
//! ```
//!
//! A reading has 64 bits. Items have space for its low 32 bits ([`WorkTime`]), so an age is correct if it is below
//! 2^32. The sweep (`background/sweep.rs`) limits the ages of items. To make this rarely necessary, the unit grows with
//! the rate of stores: at a steady rate the clock advances by 1,024 in a second at most.
//!
//! Invariants:
//! - The clock never runs backward, and no item has an access time later than the clock.
//! - All accesses in one second have later times than all accesses in the seconds before it.

use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{Seconds, WorkTime};
use std::ops::RangeInclusive;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The number of units in the memory of the cache, and the largest number of units that a steady rate of stores adds in
/// a second.
const UNITS: u64 = 1024;

/// The largest age that the sweep leaves.
pub const AGE_MAX: u32 = 1 << 31;

/// The number of batches in a unit. A worker adds the bytes that it stores to the clock in batches.
const BATCHES_PER_UNIT: u64 = 16;

/// The state of a [`WorkClock`] that survives a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkSaved {
    pub reading: u64,
    /// The latest second that was observed.
    pub second: u32,
    /// The readings at which seconds began, for each level of the clock's memory ([`WORK_CLOCK_LENS`]).
    pub starts: [Vec<u64>; LEVELS.len()],
}

/// The work clock of a cache.
#[derive(Debug)]
pub struct WorkClock {
    reading: AtomicU64,
    /// The latest second that was observed.
    second: AtomicU32,
    /// The bytes that were stored since the start, without those of incomplete batches.
    stored_bytes: AtomicU64,
    /// The value of `stored_bytes` at which the clock advances next.
    due_at_bytes: AtomicU64,
    /// The number of bytes that advance the clock by one.
    unit_bytes: AtomicU64,
    /// The smallest value of `unit_bytes`: 1/1,024 of the memory.
    unit_bytes_min: AtomicU64,
    /// The binary logarithm of the number of bytes in a batch.
    batch_bytes_log2: u32,
    starts: SecondStarts,
    /// The value of `stored_bytes` at the start of this second. The lock is held while a second begins.
    stored_bytes_at_start: Mutex<u64>,
}

impl WorkClock {
    /// Returns the clock of a cache with this memory. It begins at second 0.
    pub fn new(memory_bytes: u64) -> WorkClock {
        let unit_bytes = unit_bytes(memory_bytes);
        WorkClock {
            reading: AtomicU64::new(0),
            second: AtomicU32::new(0),
            stored_bytes: AtomicU64::new(0),
            due_at_bytes: AtomicU64::new(unit_bytes),
            unit_bytes: AtomicU64::new(unit_bytes),
            unit_bytes_min: AtomicU64::new(unit_bytes),
            batch_bytes_log2: (unit_bytes / BATCHES_PER_UNIT).max(1).ilog2(),
            starts: SecondStarts::new(),
            stored_bytes_at_start: Mutex::new(0),
        }
    }

    /// Returns the present reading.
    #[inline(always)]
    pub fn reading(&self) -> u64 {
        self.reading.load(Relaxed)
    }

    /// Returns the present reading as the time of an access.
    #[inline(always)]
    pub fn now(&self) -> WorkTime {
        WorkTime(self.reading() as u32)
    }

    /// Returns the present reading and advances the clock by one, so that every later reading is later.
    pub fn read_and_advance(&self) -> u64 {
        self.reading.fetch_add(1, Relaxed)
    }

    /// Returns the reading of a time whose age is below 2^32.
    pub fn reading_of(&self, time: WorkTime) -> u64 {
        let now = self.reading();
        now.saturating_sub(u64::from(time.age_at(WorkTime(now as u32))))
    }

    /// Advances the clock if this second is later than all that it has seen.
    #[inline(always)]
    pub fn observe(&self, second: Seconds) {
        if second.0 > self.second.load(Relaxed) {
            self.begin_second(second);
        }
    }

    #[cold]
    fn begin_second(&self, second: Seconds) {
        let mut stored_at_start = lock(&self.stored_bytes_at_start);
        let before = self.second.load(Relaxed);
        if second.0 <= before {
            return;
        }
        let seconds = u64::from(second.0 - before);
        let first = self.reading.fetch_add(seconds, Relaxed) + 1;
        self.starts.add(before + 1..=second.0, first);
        self.second.store(second.0, Release);
        let stored = self.stored_bytes.load(Relaxed);
        let per_second = (stored - *stored_at_start) / seconds;
        *stored_at_start = stored;
        // The unit falls slowly, so that a burst in every other second does not advance the clock by much.
        let unit_bytes_min = self.unit_bytes_min.load(Relaxed);
        let unit_bytes = (per_second / UNITS).max(self.unit_bytes.load(Relaxed) / 2);
        self.unit_bytes.store(unit_bytes.max(unit_bytes_min), Relaxed);
    }

    /// Counts a store of a worker, which has stored `before` bytes before it and `after` bytes after it.
    #[inline(always)]
    pub fn count_stored(&self, before: u64, after: u64) {
        let batches = (after >> self.batch_bytes_log2) - (before >> self.batch_bytes_log2);
        if batches > 0 {
            self.add_stored(batches << self.batch_bytes_log2);
        }
    }

    #[cold]
    fn add_stored(&self, bytes: u64) {
        let stored = self.stored_bytes.fetch_add(bytes, Relaxed) + bytes;
        let due = self.due_at_bytes.load(Relaxed);
        if stored < due {
            return;
        }
        let unit_bytes = self.unit_bytes.load(Relaxed);
        let units = (stored - due) / unit_bytes + 1;
        // If another thread advances the clock at the same time, it counts these bytes, or the next batch does.
        let next = due + units * unit_bytes;
        if self.due_at_bytes.compare_exchange(due, next, Relaxed, Relaxed).is_ok() {
            self.reading.fetch_add(units, Relaxed);
        }
    }

    /// Sets the memory of the cache. The new unit applies from the next second on.
    pub fn set_memory(&self, bytes: u64) {
        self.unit_bytes_min.store(unit_bytes(bytes), Relaxed);
    }

    /// Returns the second of a time: exactly if it is less than four hours ago, and otherwise as an estimate between
    /// two seconds that the clock remembers ([`LEVELS`]).
    pub fn second_of(&self, time: WorkTime) -> Seconds {
        let second = self.second.load(Acquire);
        Seconds(self.starts.second_of(self.reading_of(time), self.reading(), second))
    }

    /// Returns the state that survives a restart.
    pub fn saved(&self) -> WorkSaved {
        let entries = |level: &[AtomicU64]| level.iter().map(|it| it.load(Relaxed)).collect();
        WorkSaved {
            reading: self.reading(),
            second: self.second.load(Relaxed),
            starts: self.starts.0.each_ref().map(|level| entries(level)),
        }
    }

    /// Restores the state of an earlier process.
    pub fn restore(&self, saved: &WorkSaved) {
        for (level, entries) in self.starts.0.iter().zip(&saved.starts) {
            level.iter().zip(entries).for_each(|(entry, &start)| entry.store(start, Relaxed));
        }
        self.reading.store(saved.reading, Relaxed);
        self.second.store(saved.second, Release);
    }

    /// Advances the clock by `work`, as stores would.
    #[cfg(all(test, not(loom)))]
    pub fn advance(&self, work: u64) {
        self.reading.fetch_add(work, Relaxed);
    }
}

fn unit_bytes(memory_bytes: u64) -> u64 {
    (memory_bytes / UNITS).max(1)
}

/// The levels of [`SecondStarts`]: the number of seconds between two entries, and the number of entries. They cover
/// 4.5 hours, 3 days and 194 days.
const LEVELS: [(u32, usize); 3] = [(1, 1 << 14), (1 << 6, 1 << 12), (1 << 12, 1 << 12)];

/// The number of entries of each level of [`WorkSaved::starts`].
pub const WORK_CLOCK_LENS: [usize; LEVELS.len()] = [LEVELS[0].1, LEVELS[1].1, LEVELS[2].1];

/// The readings at which seconds began. Each level is a ring: entry `n` modulo its length is the start of second `n`
/// times its interval. So recent seconds have an entry each, and earlier ones an entry for each interval.
#[derive(Debug)]
struct SecondStarts([Box<[AtomicU64]>; LEVELS.len()]);

impl SecondStarts {
    fn new() -> SecondStarts {
        SecondStarts(LEVELS.map(|(_, len)| (0..len).map(|_| AtomicU64::new(0)).collect()))
    }

    /// Adds the starts of these seconds. The first began at `first`, and each later one a unit later.
    fn add(&self, seconds: RangeInclusive<u32>, first: u64) {
        let (from, to) = seconds.into_inner();
        for (level, (interval, len)) in self.0.iter().zip(LEVELS) {
            let last = to / interval;
            let numbers = from.div_ceil(interval).max(last.saturating_sub(len as u32 - 1))..=last;
            for number in numbers {
                let start = first + u64::from(number * interval - from);
                level[number as usize % len].store(start, Relaxed);
            }
        }
    }

    /// Returns the second of a reading. `now` is the present reading, in `second`.
    fn second_of(&self, reading: u64, now: u64, second: u32) -> u32 {
        let mut later = (second, now);
        for (level, (interval, len)) in self.0.iter().zip(LEVELS) {
            let start = |number: u32| level[number as usize % len].load(Relaxed);
            // The oldest entries may be overwritten meanwhile, so they are not used.
            let newest = later.0 / interval;
            let oldest = newest.saturating_sub((len - len / 16) as u32);
            if start(oldest) > reading {
                later = (oldest * interval, start(oldest));
                continue;
            }
            // Find the last entry that is not later than the reading.
            let (mut low, mut high) = (oldest, newest);
            while low < high {
                let middle = high - (high - low) / 2;
                if start(middle) <= reading { low = middle } else { high = middle - 1 }
            }
            if low < newest {
                later = ((low + 1) * interval, start(low + 1));
            }
            return between((low * interval, start(low)), later, reading);
        }
        later.0
    }
}

/// Returns the second of a reading, if the clock advanced evenly between the starts of two seconds.
fn between(from: (u32, u64), to: (u32, u64), reading: u64) -> u32 {
    let (seconds, work) = (to.0.saturating_sub(from.0), to.1.saturating_sub(from.1).max(1));
    let into = u128::from(reading.saturating_sub(from.1)) * u128::from(seconds) / u128::from(work);
    from.0 + into.min(u128::from(seconds.saturating_sub(1))) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{LEVELS, UNITS, WorkClock};
    use slabwise_base::{Random, Seconds, WorkTime};

    const MIB: u64 = 1 << 20;

    fn store(clock: &WorkClock, stored: &mut u64, bytes: u64) {
        clock.count_stored(*stored, *stored + bytes);
        *stored += bytes;
    }

    #[test]
    fn the_clock_advances_with_the_bytes_stored_and_with_the_seconds() {
        let (clock, mut stored) = (WorkClock::new(64 * MIB), 0);
        clock.observe(Seconds(5));
        assert_eq!(clock.now(), WorkTime(5));
        (0..64 * 1024).for_each(|_| store(&clock, &mut stored, 1024));
        assert_eq!(clock.now(), WorkTime(5 + UNITS as u32), "all memory was stored");
        clock.observe(Seconds(4));
        clock.observe(Seconds(5));
        assert_eq!(clock.now(), WorkTime(5 + UNITS as u32), "no second has passed");
    }

    #[test]
    fn the_unit_grows_with_the_rate_of_stores() {
        let (clock, mut stored) = (WorkClock::new(MIB), 0);
        let mut advance = Vec::new();
        for second in 1..6 {
            clock.observe(Seconds(second));
            let before = clock.now();
            (0..100 * 1024).for_each(|_| store(&clock, &mut stored, 1024));
            advance.push(before.age_at(WorkTime(clock.now().0)));
        }
        assert_eq!(advance[0], 100 * UNITS as u32, "the first second has the unit of the memory");
        assert!(advance[1..].iter().all(|&it| it.abs_diff(UNITS as u32) <= 1), "{advance:?}");
    }

    /// Returns, for each of `seconds` seconds with a random number of stores, a reading in this second.
    fn readings(clock: &WorkClock, seconds: u32, random: &mut Random) -> Vec<(u32, WorkTime)> {
        let mut readings = Vec::new();
        for second in 1..=seconds {
            clock.observe(Seconds(second));
            clock.advance(random.below(20));
            readings.push((second, clock.now()));
        }
        readings
    }

    #[test]
    fn the_second_of_a_reading_is_exact_for_hours_and_then_an_estimate() {
        let (clock, mut random) = (WorkClock::new(MIB), Random::new(3));
        // The times of accesses wrap to 0 during the test.
        clock.advance(u64::from(u32::MAX) - 1_000_000);
        clock.starts.add(0..=0, clock.reading());
        let seconds = 6 * 24 * 3600;
        for (second, reading) in readings(&clock, seconds, &mut random) {
            let found = clock.second_of(reading).0;
            let error_max = match seconds - second {
                age if age < 4 * 3600 => 0,
                age if age < 60 * 3600 => LEVELS[1].0,
                _ => LEVELS[2].0,
            };
            let context = format!("second {second} of {seconds}, seed 3: found {found}");
            assert!(found.abs_diff(second) <= error_max, "{context}");
        }
    }

    #[test]
    fn bursts_in_every_other_second_advance_the_clock_little() {
        let (clock, mut stored) = (WorkClock::new(MIB), 0);
        let mut advance = Vec::new();
        for second in 1..41 {
            clock.observe(Seconds(second));
            let before = clock.reading();
            let count = if second % 2 == 0 { 100 * 1024 } else { 0 };
            (0..count).for_each(|_| store(&clock, &mut stored, 1024));
            advance.push(clock.reading() - before);
        }
        let later: u64 = advance[20..].iter().sum();
        assert!(later <= 20 * UNITS + 20, "{advance:?}");
    }

    #[test]
    fn the_seconds_of_a_jump_are_exact() {
        let clock = WorkClock::new(MIB);
        clock.observe(Seconds(10));
        let before = clock.now();
        clock.observe(Seconds(1_000_000));
        clock.advance(5);
        assert_eq!(clock.second_of(before), Seconds(10));
        assert_eq!(clock.second_of(clock.now()), Seconds(1_000_000));
    }

    #[test]
    fn a_restored_clock_continues() {
        let (clock, restored) = (WorkClock::new(MIB), WorkClock::new(MIB));
        let readings = readings(&clock, 1000, &mut Random::new(4));
        restored.restore(&clock.saved());
        restored.observe(Seconds(1500));
        for (second, reading) in readings {
            assert_eq!(restored.second_of(reading), Seconds(second), "seed 4");
        }
        assert!(restored.now().is_after(clock.now()));
    }
}
