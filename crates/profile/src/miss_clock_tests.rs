use super::{MissClock, MissClockCounts, MissClockOptions, TIMES_MIN};
use slabwise_base::{ClassId, Cost, Random};

const CLASS: ClassId = ClassId(3);
const PREFIX: u64 = 77;
const MILLI: u64 = 1_000_000;

/// Looks at every key, and forgets no time.
fn all_keys() -> MissClock {
    let options = MissClockOptions { rate: 1.0, times_smoothed: u64::MAX, ..Default::default() };
    MissClock::new(options)
}

fn units(clock: &MissClock) -> Option<u32> {
    clock.cost_of(CLASS, PREFIX).map(|cost| cost.units())
}

#[test]
fn a_cost_is_the_time_from_a_miss_to_its_store() {
    let mut clock = all_keys();
    clock.missed(1, 10 * MILLI);
    clock.missed(2, 11 * MILLI);
    assert_eq!(clock.stored(1, CLASS, PREFIX, 12 * MILLI), Some(2_000));
    assert_eq!(clock.stored(2, CLASS, PREFIX, 15 * MILLI), Some(4_000));
    assert_eq!(units(&clock), Some(3_000));
    assert_eq!(clock.cost_of(ClassId(4), PREFIX), None);
}

#[test]
fn a_warmers_store_says_nothing() {
    let mut clock = all_keys();
    for hash in 0..1_000 {
        assert_eq!(clock.stored(hash, CLASS, PREFIX, hash * MILLI), None);
    }
    assert_eq!(units(&clock), None);
    // Nor does it after a miss whose store came already.
    clock.missed(1, 2_000 * MILLI);
    assert_eq!(clock.stored(1, CLASS, PREFIX, 2_007 * MILLI), Some(7_000));
    assert_eq!(clock.stored(1, CLASS, PREFIX, 2_500 * MILLI), None);
    assert_eq!(units(&clock), Some(7_000));
}

#[test]
fn a_batch_counts_its_whole_time_for_each_of_its_keys() {
    let mut clock = all_keys();
    (0..10).for_each(|hash| clock.missed(hash, 0));
    // Each value took a millisecond, and all are stored when the last is ready.
    for hash in 0..10 {
        assert_eq!(clock.stored(hash, CLASS, PREFIX, 10 * MILLI), Some(10_000));
    }
    assert_eq!(units(&clock), Some(10_000));
}

#[test]
fn of_concurrent_misses_the_first_counts_and_the_first_store() {
    let mut clock = all_keys();
    clock.missed(1, 0);
    clock.missed(1, 4 * MILLI);
    assert_eq!(clock.stored(1, CLASS, PREFIX, 9 * MILLI), Some(9_000));
    assert_eq!(clock.stored(1, CLASS, PREFIX, 13 * MILLI), None);
    assert_eq!(units(&clock), Some(9_000));
}

#[test]
fn a_store_that_comes_too_late_is_another_s() {
    let options = MissClockOptions { rate: 1.0, wait_us_max: 1_000, ..Default::default() };
    let mut clock = MissClock::new(options);
    clock.missed(1, 0);
    assert_eq!(clock.stored(1, CLASS, PREFIX, MILLI + 1_000), None);
    assert_eq!((units(&clock), clock.waiting()), (None, 0));
    // A miss that found nobody at work any more is a first one.
    clock.missed(2, 0);
    clock.missed(2, 5 * MILLI);
    assert_eq!(clock.stored(2, CLASS, PREFIX, 6 * MILLI), Some(1_000));
}

#[test]
fn few_keys_are_looked_at_and_they_stand_for_all() {
    let seed = 1;
    let (mut clock, mut random) = (MissClock::new(MissClockOptions::default()), Random::new(seed));
    let mut counted = 0;
    for number in 0..20_000u64 {
        let (hash, start) = (random.next_u64(), number * 50 * MILLI);
        clock.missed(hash, start);
        let took = (1 + random.below(9)) * MILLI;
        counted += u64::from(clock.stored(hash, CLASS, PREFIX, start + took).is_some());
        assert_eq!(clock.waiting(), 0, "seed {seed}");
    }
    assert!((1_150..1_350).contains(&counted), "seed {seed}: {counted} of 20,000");
    let mean = units(&clock).unwrap_or(0);
    assert!((4_000..6_000).contains(&mean), "seed {seed}: {mean}");
}

#[test]
fn a_prefix_has_its_class_s_cost_until_it_has_its_own() {
    let mut clock = all_keys();
    let mut pass = |prefix, time| {
        clock.missed(prefix, 0);
        clock.stored(prefix, CLASS, prefix, time * MILLI);
        clock.cost_of(CLASS, prefix).map(|cost| cost.units())
    };
    for _ in 0..92 {
        pass(1, 1);
    }
    for times in 1..TIMES_MIN as u32 {
        let mixed = Cost::from_units((92 + times * 101) * 1_000 / (92 + times)).units();
        let found = pass(2, 101).unwrap_or(0);
        assert!(found.abs_diff(mixed) <= mixed / 1_000, "{found} and not {mixed}");
    }
    let own = Cost::from_units(101_000).units();
    assert_eq!(pass(2, 101), Some(own));
    assert_eq!(pass(1, 1), Some(1_000));
    // One that was never seen has the mean of all.
    let mean = (93 + 8 * 101) * 1_000 / 101;
    assert_eq!(clock.cost_of(CLASS, 9), Some(Cost::from_units(mean)));
}

