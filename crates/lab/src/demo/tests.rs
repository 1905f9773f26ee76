//! Tests of the view of the demo.

use super::view::{Sample, Side, View};

/// Returns a side with these classes (chunk size and bytes of pages) and samples (totals of gets and of misses).
fn side(classes: &[(u64, u64)], samples: &[(u64, u64)]) -> Side {
    let mut side = Side::default();
    for &(gets, misses) in samples {
        side.record(&Sample { classes: classes.to_vec(), gets, misses });
    }
    side
}

#[test]
fn the_view_groups_classes_by_chunk_size_and_shows_their_share_of_the_memory() {
    let ours = side(&[(96, 1 << 20), (128, 1 << 20), (600, 2 << 20), (700, 0)], &[(100, 10)]);
    let memcached = side(&[(96, 3 << 20), (1 << 19, 1 << 20)], &[(100, 40)]);
    let view = View { requests: 100, ours, memcached };
    let text = view.text();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(
        lines[1],
        "128 B  ########          50 % in 2 classes    ############      75 % in 1 class"
    );
    assert_eq!(lines[2], "1 KiB  ########          50 % in 1 class");
    assert!(
        lines[3].starts_with("512 KiB") && lines[3].ends_with("####              25 % in 1 class"),
        "{text}"
    );
    assert_eq!(
        lines[4].split_whitespace().collect::<Vec<_>>(),
        ["pages", "4.0", "MiB", "4.0", "MiB"]
    );
    assert!(lines[5].starts_with("miss ratio  0.1000") && lines[5].ends_with("0.4000"), "{text}");
    assert!(view.summary().contains("missed 75.0 % less often than"), "{}", view.summary());
}

#[test]
fn the_summary_compares_the_miss_ratios_even_if_a_side_has_no_misses() {
    let summary = |ours, memcached| {
        let (ours, memcached) = (side(&[], &[(100, ours)]), side(&[], &[(100, memcached)]));
        View { requests: 100, ours, memcached }.summary()
    };
    assert!(summary(0, 0).contains("missed as often as"), "{}", summary(0, 0));
    assert!(summary(3, 0).contains("missed 0.0300 of all gets, more than"), "{}", summary(3, 0));
    assert!(summary(30, 20).contains("missed 50.0 % more often than"), "{}", summary(30, 20));
    assert!(summary(0, 20).contains("missed 100.0 % less often than"), "{}", summary(0, 20));
}

#[test]
fn the_recent_miss_ratio_counts_the_last_ten_samples() {
    let samples: Vec<(u64, u64)> = (1..=20).map(|at| (at * 100, at.min(10) * 50)).collect();
    let ours = side(&[], &samples);
    assert_eq!((ours.miss_ratio(), ours.recent_miss_ratio()), (0.25, 0.0));
    assert_eq!(side(&[], &samples[..10]).recent_miss_ratio(), 0.5);
    let line = View { requests: 9, ours, memcached: Side::default() }.line();
    assert!(line.contains("slabwise 0.0000 with 0 classes, memcached 0.0000 with 0"), "{line}");
}
