//! Memory that is full and cannot be freed: connections use every item, or evictions are disabled.

use std::time::Duration;

use super::fixture::Fixture;
use crate::support::{Client, wait_until};

/// The length of a value, in bytes. It is so large that few connections fill the memory, and so small that memcached
/// allocates the whole chunk at the start of the upload. memcached allocates larger values while their bytes arrive.
const LARGE_LEN: usize = 400_000;
/// The number of items: more than the items of `LARGE_LEN` bytes that fit into 64 MiB.
const ITEMS: usize = 200;
/// The number of copies of a value that a reader requests: more than the sockets can buffer.
const COPIES: usize = 50;
/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(60);
/// The reply to a store for which there is no memory.
const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory storing object";

#[test]
fn a_store_is_refused_while_readers_pin_every_item() {
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
    assert!(readers.len() > 10, "more than 10 items fit into 64 MiB, not {}", readers.len());
    let mut attempts = 0;
    // A reader pins no item between two copies of the value. So its item can be evicted while the reader still reads.
    // Each new item gets another reader, so in the end a blocked reader pins every item.
    wait_until("the server refuses a store, because every item is pinned", DEADLINE, || {
        attempts += 1;
        let key = format!("new{attempts}");
        let is_refused = is_refusal(&client.set(&key, &value));
        if !is_refused {
            readers.push(blocked_reader(&fixture, &key));
        }
        is_refused
    });
    fixture.check_others_are_served();
    drop(readers);
    wait_for_store(&mut client, &value);
    fixture.check_recovery();
}

#[test]
fn without_evictions_a_store_into_full_memory_is_refused() {
    let fixture = Fixture::start(64, &["-M"]);
    let mut client = fixture.server.connect();
    let value = vec![b'v'; 10_000];
    let mut stored = Vec::new();
    loop {
        let key = format!("key{}", stored.len());
        let reply = client.set(&key, &value);
        if is_refusal(&reply) {
            break;
        }
        assert_eq!(reply, "STORED");
        stored.push(key);
        assert!(stored.len() < 10_000, "a server with -m 64 stores less than 100 MB");
    }
    for key in &stored {
        assert!(
            client.get(key).is_some_and(|found| found == value),
            "{key} was stored and is not evicted"
        );
    }
    assert_eq!(client.ask(&format!("delete {}", stored[0])), "DELETED");
    assert_eq!(client.set("again", &value), "STORED");
    fixture.check_recovery();
}

/// Returns a client that requests more copies of a value than the sockets buffer, and reads only the first line. The
/// server can then send only a part of a value, and must keep the value until it is sent.
fn blocked_reader(fixture: &Fixture, key: &str) -> Client {
    let mut reader = fixture.server.connect();
    reader.send(format!("get {key}\r\n").repeat(COPIES).as_bytes());
    let _ = reader.read_line();
    reader
}

/// True if the reply to a store is the error "out of memory". Panics if it is another error.
fn is_refusal(reply: &str) -> bool {
    assert!(
        reply == "STORED" || reply == OUT_OF_MEMORY,
        "the reply to a store is STORED or out of memory, not {reply:?}"
    );
    reply == OUT_OF_MEMORY
}

/// Waits until the server stores the value.
fn wait_for_store(client: &mut Client, value: &[u8]) {
    wait_until("the server stores a value again", DEADLINE, || {
        !is_refusal(&client.set("again", value))
    });
    assert!(
        client.get("again").is_some_and(|found| found == value),
        "the stored value is returned"
    );
}
