use super::{Side, Sight};

fn seen(classes: &[(u64, u64)], looks: &[(u64, u64)]) -> Side {
    let mut side = Side::default();
    for &(gets, misses) in looks {
        side.see(classes.iter().copied(), gets, misses);
    }
    side
}

#[test]
fn classes_are_shown_by_ranges_with_their_share_of_the_memory() {
    let ours = seen(&[(96, 1 << 20), (128, 1 << 20), (600, 2 << 20), (700, 0)], &[(100, 10)]);
    let rival = seen(&[(96, 3 << 20), (1 << 19, 1 << 20)], &[(100, 40)]);
    let sight = Sight { requests: 100, ours, rival };
    let text = sight.text();
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
    assert!(sight.summary().contains("missed 75.0 % less than"), "{}", sight.summary());
}

#[test]
fn a_summary_says_what_is_so_where_a_side_misses_nothing() {
    let summary = |ours, rival| {
        let (ours, rival) = (seen(&[], &[(100, ours)]), seen(&[], &[(100, rival)]));
        Sight { requests: 100, ours, rival }.summary()
    };
    assert!(summary(0, 0).contains("missed neither more nor less than"), "{}", summary(0, 0));
    assert!(summary(3, 0).contains("missed 0.0300 of the gets more than"), "{}", summary(3, 0));
    assert!(summary(30, 20).contains("missed 50.0 % more than"), "{}", summary(30, 20));
    assert!(summary(0, 20).contains("missed 100.0 % less than"), "{}", summary(0, 20));
}

#[test]
fn lately_is_since_ten_looks_ago() {
    let looks: Vec<(u64, u64)> = (1..=20).map(|look| (look * 100, look.min(10) * 50)).collect();
    let side = seen(&[], &looks);
    assert_eq!((side.miss_ratio(), side.miss_ratio_lately()), (0.25, 0.0));
    assert_eq!(seen(&[], &looks[..10]).miss_ratio_lately(), 0.5);
    let line = Sight { requests: 9, ours: side, rival: Side::default() }.line();
    assert!(line.contains("slabwise 0.0000 in 0 classes, memcached 0.0000 in 0"), "{line}");
}
