//! Predictions for memcached, from both sources of item sizes, and for slabwise: each must match the measured pages.

use super::advice::Advice;
use super::items::{mixed_value_lens, pages, store};
use crate::support::{Server, is_memcached, stock_memcached, under_test};
use std::process::{Command, Stdio};

const ITEM_COUNT: usize = 60_000;

/// Starts memcached with these options and without automatic page moves; `None` if it is not installed.
fn memcached(options: &[&str]) -> Option<Server> {
    let version = Command::new("memcached").arg("-V").stdout(Stdio::null()).status();
    if version.is_err() {
        eprintln!("skipped: memcached is not installed (apt-get install memcached)");
        return None;
    }
    let command = stock_memcached().with(&["-m", "256", "-o", "slab_automove=0"]);
    Some(Server::start(&command.with(options)))
}

fn advice_of(server: &Server, options: &[&str]) -> Advice {
    let address = server.address().to_string();
    Advice::of(&[&["--from-server", &address], options].concat())
}

#[test]
fn memcached_uses_the_predicted_number_of_pages() {
    let Some(before) = memcached(&[]) else { return };
    store(&before, mixed_value_lens(ITEM_COUNT));
    let advice = advice_of(&before, &[]);
    assert!(advice.text().contains("metadump"), "{}", advice.text());
    let (now, then) = advice.total("pages of 1,048,576 bytes");
    assert_eq!(pages(&mut before.connect()), now);
    let after = memcached(&["-o", advice.option()]).expect("memcached is installed");
    store(&after, mixed_value_lens(ITEM_COUNT));
    assert_eq!(pages(&mut after.connect()), then, "{}", advice.text());
    assert!(then < now, "{}", advice.text());
}

#[test]
fn advice_from_stats_sizes_predicts_pages_within_two() {
    let Some(before) = memcached(&["-o", "track_sizes"]) else { return };
    store(&before, mixed_value_lens(ITEM_COUNT));
    let advice = advice_of(&before, &[]);
    assert!(advice.text().contains("`stats sizes`"), "{}", advice.text());
    let (now, then) = advice.total("pages of 1,048,576 bytes");
    assert_eq!(
        pages(&mut before.connect()),
        now,
        "the size bins are fine enough to determine the class of every item"
    );
    let after = memcached(&["-o", advice.option()]).expect("memcached is installed");
    store(&after, mixed_value_lens(ITEM_COUNT));
    let pages = pages(&mut after.connect());
    // Sizes within one bin of 32 bytes are not distinguished.
    assert!(pages < now && pages.abs_diff(then) <= 2, "{pages} pages: {}", advice.text());
}

#[test]
fn a_sample_estimates_pages_within_two() {
    let Some(server) = memcached(&[]) else { return };
    store(&server, mixed_value_lens(ITEM_COUNT));
    let sampled = advice_of(&server, &["--items-max", "6000"]);
    assert!(sampled.text().contains("a sample of 6000 items"), "{}", sampled.text());
    let (now, _) = sampled.total("pages of 1,048,576 bytes");
    assert!(now.abs_diff(pages(&mut server.connect())) <= 2, "{}", sampled.text());
}

#[test]
fn memcached_builds_the_class_table_from_every_advised_list() {
    // Items of 104 to 240 bytes in steps of 8, so each step deserves a class of its own.
    let sizes: Vec<u64> = (13..=30).map(|step| step * 8).collect();
    let lines: String = sizes.iter().map(|size| format!("{size} 1000000\n")).collect();
    let file = tempfile::NamedTempFile::new().expect("a file for the test");
    std::fs::write(file.path(), lines).expect("a file can be written");
    let path = file.path().to_str().expect("the path is UTF-8");
    for count in ["1", "2", "17", "18", "62", "63"] {
        let advice = Advice::of(&["--from-histogram", path, "--classes", count]);
        let Some(server) = memcached(&["-o", advice.option()]) else { return };
        // The item header and CAS value use 56 bytes. The key, its NUL and the CR LF of the value use 13.
        store(&server, sizes.iter().map(|&size| size as usize - 69));
        let made = server.connect().class_numbers("chunk_size");
        let table = advice.listed().into_iter().map(|number| number.next_multiple_of(8));
        let table: Vec<u64> = table.collect();
        let class_of = |size: &u64| table[table.partition_point(|chunk| chunk < size)];
        let mut used: Vec<u64> = sizes.iter().map(class_of).collect();
        used.dedup();
        assert_eq!(made, used, "--classes {count}: {}", advice.option());
    }
}

#[test]
fn slabwise_uses_the_predicted_number_of_pages() {
    let start = |options: &[&str]| {
        let command = under_test().with(&["-m", "256", "-o", "page_policy=none"]);
        Server::start(&command.with(options))
    };
    if is_memcached(&under_test()) {
        return;
    }
    let before = start(&[]);
    store(&before, mixed_value_lens(ITEM_COUNT));
    let advice = advice_of(&before, &[]);
    let (now, then) = advice.total("pages of");
    assert_eq!(pages(&mut before.connect()), now);
    let after = start(&["-o", advice.option()]);
    store(&after, mixed_value_lens(ITEM_COUNT));
    assert_eq!(pages(&mut after.connect()), then, "{}", advice.text());
    let line = advice.text().lines().find_map(|line| line.strip_prefix("while it runs: "));
    let order = line.expect("slabwise can change its table");
    assert_eq!(before.connect().ask(order), "OK");
}
