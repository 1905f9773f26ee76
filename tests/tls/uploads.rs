//! Uploads over TLS that wait for memory, because other clients have begun uploads and then stopped sending.

use super::fixture::{Fixture, VERSIONS, hit, set, value};
use crate::support::{Client, wait_until};
use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(60);
/// The length of every large value.
const VALUE_LEN: usize = 1_000_000;

/// Fills the memory of a server with `-m 64`.
fn fill(client: &mut Client) {
    const ITEMS: usize = 1_200;
    const ITEM_LEN: usize = 60_000;
    for index in 0..ITEMS {
        let line = format!("set item{index} 0 0 {ITEM_LEN} noreply\r\n");
        client.send(&[line.as_bytes(), &vec![b'i'; ITEM_LEN], b"\r\n"].concat());
    }
    assert_eq!(client.ask("mn"), "MN");
    assert!(client.stat("evictions") > 0, "the memory is full");
}

#[test]
fn an_upload_that_waits_is_stored_with_every_byte() {
    const STALLED: usize = 40;
    let fixture = Fixture::start(&["-m", "64"]);
    let mut observer = fixture.connect_plain();
    fill(&mut observer);
    let stalled: Vec<Client> = (0..STALLED).map(|_| fixture.connect_plain()).collect();
    std::thread::scope(|scope| {
        // The server may leave the bytes in the sockets, so each client has a thread that sends.
        for (index, client) in stalled.iter().enumerate() {
            let mut request = format!("set stalled{index} 0 0 {VALUE_LEN}\r\n").into_bytes();
            request.resize(request.len() + VALUE_LEN - 1_000, b's');
            // The test shuts the socket down at its end, while some clients may still be sending.
            scope.spawn(move || client.stream().write_all(&request).is_ok());
        }
        for version in VERSIONS {
            let mut client = fixture.connect(version);
            let value = value(VALUE_LEN);
            // On a loaded machine even this client may pause for 100 ms. It is then refused, and tries again.
            wait_until("a store over TLS succeeds", DEADLINE, || {
                client.send(set("large", &value));
                let reply = client.read_line();
                let is_refused = reply == "SERVER_ERROR out of memory storing object\r\n";
                assert!(reply == "STORED\r\n" || is_refused, "{reply}");
                !is_refused
            });
            client.ask("get large\r\n", hit("large", &value));
        }
        assert!(observer.stat_of("stats memory", "upload_waits") > 0);
        // Uploads over TLS that wait when their client disconnects leave nothing behind.
        for index in 0..10 {
            let mut client = fixture.connect(VERSIONS[index % VERSIONS.len()]);
            client.send(format!("set large{index} 0 0 {VALUE_LEN}\r\nbeginning"));
        }
        stalled.iter().for_each(|client| drop(client.stream().shutdown(Shutdown::Both)));
    });
    for name in ["uploads", "uploads_waiting", "upload_bytes"] {
        wait_until("no upload is left", DEADLINE, || observer.stat_of("stats memory", name) == 0);
    }
}
