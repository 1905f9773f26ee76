//! Large values that clients announce but do not send. The server must allocate memory, and evict other
//! items, only for bytes that arrived.

use std::time::Duration;

use super::fixture::Fixture;
use crate::support::{Client, wait_until};

const CLIENTS: usize = 20;
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn unsent_bytes_of_a_large_value_use_no_memory() {
    let fixture = Fixture::start(1024, &["-I", "512m"]);
    let uploads = PartialUploads::start(&fixture, 500 << 20);
    fixture.serves_others();
    let resident = fixture.server.resident_bytes();
    assert!(resident < 64 << 20, "{resident} bytes are resident for the few that arrived");
    let mut client = fixture.server.connect();
    assert_eq!(client.stat("evictions"), 0);
    // Each client may use one chunk for its key and one for the bytes that arrived; the probe uses one.
    let used = client.used_chunks();
    assert!(used <= 2 * CLIENTS as u64 + 1, "{used} chunks are used");
    drop(uploads);
    assert_eq!(client.ask("delete probe"), "DELETED");
    wait_until("all memory is released", DEADLINE, || client.used_chunks() == 0);
    fixture.recovers();
}

/// When memory is full, items are evicted only for bytes that arrived.
#[test]
fn full_memory_evicts_only_for_received_bytes() {
    const ITEM_LEN: usize = 10_000;
    const ITEMS: usize = 14_000;
    const SENT_LEN: usize = 40 << 20;
    // Each client may use one chunk for its key and one of the largest class for the bytes that arrived.
    const EVICTED_MAX: usize = CLIENTS * (1 + (1 << 20) / ITEM_LEN);
    let fixture = Fixture::start(128, &["-I", "64m"]);
    if fixture.is_memcached() {
        return println!("memcached refuses large values when all pages belong to other classes");
    }
    let mut client = fixture.server.connect();
    for index in 0..ITEMS {
        assert_eq!(client.set(&format!("key{index}"), &[b'v'; ITEM_LEN]), "STORED");
    }
    let evictions = client.stat("evictions");
    assert!(evictions > 0, "memory is not full");
    let resident = fixture.server.resident_bytes();

    let mut uploads = PartialUploads::start(&fixture, 60 << 20);
    let evicted = client.stat("evictions") - evictions;
    assert!(
        evicted <= EVICTED_MAX as u64,
        "{evicted} items were evicted for bytes that were not sent"
    );
    assert!(
        fixture.server.resident_bytes() < resident + (8 << 20),
        "bytes that were not sent are resident"
    );

    let evictions = client.stat("evictions");
    uploads.send(SENT_LEN);
    let evicted = client.stat("evictions") - evictions;
    assert!(
        evicted > (SENT_LEN / ITEM_LEN / 2) as u64,
        "only {evicted} were evicted for the bytes sent"
    );
    assert!(
        fixture.server.resident_bytes() < resident + (8 << 20),
        "resident memory exceeds the limit"
    );
    drop(uploads);
    wait_until("all memory is released", DEADLINE, || {
        client.used_chunks() == client.stat("curr_items")
    });
    fixture.recovers();
}

/// Clients that each announced a value and sent little or nothing of it.
struct PartialUploads {
    clients: Vec<Client>,
    watcher: Client,
}

impl PartialUploads {
    /// Starts the uploads. Returns when the server has read everything that the clients sent.
    fn start(fixture: &Fixture, value_len: usize) -> PartialUploads {
        let mut watcher = fixture.server.connect();
        let read_before = watcher.stat("bytes_read");
        let mut sent = 0;
        let mut announce = |index: usize| {
            let mut client = fixture.server.connect();
            let mut request = format!("set large{index} 0 0 {value_len}\r\n").into_bytes();
            // Every second client also sends the first 1000 bytes.
            request.extend_from_slice(&[b'v'; 1000][..index % 2 * 1000]);
            client.send(&request);
            sent += request.len() as u64;
            client
        };
        let clients = (0..CLIENTS).map(&mut announce).collect();
        let mut uploads = PartialUploads { clients, watcher };
        uploads.wait_read(read_before + sent);
        uploads
    }

    /// Sends this many bytes of the first client's value.
    fn send(&mut self, len: usize) {
        let read_before = self.watcher.stat("bytes_read");
        self.clients[0].send(&vec![b'v'; len]);
        self.wait_read(read_before + len as u64);
    }

    fn wait_read(&mut self, bytes: u64) {
        wait_until("the server has read all bytes", DEADLINE, || {
            self.watcher.stat("bytes_read") >= bytes
        });
    }
}
