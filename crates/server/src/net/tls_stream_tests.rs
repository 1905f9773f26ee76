//! Tests of the TLS stream. A server's stream and rustls's client are connected by a socket pair.

use super::event_loop::{Epoll, Socket};
use super::tls_stream::{RECORDS_PER_CALL_MAX, TlsStream};
use crate::os::sockets::ReceiveOutcome;
use crate::out::{Flush, Out};
use crate::shared::WatchLog;
use crate::tls::tests::certificates::{Authority, CertificateFiles};
use crate::tls::tests::{client, load, settings};
use crate::tls::{ClientCertificates, TlsCounters};
use rustls::SupportedProtocolVersion;
use rustls::client::ClientConnection;
use rustls::version::{TLS12, TLS13};
use slabwise_base::{Clock, Random, Seconds};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CIPHERTEXT_BYTES: usize = 64 << 10;

/// A server's stream and its client.
struct Pair {
    server: TlsStream,
    event_loop: Epoll,
    /// The counters of the server.
    counters: Arc<TlsCounters>,
    client: ClientConnection,
    /// The client's socket.
    socket: UnixStream,
    /// True if the server must receive, as an edge-triggered event loop decides: set when the client writes, and
    /// cleared by a receive call that reports no further input.
    readable: bool,
    /// The server's buffer for received ciphertext.
    ciphertext: Vec<u8>,
}

impl Pair {
    fn new(version: &'static SupportedProtocolVersion) -> Pair {
        let authority = Authority::new("authority");
        let files = CertificateFiles::new(&authority.server(), &authority);
        let tls = load(&settings(&files));
        let (server_socket, client_socket) =
            UnixStream::pair().expect("a socket pair can be opened");
        server_socket.set_nonblocking(true).expect("a socket can be made non-blocking");
        client_socket.set_nonblocking(true).expect("a socket can be made non-blocking");
        let accepted = tls.accept(ClientCertificates::Ignored);
        let counters = Arc::clone(&tls.counters);
        let watch = Arc::new(WatchLog::new(Arc::new(Clock::manual()), 1 << 10));
        let mut client = client(&authority.client_config(None, &[version]));
        client.set_buffer_limit(None);
        Pair {
            server: TlsStream::new(
                Socket::new(server_socket.into(), 0),
                accepted,
                Arc::clone(&counters),
                watch,
                Seconds(2),
            ),
            event_loop: Epoll::new().expect("an event loop can be made"),
            counters,
            client,
            socket: client_socket,
            readable: false,
            ciphertext: vec![0; CIPHERTEXT_BYTES],
        }
    }

    /// Makes a pair and completes the handshake.
    fn open(version: &'static SupportedProtocolVersion) -> Pair {
        let mut pair = Pair::new(version);
        while pair.client.is_handshaking() || pair.server.is_handshaking() {
            pair.client_writes();
            assert!(pair.server_receives(0, 1000).is_empty());
            pair.server_writes(&mut Out::default());
            pair.client_reads();
        }
        pair
    }

