//! Gets of large values that wait, because other clients hold the values of earlier replies.

use rustix::net::sockopt::set_socket_linger;
use socket2::Socket;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::fixture::Fixture;
use super::slow_readers::{never_reading, with_small_buffer};
use crate::support::{Client, Deadline, is_memcached, under_test, wait_until};

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(60);
/// The length of every large value.
const VALUE_LEN: usize = 1_000_000;
/// The number of readers. Their values together exceed the budget, 4 MiB with `-m 64`.
const READERS: usize = 10;

/// Starts a server with large values, and as many clients that request them and do not read. Returns `None` for
/// memcached.
fn start(memory_mib: u64, flags: &[&str]) -> Option<(Fixture, Client, Vec<Socket>)> {
    if is_memcached(&under_test()) {
        println!("skipped: in memcached no get waits");
        return None;
    }
    let fixture = Fixture::start(memory_mib, flags);
    let mut observer = fixture.server.connect();
    let readers: Vec<Socket> = (0..READERS)
        .map(|index| {
            let value = vec![b'v'; VALUE_LEN];
            assert_eq!(observer.set(&format!("large{index}"), &value), "STORED");
            never_reading(&fixture, format!("get large{index}\r\n"))
        })
        .collect();
    let memory = |observer: &mut Client, name: &str| observer.stat_of("stats memory", name);
    wait_until("the readers hold the whole budget", DEADLINE, || {
        memory(&mut observer, "pinned_bytes") >= memory(&mut observer, "pinned_limit_bytes")
    });
    Some((fixture, observer, readers))
}

/// Reads what has arrived from a socket that does not block, at most `len_max` bytes. Returns the number of bytes.
/// Panics if the server has closed the connection.
fn read_available(mut client: &Socket, len_max: usize) -> usize {
    let mut buffer = vec![0; len_max];
    match client.read(&mut buffer) {
        Ok(0) => panic!("the server has closed the connection of a client that reads"),
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => {
            panic!("the server has closed the connection of a client that reads: {error}")
        }
    }
}

/// The readers read slowly but steadily, while a get waits for longer than the time after which clients that do not
/// read are disconnected.
#[test]
fn clients_that_read_steadily_stay_connected_while_a_get_waits() {
    const STEP_LEN: usize = 100_000;
    let Some((fixture, mut observer, readers)) = start(64, &[]) else { return };
    let mut waiting = fixture.server.connect();
    waiting.send(b"get large0\r\n");
    // The server closes clients that read less than 64 KiB in 2 s. The time is several times as long.
    let end = Deadline::after(Duration::from_secs(7));
    let mut read = [0; READERS];
    wait_until(
        "the readers have read for 7 seconds, and each has received bytes",
        DEADLINE,
        || {
            for (count, reader) in read.iter_mut().zip(&readers) {
                *count += read_available(reader, STEP_LEN);
            }
            end.is_over() && read.iter().all(|&count| count >= 64 << 10)
        },
    );
    assert_eq!(observer.stat_of("stats memory", "slow_readers_closed"), 0);
    drop(readers);
    assert_eq!(waiting.read_line(), format!("VALUE large0 0 {VALUE_LEN}"));
    assert_eq!(waiting.read_exact(VALUE_LEN + 2).len(), VALUE_LEN + 2);
    assert_eq!(waiting.read_line(), "END");
    fixture.check_recovery();
}

/// Each value exceeds the budget, so one client after the other is served.
#[test]
fn gets_that_wait_are_served_in_their_order() {
    const LARGE_LEN: usize = 5_000_000;
    if is_memcached(&under_test()) {
        return println!("skipped: in memcached no get waits");
    }
    let fixture = Fixture::start(64, &["-I", "8m", "-t", "1"]);
    let mut observer = fixture.server.connect();
    assert_eq!(observer.set("large", &vec![b'v'; LARGE_LEN]), "STORED");
    let holder = never_reading(&fixture, "get large\r\n");
    let memory = |observer: &mut Client, name: &str| observer.stat_of("stats memory", name);
    wait_until("a client holds the whole budget", DEADLINE, || {
        memory(&mut observer, "pinned_bytes") > 0
    });
    let mut waiting: Vec<Socket> = Vec::new();
    for count in 1..=3 {
        let mut client = with_small_buffer(&fixture);
        client.write_all(b"get large\r\n").expect("the socket accepts a short request");
        waiting.push(client);
        wait_until("the get waits", DEADLINE, || memory(&mut observer, "gets_waiting") == count);
    }
    drop(holder);
    for (index, client) in waiting.iter().enumerate() {
        let mut received = 0;
        wait_until("the client has received its value", DEADLINE, || {
            received += read_available(client, LARGE_LEN);
            received > LARGE_LEN
        });
        let later = &waiting[(index + 2).min(waiting.len())..];
        for client in later {
            assert_eq!(read_available(client, 1), 0, "a later get must not be served before");
        }
    }
    fixture.check_recovery();
}

