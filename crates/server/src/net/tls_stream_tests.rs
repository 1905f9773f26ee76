//! Tests of the TLS stream over a socket pair, with rustls's client at the other end.

use super::tls_stream::TlsStream;
use crate::os::sys::Receipt;
use crate::out::{Flush, Out};
use crate::shared::WatchLog;
use crate::tls::tests::certificates::{Authority, CertificateFiles};
use crate::tls::tests::{client, load, settings};
use crate::tls::{ClientCertificates, TlsCounters};
use rustls::SupportedProtocolVersion;
use rustls::client::ClientConnection;
use rustls::version::{TLS12, TLS13};
use slabwise_base::{Clock, Random};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CIPHERTEXT_BYTES: usize = 64 << 10;

/// The two ends of a connection, and the state of an event loop.
struct Pair {
    server: TlsStream,
    counters: Arc<TlsCounters>,
    client: ClientConnection,
    socket: UnixStream,
    /// Edge-triggered readiness: set when the client writes, cleared by a receipt without more.
    readable: bool,
    ciphertext: Vec<u8>,
}

impl Pair {
    fn new(version: &'static SupportedProtocolVersion) -> Pair {
        let authority = Authority::new("authority");
        let files = CertificateFiles::new(&authority.server(), &authority);
        let tls = load(&settings(&files));
        let (near, far) = UnixStream::pair().expect("a socket pair");
        near.set_nonblocking(true).expect("non-blocking");
        far.set_nonblocking(true).expect("non-blocking");
        let accepted = tls.accept(ClientCertificates::Ignored);
        let counters = Arc::clone(&tls.counters);
        let watch = Arc::new(WatchLog::new(Arc::new(Clock::manual()), 1 << 10));
        let mut client = client(&authority.client_config(None, &[version]));
        client.set_buffer_limit(None);
        Pair {
            server: TlsStream::new(near.into(), accepted, Arc::clone(&counters), watch),
            counters,
            client,
            socket: far,
            readable: false,
            ciphertext: vec![0; CIPHERTEXT_BYTES],
        }
    }

    /// Makes a pair that has completed its handshake.
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

    /// Writes the client's ciphertext until its socket blocks.
    fn client_writes(&mut self) {
        while self.client.wants_write() {
            match self.client.write_tls(&mut self.socket) {
                Ok(_) => self.readable = true,
                Err(error) => return assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    /// Reads everything at the client; returns the plaintext.
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
            self.client.process_new_packets().expect("the server keeps to the protocol");
            // The connection's end is checked elsewhere.
            let _ = self.client.reader().read_to_end(&mut plaintext);
        }
    }

    /// Receives once into slices of these sizes, if there was an event; returns the plaintext.
    fn server_receives(&mut self, first_len: usize, second_len: usize) -> Vec<u8> {
        if !self.readable {
            return Vec::new();
        }
        let (mut first, mut second) = (vec![0; first_len], vec![0; second_len]);
        let places = [first.as_mut_slice(), second.as_mut_slice()];
        let receipt = self.server.receive(places, &mut self.ciphertext).expect("all is well");
        self.readable = matches!(receipt, Receipt::Bytes { more: true, .. });
        first.extend(second);
        first.truncate(receipt.count());
        first
    }

    fn server_writes(&mut self, out: &mut Out<'_>) -> Flush {
        self.server.write(out).expect("the client is there").0
    }

    /// Receives until there is nothing more; returns the plaintext and the last receipt.
    fn receive_to_end(&mut self) -> (Vec<u8>, std::io::Result<Receipt>) {
        let mut received = Vec::new();
        loop {
            let mut place = vec![0; 1000];
            match self.server.receive([&mut [], &mut place], &mut self.ciphertext) {
                Ok(Receipt::Bytes { count, .. }) => received.extend_from_slice(&place[..count]),
                other => return (received, other),
            }
        }
    }
}

fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next_u64() as u8).collect()
}

#[test]
fn bytes_arrive_once_and_in_order_in_both_directions() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let mut pair = Pair::open(if seed % 2 == 0 { &TLS13 } else { &TLS12 });
        let (up, down) = (bytes(&mut random, 300_000), bytes(&mut random, 300_000));
        let (mut sent, mut received, mut got) = (0, Vec::new(), Vec::new());
        let mut out = Out::default();
        out.bytes().extend_from_slice(&down);
        let largest = 1 + random.below(40_000);
        let mut rounds_without_news = 0;
        while received.len() < up.len() || got.len() < down.len() {
            let before = received.len() + got.len() + sent;
            let part = (random.below(largest) as usize).min(up.len() - sent);
            pair.client
                .writer()
                .write_all(&up[sent..sent + part])
                .expect("the buffer is unlimited");
            sent += part;
            pair.client_writes();
            let first = random.below(2) * random.below(largest);
            let second = 1 + random.below(largest);
            received.extend(pair.server_receives(first as usize, second as usize));
            let flush = pair.server_writes(&mut out);
            assert!(flush != Flush::Drained || out.is_empty(), "seed {seed}");
            if random.below(3) == 0 {
                got.extend(pair.client_reads());
            }
            let is_news = received.len() + got.len() + sent > before;
            rounds_without_news = if is_news { 0 } else { rounds_without_news + 1 };
            assert!(rounds_without_news < 1000, "seed {seed}: bytes are stuck");
        }
        assert!(received == up && got == down, "bytes differ with seed {seed}");
    }
}

