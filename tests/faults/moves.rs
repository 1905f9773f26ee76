//! Page moves while clients hold items on the pages.

use std::time::Duration;

use super::fixture::Fixture;
use crate::support::moves::{
    MoveReply, class_of, request_page_move, stalled_reader, start_blocked_move,
};
use crate::support::{is_memcached, under_test, wait_until};

const DEADLINE: Duration = Duration::from_secs(30);
const LARGE_LEN: usize = 900_000;
/// Disables automatic page moves.
const BY_COMMAND_ONLY: [&str; 2] = ["-o", "no_slab_automove"];

/// Returns a value whose bytes depend on their position.
fn value(len: usize) -> Vec<u8> {
    (0..len).map(|index| b'a' + (index / 7 % 23) as u8).collect()
}

/// slabwise gives up a move that waits for a client; memcached waits without a limit.
#[test]
fn a_move_blocked_by_a_stalled_reader_is_given_up() {
    let fixture = Fixture::start(64, &BY_COMMAND_ONLY);
    if fixture.is_memcached() {
        return println!("memcached never gives up a move");
    }
    let mut client = fixture.server.connect();
    assert_eq!(client.set("large", &value(LARGE_LEN)), "STORED");
    let class = class_of(&mut client, "large");
    let pages_name = format!("{class}:total_pages");
    let pages = client.stat_of("stats slabs", &pages_name);
    let reader = stalled_reader(&fixture.server, "large");
    start_blocked_move(&mut client, class);
    wait_until("the move is given up", DEADLINE, || client.stat_of("stats moves", "given_up") >= 1);

    assert_eq!(client.stat_of("stats slabs", &pages_name), pages, "the page stays in its class");
    assert_eq!(client.get("large"), Some(value(LARGE_LEN)));
    assert_eq!(client.set("another", &value(LARGE_LEN)), "STORED");
    assert_eq!(client.get("another"), Some(value(LARGE_LEN)));
    fixture.serves_others();
    drop(reader);
    wait_until("pages of the class move again", DEADLINE, || {
        request_page_move(&mut client, class);
        client.stat("slabs_moved") > 0
    });
    assert_eq!(client.get("large"), Some(value(LARGE_LEN)));
    fixture.recovers();
}

#[test]
fn a_thousand_concurrent_move_requests() {
    const CLIENTS: usize = 4;
    const REQUESTS: usize = 250;
    const ITEMS: usize = 5_000;
    const LEN: usize = 2_000;
    let fixture = Fixture::start(64, &BY_COMMAND_ONLY);
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
                other => panic!("a move request got the unexpected reply {other:?}"),
            }
        }
    }
    assert!(started > 0, "no move was started");
    // Each accepted move runs exactly once.
    wait_until("the last move ends", DEADLINE, || client.stat("slab_reassign_running") == 0);
    assert_eq!(client.stat("slabs_moved"), started);
    for number in 0..ITEMS {
        let found = client.get(&format!("key{number}"));
        // memcached drops an item if its class has no free chunk, even when memory is free.
        let lost = found.is_none() && fixture.is_memcached();
        assert!(lost || found == Some(value(LEN)), "key{number} is lost or has another value");
    }
    fixture.recovers();
}

#[test]
fn sigterm_in_the_middle_of_a_move() {
    if is_memcached(&under_test()) {
        return println!("memcached has no such option");
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
            "{mover}: the server exits cleanly and at once"
        );
    }
}

/// SIGTERM during a series of page moves that no client blocks.
#[test]
fn sigterm_during_a_series_of_moves() {
    const LEN: usize = 2_000;
    let mut fixture = Fixture::start(64, &BY_COMMAND_ONLY);
    let mut client = fixture.server.connect();
    for number in 0..2_000 {
        assert_eq!(client.set(&format!("key{number}"), &value(LEN)), "STORED");
    }
    let class = class_of(&mut client, "key0");
    wait_until("pages move", DEADLINE, || {
        request_page_move(&mut client, class);
        client.stat("slabs_moved") > 0
    });
    wait_until("a move starts", DEADLINE, || {
        request_page_move(&mut client, class) == MoveReply::Started
    });
    fixture.server.terminate();
    assert_eq!(fixture.server.wait_for_end(), Some(0), "the server exits cleanly on SIGTERM");
}
