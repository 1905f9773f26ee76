//! Handshakes that stall, trickle, end early or are too long. They must end after a time, must be counted, and must use
//! little memory. Other clients must not notice them.

use super::fixture::{Fixture, VERSIONS, set};
use super::raw_client::{client_hello, connect, read_to_end};
use crate::support::{Deadline, pause, wait_until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::version::TLS12;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// Returns the ClientHello of a client with both versions of TLS.
fn any_hello(fixture: &Fixture) -> Vec<u8> {
    client_hello(&fixture.authority.client_config(None, &VERSIONS))
}

/// Raises the limit of open files of this process as far as the system allows.
fn allow_many_sockets() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    raised.expect("the limit is at most the system's maximum");
}

/// Opens this number of connections, and sends these bytes on each. Returns when the server has accepted all of them.
fn stall(fixture: &Fixture, count: u64, bytes: &[u8]) -> Vec<TcpStream> {
    allow_many_sockets();
    let stalled = (0..count).map(|_| {
        let mut socket = connect(fixture.address);
        socket.write_all(bytes).expect("the server keeps the connection open");
        socket
    });
    let stalled = stalled.collect();
    wait_until("the server has accepted all clients", DEADLINE, || {
        fixture.stat("curr_connections") > count
    });
    stalled
}

/// Asserts that a new client is served within a second. The machine may be busy, so the client has several attempts.
fn assert_new_clients_are_served(fixture: &Fixture) {
    let is_fast = (0..5).any(|attempt| {
        let deadline = Deadline::after(Duration::from_secs(1));
        let mut client = fixture.connect(VERSIONS[attempt % 2]);
        client.ask("get none\r\n", "END\r\n");
        !deadline.is_over()
    });
    assert!(is_fast, "a client connects and gets a reply within a second");
}

#[test]
fn stalled_handshakes_end_after_the_timeout_and_are_counted() {
    let fixture = Fixture::start(&["-t", "1", "-o", "ssl_handshake_timeout=1"]);
    let hello = any_hello(&fixture);
    let mut established = fixture.connect(VERSIONS[0]);
    let mut watcher = fixture.connect_plain();
    assert_eq!(watcher.ask("watch connevents"), "OK");
    for len in [0, 1, hello.len() / 2, hello.len() - 1] {
        let mut stalled = connect(fixture.address);
        stalled.write_all(&hello[..len]).expect("the server keeps the connection open");
        assert_eq!(read_to_end(&mut stalled), b"", "{len} bytes");
    }
    // This client has received the server's part of the handshake, but does not send the rest of its own part.
    let mut unanswered = connect(fixture.address);
    unanswered.write_all(&hello).expect("the server keeps the connection open");
    assert_eq!(read_to_end(&mut unanswered).first(), Some(&0x16));
    assert_eq!(fixture.stat("ssl_handshake_errors"), 5);
    let mut seen = [0; 2];
    while seen != [5, 5] {
        let line = watcher.read_line();
        seen[0] +=
            u32::from(line.contains("type=conntlserr") && line.contains("ssl_handshake_timeout"));
        seen[1] += u32::from(line.contains("reason=handshake_timeout"));
    }
    // The timeout does not apply to a connection whose handshake is complete.
    established.ask("get none\r\n", "END\r\n");
}

#[test]
fn a_handshake_that_trickles_ends_after_the_timeout() {
    let fixture = Fixture::start(&["-t", "1", "-o", "ssl_handshake_timeout=1"]);
    let hello = any_hello(&fixture);
    let mut socket = connect(fixture.address);
    // At 5 ms for each byte, the handshake would take several seconds.
    let sent = hello.iter().take_while(|&&byte| {
        pause();
        socket.write_all(&[byte]).is_ok()
    });
    let sent = sent.count();
    assert!(
        sent < hello.len(),
        "the server closes the connection before the client sends {sent} bytes"
    );
    assert_eq!(fixture.stat("ssl_handshake_errors"), 1);
}

