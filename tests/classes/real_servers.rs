//! Predicted numbers of pages compared with the pages of real servers: of memcached, whose item sizes come from
//! `lru_crawler metadump` or `stats sizes`, and of slabwise.

use super::advice::{Advice, run};
use super::items::{mixed_value_lens, pages, store};
use crate::support::{Server, is_memcached, stock_memcached, under_test, wait_until};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The number of items that each test stores.
const ITEM_COUNT: usize = 60_000;

/// Starts memcached with these options and without automatic page moves. Prints a message and returns `None` if
/// memcached is not installed.
fn memcached(options: &[&str]) -> Option<Server> {
    let version = Command::new("memcached").arg("-V").stdout(Stdio::null()).status();
    if version.is_err() {
        eprintln!("skipped: memcached is not installed (apt-get install memcached)");
        return None;
    }
    let command = stock_memcached().with(&["-m", "256", "-o", "slab_automove=0"]);
    Some(Server::start(&command.with(options)))
}

/// Returns the advice for a running server.
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
    let (now, predicted) = advice.total("pages of 1,048,576 bytes");
    assert_eq!(pages(&mut before.connect()), now);
    let after = memcached(&["-o", advice.option()])
        .expect("memcached is installed, because the first server has started");
    store(&after, mixed_value_lens(ITEM_COUNT));
    assert_eq!(pages(&mut after.connect()), predicted, "{}", advice.text());
    assert!(predicted < now, "{}", advice.text());
}

#[test]
fn the_prediction_from_stats_sizes_differs_by_at_most_two_pages() {
    let Some(before) = memcached(&["-o", "track_sizes"]) else { return };
    store(&before, mixed_value_lens(ITEM_COUNT));
    let advice = advice_of(&before, &[]);
    assert!(advice.text().contains("`stats sizes`"), "{}", advice.text());
    let (now, predicted) = advice.total("pages of 1,048,576 bytes");
    assert_eq!(
        pages(&mut before.connect()),
        now,
        "bins of 32 bytes determine the class of each item in memcached's class table"
    );
    let after = memcached(&["-o", advice.option()])
        .expect("memcached is installed, because the first server has started");
    store(&after, mixed_value_lens(ITEM_COUNT));
    let pages = pages(&mut after.connect());
    // `stats sizes` has bins of 32 bytes, so the prediction for the advised classes can differ by two pages.
    assert!(pages < now && pages.abs_diff(predicted) <= 2, "{pages} pages: {}", advice.text());
}

#[test]
fn the_estimate_from_a_sample_of_items_differs_by_at_most_two_pages() {
    let Some(server) = memcached(&[]) else { return };
    store(&server, mixed_value_lens(ITEM_COUNT));
    let sampled = advice_of(&server, &["--items-max", "6000"]);
    assert!(sampled.text().contains("a sample of 6000 items"), "{}", sampled.text());
    let (now, _) = sampled.total("pages of 1,048,576 bytes");
    assert!(now.abs_diff(pages(&mut server.connect())) <= 2, "{}", sampled.text());
}

#[test]
fn memcached_builds_its_class_table_from_every_advised_list_of_sizes() {
    // The items have 104 to 240 bytes, in 18 steps of 8 bytes. With 18 or more classes each size has its own class.
    let sizes: Vec<u64> = (13..=30).map(|step| step * 8).collect();
    let lines: String = sizes.iter().map(|size| format!("{size} 1000000\n")).collect();
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be created");
    std::fs::write(file.path(), lines).expect("the temporary file is writable");
    let path = file.path().to_str().expect("the path of a temporary file is UTF-8");
    for count in ["1", "2", "17", "18", "62", "63"] {
        let advice = Advice::of(&["--from-histogram", path, "--classes", count]);
        let Some(server) = memcached(&["-o", advice.option()]) else { return };
        // In memcached the item header and the CAS value have 56 bytes. The key, its NUL and the CR LF of the value
        // have 13 bytes.
        store(&server, sizes.iter().map(|&size| size as usize - 69));
        let used_sizes = server.connect().class_numbers("chunk_size");
        let table = advice.sizes().into_iter().map(|number| number.next_multiple_of(8));
        let table: Vec<u64> = table.collect();
        let class_of = |size: &u64| table[table.partition_point(|chunk| chunk < size)];
        let mut expected: Vec<u64> = sizes.iter().map(class_of).collect();
        expected.dedup();
        assert_eq!(used_sizes, expected, "--classes {count}: {}", advice.option());
    }
}

