//! Upgrades while clients store and read. Every client checks each value that it reads.

use super::setup::{Items, Setup};
use slabwise_base::Clock;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::Client;

const CLIENTS: usize = 8;
const UPGRADES: usize = 5;

/// What a client has seen.
#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    /// The number of connections that the server has closed.
    closed: u64,
    longest_millis: u64,
}

/// Stores increasing numbers under one key and reads them, until `ends`. Panics if a connection is refused, or a value is
/// not the last stored one.
fn run(address: SocketAddr, key: &str, ends: &AtomicBool) -> Seen {
    let (clock, mut seen, mut client) = (Clock::real(), Seen::default(), Client::connect(address));
    let mut stored = 0;
    while !ends.load(Ordering::Relaxed) {
        let begun = clock.nanos();
        let next: u64 = stored + 1;
        let text = next.to_string();
        let request = format!("set {key} 0 0 {}\r\n{text}\r\nget {key}\r\n", text.len());
        let sent = client.try_send(request.as_bytes()).is_ok();
        let mut read = || client.try_read_line().ok().flatten();
        let replies = if sent { [read(), read(), read(), read()] } else { Default::default() };
        match replies.map(|line| line.map(|line| String::from_utf8_lossy(&line).into_owned())) {
            [Some(set), Some(_), Some(value), Some(end)] => {
                assert_eq!((&*set, &*end), ("STORED", "END"));
                assert_eq!(value, text, "{key}");
                stored = next;
            }
            _ => {
                seen.closed += 1;
                client = Client::connect(address);
                // The store may have been carried out before the connection was closed.
                let found = client.get(key).expect("the item is not lost");
                let found: u64 = String::from_utf8_lossy(&found).parse().expect("a number");
                assert!([stored, next].contains(&found), "{key}: {found}, not {stored} or {next}");
                stored = found;
            }
        }
        seen.requests += 2;
        seen.longest_millis = seen.longest_millis.max((clock.nanos() - begun) / 1_000_000);
    }
    seen
}

#[test]
fn no_item_is_lost_and_no_connection_is_refused_under_load() {
    for items in [Items::Nameless, Items::File] {
        let setup = Setup::new(items, &[], "");
        let mut server = setup.start();
        let address = server.address();
        (0..CLIENTS).for_each(|it| {
            assert_eq!(server.connect().set(&format!("client{it}"), b"0"), "STORED");
        });
        let ends = AtomicBool::new(false);
        let seen: Vec<Seen> = thread::scope(|scope| {
            let ends = &ends;
            let clients: Vec<_> = (0..CLIENTS)
                .map(|it| scope.spawn(move || run(address, &format!("client{it}"), ends)))
                .collect();
            for number in 0..UPGRADES {
                let next = setup.upgrade(&format!("log{number}"));
                assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
                server = next;
            }
            ends.store(true, Ordering::Relaxed);
            clients.into_iter().map(|it| it.join().expect("a client found no error")).collect()
        });
        println!("{items:?}: {seen:?}");
        assert!(seen.iter().all(|it| it.requests > 0));
        let closed: u64 = seen.iter().map(|it| it.closed).sum();
        assert_eq!(closed, 0, "every connection was handed over");
    }
}
