//! Large values that clients announce but do not send completely. The server must allocate memory, and evict other
//! items, only for bytes that have arrived.

use std::time::Duration;

use super::fixture::Fixture;
use crate::support::{Client, wait_until};

/// The number of clients that each announce a value.
const CLIENTS: usize = 20;
/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn unsent_bytes_of_a_large_value_use_no_memory() {
    let fixture = Fixture::start(1024, &["-I", "512m"]);
    let uploads = PartialUploads::start(&fixture, 500 << 20);
    fixture.check_others_are_served();
    let resident = fixture.server.resident_bytes();
    assert!(
        resident < 64 << 20,
        "values that were not sent use no memory, but {resident} bytes are resident"
    );
    let mut client = fixture.server.connect();
    assert_eq!(client.stat("evictions"), 0);
    // Each upload may use a chunk for its key, and a chunk for the bytes that arrived. The item `probe`, which
    // `check_others_are_served` stores, uses one chunk.
    let used = client.used_chunks();
    assert!(
        used <= 2 * CLIENTS as u64 + 1,
        "at most two chunks per upload are used, not {used} in total"
    );
    drop(uploads);
    assert_eq!(client.ask("delete probe"), "DELETED");
    wait_until("the server frees all chunks", DEADLINE, || client.used_chunks() == 0);
    fixture.check_recovery();
}

#[test]
fn if_memory_is_full_items_are_evicted_only_for_bytes_that_arrived() {
    const ITEM_LEN: usize = 10_000;
    const ITEMS: usize = 14_000;
    const SENT_LEN: usize = 40 << 20;
    // Each upload may use a chunk for its key, which evicts one item, and a chunk of the largest class, 1 MiB, for the
    // bytes that arrived.
    const EVICTED_MAX: usize = CLIENTS * (1 + (1 << 20) / ITEM_LEN);
    let fixture = Fixture::start(128, &["-I", "64m"]);
    if fixture.is_memcached() {
        return println!(
            "skipped: memcached refuses a large value if all pages belong to other classes"
        );
    }
    let mut client = fixture.server.connect();
    for index in 0..ITEMS {
        assert_eq!(client.set(&format!("key{index}"), &[b'v'; ITEM_LEN]), "STORED");
    }
    let evictions = client.stat("evictions");
    assert!(
        evictions > 0,
        "{ITEMS} items of {ITEM_LEN} bytes exceed 128 MiB, so the server evicts some"
    );
    let resident = fixture.server.resident_bytes();

    let uploads = PartialUploads::start(&fixture, 60 << 20);
    let evicted = client.stat("evictions") - evictions;
    assert!(
        evicted <= EVICTED_MAX as u64,
        "at most {EVICTED_MAX} items are evicted before the values arrive, not {evicted}"
    );
    assert!(
        fixture.server.resident_bytes() < resident + (8 << 20),
        "values that were not sent use no resident memory"
    );
    drop(uploads);
    // The next upload must be the only one, because the server refuses a silent upload while others wait.
    wait_until("the server ends the uploads", DEADLINE, || client.stat("curr_connections") == 1);

    let evictions = client.stat("evictions");
    let mut upload = PartialUploads::start_some(&fixture, 1, 60 << 20);
    upload.send(SENT_LEN);
    let evicted = client.stat("evictions") - evictions;
    assert!(
        evicted > (SENT_LEN / ITEM_LEN / 2) as u64,
        "for {SENT_LEN} received bytes the server evicts items of at least half that size, not {evicted} items"
    );
    assert!(
        fixture.server.resident_bytes() < resident + (8 << 20),
        "resident memory does not grow, because the received bytes replace evicted items"
    );
    drop(upload);
    wait_until("the server frees the chunks of the upload", DEADLINE, || {
        client.used_chunks() == client.stat("curr_items")
    });
    fixture.check_recovery();
}

/// Clients that have each announced a value, and have sent 0 or 1000 bytes of it.
struct PartialUploads {
    clients: Vec<Client>,
    /// The client that reads the server's statistics.
    observer: Client,
}

impl PartialUploads {
    /// Starts [`CLIENTS`] uploads. Returns when the server has read all bytes that the clients sent.
    fn start(fixture: &Fixture, value_len: usize) -> PartialUploads {
        PartialUploads::start_some(fixture, CLIENTS, value_len)
    }

    /// Starts `count` uploads. Returns when the server has read all bytes that the clients sent.
    fn start_some(fixture: &Fixture, count: usize, value_len: usize) -> PartialUploads {
        let mut observer = fixture.server.connect();
        let read_before = observer.stat("bytes_read");
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
        let clients = (0..count).map(&mut announce).collect();
        let mut uploads = PartialUploads { clients, observer };
        uploads.wait_read(read_before + sent);
        uploads
    }

    /// Sends `len` bytes of the first client's value, and waits until the server has read them.
    fn send(&mut self, len: usize) {
        let read_before = self.observer.stat("bytes_read");
        self.clients[0].send(&vec![b'v'; len]);
        self.wait_read(read_before + len as u64);
    }

    /// Waits until the server has read this number of bytes since its start.
    fn wait_read(&mut self, bytes: u64) {
        wait_until("the server has read all bytes", DEADLINE, || {
            self.observer.stat("bytes_read") >= bytes
        });
    }
}