#[test]
fn with_a_timeout_of_0_a_stalled_handshake_ends_only_at_the_idle_timeout() {
    let fixture = Fixture::start(&["-o", "ssl_handshake_timeout=0,idle_timeout=2"]);
    let hello = any_hello(&fixture);
    let mut silent = connect(fixture.address);
    let mut half = connect(fixture.address);
    half.write_all(&hello[..hello.len() / 2]).expect("the server keeps the connection open");
    let mut unanswered = connect(fixture.address);
    unanswered.write_all(&hello).expect("the server keeps the connection open");
    assert_eq!(read_to_end(&mut silent), b"");
    assert_eq!(read_to_end(&mut half), b"");
    assert_eq!(read_to_end(&mut unanswered).first(), Some(&0x16));
    assert!(fixture.stat("idle_kicks") >= 3);
    assert_eq!(fixture.stat("ssl_handshake_errors"), 0);
}

#[test]
fn a_thousand_stalled_handshakes_delay_nobody_and_use_less_than_16_kib_each() {
    let options = ["-t", "2", "-c", "4096", "-o", "ssl_handshake_timeout=3"];
    let hello = any_hello(&Fixture::start(&[]));
    // With the whole ClientHello, the server sends its part of the handshake, and waits for the rest of the client's part.
    for len in [1, hello.len() / 2, hello.len() - 1, hello.len()] {
        let fixture = Fixture::start(&options);
        assert!(fixture.accepts(None));
        let errors = fixture.stat("ssl_handshake_errors");
        let descriptors = fixture.server.descriptor_count();
        let before = fixture.server.resident_bytes();
        let count = 1_000;
        let stalled = stall(&fixture, count, &hello[..len]);
        let used = fixture.server.resident_bytes().saturating_sub(before) / count;
        assert!(used < 16 << 10, "each handshake uses less than 16 KiB, not {used} bytes");
        assert_new_clients_are_served(&fixture);
        wait_until("the server closes the stalled connections", DEADLINE, || {
            fixture.stat("ssl_handshake_errors") == errors + count
                && fixture.server.descriptor_count() <= descriptors + 4
        });
        drop(stalled);
    }
}

#[test]
fn the_longest_incomplete_hello_uses_less_than_128_kib() {
    let fixture = Fixture::start(&["-t", "1", "-c", "4096"]);
    assert!(fixture.accepts(None));
    // The client announces a ClientHello of 65,000 bytes, and sends 60,000 bytes.
    let records = records_of(&empty_message(1, 65_000)[..60_000]);
    let before = fixture.server.resident_bytes();
    let count = 200;
    let _stalled = stall(&fixture, count, &records);
    assert_new_clients_are_served(&fixture);
    let used = fixture.server.resident_bytes().saturating_sub(before) / count;
    assert!(used < 128 << 10, "each handshake uses less than 128 KiB, not {used} bytes");
}

#[test]
fn an_oversized_handshake_message_is_refused() {
    // More than the buffers of both sockets hold, so a server that closes the connection refuses a write before.
    const SENT_MAX: usize = 64 << 20;
    let fixture = Fixture::start(&["-t", "1"]);
    for announced_len in [0xff_ffff_u32, 0x1_0000] {
        let mut socket = connect(fixture.address);
        let [_, announced_len @ ..] = announced_len.to_be_bytes();
        let mut record = vec![0x16, 3, 1, 0x40, 0];
        record.resize(5 + (16 << 10), 0);
        record[5] = 1;
        record[6..9].copy_from_slice(&announced_len);
        let mut sent = 0;
        while sent < SENT_MAX && socket.write_all(&record).is_ok() {
            sent += record.len();
            record[5..9].fill(0);
        }
        assert!(sent < SENT_MAX, "the server accepted {sent} bytes");
    }
    assert!(fixture.accepts(None));
}

/// Divides a handshake message into records.
fn records_of(message: &[u8]) -> Vec<u8> {
    let record = |part: &[u8]| {
        let len = (part.len() as u16).to_be_bytes();
        [&[0x16, 3, 1], &len[..], part].concat()
    };
    message.chunks(16 << 10).flat_map(record).collect()
}