    /// Writes the client's ciphertext until the client's socket accepts no more.
    fn client_writes(&mut self) {
        while self.client.wants_write() {
            match self.client.write_tls(&mut self.socket) {
                Ok(_) => self.readable = true,
                Err(error) => return assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    /// Reads all bytes that have arrived at the client. Returns their plaintext.
    fn client_reads(&mut self) -> Vec<u8> {
        let mut plaintext = Vec::new();
        loop {
            match self.client.read_tls(&mut self.socket) {
                Ok(0) => return plaintext,
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    return plaintext;
                }
            }
            self.client.process_new_packets().expect("the client accepts the server's records");
            // The end of the connection is an error here, which other tests check.
            let _ = self.client.reader().read_to_end(&mut plaintext);
        }
    }

    /// If `readable` is set, receives once at the server into slices of these lengths. Returns the plaintext.
    fn server_receives(&mut self, first_len: usize, second_len: usize) -> Vec<u8> {
        if !self.readable {
            return Vec::new();
        }
        let (mut first, mut second) = (vec![0; first_len], vec![0; second_len]);
        let targets = [first.as_mut_slice(), second.as_mut_slice()];
        let outcome = self
            .server
            .receive(&mut self.event_loop, targets, &mut self.ciphertext)
            .expect("the server receives without an error");
        self.readable = matches!(outcome, ReceiveOutcome::Bytes { more: true, .. });
        first.extend(second);
        first.truncate(outcome.byte_count());
        first
    }

    fn server_writes(&mut self, out: &mut Out<'_>) -> Flush {
        self.server.write(&mut self.event_loop, out).expect("the client's socket is open").0
    }

    /// Receives at the server until a call reports that no bytes are available, that the connection has ended, or an
    /// error. Returns the plaintext and the result of that call.
    fn receive_until_closed(&mut self) -> (Vec<u8>, std::io::Result<ReceiveOutcome>) {
        let mut received = Vec::new();
        loop {
            let mut buffer = vec![0; 1000];
            match self.server.receive(
                &mut self.event_loop,
                [&mut [], &mut buffer],
                &mut self.ciphertext,
            ) {
                Ok(ReceiveOutcome::Bytes { count, .. }) => {
                    received.extend_from_slice(&buffer[..count])
                }
                other => return (received, other),
            }
        }
    }
}

fn random_bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next_u64() as u8).collect()
}

#[test]
fn bytes_arrive_once_and_in_order_in_both_directions() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let mut pair = Pair::open(if seed % 2 == 0 { &TLS13 } else { &TLS12 });
        let to_server = random_bytes(&mut random, 300_000);
        let to_client = random_bytes(&mut random, 300_000);
        let (mut sent, mut server_received, mut client_received) = (0, Vec::new(), Vec::new());
        let mut out = Out::default();
        out.bytes().extend_from_slice(&to_client);
        let largest = 1 + random.below(40_000);
        let mut rounds_without_progress = 0;
        while server_received.len() < to_server.len() || client_received.len() < to_client.len() {
            let before = server_received.len() + client_received.len() + sent;
            let part = (random.below(largest) as usize).min(to_server.len() - sent);
            pair.client
                .writer()
                .write_all(&to_server[sent..sent + part])
                .expect("the buffer of the client has no limit");
            sent += part;
            pair.client_writes();
            let first = random.below(2) * random.below(largest);
            let second = 1 + random.below(largest);
            server_received.extend(pair.server_receives(first as usize, second as usize));
            let flush = pair.server_writes(&mut out);
            assert!(
                flush != Flush::Drained || out.is_empty(),
                "seed {seed}: a drained output is empty"
            );
            if random.below(3) == 0 {
                client_received.extend(pair.client_reads());
            }
            let is_progress = server_received.len() + client_received.len() + sent > before;
            rounds_without_progress = if is_progress { 0 } else { rounds_without_progress + 1 };
            assert!(
                rounds_without_progress < 1000,
                "seed {seed}: no byte was sent or received in 1000 rounds"
            );
        }
        assert!(server_received == to_server, "seed {seed}: the server received other bytes");
        assert!(client_received == to_client, "seed {seed}: the client received other bytes");
    }
}

#[test]
fn a_client_that_does_not_read_uses_bounded_memory() {
    let mut pair = Pair::open(&TLS13);
    let mut out = Out::default();
    out.bytes().resize(10 << 20, b'x');
    let mut taken = 0;
    while let (Flush::Paused, count) =
        pair.server.write(&mut pair.event_loop, &mut out).expect("the client's socket is open")
    {
        taken += count;
    }
    let pending = out.pending_bytes();
    assert!(
        pending > 9 << 20,
        "of 10 MiB more than 9 MiB must stay in the output: {pending} bytes stayed, {taken} bytes were taken"
    );
    for _ in 0..10 {
        assert_eq!(
            pair.server.write(&mut pair.event_loop, &mut out).expect("the client's socket is open"),
            (Flush::Blocked, 0)
        );
    }
    assert_eq!(out.pending_bytes(), pending);
}

