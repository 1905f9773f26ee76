//! No evictable memory: connections hold every item.

use std::time::Duration;

use super::fixture::Fixture;
use crate::support::{Client, wait_until};

/// Large enough that few connections fill memory. Small enough that memcached allocates the whole chunk
/// at once; it allocates larger values as their bytes arrive.
const LARGE_LEN: usize = 400_000;
/// More items of that length than fit in 64 MiB.
const ITEMS: usize = 200;
/// More copies of a value than the sockets between two processes can buffer.
const COPIES: usize = 50;
const DEADLINE: Duration = Duration::from_secs(60);
const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory storing object";

#[test]
fn every_item_is_being_read() {
    let fixture = Fixture::start(64, &[]);
    let value = vec![b'v'; LARGE_LEN];
    let mut client = fixture.server.connect();
    for index in 0..ITEMS {
        assert_eq!(client.set(&format!("key{index}"), &value), "STORED");
    }
    let mut readers: Vec<Client> = (0..ITEMS)
        .map(|index| format!("key{index}"))
        .filter(|key| client.get(key).is_some())
        .map(|key| blocked_reader(&fixture, &key))
        .collect();
    assert!(readers.len() > 10, "only {} items were kept", readers.len());
    let mut attempts = 0;
    // A reader holds no item between two copies, so its item may be evicted while the reader still advances.
    // Each new item gets a reader of its own, so in the end every item has a blocked reader.
    wait_until("a store is refused", DEADLINE, || {
        attempts += 1;
        let key = format!("new{attempts}");
        let is_refused = refused(&client.set(&key, &value));
        if !is_refused {
            readers.push(blocked_reader(&fixture, &key));
        }
        is_refused
    });
    fixture.serves_others();
    drop(readers);
    accepts_again(&mut client, &value);
    fixture.recovers();
}

#[test]
fn every_byte_is_being_written() {
    let fixture = Fixture::start(64, &[]);
    let value = vec![b'v'; LARGE_LEN];
    let write_all_but_the_end = |index: usize| {
        let mut writer = fixture.server.connect();
        writer.send(format!("set key{index} 0 0 {LARGE_LEN}\r\n").as_bytes());
        writer.send(&value[1..]);
        writer
    };
    let mut writers: Vec<Client> = (0..ITEMS).map(write_all_but_the_end).collect();
    let mut client = fixture.server.connect();
    // An upload that runs out of memory is refused and frees its chunks, which other uploads then use.
    wait_until("a store is refused", DEADLINE, || {
        writers.push(write_all_but_the_end(writers.len()));
        refused(&client.set("new", &value))
    });
    fixture.serves_others();
    drop(writers);
    accepts_again(&mut client, &value);
    fixture.recovers();
}

#[test]
fn evictions_are_off() {
    let fixture = Fixture::start(64, &["-M"]);
    let mut client = fixture.server.connect();
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
    fixture.recovers();
}

/// Requests more copies of a value than the sockets buffer and reads only the first header. The server then
/// blocks in the middle of a value and must keep the value until it is sent.
fn blocked_reader(fixture: &Fixture, key: &str) -> Client {
    let mut reader = fixture.server.connect();
    reader.send(format!("get {key}\r\n").repeat(COPIES).as_bytes());
    let _ = reader.read_line();
    reader
}

fn refused(reply: &str) -> bool {
    assert!(
        reply == "STORED" || reply == OUT_OF_MEMORY,
        "a store got the unexpected reply {reply:?}"
    );
    reply == OUT_OF_MEMORY
}

fn accepts_again(client: &mut Client, value: &[u8]) {
    wait_until("a store is accepted again", DEADLINE, || !refused(&client.set("again", value)));
    assert!(client.get("again").is_some_and(|found| found == value));
}
