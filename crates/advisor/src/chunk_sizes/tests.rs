//! Tests of the advice for given sizes.

use crate::chunk_sizes::advice::{Advice, Choice, advise};
use crate::chunk_sizes::cache::{Cache, Program};
use crate::chunk_sizes::report;
use crate::chunk_sizes::sizes_seen::{SizesSeen, Source};
use slabwise_base::Random;

fn memcached(item_size_max: usize) -> Cache {
    let largest = item_size_max.min(512 << 10);
    Cache::new(Program::Memcached, 1 << 20, largest, item_size_max, Some(48))
}

fn advice_for(bins: &[(usize, u64)], count: Option<usize>, cache: &Cache) -> Advice {
    advice_by(Choice::Exact { listed_count_max: count }, bins, cache)
}

fn advice_by(choice: Choice, bins: &[(usize, u64)], cache: &Cache) -> Advice {
    let mut seen = SizesSeen::default();
    for &(size, items) in bins {
        seen.add(size, items).expect("the sizes are below the limits");
    }
    let current = cache.geometric_table(1.25);
    let source = Source { text: "a test".to_owned(), version: None, seen, current };
    advise(source, cache, choice).unwrap_or_else(|error| panic!("{bins:?}: {error}"))
}

/// Returns the recommended chunk sizes that items use.
fn used(advice: &Advice) -> Vec<usize> {
    let rows = advice.recommended.classes.iter().filter(|row| row.chunks > 0);
    rows.map(|row| row.chunk_size).collect()
}

#[test]
fn two_sizes_have_two_classes_without_loss() {
    let bins = [(104, 1_000_000), (200, 500_000)];
    let advice = advice_for(&bins, None, &memcached(1 << 20));
    assert_eq!(used(&advice), [104, 200]);
    assert_eq!(advice.recommended.lost_in_chunks, 0);
    // In the current table, an item of 104 bytes needs a chunk of 120 bytes, and one of 200 bytes needs 240 bytes.
    assert_eq!(advice.current.lost_in_chunks, 16 * 1_000_000 + 40 * 500_000);
    assert_eq!(advice.saved_bytes, advice.current.lost as i64 - advice.recommended.lost as i64);
    assert!(advice.saved_pages > 0 && advice.is_improvement());
}

#[test]
fn few_items_need_few_classes() {
    let bins: Vec<(usize, u64)> = (60..400).map(|size| (size, 10)).collect();
    let few = advice_for(&bins, None, &memcached(1 << 20));
    let bins: Vec<(usize, u64)> = (60..400).map(|size| (size, 1_000_000)).collect();
    let many = advice_for(&bins, None, &memcached(1 << 20));
    assert_eq!(used(&few).len(), 1, "{}", few.slab_sizes);
    assert!(
        few.saved_bytes < 0 && few.saved_pages > 0 && few.is_improvement(),
        "fewer pages are an improvement, although more bytes are lost"
    );
    assert!(report::text(&few).contains("saved by fewer classes: pages: -"));
    assert!(used(&many).len() > 20, "{}", many.slab_sizes);
}

#[test]
fn spare_sizes_fill_the_gaps_of_the_table() {
    for bins in [vec![(104, 1_000_000)], vec![(70, 50_000), (5_000, 40_000), (400_000, 900)]] {
        let advice = advice_for(&bins, None, &memcached(1 << 20));
        let sizes: Vec<usize> =
            advice.recommended.classes.iter().map(|row| row.chunk_size).collect();
        let is_near = |pair: &[usize]| pair[1] as f64 <= pair[0] as f64 * 1.5;
        assert!(sizes[0] <= 84 && sizes.windows(2).all(is_near), "{}", advice.slab_sizes);
        assert_eq!(
            used(&advice).len(),
            bins.len(),
            "spare sizes have no items, so they need no pages"
        );
    }
    let bounded = advice_for(&[(104, 1_000_000)], Some(5), &memcached(1 << 20));
    assert_eq!(bounded.slab_sizes.split('-').count(), 5);
}

#[test]
fn the_table_has_the_requested_number_of_classes() {
    let bins: Vec<(usize, u64)> = (60..6000).map(|size| (size, 1000)).collect();
    for count in [1, 2, 20, 62, 63] {
        let advice = advice_for(&bins, Some(count), &memcached(1 << 20));
        let listed = advice.slab_sizes.split('-').count();
        assert_eq!(listed, count.min(62), "{}", advice.slab_sizes);
        assert_eq!(advice.recommended.classes.len(), listed + 1);
    }
    // A page of 1 MiB has 174 chunks of 6000 bytes, and also 174 chunks of 6024 bytes.
    assert_eq!(advice_for(&bins, Some(1), &memcached(1 << 20)).slab_sizes, "6024");
}

