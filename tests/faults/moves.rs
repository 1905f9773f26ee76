//! Page moves while clients read items on the moved pages.

use std::time::Duration;

use super::fixture::Fixture;
use crate::support::moves::{
    MoveReply, class_of, request_page_move, stalled_reader, start_blocked_move,
};
use crate::support::{is_memcached, under_test, wait_until};

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(30);
/// The length of a large value, in bytes.
const LARGE_LEN: usize = 900_000;
/// The option that disables automatic page moves, so that only the test's commands move pages.
const NO_AUTOMATIC_MOVES: [&str; 2] = ["-o", "no_slab_automove"];

/// Returns a value whose bytes depend on their position.
fn value(len: usize) -> Vec<u8> {
    (0..len).map(|index| b'a' + (index / 7 % 23) as u8).collect()
}

/// slabwise gives up a page move that a client blocks. memcached waits for the client without a limit.
#[test]
fn a_move_blocked_by_a_stalled_reader_is_given_up() {
    let fixture = Fixture::start(64, &NO_AUTOMATIC_MOVES);
    if fixture.is_memcached() {
        return println!("skipped: memcached never gives up a page move");
    }
    let mut client = fixture.server.connect();
    assert_eq!(client.set("large", &value(LARGE_LEN)), "STORED");
    let class = class_of(&mut client, "large");
    let pages_name = format!("{class}:total_pages");
    let pages = client.stat_of("stats slabs", &pages_name);
    let reader = stalled_reader(&fixture.server, "large");
    start_blocked_move(&mut client, class);
    wait_until("the server gives up the page move", DEADLINE, || {
        client.stat_of("stats moves", "given_up") >= 1
    });

    assert_eq!(client.stat_of("stats slabs", &pages_name), pages, "the class keeps the page");
    assert_eq!(client.get("large"), Some(value(LARGE_LEN)));
    assert_eq!(client.set("another", &value(LARGE_LEN)), "STORED");
    assert_eq!(client.get("another"), Some(value(LARGE_LEN)));
    fixture.check_others_are_served();
    drop(reader);
    wait_until("a page of the class moves after the reader has disconnected", DEADLINE, || {
        request_page_move(&mut client, class);
        client.stat("slabs_moved") > 0
    });
    assert_eq!(client.get("large"), Some(value(LARGE_LEN)));
    fixture.check_recovery();
}

#[test]
fn each_accepted_move_request_moves_exactly_one_page() {
    const CLIENTS: usize = 4;
    const REQUESTS: usize = 250;
    const ITEMS: usize = 5_000;
    const LEN: usize = 2_000;
    let fixture = Fixture::start(64, &NO_AUTOMATIC_MOVES);
    let mut client = fixture.server.connect();
    for number in 0..ITEMS {
        assert_eq!(client.set(&format!("key{number}"), &value(LEN)), "STORED");
    }
    let class = class_of(&mut client, "key0");
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| fixture.server.connect()).collect();
    let requests = format!("slabs reassign {class} 0\r\n").repeat(REQUESTS);
    clients.iter_mut().for_each(|client| client.send(requests.as_bytes()));
    let mut started = 0;
    for client in &mut clients {
        for _ in 0..REQUESTS {
            match client.read_line().as_str() {
                "OK" => started += 1,
                "BUSY currently processing reassign request" => {}
                other => panic!("the reply to a move request is OK or BUSY, not {other:?}"),
            }
        }
    }
    assert!(started > 0, "the server starts at least one move");
    wait_until("the last page move ends", DEADLINE, || client.stat("slab_reassign_running") == 0);
    assert_eq!(client.stat("slabs_moved"), started);
    for number in 0..ITEMS {
        let found = client.get(&format!("key{number}"));
        // memcached drops an item of a moving page if the item's class has no free chunk, even if memory is free.
        let may_be_lost = found.is_none() && fixture.is_memcached();
        assert!(may_be_lost || found == Some(value(LEN)), "key{number} keeps its value");
    }
    fixture.check_recovery();
}

#[test]
fn a_server_exits_on_sigterm_while_a_move_is_blocked() {
    if is_memcached(&under_test()) {
        return println!("skipped: memcached has no option page_mover");
    }
    for mover in ["warm", "stock", "base", "fast"] {
        let mut fixture =
            Fixture::start(64, &["-o", &format!("no_slab_automove,page_mover={mover}")]);
        let mut client = fixture.server.connect();
        assert_eq!(client.set("large", &value(LARGE_LEN)), "STORED");
        let class = class_of(&mut client, "large");
        let _reader = stalled_reader(&fixture.server, "large");
        start_blocked_move(&mut client, class);
        fixture.server.terminate();
        assert_eq!(
            fixture.server.wait_for_end(),
            Some(0),
            "with page_mover={mover} the server exits with code 0 on SIGTERM"
        );
    }
}

#[test]
fn a_server_exits_on_sigterm_while_pages_move() {
    const LEN: usize = 2_000;
    let mut fixture = Fixture::start(64, &NO_AUTOMATIC_MOVES);
    let mut client = fixture.server.connect();
    for number in 0..2_000 {
        assert_eq!(client.set(&format!("key{number}"), &value(LEN)), "STORED");
    }
    let class = class_of(&mut client, "key0");
    wait_until("a first page moves", DEADLINE, || {
        request_page_move(&mut client, class);
        client.stat("slabs_moved") > 0
    });
    wait_until("another page move starts", DEADLINE, || {
        request_page_move(&mut client, class) == MoveReply::Started
    });
    fixture.server.terminate();
    assert_eq!(fixture.server.wait_for_end(), Some(0), "the server exits with code 0 on SIGTERM");
}
