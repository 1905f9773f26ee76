//! No memory left to give: every item is held by somebody.

use std::time::Duration;

use crate::scene::Scene;
use crate::support::{Client, wait_until};

/// Large enough to fill memory with few connections, small enough that memcached takes one chunk
/// for it at once: it takes the chunks of larger values only as they arrive.
const LARGE_LEN: usize = 400_000;
/// More items of that length than 64 MiB hold.
const ITEMS: usize = 200;
/// More copies of such a value than the sockets between two processes buffer.
const COPIES: usize = 50;
const DEADLINE: Duration = Duration::from_secs(20);
const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory storing object";

#[test]
fn every_item_is_being_read() {
    let scene = Scene::start(64, &[]);
    let value = vec![b'v'; LARGE_LEN];
    let mut client = scene.server.connect();
    for index in 0..ITEMS {
        assert_eq!(client.set(&format!("key{index}"), &value), "STORED");
    }
    // Each reader stops in the middle of a value, which the server must keep until it is sent.
    let readers: Vec<Client> = (0..ITEMS)
        .filter(|index| client.get(&format!("key{index}")).is_some())
        .map(|index| {
            let mut reader = scene.server.connect();
            reader.send(format!("get key{index}\r\n").repeat(COPIES).as_bytes());
            reader
        })
        .collect();
    assert!(readers.len() > 10, "only {} items were kept", readers.len());
    let mut attempts = 0;
    wait_until("a store is refused", DEADLINE, || {
        attempts += 1;
        refused(&client.set(&format!("new{attempts}"), &value))
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

/// Memory is taken for the bytes that came, not for those that were announced.
#[test]
fn half_a_gigabyte_announced() {
    let scene = Scene::start(1024, &["-I", "512m"]);
    let announced = Announced::by_clients(&scene, 20, 500 << 20);
    scene.serves_others();
    let resident = scene.server.resident_bytes();
    assert!(resident < 64 << 20, "{resident} bytes are resident for a few that came");
    let mut client = scene.server.connect();
    assert_eq!(client.stat("evictions"), 0);
    drop(announced);
    assert_eq!(client.ask("delete witness"), "DELETED");
    wait_until("all is given back", DEADLINE, || client.used_chunks() == 0);
    scene.recovers();
}

/// Where memory is full, bytes that came are what others are evicted for.
#[test]
fn announced_where_memory_is_full() {
    const ITEM_LEN: usize = 10_000;
    const ITEMS: usize = 14_000;
    const SENT_LEN: usize = 40 << 20;
    let scene = Scene::start(128, &["-I", "64m"]);
    if scene.is_memcached() {
        return println!("memcached refuses large values when all pages belong to others");
    }
    let mut client = scene.server.connect();
    for index in 0..ITEMS {
        assert_eq!(client.set(&format!("key{index}"), &[b'v'; ITEM_LEN]), "STORED");
    }
    let evictions = client.stat("evictions");
    assert!(evictions > 0, "memory is not full");
    let resident = scene.server.resident_bytes();

    let mut announced = Announced::by_clients(&scene, 20, 60 << 20);
    // Each may take one chunk for its key, and one of the largest for the bytes that came.
    const EVICTED_MAX: u64 = 20 * (1 + (1 << 20) / ITEM_LEN as u64);
    let evicted = client.stat("evictions") - evictions;
    assert!(evicted <= EVICTED_MAX, "{evicted} items were evicted for announcements");
    assert!(scene.server.resident_bytes() < resident + (8 << 20), "announcements are resident");

    let evictions = client.stat("evictions");
    announced.send(SENT_LEN);
    let evicted = client.stat("evictions") - evictions;
    assert!(evicted > (SENT_LEN / ITEM_LEN / 2) as u64, "only {evicted} were evicted for bytes");
    assert!(scene.server.resident_bytes() < resident + (8 << 20), "beyond the limit");
    drop(announced);
    wait_until("all is given back", DEADLINE, || client.used_chunks() == client.stat("curr_items"));
    scene.recovers();
}

/// Clients that announced a value each, of which little or nothing came.
struct Announced {
    clients: Vec<Client>,
    watcher: Client,
}

impl Announced {
    /// Returns once the server has read everything that these clients sent.
    fn by_clients(scene: &Scene, count: usize, value_len: usize) -> Announced {
        let mut watcher = scene.server.connect();
        let read_before = watcher.stat("bytes_read");
        let mut sent = 0;
        let mut announce = |index: usize| {
            let mut client = scene.server.connect();
            let mut request = format!("set large{index} 0 0 {value_len}\r\n").into_bytes();
            // Every other one sends a beginning, too.
            request.extend_from_slice(&[b'v'; 1000][..index % 2 * 1000]);
            client.send(&request);
            sent += request.len() as u64;
            client
        };
        let clients = (0..count).map(&mut announce).collect();
        let mut announced = Announced { clients, watcher };
        announced.wait_read(read_before + sent);
        announced
    }

    /// The first sends so many bytes of its value.
    fn send(&mut self, len: usize) {
        let read_before = self.watcher.stat("bytes_read");
        self.clients[0].send(&vec![b'v'; len]);
        self.wait_read(read_before + len as u64);
    }

    fn wait_read(&mut self, bytes: u64) {
        wait_until("all is read", DEADLINE, || self.watcher.stat("bytes_read") >= bytes);
    }
}

fn refused(reply: &str) -> bool {
    assert!(reply == "STORED" || reply == OUT_OF_MEMORY, "a store was answered {reply:?}");
    reply == OUT_OF_MEMORY
}

fn accepts_again(client: &mut Client, value: &[u8]) {
    wait_until("a store is accepted again", DEADLINE, || !refused(&client.set("again", value)));
    assert!(client.get("again").is_some_and(|found| found == value));
}