#[test]
fn an_output_is_not_drained_while_its_ciphertext_waits() {
    let mut pair = Pair::open(&TLS13);
    let mut out = Out::default();
    // Add bytes until the output is empty but the socket does not accept all its ciphertext.
    loop {
        out.bytes().push(b'x');
        match pair
            .server
            .write(&mut pair.event_loop, &mut out)
            .expect("the client's socket is open")
        {
            (Flush::Drained, _) => out.bytes().extend_from_slice(&[b'x'; 5_000]),
            (Flush::Blocked, _) if out.is_empty() => break,
            (Flush::Blocked, _) => {
                pair.client_reads();
            }
            (Flush::Paused, _) => unreachable!("the output is shorter than the 1 MiB of one call"),
        }
    }
    assert_eq!(pair.server_writes(&mut out), Flush::Blocked);
    pair.client_reads();
    assert_eq!(pair.server_writes(&mut out), Flush::Drained);
}

#[test]
fn a_client_without_tls_receives_an_alert_and_counts_as_a_handshake_error() {
    let mut pair = Pair::new(&TLS13);
    pair.socket.write_all(b"get a\r\nversion\r\n").expect("the socket accepts all bytes");
    let (received, end) = pair.receive_until_closed();
    assert_eq!(received, b"");
    assert_eq!(end.expect_err("the bytes are not TLS").kind(), ErrorKind::InvalidData);
    let mut alert = [0; 7];
    pair.socket.read_exact(&mut alert).expect("the client receives an alert");
    assert_eq!(alert[0], 0x15);
    assert_eq!(pair.counters.handshake_errors.load(Ordering::Relaxed), 1);
    assert_eq!(pair.counters.protocol_errors.load(Ordering::Relaxed), 0);
    // The server sends nothing after the alert.
    pair.server.notify_close(&mut pair.event_loop);
    let end = pair.socket.read(&mut alert).expect_err("no byte follows the alert");
    assert_eq!(end.kind(), ErrorKind::WouldBlock);
}