#[test]
fn slabwise_uses_the_predicted_number_of_pages() {
    let start = |options: &[&str]| {
        let command = under_test().with(&["-m", "256", "-o", "page_policy=none"]);
        Server::start(&command.with(options))
    };
    if is_memcached(&under_test()) {
        return println!("skipped: the server under test is memcached, not slabwise");
    }
    let before = start(&[]);
    store(&before, mixed_value_lens(ITEM_COUNT));
    let advice = advice_of(&before, &[]);
    let (now, predicted) = advice.total("pages of");
    assert_eq!(pages(&mut before.connect()), now);
    let after = start(&["-o", advice.option()]);
    store(&after, mixed_value_lens(ITEM_COUNT));
    assert_eq!(pages(&mut after.connect()), predicted, "{}", advice.text());
    let line = advice.text().lines().find_map(|line| line.strip_prefix("while it runs: "));
    let command = line.expect("the report contains the command that changes the class table");
    assert_eq!(before.connect().ask(command), "OK");
}

#[test]
fn hill_climbing_starts_from_the_table_of_the_server_and_keeps_its_number_of_sizes() {
    let lines: String = (500..540).map(|size| format!("{size} 10000\n")).collect();
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be created");
    std::fs::write(file.path(), lines).expect("the temporary file is writable");
    let path = file.path().to_str().expect("the path of a temporary file is UTF-8");
    let of = |more: &[&str]| Advice::of(&[&["--from-histogram", path], more].concat());
    let exact = of(&[]).total("bytes lost in chunks");
    assert_eq!(of(&["--method", "exact"]).total("bytes lost in chunks"), exact);
    let climbed = of(&["--method", "hill-climb", "--seed", "3"]);
    let lost = climbed.total("bytes lost in chunks");
    assert_eq!(lost.0, exact.0, "both compare with the current table");
    assert!(exact.1 <= lost.1 && lost.1 < lost.0 / 2, "{}", climbed.text());
    // memcached has 39 sizes by default, and adds the largest itself.
    assert_eq!(climbed.sizes().len(), 38, "{}", climbed.text());
    let refused = run(&["--from-histogram", path, "--method", "hill-climb", "--classes", "9"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && errors.contains("leave out --classes"), "{errors}");
}

#[test]
fn a_server_that_learns_by_hill_climbing_reports_a_plan_with_as_many_sizes() {
    if is_memcached(&under_test()) {
        return;
    }
    let option = "classes=learned:method=hill-climb";
    let server = Server::start(&under_test().with(&["-m", "64", "-o", option]));
    store(&server, mixed_value_lens(ITEM_COUNT));
    let mut client = server.connect();
    let mut row = |name: &str| -> Option<String> {
        client.send(b"stats sizes_plan\r\n");
        let lines = std::iter::from_fn(|| Some(client.read_line()).filter(|line| line != "END"));
        let rows: Vec<String> = lines.collect();
        rows.iter().find_map(|row| Some(row.strip_prefix("STAT ")?.strip_prefix(name)?.to_owned()))
    };
    wait_until("the server evaluates the sizes", Duration::from_secs(30), || {
        row("evaluation:best").is_some()
    });
    let count = |list: Option<String>| list.map(|list| list.split('-').count());
    assert_eq!(count(row("evaluation:best")), count(row("current")));
}
