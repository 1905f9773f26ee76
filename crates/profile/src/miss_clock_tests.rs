//! Tests of the miss clock.

use super::{MissClock, MissClockCounts, MissClockOptions, TIMES_MIN};
use slabwise_base::{ClassId, Cost, Random};

const CLASS: ClassId = ClassId(3);
const PREFIX: u64 = 77;
/// A millisecond, in nanoseconds.
const MILLI: u64 = 1_000_000;

/// Returns a clock that samples every key and whose means are over all times.
fn all_keys() -> MissClock {
    let options = MissClockOptions { rate: 1.0, times_smoothed: u64::MAX, ..Default::default() };
    MissClock::new(options)
}

fn units(clock: &MissClock) -> Option<u32> {
    clock.cost_of(CLASS, PREFIX).map(|cost| cost.units())
}

#[test]
fn the_cost_is_the_time_from_a_miss_to_its_store() {
    let mut clock = all_keys();
    clock.note_miss(1, 10 * MILLI);
    clock.note_miss(2, 11 * MILLI);
    assert_eq!(clock.note_store(1, CLASS, PREFIX, 12 * MILLI), Some(2_000));
    assert_eq!(clock.note_store(2, CLASS, PREFIX, 15 * MILLI), Some(4_000));
    assert_eq!(units(&clock), Some(3_000));
    assert_eq!(clock.cost_of(ClassId(4), PREFIX), None);
}

#[test]
fn a_store_without_a_miss_is_not_counted() {
    let mut clock = all_keys();
    for hash in 0..1_000 {
        assert_eq!(clock.note_store(hash, CLASS, PREFIX, hash * MILLI), None);
    }
    assert_eq!(units(&clock), None);
    // After a miss only the first store counts.
    clock.note_miss(1, 2_000 * MILLI);
    assert_eq!(clock.note_store(1, CLASS, PREFIX, 2_007 * MILLI), Some(7_000));
    assert_eq!(clock.note_store(1, CLASS, PREFIX, 2_500 * MILLI), None);
    assert_eq!(units(&clock), Some(7_000));
}

#[test]
fn each_key_of_a_batch_counts_the_time_of_the_batch() {
    let mut clock = all_keys();
    (0..10).for_each(|hash| clock.note_miss(hash, 0));
    // The computation of each value takes a millisecond. All values are stored when the last value is ready.
    for hash in 0..10 {
        assert_eq!(clock.note_store(hash, CLASS, PREFIX, 10 * MILLI), Some(10_000));
    }
    assert_eq!(units(&clock), Some(10_000));
}

#[test]
fn the_first_of_concurrent_misses_and_stores_counts() {
    let mut clock = all_keys();
    clock.note_miss(1, 0);
    clock.note_miss(1, 4 * MILLI);
    assert_eq!(clock.note_store(1, CLASS, PREFIX, 9 * MILLI), Some(9_000));
    assert_eq!(clock.note_store(1, CLASS, PREFIX, 13 * MILLI), None);
    assert_eq!(units(&clock), Some(9_000));
}

#[test]
fn a_late_store_is_not_counted() {
    let options = MissClockOptions { rate: 1.0, wait_us_max: 1_000, ..Default::default() };
    let mut clock = MissClock::new(options);
    clock.note_miss(1, 0);
    assert_eq!(clock.note_store(1, CLASS, PREFIX, MILLI + 1_000), None);
    assert_eq!((units(&clock), clock.waiting()), (None, 0));
    // The first miss of key 2 has waited too long, so the second miss counts as the first.
    clock.note_miss(2, 0);
    clock.note_miss(2, 5 * MILLI);
    assert_eq!(clock.note_store(2, CLASS, PREFIX, 6 * MILLI), Some(1_000));
}

#[test]
fn a_sample_of_keys_estimates_the_mean_of_all() {
    let seed = 1;
    let (mut clock, mut random) = (MissClock::new(MissClockOptions::default()), Random::new(seed));
    let mut counted = 0;
    for number in 0..20_000u64 {
        let (hash, start) = (random.next_u64(), number * 50 * MILLI);
        clock.note_miss(hash, start);
        let took = (1 + random.below(9)) * MILLI;
        counted += u64::from(clock.note_store(hash, CLASS, PREFIX, start + took).is_some());
        assert_eq!(clock.waiting(), 0, "seed {seed}: no stored key waits");
    }
    assert!(
        (1_150..1_350).contains(&counted),
        "seed {seed}: about one in 16 of 20,000 keys is sampled, not {counted}"
    );
    let mean = units(&clock).unwrap_or(0);
    assert!((4_000..6_000).contains(&mean), "seed {seed}: the mean is about 5,000 us, not {mean}");
}

#[test]
fn a_prefix_with_few_times_has_the_cost_of_its_class() {
    let mut clock = all_keys();
    let mut pass = |prefix, time| {
        clock.note_miss(prefix, 0);
        clock.note_store(prefix, CLASS, prefix, time * MILLI);
        clock.cost_of(CLASS, prefix).map(|cost| cost.units())
    };
    for _ in 0..92 {
        pass(1, 1);
    }
    for times in 1..TIMES_MIN as u32 {
        let mixed = Cost::from_units((92 + times * 101) * 1_000 / (92 + times)).units();
        let found = pass(2, 101).unwrap_or(0);
        assert!(
            found.abs_diff(mixed) <= mixed / 1_000,
            "the class has the mean {mixed}, not {found}"
        );
    }
    let own = Cost::from_units(101_000).units();
    assert_eq!(pass(2, 101), Some(own));
    assert_eq!(pass(1, 1), Some(1_000));
    // A prefix without times has the mean of its class.
    let mean = (93 + 8 * 101) * 1_000 / 101;
    assert_eq!(clock.cost_of(CLASS, 9), Some(Cost::from_units(mean)));
}