#[test]
fn the_plaintext_of_a_modified_record_is_not_received() {
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::open(version);
        pair.client
            .writer()
            .write_all(b"set a 0 0 1\r\n1\r\n")
            .expect("the buffer of the client has no limit");
        let mut record = Vec::new();
        pair.client.write_tls(&mut record).expect("a write into a vector succeeds");
        *record.last_mut().expect("the record is not empty") ^= 1;
        pair.socket.write_all(&record).expect("the socket accepts all bytes");
        let (received, end) = pair.receive_until_closed();
        assert_eq!(received, b"");
        assert_eq!(end.expect_err("the record was modified").kind(), ErrorKind::InvalidData);
        assert_eq!(pair.counters.protocol_errors.load(Ordering::Relaxed), 1);
        assert_eq!(pair.counters.handshake_errors.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn the_server_receives_all_bytes_before_the_end_with_and_without_close_notify() {
    for sends_close_notify in [true, false] {
        let mut pair = Pair::open(&TLS13);
        pair.client
            .writer()
            .write_all(&[b'x'; 50_000])
            .expect("the buffer of the client has no limit");
        if sends_close_notify {
            pair.client.send_close_notify();
        }
        pair.client_writes();
        pair.socket.shutdown(std::net::Shutdown::Write).expect("the socket is open");
        let (received, end) = pair.receive_until_closed();
        assert_eq!(received.len(), 50_000);
        assert_eq!(end.expect("the server receives without an error"), ReceiveOutcome::PeerClosed);
        // The client still receives replies.
        let mut out = Out::default();
        out.bytes().extend_from_slice(b"END\r\n");
        assert_eq!(pair.server_writes(&mut out), Flush::Drained);
        assert_eq!(pair.client_reads(), b"END\r\n");
    }
}

#[test]
fn notify_close_sends_close_notify_to_the_client() {
    let mut pair = Pair::open(&TLS13);
    pair.server.notify_close(&mut pair.event_loop);
    pair.client_reads();
    let state = pair.client.process_new_packets().expect("the client accepts the server's records");
    assert!(state.peer_has_closed());
}

#[test]
fn a_handshake_counts_one_new_session() {
    let pair = Pair::open(&TLS12);
    assert_eq!(pair.counters.new_sessions.load(Ordering::Relaxed), 1);
}

#[test]
fn a_call_decrypts_few_records_and_the_rest_arrives_later() {
    for version in [&TLS12, &TLS13] {
        for sends_close_notify in [false, true] {
            let mut pair = Pair::open(version);
            let sent: Vec<u8> = (0..1000).map(|index| index as u8).collect();
            for byte in &sent {
                pair.client.writer().write_all(&[*byte]).expect("the buffer has no limit");
            }
            if sends_close_notify {
                pair.client.send_close_notify();
            }
            pair.client_writes();
            let (mut received, mut calls) = (Vec::new(), 0);
            while pair.readable && received.len() < sent.len() {
                let part = pair.server_receives(0, CIPHERTEXT_BYTES);
                assert!(part.len() <= RECORDS_PER_CALL_MAX, "{} records", part.len());
                received.extend(part);
                calls += 1;
            }
            assert_eq!(received, sent);
            assert!(calls <= 2 + sent.len() / RECORDS_PER_CALL_MAX, "{calls} calls");
            let (rest, end) = pair.receive_until_closed();
            assert_eq!(rest, b"");
            let end = end.expect("the client did not violate the protocol");
            assert_eq!(end == ReceiveOutcome::PeerClosed, sends_close_notify);
            assert_eq!(pair.server.held_bytes(), 0);
        }
    }
}

#[test]
fn the_received_ciphertext_that_waits_is_counted() {
    let mut pair = Pair::open(&TLS13);
    assert_eq!(pair.server.held_bytes(), 0);
    for _ in 0..1000 {
        pair.client.writer().write_all(b"x").expect("the buffer has no limit");
    }
    pair.client_writes();
    pair.server_receives(0, CIPHERTEXT_BYTES);
    // A record with one byte has 23 bytes of ciphertext.
    let waiting = (1000 - RECORDS_PER_CALL_MAX) * 23;
    let held = pair.server.held_bytes();
    assert!((waiting..waiting + 1000).contains(&held), "{held} bytes are counted, not {waiting}");
    while pair.readable {
        pair.server_receives(0, 2000);
    }
    assert_eq!(pair.server.held_bytes(), 0);
}

#[test]
fn an_error_in_the_first_record_after_the_handshake_is_a_protocol_error() {
    let mut pair = Pair::new(&TLS13);
    pair.client_writes();
    pair.server_receives(0, CIPHERTEXT_BYTES);
    pair.server_writes(&mut Out::default());
    pair.client_reads();
    // The socket has the end of the handshake, and a record that no key encrypts.
    pair.client_writes();
    pair.socket
        .write_all(b"\x17\x03\x03\x00\x20this was never encrypted by anyone")
        .expect("the socket accepts all bytes");
    let (_, end) = pair.receive_until_closed();
    assert_eq!(end.expect_err("the record is invalid").kind(), ErrorKind::InvalidData);
    assert_eq!(pair.counters.protocol_errors.load(Ordering::Relaxed), 1);
    assert_eq!(pair.counters.handshake_errors.load(Ordering::Relaxed), 0);
    assert_eq!(pair.counters.new_sessions.load(Ordering::Relaxed), 1);
}
