//! Clients that request large replies and read nothing. They may hold only a limited part of the memory, and other clients
//! must be served.

use socket2::{Domain, SockRef, Socket, Type};
use std::io::Write;
use std::time::Duration;

use super::fixture::Fixture;
use super::uploads::SmallItems;
use crate::binary::packet::{STAT, packet};
use crate::support::{Deadline, is_memcached, pause, under_test, wait_until};

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// Waits until the resident memory of the server has grown by less than 1 MiB for about two seconds, and returns it in
/// bytes.
fn stable_resident_bytes(fixture: &Fixture) -> u64 {
    const EQUAL_READINGS: usize = 400;
    let (mut largest, mut equal) = (0, 0);
    wait_until("the resident memory is stable", DEADLINE, || {
        let resident = fixture.server.resident_bytes();
        if resident > largest + MIB {
            (largest, equal) = (resident, 0);
        }
        equal += 1;
        equal == EQUAL_READINGS
    });
    largest
}

/// Returns the connection of a client that has sent the request 2,000 times, or as often as the server reads it, and
/// reads no reply.
pub fn never_reading(fixture: &Fixture, request: impl AsRef<[u8]>) -> Socket {
    let mut socket = with_small_buffer(fixture);
    // The server may read only a part.
    let _ = socket.write(&request.as_ref().repeat(2_000));
    socket
}

/// Returns a connection whose reads and writes do not block. The kernel buffers little for it, because its segments are
/// short, so the server must hold the replies that the client does not read.
pub fn with_small_buffer(fixture: &Fixture) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
    socket.set_tcp_mss(536).expect("a socket accepts a segment size");
    socket.set_recv_buffer_size(16 << 10).expect("a socket accepts a buffer size");
    socket.connect(&fixture.server.address().into()).expect("the server accepts a connection");
    socket.set_nonblocking(true).expect("a socket can be made non-blocking");
    socket
}

#[test]
fn clients_that_pin_large_values_do_not_replace_the_items_of_other_clients() {
    if is_memcached(&under_test()) {
        return println!("skipped: the test checks slabwise's budget for pinned values");
    }
    let fixture = Fixture::start(64, &[]);
    let items = SmallItems { count: 400_000, value_len: 20 };
    let mut client = fixture.server.connect();
    items.store(&mut client);
    let value = vec![b'v'; 1_000_000];
    let readers: Vec<Socket> = (0..75)
        .map(|index| {
            assert_eq!(client.set(&format!("large{index}"), &value), "STORED");
            never_reading(&fixture, format!("get large{index}\r\n"))
        })
        .collect();
    wait_until("the readers hold all memory of their budget", DEADLINE, || {
        client.stat_of("stats memory", "get_waits") > 0
    });
    for round in 0..200 {
        assert_eq!(client.set(&format!("probe{round}"), b"value"), "STORED");
    }
    let store = Deadline::after(DEADLINE);
    assert_eq!(client.set("honest", &vec![b'h'; 1_000_000]), "STORED");
    let taken = DEADLINE - store.left();
    assert!(taken < Duration::from_secs(10), "a store of 1 MB took {taken:?}");
    let left = items.count(&mut client);
    println!("{left} of {} items are left; a store of 1 MB took {taken:?}", items.count);
    assert!(left >= items.count / 100 * 99, "only {left} of {} items are left", items.count);
    // Clients that hold pinned values and do not read are disconnected while others wait for large values.
    assert!(client.get("honest").is_some_and(|found| found.len() == 1_000_000));
    for name in ["get_waits", "slow_readers_closed"] {
        assert!(client.stat_of("stats memory", name) > 0, "{name}");
    }
    drop(readers);
    for name in ["reply_bytes", "pinned_bytes", "gets_waiting"] {
        wait_until("the counts of the readers return to 0", DEADLINE, || {
            client.stat_of("stats memory", name) == 0
        });
    }
    fixture.check_recovery();
}

#[test]
fn a_thousand_clients_that_never_read_hold_a_limited_amount_of_memory() {
    const BEYOND_LIMIT_BYTES_MAX: u64 = 96 * MIB;
    let fixture = Fixture::start(64, &["-c", "2000"]);
    let mut client = fixture.server.connect();
    // A value of this size is copied into the reply.
    assert_eq!(client.set("small", &[b'v'; 15_000]), "STORED");
    let readers: Vec<Socket> =
        (0..1024).map(|_| never_reading(&fixture, "get small\r\n")).collect();
    assert_eq!(client.get("small").map(|value| value.len()), Some(15_000));
    let resident = stable_resident_bytes(&fixture);
    println!("{} MiB are resident at -m 64", resident / MIB);
    assert!(
        resident <= 64 * MIB + BEYOND_LIMIT_BYTES_MAX,
        "{resident} bytes are resident with 1,024 clients that never read"
    );
    drop(readers);
    wait_until("the server serves new clients", DEADLINE, || client.get("small").is_some());
    fixture.check_recovery();
}

