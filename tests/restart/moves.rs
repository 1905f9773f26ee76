//! A graceful stop during and after page moves keeps every item.

use std::time::Duration;

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::moves::{class_of, request_page_move, stalled_reader, start_blocked_move};
use crate::support::{Client, wait_until};

const DEADLINE: Duration = Duration::from_secs(30);
const FLAGS: [&str; 4] = ["-m", "64", "-o", "no_slab_automove"];
const ITEMS: usize = 3_000;
/// Values of this length are sent directly from item memory, which pins them; some share a page.
const HELD_LEN: usize = 17_000;
const HELD_ITEMS: usize = 5;
/// A chained item.
const LARGE_LEN: usize = 900_000;

fn value(key: &str, len: usize) -> Vec<u8> {
    key.bytes().cycle().take(len).collect()
}

fn items() -> impl Iterator<Item = (String, usize)> {
    let small = (0..ITEMS).map(|number| (format!("key{number}"), number));
    let held = (0..HELD_ITEMS).map(|number| (format!("held{number}"), HELD_LEN));
    small.chain(held).chain([("large".to_owned(), LARGE_LEN)])
}

fn store_all(client: &mut Client) {
    for (key, len) in items() {
        assert_eq!(client.set(&key, &value(&key, len)), "STORED");
    }
}

fn assert_all_present(client: &mut Client) {
    for (key, len) in items() {
        assert!(client.get(&key) == Some(value(&key, len)), "{key} is lost or has another value");
    }
}

/// Moves pages of a class until this many have arrived.
fn move_pages(client: &mut Client, class: u64, count: u64) {
    let before = client.stat("slabs_moved");
    wait_until("pages move", DEADLINE, || {
        request_page_move(client, class);
        client.stat("slabs_moved") >= before + count
    });
}

#[test]
fn a_graceful_stop_during_a_move_keeps_every_item() {
    for held in ["held0", "large"] {
        let file = MemoryFile::new();
        let server = file.start(&FLAGS);
        let mut client = server.connect();
        store_all(&mut client);
        let class = class_of(&mut client, held);
        let _reader = stalled_reader(&server, held);
        start_blocked_move(&mut client, class);
        stop_gracefully(server);

        let server = file.start(&FLAGS);
        let mut client = server.connect();
        assert_all_present(&mut client);
        // No reader pins the page any more, and no move is half done.
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
    for key in ["key1000", "key2900", "held0", "large"] {
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
