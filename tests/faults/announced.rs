//! Large values that are announced and do not come: memory is taken, and others are evicted, for the
//! bytes that came, not for those that were announced.

use std::time::Duration;

use super::scene::Scene;
use crate::support::{Client, wait_until};

const CLIENTS: usize = 20;
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn half_a_gigabyte_announced() {
    let scene = Scene::start(1024, &["-I", "512m"]);
    let announced = Announced::by_clients(&scene, 500 << 20);
    scene.serves_others();
    let resident = scene.server.resident_bytes();
    assert!(resident < 64 << 20, "{resident} bytes are resident for a few that came");
    let mut client = scene.server.connect();
    assert_eq!(client.stat("evictions"), 0);
    // One for the key and one for the bytes that came, and the witness.
    let used = client.used_chunks();
    assert!(used <= 2 * CLIENTS as u64 + 1, "{used} chunks are taken");
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
    // Each may take one chunk for its key, and one of the largest for the bytes that came.
    const EVICTED_MAX: usize = CLIENTS * (1 + (1 << 20) / ITEM_LEN);
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

    let mut announced = Announced::by_clients(&scene, 60 << 20);
    let evicted = client.stat("evictions") - evictions;
    assert!(evicted <= EVICTED_MAX as u64, "{evicted} items were evicted for announcements");
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
    /// Returns once the server has read everything that they sent.
    fn by_clients(scene: &Scene, value_len: usize) -> Announced {
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
        let clients = (0..CLIENTS).map(&mut announce).collect();
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