#[test]
fn old_times_fade_and_one_outlier_changes_little() {
    let options = MissClockOptions { rate: 1.0, times_smoothed: 16, ..Default::default() };
    let mut clock = MissClock::new(options);
    let mut pass = |time| {
        clock.missed(1, 0);
        clock.stored(1, CLASS, PREFIX, time * MILLI);
        clock.cost_of(CLASS, PREFIX).map_or(0, |cost| cost.units())
    };
    for _ in 0..100 {
        pass(2);
    }
    assert_eq!(pass(2), 2_000);
    assert_eq!(pass(18), 3_000);
    let after = (0..100).map(|_| pass(50)).last();
    assert!(after.is_some_and(|units| (49_500..=50_000).contains(&units)), "{after:?}");
}

#[test]
fn memory_is_bounded_and_the_oldest_misses_go_first() {
    let options =
        MissClockOptions { rate: 1.0, waiting_max: 100, prefixes_max: 10, ..Default::default() };
    let mut clock = MissClock::new(options);
    for hash in 0..10_000 {
        clock.missed(hash, hash);
        // Some are stored, others wait for ever.
        if hash % 3 == 0 {
            clock.stored(hash, CLASS, hash, hash + MILLI);
        }
    }
    // The last one was stored.
    assert_eq!(clock.waiting(), 99);
    assert!(clock.size_bytes() < 32 << 10, "{} bytes", clock.size_bytes());
    assert_eq!(clock.stored(9_998, CLASS, 0, 10 * MILLI), Some(9_990));
    assert_eq!(clock.stored(1, CLASS, 0, 10 * MILLI), None);
}

#[test]
fn prefixes_that_come_once_take_no_room_from_those_that_come_again() {
    let options = MissClockOptions { rate: 1.0, prefixes_max: 8, ..Default::default() };
    let mut clock = MissClock::new(options);
    let pass = |clock: &mut MissClock, prefix, time| {
        clock.missed(prefix, 0);
        clock.stored(prefix, CLASS, prefix, time * MILLI);
    };
    let own =
        |clock: &MissClock, prefix| clock.cost_of_prefix(CLASS, prefix).map(|cost| cost.units());
    let cost = |units| Some(Cost::from_units(units).units());
    // Once full of what comes once, it still learns two that come in between.
    for once in 1_000..2_000 {
        pass(&mut clock, once, 1);
        pass(&mut clock, 1, 50);
        if once % 3 == 0 {
            pass(&mut clock, 2, 70);
        }
    }
    assert_eq!((own(&clock, 1), own(&clock, 2)), (cost(50_000), cost(70_000)));
    assert_eq!((own(&clock, 1_999), clock.prefixes.len()), (None, 8));
    // What is asked for no more makes room for what is.
    for prefix in (3..11).cycle().take(200) {
        pass(&mut clock, prefix, 9);
    }
    assert_eq!((own(&clock, 1), own(&clock, 2)), (None, None));
    assert!((3..11).all(|prefix| own(&clock, prefix) == Some(9_000)));
    assert_eq!(clock.hand.len(), clock.prefixes.len());
}

#[test]
fn what_tells_no_time_ends_a_wait() {
    let mut clock = all_keys();
    clock.missed(1, 0);
    clock.answered(1);
    clock.answered(2);
    assert_eq!(clock.stored(1, CLASS, PREFIX, 30_000 * MILLI), None);
    let counts = clock.counts();
    assert_eq!((counts.answered, counts.timed, clock.waiting()), (1, 0, 0));
    assert_eq!(clock.counts().since(&counts), MissClockCounts::default());
}

/// Whatever comes, and with a clock that stands.
#[test]
fn every_noted_miss_waits_or_is_counted_once_and_memory_is_bounded() {
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
        let stands = seed % 2 == 0;
        let mut at_nanos = 0;
        for step in 0..5_000 {
            at_nanos += if stands { 0 } else { random.below(MILLI) };
            let key = random.below(40);
            let hash = slabwise_base::random::mix(key);
            match random.below(8) {
                0..4 => clock.missed(hash, at_nanos),
                4..7 => drop(clock.stored(hash, CLASS, key % 10, at_nanos)),
                _ => clock.answered(hash),
            }
            let MissClockCounts { timed, late, forgotten, answered } = clock.counts();
            let ended = timed + late + forgotten + answered;
            assert_eq!(clock.noted, ended + clock.waiting() as u64, "seed {seed}, step {step}");
            assert!(clock.waiting() <= 16 && clock.order.len() <= 32, "seed {seed}, step {step}");
            assert!(clock.prefixes.len() <= 4 && clock.hand.len() <= 4, "seed {seed}, step {step}");
        }
    }
}
