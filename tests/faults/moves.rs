//! Pages that are asked to move while clients are in their way.

use std::time::Duration;

use super::scene::Scene;
use crate::support::moves::{
    Asked, ask_for_page, begin_move_that_is_held, class_of, stopped_reader,
};
use crate::support::{is_memcached, under_test, wait_until};

const DEADLINE: Duration = Duration::from_secs(30);
const LARGE_LEN: usize = 900_000;
/// Nobody but the test asks for moves.
const BY_COMMAND_ONLY: [&str; 2] = ["-o", "no_slab_automove"];

/// A value of which every part can be told from every other.
fn value(len: usize) -> Vec<u8> {
    (0..len).map(|index| b'a' + (index / 7 % 23) as u8).collect()
}

/// A move that waits for a client gives up; memcached's waits for ever.
#[test]
fn a_reader_that_stopped_in_the_middle_of_a_large_value() {
    let scene = Scene::start(64, &BY_COMMAND_ONLY);
    if scene.is_memcached() {
        return println!("memcached gives no move up");
    }
    let mut client = scene.server.connect();
    assert_eq!(client.set("large", &value(LARGE_LEN)), "STORED");
    let class = class_of(&mut client, "large");
    let pages_name = format!("{class}:total_pages");
    let pages = client.stat_of("stats slabs", &pages_name);
    let reader = stopped_reader(&scene.server, "large");
    begin_move_that_is_held(&mut client, class);
    wait_until("the move is given up", DEADLINE, || client.stat_of("stats moves", "given_up") >= 1);

    assert_eq!(client.stat_of("stats slabs", &pages_name), pages, "the page is handed back");
    assert_eq!(client.get("large"), Some(value(LARGE_LEN)));
    assert_eq!(client.set("another", &value(LARGE_LEN)), "STORED");
    assert_eq!(client.get("another"), Some(value(LARGE_LEN)));
    scene.serves_others();
    drop(reader);
    wait_until("pages of the class move again", DEADLINE, || {
        ask_for_page(&mut client, class);
        client.stat("slabs_moved") > 0
    });
    assert_eq!(client.get("large"), Some(value(LARGE_LEN)));
    scene.recovers();
}

#[test]
fn a_thousand_moves_asked_for_at_once() {
    const CLIENTS: usize = 4;
    const WISHES: usize = 250;
    const ITEMS: usize = 5_000;
    const LEN: usize = 2_000;
    let scene = Scene::start(64, &BY_COMMAND_ONLY);
    let mut client = scene.server.connect();
    for number in 0..ITEMS {
        assert_eq!(client.set(&format!("key{number}"), &value(LEN)), "STORED");
    }
    let class = class_of(&mut client, "key0");
    let mut askers: Vec<_> = (0..CLIENTS).map(|_| scene.server.connect()).collect();
    let wishes = format!("slabs reassign {class} 0\r\n").repeat(WISHES);
    askers.iter_mut().for_each(|asker| asker.send(wishes.as_bytes()));
    let mut begun = 0;
    for asker in &mut askers {
        for _ in 0..WISHES {
            match asker.read_line().as_str() {
                "OK" => begun += 1,
                "BUSY currently processing reassign request" => {}
                other => panic!("a wish was answered {other:?}"),
            }
        }
    }
    assert!(begun > 0, "not even the first was begun");
    // What was accepted is carried out, once each, and nothing else.
    wait_until("the last move ends", DEADLINE, || client.stat("slab_reassign_running") == 0);
    assert_eq!(client.stat("slabs_moved"), begun);
    for number in 0..ITEMS {
        let found = client.get(&format!("key{number}"));
        // memcached drops what finds no free chunk, though there is memory.
        let lost = found.is_none() && scene.is_memcached();
        assert!(lost || found == Some(value(LEN)), "key{number} is lost, or another");
    }
    scene.recovers();
}

#[test]
fn sigterm_in_the_middle_of_a_move() {
    if is_memcached(&under_test()) {
        return println!("memcached has no such option");
    }
    for mover in ["warm", "stock", "base", "fast"] {
        let mut scene = Scene::start(64, &["-o", &format!("no_slab_automove,page_mover={mover}")]);
        let mut client = scene.server.connect();
        assert_eq!(client.set("large", &value(LARGE_LEN)), "STORED");
        let class = class_of(&mut client, "large");
        let _reader = stopped_reader(&scene.server, "large");
        begin_move_that_is_held(&mut client, class);
        scene.server.terminate();
        assert_eq!(scene.server.wait_for_end(), Some(0), "{mover}: a clean end, without delay");
    }
}

/// The same with one move after the other, none of which anybody holds.
#[test]
fn sigterm_while_page_after_page_moves() {
    const LEN: usize = 2_000;
    let mut scene = Scene::start(64, &BY_COMMAND_ONLY);
    let mut client = scene.server.connect();
    for number in 0..2_000 {
        assert_eq!(client.set(&format!("key{number}"), &value(LEN)), "STORED");
    }
    let class = class_of(&mut client, "key0");
    wait_until("pages move", DEADLINE, || {
        ask_for_page(&mut client, class);
        client.stat("slabs_moved") > 0
    });
    wait_until("a move begins", DEADLINE, || ask_for_page(&mut client, class) == Asked::Begun);
    scene.server.terminate();
    assert_eq!(scene.server.wait_for_end(), Some(0), "SIGTERM ends the server cleanly");
}
