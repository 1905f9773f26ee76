//! Graceful stops during and after page moves. The next server must have every item.

use std::time::Duration;

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::moves::{class_of, request_page_move, stalled_reader, start_blocked_move};
use crate::support::{Client, wait_until};

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(30);
/// The options of the servers: pages move only by command.
const FLAGS: [&str; 4] = ["-m", "64", "-o", "no_slab_automove"];
/// The number of small items. Item number n has a value of n bytes.
const ITEMS: usize = 3_000;
/// The length of a medium value, in bytes. The server sends such a value directly from item memory and pins it
/// meanwhile.
const MEDIUM_LEN: usize = 17_000;
/// The number of medium items, of which several are on one page.
const MEDIUM_ITEMS: usize = 5;
/// The length of the large value, in bytes. It is stored as a chained item.
const LARGE_LEN: usize = 900_000;

/// Returns the value of a key.
fn value(key: &str, len: usize) -> Vec<u8> {
    key.bytes().cycle().take(len).collect()
}

/// Returns all keys, with the lengths of their values.
fn items() -> impl Iterator<Item = (String, usize)> {
    let small = (0..ITEMS).map(|number| (format!("key{number}"), number));
    let medium = (0..MEDIUM_ITEMS).map(|number| (format!("medium{number}"), MEDIUM_LEN));
    small.chain(medium).chain([("large".to_owned(), LARGE_LEN)])
}

fn store_all(client: &mut Client) {
    for (key, len) in items() {
        assert_eq!(client.set(&key, &value(&key, len)), "STORED");
    }
}

fn assert_all_present(client: &mut Client) {
    for (key, len) in items() {
        assert!(client.get(&key) == Some(value(&key, len)), "{key} keeps its value");
    }
}

/// Requests page moves from a class until `count` pages have moved.
fn move_pages(client: &mut Client, class: u64, count: u64) {
    let before = client.stat("slabs_moved");
    wait_until("the requested pages move", DEADLINE, || {
        request_page_move(client, class);
        client.stat("slabs_moved") >= before + count
    });
}

#[test]
fn a_graceful_stop_during_a_move_keeps_every_item() {
    for pinned in ["medium0", "large"] {
        let file = MemoryFile::new();
        let server = file.start(&FLAGS);
        let mut client = server.connect();
        store_all(&mut client);
        let class = class_of(&mut client, pinned);
        let _reader = stalled_reader(&server, pinned);
        start_blocked_move(&mut client, class);
        stop_gracefully(server);

        let server = file.start(&FLAGS);
        let mut client = server.connect();
        assert_all_present(&mut client);
        // The next server has no pins and does not continue the move. Pages of the class can move again.
        assert_eq!(client.stat("slab_reassign_running"), 0);
        move_pages(&mut client, class, 1);
        assert_all_present(&mut client);
    }
}

#[test]
fn a_graceful_stop_after_moves_keeps_every_item() {
    let file = MemoryFile::new();
    let server = file.start(&FLAGS);
    let mut client = server.connect();
    store_all(&mut client);
    for key in ["key1000", "key2900", "medium0", "large"] {
        let class = class_of(&mut client, key);
        move_pages(&mut client, class, 2);
    }
    assert_all_present(&mut client);
    stop_gracefully(server);

    let server = file.start(&FLAGS);
    let mut client = server.connect();
    assert_all_present(&mut client);
    assert!(file.log().contains("restored 3006 items"), "{}", file.log());
}
