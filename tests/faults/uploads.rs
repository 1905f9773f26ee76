//! Clients that send a part of a large value and then stop. All their uploads together may replace only a small part of
//! the items, and other clients must be served.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use super::fixture::Fixture;
use crate::support::{Client, Deadline, is_memcached, under_test, wait_until};

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(60);
/// The longest time of a store of 1 MB during the attack, also on a loaded machine.
const STORE_TIME_MAX: Duration = Duration::from_secs(20);
/// The number of keys in one get.
const KEYS_PER_GET: usize = 100;

/// Clients that each announce a value and send all but the last bytes of it.
pub struct StalledUploads {
    sockets: Vec<TcpStream>,
    senders: Vec<JoinHandle<()>>,
}

impl StalledUploads {
    /// Starts the uploads. The server may leave the bytes in the sockets, so each client has a thread that sends.
    pub fn start(
        fixture: &Fixture,
        clients: usize,
        value_len: usize,
        sent_len: usize,
    ) -> StalledUploads {
        let sockets: Vec<TcpStream> = (0..clients)
            .map(|_| fixture.server.connect().stream().try_clone().expect("a socket can be cloned"))
            .collect();
        let start = |(index, socket): (usize, &TcpStream)| {
            let mut socket = socket.try_clone().expect("a socket can be cloned");
            std::thread::spawn(move || {
                let mut request = format!("set large{index} 0 0 {value_len}\r\n").into_bytes();
                request.resize(request.len() + sent_len, b'v');
                // The test shuts the socket down at its end, while some clients may still be sending.
                let _ = socket.write_all(&request);
            })
        };
        let senders = sockets.iter().enumerate().map(start).collect();
        StalledUploads { sockets, senders }
    }

    /// Disconnects the clients.
    pub fn end(self) {
        self.sockets.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
        self.senders.into_iter().for_each(|sender| sender.join().expect("a sender does not panic"));
    }
}

/// Items whose values have all the same length, with keys `key0`, `key1` and so on.
pub struct SmallItems {
    pub count: usize,
    pub value_len: usize,
}

impl SmallItems {
    /// Returns the value of an item, which contains the item's index.
    fn value(&self, index: usize) -> String {
        format!("{index:0width$}", width = self.value_len)
    }

    pub fn store(&self, client: &mut Client) {
        let mut requests = Vec::new();
        for index in 0..self.count {
            write!(requests, "set key{index} 0 0 {} noreply\r\n", self.value_len)
                .expect("a write to a Vec cannot fail");
            requests.extend_from_slice(self.value(index).as_bytes());
            requests.extend_from_slice(b"\r\n");
        }
        client.send(&requests);
        assert_eq!(client.ask("get nothing"), "END");
    }

    /// Returns the number of items that the server has. Panics if one has another value.
    pub fn count(&self, client: &mut Client) -> usize {
        let mut found = 0;
        for first in (0..self.count).step_by(KEYS_PER_GET) {
            let last = self.count.min(first + KEYS_PER_GET);
            let keys: Vec<String> = (first..last).map(|index| format!("key{index}")).collect();
            client.send(format!("get {}\r\n", keys.join(" ")).as_bytes());
            loop {
                let line = client.read_line();
                if line == "END" {
                    break;
                }
                let key = line.split(' ').nth(1).expect("a hit has a key");
                let index: usize = key["key".len()..].parse().expect("a key ends with its index");
                let value = client.read_exact(self.value_len + 2);
                assert_eq!(value, format!("{}\r\n", self.value(index)).as_bytes(), "{key}");
                found += 1;
            }
        }
        found
    }
}