#[test]
fn old_times_decay_and_one_very_long_time_changes_the_mean_little() {
    let options = MissClockOptions { rate: 1.0, times_smoothed: 16, ..Default::default() };
    let mut clock = MissClock::new(options);
    let mut pass = |time| {
        clock.note_miss(1, 0);
        clock.note_store(1, CLASS, PREFIX, time * MILLI);
        clock.cost_of(CLASS, PREFIX).map_or(0, |cost| cost.units())
    };
    for _ in 0..100 {
        pass(2);
    }
    assert_eq!(pass(2), 2_000);
    assert_eq!(pass(18), 3_000);
    let after = (0..100).map(|_| pass(50)).last();
    assert!(
        after.is_some_and(|units| (49_500..=50_000).contains(&units)),
        "the mean is about 50,000 us: {after:?}"
    );
}

#[test]
fn memory_is_bounded_and_the_oldest_misses_are_forgotten_first() {
    let options =
        MissClockOptions { rate: 1.0, waiting_max: 100, prefixes_max: 10, ..Default::default() };
    let mut clock = MissClock::new(options);
    for hash in 0..10_000 {
        clock.note_miss(hash, hash);
        // Every third key is stored. The misses of the other keys have no store.
        if hash % 3 == 0 {
            clock.note_store(hash, CLASS, hash, hash + MILLI);
        }
    }
    // The last key was stored, so its miss does not wait.
    assert_eq!(clock.waiting(), 99);
    assert!(clock.size_bytes() < 32 << 10, "{} bytes", clock.size_bytes());
    assert_eq!(clock.note_store(9_998, CLASS, 0, 10 * MILLI), Some(9_990));
    assert_eq!(clock.note_store(1, CLASS, 0, 10 * MILLI), None);
}

#[test]
fn prefixes_that_occur_once_do_not_replace_repeated_prefixes() {
    let options = MissClockOptions { rate: 1.0, prefixes_max: 8, ..Default::default() };
    let mut clock = MissClock::new(options);
    let pass = |clock: &mut MissClock, prefix, time| {
        clock.note_miss(prefix, 0);
        clock.note_store(prefix, CLASS, prefix, time * MILLI);
    };
    let own =
        |clock: &MissClock, prefix| clock.cost_of_prefix(CLASS, prefix).map(|cost| cost.units());
    let cost = |units| Some(Cost::from_units(units).units());
    // Although prefixes that occur once fill the table, two repeated prefixes keep their means.
    for once in 1_000..2_000 {
        pass(&mut clock, once, 1);
        pass(&mut clock, 1, 50);
        if once % 3 == 0 {
            pass(&mut clock, 2, 70);
        }
    }
    assert_eq!((own(&clock, 1), own(&clock, 2)), (cost(50_000), cost(70_000)));
    assert_eq!((own(&clock, 1_999), clock.prefixes.len()), (None, 8));
    // New prefixes replace prefixes that are no longer used.
    for prefix in (3..11).cycle().take(200) {
        pass(&mut clock, prefix, 9);
    }
    assert_eq!((own(&clock, 1), own(&clock, 2)), (None, None));
    assert!((3..11).all(|prefix| own(&clock, prefix) == Some(9_000)));
    assert_eq!(clock.hand.len(), clock.prefixes.len());
}

#[test]
fn an_answered_miss_does_not_wait() {
    let mut clock = all_keys();
    clock.note_miss(1, 0);
    clock.note_creation(1);
    clock.note_creation(2);
    assert_eq!(clock.note_store(1, CLASS, PREFIX, 30_000 * MILLI), None);
    let counts = clock.counts();
    assert_eq!((counts.answered, counts.timed, clock.waiting()), (1, 0, 0));
    assert_eq!(clock.counts().since(&counts), MissClockCounts::default());
}

/// The calls are random. For even seeds all calls have the same time.
#[test]
fn every_miss_waits_or_is_counted_once() {
    for seed in 1..=20 {
        let mut random = Random::new(seed);
        let options = MissClockOptions {
            rate: 0.5,
            waiting_max: 16,
            prefixes_max: 4,
            wait_us_max: 3_000,
            ..Default::default()
        };
        let mut clock = MissClock::new(options);
        let is_clock_stopped = seed % 2 == 0;
        let mut at_nanos = 0;
        for step in 0..5_000 {
            at_nanos += if is_clock_stopped { 0 } else { random.below(MILLI) };
            let key = random.below(40);
            let hash = slabwise_base::random::mix(key);
            match random.below(8) {
                0..4 => clock.note_miss(hash, at_nanos),
                4..7 => drop(clock.note_store(hash, CLASS, key % 10, at_nanos)),
                _ => clock.note_creation(hash),
            }
            let MissClockCounts { timed, late, forgotten, answered } = clock.counts();
            let ended = timed + late + forgotten + answered;
            assert_eq!(
                clock.misses_noted,
                ended + clock.waiting() as u64,
                "seed {seed}, step {step}: each miss waits or has one outcome"
            );
            assert!(
                clock.waiting() <= 16 && clock.order.len() <= 32,
                "seed {seed}, step {step}: misses are bounded"
            );
            assert!(
                clock.prefixes.len() <= 4 && clock.hand.len() <= 4,
                "seed {seed}, step {step}: prefixes are bounded"
            );
        }
    }
}