/// Lists are written in parts, so that clients that do not read them hold only their shares of the budget.
#[test]
fn clients_that_never_read_lists_hold_a_limited_amount_of_memory() {
    const BEYOND_LIMIT_BYTES_MAX: u64 = 80 * MIB;
    let fixture = Fixture::start(64, &["-c", "2000"]);
    let mut client = fixture.server.connect();
    SmallItems { count: 50_000, value_len: 20 }.store(&mut client);
    let used = client
        .numbers("stats slabs")
        .into_iter()
        .find(|&(ref name, count)| name.ends_with(":used_chunks") && count > 10_000);
    let class = used.expect("most items are in one class").0.replace(":used_chunks", "");
    let readers: Vec<Socket> = (0..500)
        .map(|_| never_reading(&fixture, format!("stats cachedump {class} 0\r\n")))
        .collect();
    let resident = stable_resident_bytes(&fixture);
    println!("{} MiB are resident at -m 64", resident / MIB);
    let held = client.stat_of("stats memory", "reply_bytes");
    assert!(held > MIB, "the clients hold only {held} bytes, so the test checks nothing");
    assert!(resident <= 64 * MIB + BEYOND_LIMIT_BYTES_MAX, "{resident} bytes are resident");
    drop(readers);
    fixture.check_recovery();
}

/// A reply to `stats` is written whole. If clients that do not read exceed the budget by such replies, the server closes
/// their connections.
#[test]
fn clients_that_never_read_whole_replies_are_disconnected() {
    if is_memcached(&under_test()) {
        return println!("skipped: the test checks slabwise's budget for buffers");
    }
    const PREFIXES: usize = 4_096;
    let fixture = Fixture::start(64, &["-c", "2000", "-D", ":"]);
    let mut client = fixture.server.connect();
    let gets: String = (0..PREFIXES).map(|number| format!("get p{number:04}:k\r\n")).collect();
    client.send(gets.as_bytes());
    (0..PREFIXES).for_each(|_| assert_eq!(client.read_line(), "END"));
    let dump = packet(STAT).key(b"detail dump").bytes(&|_| 0);
    let readers: Vec<Socket> = (0..400).map(|_| never_reading(&fixture, &dump)).collect();
    wait_until("clients that do not read are disconnected", DEADLINE, || {
        client.stat_of("stats memory", "slow_readers_closed") > 0
    });
    let limit = client.stat_of("stats memory", "reply_limit_bytes");
    let mut held = 0;
    wait_until("the buffers are within their budget", DEADLINE, || {
        held = client.stat_of("stats memory", "reply_bytes");
        held <= limit
    });
    println!("the clients hold {held} of {limit} bytes");
    drop(readers);
    fixture.check_recovery();
}

/// A client that reads slowly, but steadily, keeps its connection while others wait for the memory of large values.
#[test]
fn a_client_that_reads_slowly_keeps_its_connection() {
    if is_memcached(&under_test()) {
        return println!("skipped: the test checks slabwise's budget for pinned values");
    }
    const VALUE_LEN: usize = 1_000_000;
    const STEP_LEN: usize = 50_000;
    let fixture = Fixture::start(64, &[]);
    let mut client = fixture.server.connect();
    let readers: Vec<Socket> = (0..10)
        .map(|index| {
            let value = vec![b'v'; VALUE_LEN];
            assert_eq!(client.set(&format!("large{index}"), &value), "STORED");
            never_reading(&fixture, format!("get large{index}\r\n"))
        })
        .collect();
    let mut slow = fixture.server.connect();
    // With a large buffer the kernel announces only after megabytes that the client has read.
    let socket = SockRef::from(slow.stream());
    socket.set_recv_buffer_size(128 << 10).expect("a socket accepts a buffer size");
    slow.send("get large0\r\n".repeat(8).as_bytes());
    for _ in 0..8 {
        assert_eq!(slow.read_line(), format!("VALUE large0 0 {VALUE_LEN}"));
        for _ in (0..VALUE_LEN).step_by(STEP_LEN) {
            assert_eq!(slow.read_exact(STEP_LEN).len(), STEP_LEN);
            pause();
        }
        assert_eq!(slow.read_exact(2), b"\r\n");
        assert_eq!(slow.read_line(), "END");
    }
    drop(readers);
    fixture.check_recovery();
}
