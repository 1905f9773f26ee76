//! Uploads that wait for memory, because other clients have begun uploads and then stopped sending. A waiting upload is
//! stored in the end, whatever its protocol, and a client that disconnects meanwhile leaves nothing behind.

use rustix::net::sockopt::set_socket_linger;
use std::net::TcpStream;
use std::time::Duration;

use super::fixture::Fixture;
use super::uploads::{SmallItems, StalledUploads};
use crate::support::{Client, is_memcached, under_test, wait_until};

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(60);
/// The length of every large value.
const VALUE_LEN: usize = 1_000_000;
/// The number of clients that stop sending. Their uploads together exceed the budget several times.
const STALLED: usize = 40;

/// A server whose memory is full, with uploads that wait.
struct Scene {
    fixture: Fixture,
    /// The clients that have stopped sending; `None` if they have disconnected.
    stalled: Option<StalledUploads>,
    observer: Client,
}

impl Scene {
    /// Starts the server and the uploads, and waits until some of them wait. Returns `None` for memcached.
    fn start(memory_mib: u64) -> Option<Scene> {
        if is_memcached(&under_test()) {
            println!("skipped: in memcached no upload waits");
            return None;
        }
        let fixture = Fixture::start(memory_mib, &[]);
        let mut observer = fixture.server.connect();
        let items = SmallItems { count: 320 * memory_mib as usize, value_len: 4_000 };
        items.store(&mut observer);
        assert!(observer.stat("evictions") > 0, "the memory is full");
        let stalled = StalledUploads::start(&fixture, STALLED, VALUE_LEN, VALUE_LEN - 1_000);
        wait_until("uploads wait", DEADLINE, || {
            observer.stat_of("stats memory", "uploads_waiting") > 0
        });
        Some(Scene { fixture, stalled: Some(stalled), observer })
    }

    /// Ends the uploads that have stopped, and waits until no upload is left.
    fn end_uploads(&mut self) {
        self.stalled.take().into_iter().for_each(StalledUploads::end);
        for name in ["uploads", "uploads_waiting", "upload_bytes"] {
            wait_until("no upload is left", DEADLINE, || {
                self.observer.stat_of("stats memory", name) == 0
            });
        }
    }

    /// Ends the uploads, and checks that the server serves other clients.
    fn end(mut self) {
        self.end_uploads();
        self.fixture.check_recovery();
    }
}

/// Returns a value whose bytes depend on their position.
fn value() -> Vec<u8> {
    (0..VALUE_LEN).map(|index| (index ^ (index >> 8)) as u8).collect()
}

/// Asserts that a store of a value succeeds while other uploads are stalled, and that the item then has this value.
/// `store` returns false if the server refused the store: on a loaded machine even this client may pause for 100 ms.
fn check_store(scene: &mut Scene, mut store: impl FnMut(&mut Client, &[u8]) -> bool) {
    let value = value();
    let mut client = scene.fixture.server.connect();
    wait_until("a store succeeds", DEADLINE, || {
        // The server may evict the item while it gives up memory after `cache_memlimit`.
        let found = store(&mut client, &value).then(|| scene.observer.get("large")).flatten();
        assert!(found.is_none() || found.as_ref() == Some(&value), "the item has another value");
        found.is_some()
    });
}

#[test]
fn an_upload_with_noreply_waits_and_is_stored() {
    let Some(mut scene) = Scene::start(64) else { return };
    check_store(&mut scene, |client, value| {
        let line = format!("set large 0 0 {VALUE_LEN} noreply\r\n");
        client.send(&[line.as_bytes(), value, b"\r\n"].concat());
        // A refused store has no reply, either.
        assert_eq!(client.ask("mn"), "MN");
        client.get("large").is_some()
    });
    scene.end();
}

#[test]
fn an_upload_of_the_meta_protocol_waits_and_is_stored() {
    let Some(mut scene) = Scene::start(64) else { return };
    check_store(&mut scene, |client, value| {
        client.send(&[format!("ms large {VALUE_LEN}\r\n").as_bytes(), value, b"\r\n"].concat());
        let reply = client.read_line();
        assert!(reply == "HD" || reply.starts_with("SERVER_ERROR out of memory"), "{reply}");
        reply == "HD"
    });
    scene.end();
}

#[test]
fn an_upload_of_the_binary_protocol_waits_and_is_stored() {
    /// The length of the extras of a set: flags and expiration time.
    const EXTRAS_LEN: u8 = 8;
    let Some(mut scene) = Scene::start(64) else { return };
    let body_len = usize::from(EXTRAS_LEN) + "large".len() + VALUE_LEN;
    let mut head = vec![0x80, 0x01, 0, "large".len() as u8, EXTRAS_LEN, 0, 0, 0];
    head.extend((body_len as u32).to_be_bytes());
    head.extend([0; 12 + EXTRAS_LEN as usize]);
    check_store(&mut scene, |client, value| {
        client.send(&[&head[..], b"large", value].concat());
        let reply = client.read_exact(24);
        assert_eq!(reply[..2], [0x81, 0x01]);
        let status = u16::from_be_bytes([reply[6], reply[7]]);
        // The status is 0, or 0x82 with a text if there is no memory.
        assert!(status == 0 || status == 0x82, "{status:#x}");
        let body = u32::from_be_bytes([reply[8], reply[9], reply[10], reply[11]]);
        client.read_exact(body as usize);
        status == 0
    });
    scene.end();
}

#[test]
fn clients_that_disconnect_while_their_uploads_wait_leave_nothing_behind() {
    let Some(mut scene) = Scene::start(64) else { return };
    // Half of the clients end their connections, and the others reset them.
    let clients: Vec<Client> = (0..STALLED)
        .map(|index| {
            let mut client = scene.fixture.server.connect();
            client.send(format!("set other{index} 0 0 {VALUE_LEN}\r\nbeginning").as_bytes());
            client
        })
        .collect();
    for client in clients.iter().step_by(2) {
        let socket: &TcpStream = client.stream();
        set_socket_linger(socket, Some(Duration::ZERO)).expect("the socket is open");
    }
    drop(clients);
    scene.end_uploads();
    wait_until("the server frees the chunks of the uploads", DEADLINE, || {
        scene.observer.used_chunks() == scene.observer.stat("curr_items")
    });
    scene.end();
}

#[test]
fn a_lower_memory_limit_applies_to_uploads_that_are_in_progress() {
    let Some(mut scene) = Scene::start(128) else { return };
    let limit = |observer: &mut Client| observer.stat_of("stats memory", "upload_limit_bytes");
    assert_eq!(limit(&mut scene.observer), 8 << 20);
    assert_eq!(scene.observer.ask("cache_memlimit 64"), "OK");
    assert_eq!(limit(&mut scene.observer), 4 << 20);
    check_store(&mut scene, |client, value| client.set("large", value) == "STORED");
    wait_until("the uploads fit into the lower budget", DEADLINE, || {
        // One upload may exceed the budget.
        let bytes = scene.observer.stat_of("stats memory", "upload_bytes");
        bytes <= (4 << 20) + 2 * VALUE_LEN as u64
    });
    scene.end();
}