/// Returns a handshake message that begins with its type and length, and has only zeros otherwise.
fn empty_message(message_type: u8, len: u16) -> Vec<u8> {
    let [high, low] = len.to_be_bytes();
    let mut message = vec![message_type, 0, high, low];
    message.resize(4 + usize::from(len), 0);
    message
}

/// Returns a ClientHello of TLS 1.2 with this number of unnecessary bytes, in records.
fn padded_hello(fixture: &Fixture, padding_len: u16) -> Vec<u8> {
    let hello = client_hello(&fixture.config(&TLS12));
    // The message follows the record's header of five bytes. Its extensions follow two lists and their lengths.
    let mut message = hello[5..].to_vec();
    let session_at = 4 + 2 + 32;
    let suites_at = session_at + 1 + usize::from(message[session_at]);
    let suites_len = u16::from_be_bytes([message[suites_at], message[suites_at + 1]]);
    let compressions_at = suites_at + 2 + usize::from(suites_len);
    let extensions_at = compressions_at + 1 + usize::from(message[compressions_at]);
    // The extension with the number 21 consists of zeros, which the server ignores.
    message.extend([0, 21]);
    message.extend(padding_len.to_be_bytes());
    message.resize(message.len() + usize::from(padding_len), 0);
    let len_after = |start: usize| ((message.len() - start) as u16).to_be_bytes();
    let (message_len, extensions_len) = (len_after(4), len_after(extensions_at + 2));
    message[2..4].copy_from_slice(&message_len);
    message[extensions_at..][..2].copy_from_slice(&extensions_len);
    records_of(&message)
}

#[test]
fn a_client_may_send_64_kib_in_a_handshake() {
    let fixture = Fixture::start(&["-t", "1", "-o", "ssl_verify_mode=2"]);
    let mut watcher = fixture.connect_plain();
    assert_eq!(watcher.ask("watch connevents"), "OK");
    let mut socket = connect(fixture.address);
    let hello = padded_hello(&fixture, 50_000);
    socket.write_all(&hello).expect("the server keeps the connection open");
    let mut first = [0; 6];
    socket.read_exact(&mut first).expect("the server accepts a long ClientHello");
    // The reply is a record of the type handshake, which begins with a ServerHello.
    assert_eq!([first[0], first[5]], [0x16, 2]);
    // The certificate message alone would not be too long.
    let certificates = records_of(&empty_message(11, 50_000));
    // The server may close the connection before the client has sent all.
    let _ = socket.write_all(&certificates[..certificates.len() - 1]);
    read_to_end(&mut socket);
    let mut line = String::new();
    while !line.contains("type=conntlserr") {
        line = watcher.read_line();
    }
    assert!(line.contains("more than 65536 bytes"), "{line}");
    assert_eq!(fixture.stat("ssl_handshake_errors"), 1);
}

#[test]
fn aborted_handshakes_release_memory_and_descriptors() {
    let fixture = Fixture::start(&["-t", "2", "-c", "4096"]);
    let hello = any_hello(&fixture);
    assert!(fixture.accepts(None));
    let descriptors = fixture.server.descriptor_count();
    let before = fixture.server.resident_bytes();
    for round in 0..10 {
        let mut sockets: Vec<TcpStream> = (0..100).map(|_| connect(fixture.address)).collect();
        for (index, socket) in sockets.iter_mut().enumerate() {
            let len = (index * 31 + round * 7) % (hello.len() + 1);
            socket.write_all(&hello[..len]).expect("the server keeps the connection open");
        }
        let mut secure = fixture.connect(VERSIONS[round % 2]);
        for _ in 0..20 {
            secure.ask(set("key", b"value"), "STORED\r\n");
        }
    }
    wait_until("the server closes the descriptors of aborted handshakes", DEADLINE, || {
        fixture.server.descriptor_count() <= descriptors + 4
    });
    let grown = fixture.server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "1,000 aborted handshakes leave less than 16 MiB, not {grown} bytes");
    assert!(fixture.accepts(None));
}
