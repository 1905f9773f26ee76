//! No memory left to give: every item is held by somebody.

use std::time::Duration;

use super::scene::Scene;
use crate::support::{Client, wait_until};

/// Large enough to fill memory with few connections, small enough that memcached takes one chunk
/// for it at once: it takes the chunks of larger values only as they arrive.
const LARGE_LEN: usize = 400_000;
/// More items of that length than 64 MiB hold.
const ITEMS: usize = 200;
/// More copies of such a value than the sockets between two processes buffer.
const COPIES: usize = 50;
const DEADLINE: Duration = Duration::from_secs(60);
const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory storing object";

#[test]
fn every_item_is_being_read() {
    let scene = Scene::start(64, &[]);
    let value = vec![b'v'; LARGE_LEN];
    let mut client = scene.server.connect();
    for index in 0..ITEMS {
        assert_eq!(client.set(&format!("key{index}"), &value), "STORED");
    }
    let mut readers: Vec<Client> = (0..ITEMS)
        .map(|index| format!("key{index}"))
        .filter(|key| client.get(key).is_some())
        .map(|key| stuck_reader(&scene, &key))
        .collect();
    assert!(readers.len() > 10, "only {} items were kept", readers.len());
    let mut attempts = 0;
    // Between two copies nobody holds an item, so one may be evicted while its reader still gets on. What
    // takes its place gets a reader of its own: in the end every item has one that is stuck.
    wait_until("a store is refused", DEADLINE, || {
        attempts += 1;
        let key = format!("new{attempts}");
        let is_refused = refused(&client.set(&key, &value));
        if !is_refused {
            readers.push(stuck_reader(&scene, &key));
        }
        is_refused
    });
    scene.serves_others();
    drop(readers);
    accepts_again(&mut client, &value);
    scene.recovers();
}

#[test]
fn every_byte_is_being_written() {
    let scene = Scene::start(64, &[]);
    let value = vec![b'v'; LARGE_LEN];
    let write_all_but_the_end = |index: usize| {
        let mut writer = scene.server.connect();
        writer.send(format!("set key{index} 0 0 {LARGE_LEN}\r\n").as_bytes());
        writer.send(&value[1..]);
        writer
    };
    let mut writers: Vec<Client> = (0..ITEMS).map(write_all_but_the_end).collect();
    let mut client = scene.server.connect();
    // An upload that finds no memory on the way is refused and gives back what it had: others fill it.
    wait_until("a store is refused", DEADLINE, || {
        writers.push(write_all_but_the_end(writers.len()));
        refused(&client.set("new", &value))
    });
    scene.serves_others();
    drop(writers);
    accepts_again(&mut client, &value);
    scene.recovers();
}

#[test]
fn evictions_are_off() {
    let scene = Scene::start(64, &["-M"]);
    let mut client = scene.server.connect();
    let value = vec![b'v'; 10_000];
    let mut stored = Vec::new();
    loop {
        let key = format!("key{}", stored.len());
        let reply = client.set(&key, &value);
        if refused(&reply) {
            break;
        }
        assert_eq!(reply, "STORED");
        stored.push(key);
        assert!(stored.len() < 10_000, "100 MB were stored in 64");
    }
    for key in &stored {
        assert!(client.get(key).is_some_and(|found| found == value), "{key} was lost");
    }
    assert_eq!(client.ask(&format!("delete {}", stored[0])), "DELETED");
    assert_eq!(client.set("again", &value), "STORED");
    scene.recovers();
}

/// Asks for more copies of a value than anybody buffers and reads no further than the first: it stops in
/// the middle of a value, which the server must keep until it is sent.
fn stuck_reader(scene: &Scene, key: &str) -> Client {
    let mut reader = scene.server.connect();
    reader.send(format!("get {key}\r\n").repeat(COPIES).as_bytes());
    let _ = reader.read_line();
    reader
}

fn refused(reply: &str) -> bool {
    assert!(reply == "STORED" || reply == OUT_OF_MEMORY, "a store was answered {reply:?}");
    reply == OUT_OF_MEMORY
}

fn accepts_again(client: &mut Client, value: &[u8]) {
    wait_until("a store is accepted again", DEADLINE, || !refused(&client.set("again", value)));
    assert!(client.get("again").is_some_and(|found| found == value));
}