#[test]
fn a_client_that_does_not_read_uses_bounded_memory() {
    let mut pair = Pair::open(&TLS13);
    let mut out = Out::default();
    out.bytes().resize(10 << 20, b'x');
    let mut taken = 0;
    while let (Flush::Paused, count) = pair.server.write(&mut out).expect("the client is there") {
        taken += count;
    }
    let pending = out.pending_bytes();
    assert!(pending > 9 << 20, "{pending} of 10 MiB wait, {taken} were taken");
    for _ in 0..10 {
        assert_eq!(pair.server.write(&mut out).expect("the client is there"), (Flush::Blocked, 0));
    }
    assert_eq!(out.pending_bytes(), pending);
}

#[test]
fn an_output_is_not_drained_while_its_ciphertext_waits() {
    let mut pair = Pair::open(&TLS13);
    let mut out = Out::default();
    // Fill the socket, then one more byte.
    loop {
        out.bytes().push(b'x');
        match pair.server.write(&mut out).expect("the client is there") {
            (Flush::Drained, _) => out.bytes().extend_from_slice(&[b'x'; 5_000]),
            (Flush::Blocked, _) if out.is_empty() => break,
            (Flush::Blocked, _) => {
                pair.client_reads();
            }
            (Flush::Paused, _) => unreachable!("the output is below the limit of a call"),
        }
    }
    assert_eq!(pair.server_writes(&mut out), Flush::Blocked);
    pair.client_reads();
    assert_eq!(pair.server_writes(&mut out), Flush::Drained);
}

#[test]
fn a_peer_without_tls_gets_an_alert_and_is_counted() {
    let mut pair = Pair::new(&TLS13);
    pair.socket.write_all(b"get a\r\nversion\r\n").expect("the socket takes it");
    let (received, end) = pair.receive_to_end();
    assert_eq!(received, b"");
    assert_eq!(end.expect_err("it is no TLS").kind(), ErrorKind::InvalidData);
    let mut alert = [0; 7];
    pair.socket.read_exact(&mut alert).expect("an alert");
    assert_eq!(alert[0], 0x15);
    assert_eq!(pair.counters.handshake_errors.load(Ordering::Relaxed), 1);
    assert_eq!(pair.counters.protocol_errors.load(Ordering::Relaxed), 0);
    // Nothing follows the alert.
    pair.server.notify_close();
    assert_eq!(pair.socket.read(&mut alert).expect_err("nothing").kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_modified_record_is_not_served() {
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::open(version);
        pair.client.writer().write_all(b"set a 0 0 1\r\n1\r\n").expect("the buffer is unlimited");
        let mut record = Vec::new();
        pair.client.write_tls(&mut record).expect("memory takes all");
        *record.last_mut().expect("a record") ^= 1;
        pair.socket.write_all(&record).expect("the socket takes it");
        let (received, end) = pair.receive_to_end();
        assert_eq!(received, b"");
        assert_eq!(end.expect_err("it is not the client's").kind(), ErrorKind::InvalidData);
        assert_eq!(pair.counters.protocol_errors.load(Ordering::Relaxed), 1);
        assert_eq!(pair.counters.handshake_errors.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn the_end_follows_the_last_byte_with_and_without_close_notice() {
    for with_notice in [true, false] {
        let mut pair = Pair::open(&TLS13);
        pair.client.writer().write_all(&[b'x'; 50_000]).expect("the buffer is unlimited");
        if with_notice {
            pair.client.send_close_notify();
        }
        pair.client_writes();
        pair.socket.shutdown(std::net::Shutdown::Write).expect("it is open");
        let (received, end) = pair.receive_to_end();
        assert_eq!(received.len(), 50_000);
        assert_eq!(end.expect("all is well"), Receipt::End);
        // The other direction is still open.
        let mut out = Out::default();
        out.bytes().extend_from_slice(b"END\r\n");
        assert_eq!(pair.server_writes(&mut out), Flush::Drained);
        assert_eq!(pair.client_reads(), b"END\r\n");
    }
}

#[test]
fn the_close_notice_reaches_the_peer() {
    let mut pair = Pair::open(&TLS13);
    pair.server.notify_close();
    pair.client_reads();
    let state = pair.client.process_new_packets().expect("the server keeps to the protocol");
    assert!(state.peer_has_closed());
}

#[test]
fn a_handshake_counts_one_new_session() {
    let pair = Pair::open(&TLS12);
    assert_eq!(pair.counters.new_sessions.load(Ordering::Relaxed), 1);
}