#[test]
fn the_largest_input_does_not_overflow() {
    use crate::chunk_sizes::sizes_seen::{BYTES_MAX, ITEMS_MAX};
    let cache = memcached(1 << 30);
    let most_bytes = (1 << 30, BYTES_MAX >> 30);
    for bins in [vec![(1, ITEMS_MAX)], vec![(1, ITEMS_MAX - 1), (524_000, 1)], vec![most_bytes]] {
        for count in [None, Some(1), Some(63)] {
            let advice = advice_for(&bins, count, &cache);
            assert!(advice.recommended.lost < u64::MAX >> 1 && !report::text(&advice).is_empty());
        }
    }
}

#[test]
fn items_larger_than_chunks_are_chained() {
    let advice = advice_for(&[(700_000, 100), (600_000, 100)], None, &memcached(1 << 20));
    assert!(advice.current.lost_by_chaining > 0);
    assert_eq!(advice.current.lost_by_chaining, advice.recommended.lost_by_chaining);
    assert!(advice.saved_bytes > 0);
}

#[test]
fn no_advice_loses_more_than_the_current_table() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let cache = memcached(1 << (14 + random.below(8)));
        let bins: Vec<(usize, u64)> = (0..1 + random.below(200))
            .map(|_| {
                let (magnitude, most) = (4 + random.below(9), 1 << random.below(20));
                let size = 57 + random.below(1 << magnitude) as usize;
                (size, 1 + random.below(most))
            })
            .collect();
        // The current table has at most 62 listed sizes, too, so the best table loses no more than the current one.
        // Sizes of the best table that differ by 8 may be omitted from the list, so the advice can lose up to 8 bytes
        // per item more than the best table.
        let advice = advice_for(&bins, Some(62), &cache);
        let slack = advice.items as i64 * 8;
        assert!(advice.saved_bytes >= -slack, "seed {seed}: {}", advice.saved_bytes);
        let rows: u64 = advice.recommended.classes.iter().map(|row| row.bytes_lost).sum();
        assert_eq!(rows, advice.recommended.lost_in_chunks, "seed {seed}");
        for memory in [&advice.current, &advice.recommended] {
            let page_bytes = memory.pages * advice.page_size as u64;
            assert_eq!(page_bytes, advice.bytes + memory.lost + memory.free, "seed {seed}");
        }
    }
}

#[test]
fn the_report_ends_with_the_option() {
    let advice = advice_for(&[(104, 1_000_000), (200, 500_000)], Some(2), &memcached(1 << 20));
    let text = report::text(&advice);
    assert_eq!(text.lines().last(), Some("-o slab_sizes=104-200"));
    assert!(text.contains("saved: ") && !text.contains("two sizes differ by 8"), "{text}");
    let near = advice_for(&[(104, 1_000_000), (112, 1_000_000)], Some(2), &memcached(1 << 20));
    assert_eq!(near.slab_sizes, "103-112");
    assert!(report::text(&near).contains("two sizes differ by 8"));
    let json: serde_json::Value =
        serde_json::to_value(&advice).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(json["slab_sizes"], "104-200");
    assert_eq!(json["items"], 1_500_000);
    assert_eq!(json["recommended"]["classes"][0]["chunk_size"], 104);
    let worse =
        advice_for(&[(96, 10_000), (120, 10_000), (152, 9_000)], Some(1), &memcached(1 << 20));
    assert!(report::text(&worse).contains("keep the current table"), "{}", report::text(&worse));
}

#[test]
fn hill_climbing_keeps_the_number_of_sizes_and_loses_less_than_the_current_table() {
    let bins: Vec<(usize, u64)> = (500..540).map(|size| (size, 10_000)).collect();
    let cache = memcached(1 << 20);
    let exact = advice_for(&bins, None, &cache);
    for seed in 1..=3 {
        let climbed = advice_by(Choice::HillClimb { seed }, &bins, &cache);
        let again = advice_by(Choice::HillClimb { seed }, &bins, &cache);
        assert_eq!(climbed, again, "seed {seed}: a climb depends only on its seed");
        let [current, recommended] =
            [&climbed.current, &climbed.recommended].map(|memory| memory.classes.len());
        assert_eq!(recommended, current, "seed {seed}: the number of sizes stays");
        let (before, after) = (climbed.current.lost, climbed.recommended.lost);
        assert!(after < before / 2, "seed {seed}: {after} bytes are lost, before {before}");
        assert!(after >= exact.recommended.lost, "seed {seed}: exact loses least");
    }
}
