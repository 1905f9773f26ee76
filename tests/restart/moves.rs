//! A graceful stop in the middle of a page move, and after some: every item is there again.

use std::time::Duration;

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::moves::{ask_for_page, begin_move_that_is_held, class_of, stopped_reader};
use crate::support::{Client, wait_until};

const DEADLINE: Duration = Duration::from_secs(30);
const FLAGS: [&str; 4] = ["-m", "64", "-o", "no_slab_automove"];
const ITEMS: usize = 3_000;
/// Sent from where they lie, and so held while they are sent; some lie on one page.
const HELD_LEN: usize = 17_000;
const HELD_ITEMS: usize = 5;
/// Chained.
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

fn all_are_there(client: &mut Client) {
    for (key, len) in items() {
        assert!(client.get(&key) == Some(value(&key, len)), "{key} is lost, or another");
    }
}

/// Moves pages of a class until so many have arrived.
fn move_pages(client: &mut Client, class: u64, count: u64) {
    let before = client.stat("slabs_moved");
    wait_until("pages move", DEADLINE, || {
        ask_for_page(client, class);
        client.stat("slabs_moved") >= before + count
    });
}

#[test]
fn in_the_middle_of_a_move() {
    for held in ["held0", "large"] {
        let file = MemoryFile::new();
        let server = file.start(&FLAGS);
        let mut client = server.connect();
        store_all(&mut client);
        let class = class_of(&mut client, held);
        let _reader = stopped_reader(&server, held);
        begin_move_that_is_held(&mut client, class);
        stop_gracefully(server);

        let server = file.start(&FLAGS);
        let mut client = server.connect();
        all_are_there(&mut client);
        // Nobody holds the page any more, and no move is left half done.
        assert_eq!(client.stat("slab_reassign_running"), 0);
        move_pages(&mut client, class, 1);
        all_are_there(&mut client);
    }
}

#[test]
fn after_moves() {
    let file = MemoryFile::new();
    let server = file.start(&FLAGS);
    let mut client = server.connect();
    store_all(&mut client);
    for key in ["key1000", "key2900", "held0", "large"] {
        let class = class_of(&mut client, key);
        move_pages(&mut client, class, 2);
    }
    all_are_there(&mut client);
    stop_gracefully(server);

    let server = file.start(&FLAGS);
    let mut client = server.connect();
    all_are_there(&mut client);
    assert!(file.log().contains("3006 items are back"), "{}", file.log());
}