/// The last get of a client waits while the client does not read the replies to its other gets.
#[test]
fn a_client_that_does_not_read_delays_no_get_of_another() {
    const SMALL_LEN: usize = 10_000;
    let Some((fixture, mut observer, readers)) = start(64, &["-t", "1"]) else { return };
    let memory = |observer: &mut Client, name: &str| observer.stat_of("stats memory", name);
    assert_eq!(observer.set("small", &[b'v'; SMALL_LEN]), "STORED");
    // The last get waits, and the replies to the others exceed the buffers of the kernel.
    let mut blocked = with_small_buffer(&fixture);
    let requests = [&b"get small\r\n".repeat(90)[..], b"get large0\r\n"].concat();
    blocked.write_all(&requests).expect("the socket accepts short requests");
    wait_until("the client blocks", DEADLINE, || {
        memory(&mut observer, "get_waits") > 0 && memory(&mut observer, "gets_waiting") == 0
    });
    for (request, reply) in
        [("mg large0 s", format!("HD s{VALUE_LEN}")), ("mg none v", "EN".into())]
    {
        assert_eq!(observer.ask(request), reply, "a reply without a large value does not wait");
    }
    drop(readers);
    wait_until("the budget is free", DEADLINE, || {
        memory(&mut observer, "pinned_bytes") < memory(&mut observer, "pinned_limit_bytes")
    });
    let waits = memory(&mut observer, "get_waits");
    assert_eq!(observer.get("large0").map(|value| value.len()), Some(VALUE_LEN));
    assert_eq!(memory(&mut observer, "get_waits"), waits, "the get must not wait");
    let mut received = 0;
    wait_until("the client has received every reply", DEADLINE, || {
        received += read_available(&blocked, VALUE_LEN);
        received > 90 * SMALL_LEN + VALUE_LEN
    });
    fixture.check_recovery();
}

#[test]
fn clients_that_disconnect_while_their_gets_wait_leave_nothing_behind() {
    let Some((fixture, mut observer, readers)) = start(64, &[]) else { return };
    // Half of the clients end their connections, and the others reset them.
    let clients: Vec<Client> = (0..20)
        .map(|_| {
            let mut client = fixture.server.connect();
            client.send(b"get large0\r\n");
            client
        })
        .collect();
    wait_until("a get waits", DEADLINE, || observer.stat_of("stats memory", "get_waits") > 0);
    for client in clients.iter().step_by(2) {
        let socket: &TcpStream = client.stream();
        set_socket_linger(socket, Some(Duration::ZERO)).expect("the socket is open");
    }
    drop(clients);
    drop(readers);
    for name in ["gets_waiting", "pinned_bytes", "reply_bytes"] {
        wait_until("the counts return to 0", DEADLINE, || {
            observer.stat_of("stats memory", name) == 0
        });
    }
    assert_eq!(observer.get("large0").map(|value| value.len()), Some(VALUE_LEN));
    fixture.check_recovery();
}

#[test]
fn a_lower_memory_limit_applies_to_values_that_are_pinned() {
    let Some((fixture, mut observer, readers)) = start(128, &[]) else { return };
    assert_eq!(observer.ask("cache_memlimit 64"), "OK");
    assert_eq!(observer.stat_of("stats memory", "pinned_limit_bytes"), 4 << 20);
    // The server disconnects clients that do not read while this get waits.
    assert_eq!(observer.get("large0").map(|value| value.len()), Some(VALUE_LEN));
    assert!(observer.stat_of("stats memory", "slow_readers_closed") > 0);
    drop(readers);
    wait_until("no value is pinned", DEADLINE, || {
        observer.stat_of("stats memory", "pinned_bytes") == 0
    });
    fixture.check_recovery();
}

/// Many clients read the same value at the same time. All of them hold the same memory.
#[test]
fn many_clients_read_one_large_value_at_once() {
    const READS: usize = 20;
    let fixture = Fixture::start(64, &[]);
    let value: Vec<u8> = (0..VALUE_LEN).map(|index| (index ^ (index >> 8)) as u8).collect();
    assert_eq!(fixture.server.connect().set("large", &value), "STORED");
    let mut clients: Vec<Client> = (0..60).map(|_| fixture.server.connect()).collect();
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                for _ in 0..READS {
                    let found = client.get("large").expect("the value is not evicted");
                    assert!(found == value, "the client receives the whole value");
                }
            });
        }
    });
    drop(clients);
    fixture.check_others_are_served();
    let mut observer = fixture.server.connect();
    if !fixture.is_memcached() {
        assert_eq!(observer.stat_of("stats memory", "slow_readers_closed"), 0);
    }
    // Further clients do not read. They hold the memory of one value, so other large values can still be stored.
    let readers: Vec<Socket> = (0..60).map(|_| never_reading(&fixture, "get large\r\n")).collect();
    for index in 0..40 {
        assert_eq!(observer.set(&format!("other{index}"), &value), "STORED");
    }
    assert!(observer.get("other39").is_some_and(|found| found == value));
    fixture.check_memory_is_bounded();
    drop(readers);
    fixture.check_recovery();
}