/// Stores the items, and lets 100 clients upload values of 1 MB, of which the last bytes are missing. Returns the number
/// of items before the attack, and the number three seconds after its start. Meanwhile other clients store values.
fn attack(memory_mib: u64, items: &SmallItems) -> [usize; 2] {
    let fixture = Fixture::start(memory_mib, &[]);
    let mut client = fixture.server.connect();
    items.store(&mut client);
    let before = items.count(&mut client);
    let uploads = StalledUploads::start(&fixture, 100, 1_000_000, 999_000);
    let attack = Deadline::after(Duration::from_secs(3));
    for round in 0..200 {
        assert_eq!(client.set(&format!("probe{round}"), b"value"), "STORED");
    }
    let store = Deadline::after(DEADLINE);
    let value = vec![b'h'; 1_000_000];
    // On an overloaded machine even this client may pause for 100 ms. It is then refused, and tries again.
    wait_until("a store of 1 MB succeeds", STORE_TIME_MAX, || {
        fixture.server.connect().set("honest", &value) == "STORED"
    });
    let taken = DEADLINE - store.left();
    wait_until("the attack has lasted for three seconds", DEADLINE, || attack.is_over());
    let after = items.count(&mut client);
    let waited = client.stat_of("stats memory", "upload_waits") > 0;
    assert_eq!(waited, memory_mib < 1024, "100 MB fit into the free memory of a large cache only");
    println!(
        "-m {memory_mib}: {before} items before, {after} after; a store of 1 MB took {taken:?}"
    );
    fixture.check_memory_is_bounded();
    uploads.end();
    fixture.check_recovery();
    [before, after]
}

#[test]
fn stalled_uploads_replace_no_items_while_memory_is_free() {
    if is_memcached(&under_test()) {
        return println!("skipped: memcached refuses the store of 1 MB during this attack");
    }
    let items = SmallItems { count: 400_000, value_len: 20 };
    for memory_mib in [64, 1024] {
        let [before, after] = attack(memory_mib, &items);
        assert_eq!(before, items.count, "memory is not full before the attack");
        // On a loaded machine one upload may exceed the budget, which takes three percent.
        assert!(after >= before / 100 * 96, "only {after} of {before} items are left");
    }
}

#[test]
fn stalled_uploads_replace_a_small_part_of_a_full_cache() {
    // A sixteenth of the memory is the budget for uploads. If the machine is slow, uploads exceed it one after the
    // other, which takes about two percent each.
    const LOST_PERCENT_MAX: usize = 7 + 4;
    if is_memcached(&under_test()) {
        return println!("skipped: memcached refuses the store of 1 MB during this attack");
    }
    let items = SmallItems { count: 300_000, value_len: 200 };
    let [before, after] = attack(64, &items);
    assert!(before < items.count, "memory is full before the attack");
    let left_min = before / 100 * (100 - LOST_PERCENT_MAX);
    assert!(after >= left_min, "only {after} of {before} items are left");
}

#[test]
fn a_value_of_half_of_the_memory_is_stored_in_a_full_cache() {
    let fixture = Fixture::start(64, &["-I", "32m"]);
    if fixture.is_memcached() {
        return println!("skipped: memcached refuses a large value if its pages are in use");
    }
    let mut client = fixture.server.connect();
    SmallItems { count: 300_000, value_len: 200 }.store(&mut client);
    let value = vec![b'l'; 31 << 20];
    assert_eq!(client.set("large", &value), "STORED");
    assert!(client.get("large").is_some_and(|found| found == value));
    fixture.check_recovery();
}

#[test]
fn an_upload_without_a_byte_for_the_timeout_is_refused() {
    let fixture = Fixture::start(64, &["-o", "upload_timeout=1"]);
    if fixture.is_memcached() {
        return;
    }
    let mut client = fixture.server.connect();
    client.send(b"set large 0 0 100000\r\nfirst bytes");
    assert_eq!(client.read_line(), "SERVER_ERROR out of memory storing object");
    // The server ignores the rest of the value, and serves the next command.
    client.send(&[&vec![b'v'; 100_000 - "first bytes".len()][..], b"\r\n"].concat());
    assert_eq!(client.ask("get large"), "END");
    assert_eq!(client.stat_of("stats memory", "upload_refused_timeout"), 1);
    fixture.check_recovery();
}
