//! A TLS connection counts the memory that its client makes it hold, whatever the client sends.
//!
//! This test has its own binary because it replaces the allocator with one that counts.

#[path = "../../../tests/support/certificates.rs"]
mod certificates;
#[path = "../../../tests/support/record_writer.rs"]
mod record_writer;
#[path = "../src/net/tls_records.rs"]
mod tls_records;
#[allow(dead_code, reason = "the server uses all functions of the module, and the test only some")]
#[path = "../src/net/tls_state.rs"]
mod tls_state;

use certificates::{Authority, Identity, SERVER_NAME};
use record_writer::RecordWriter;
use rustls::client::ClientConnection;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerConnection, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ContentType, RootCertStore, ServerConfig, SupportedProtocolVersion};
use slabwise_base::Random;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{IoSlice, Write};
use std::sync::Arc;
use tls_state::{HANDSHAKE_BYTES_MAX, TlsFault, TlsState};

/// The system allocator with a count of the allocated bytes.
struct Counting;

thread_local! {
    /// The bytes that this thread has allocated and not freed.
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

/// Adds a number of bytes to the count of this thread.
fn count(bytes: isize) {
    ALLOCATED.set(ALLOCATED.get() + bytes);
}

// SAFETY: every call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's guarantees about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: `block` was allocated by `System` with this layout in `alloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as isize - layout.size() as isize);
        // SAFETY: `block` and `layout` are as in `dealloc`, and the caller guarantees `new_size`.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
/// The maximum size of the buffers that are not counted, in bytes, as the invariant COUNTED says.
const UNCOUNTED_BYTES_MAX: usize = 8 << 10;
/// The limit of ciphertext that waits, as with the default of `ssl_wbuf_size`.
const WRITE_BUFFER_BYTES: usize = 16 << 10;

/// A server's connection, with a count of its memory.
struct Server {
    state: TlsState,
    /// The bytes that rustls has allocated for the connection and not freed, since the connection was last idle.
    allocated_bytes: isize,
}

impl Server {
    /// Makes the state of a new connection.
    fn new(config: &Arc<ServerConfig>) -> Server {
        let mut tls = ServerConnection::new(Arc::clone(config)).expect("the settings are valid");
        tls.set_buffer_limit(Some(WRITE_BUFFER_BYTES));
        Server { state: TlsState::new(tls), allocated_bytes: 0 }
    }

    /// Calls `use_state`, which allocates nothing but the memory of the connection.
    fn with_state<T>(&mut self, use_state: impl FnOnce(&mut TlsState) -> T) -> T {
        let before = ALLOCATED.get();
        let result = use_state(&mut self.state);
        self.allocated_bytes += ALLOCATED.get() - before;
        result
    }

    /// Decrypts all ciphertext, and drops the plaintext.
    fn receive(&mut self, mut ciphertext: &[u8]) -> Result<(), TlsFault> {
        self.with_state(|state| {
            let mut records_left = usize::MAX;
            while !ciphertext.is_empty() {
                state.decrypt(&mut ciphertext, &mut records_left)?;
                take_all_plaintext(state);
            }
            state.free_input_buffer();
            Ok(())
        })
    }

    /// Encrypts the first of these bytes. Returns their number.
    fn encrypt(&mut self, bytes: &[u8]) -> usize {
        let slices = [IoSlice::new(bytes)];
        self.with_state(|state| state.encrypt(&slices)).expect("the server can encrypt")
    }

    /// Writes ciphertext to a socket that has room for this number of bytes. Returns the written bytes.
    fn write(&mut self, room: usize) -> Vec<u8> {
        let mut socket = vec![0; room];
        let mut unwritten = &mut socket[..];
        // The call returns an error if the room is too small.
        let _ = self.with_state(|state| state.write_to(&mut unwritten));
        let unwritten_len = unwritten.len();
        socket.truncate(room - unwritten_len);
        socket
    }

    /// Asserts that the counted bytes are at least those that are allocated, and that they are not much more.
    #[track_caller]
    fn check(&self) {
        let held = self.state.held_bytes();
        let allocated = self.allocated_bytes.max(0) as usize;
        assert!(
            allocated <= held + UNCOUNTED_BYTES_MAX,
            "{allocated} bytes are allocated, but only {held} are counted"
        );
        assert!(
            held <= 3 * allocated + UNCOUNTED_BYTES_MAX,
            "only {allocated} bytes are allocated, but {held} are counted"
        );
    }
}

/// Takes all plaintext of the connection.
fn take_all_plaintext(state: &mut TlsState) {
    while state.take_plaintext(&mut [0; 1000]).expect("plaintext can be taken") > 0 {}
}

/// Returns the configuration of a server that accepts clients with and without certificates of this authority.
fn server_config(authority: &Authority) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("the authority is valid");
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build();
    let server = authority.server();
    let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes()).expect("the key is valid PEM");
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&VERSIONS)
        .expect("the versions are supported")
        .with_client_cert_verifier(verifier.expect("the verifier has an authority"))
        .with_single_cert(vec![server.der()], key)
        .expect("the key belongs to the certificate");
    // As in the server, sessions take no memory.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

/// Returns a client for this version of TLS.
fn client(
    authority: &Authority,
    identity: Option<&Identity>,
    version: &'static SupportedProtocolVersion,
) -> ClientConnection {
    let config = authority.client_config(identity, &[version]);
    let mut config = ClientConfig::clone(&config);
    config.enable_secret_extraction = true;
    let name = SERVER_NAME.try_into().expect("the name is valid");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("the settings are valid");
    client.set_buffer_limit(None);
    client
}

/// Returns the bytes that the client wants to send.
fn output_of(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).expect("a write into a vector succeeds");
    }
    bytes
}

/// Completes the handshake.
fn shake_hands(client: &mut ClientConnection, server: &mut Server) {
    while client.is_handshaking() || server.state.is_handshaking() {
        server.receive(&output_of(client)).expect("the client is accepted");
        let bytes = server.write(1 << 20);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("a read from a slice succeeds");
            client.process_new_packets().expect("the client accepts the server");
        }
    }
}

/// Returns a client and a server with a complete handshake.
fn connected(version: &'static SupportedProtocolVersion) -> (ClientConnection, Server) {
    let authority = Authority::new("authority");
    let mut server = Server::new(&server_config(&authority));
    let mut client = client(&authority, None, version);
    shake_hands(&mut client, &mut server);
    assert_eq!(server.state.held_bytes(), 0, "an idle connection holds nothing");
    server.allocated_bytes = 0;
    (client, server)
}

/// Returns the records in which the client sends bytes of this number.
fn records(client: &mut ClientConnection, len: usize) -> Vec<u8> {
    client.writer().write_all(&vec![b'x'; len]).expect("the buffer has no limit");
    output_of(client)
}

#[test]
fn a_part_of_a_record_is_counted_and_its_buffer_is_freed() {
    for version in VERSIONS {
        let (mut client, mut server) = connected(version);
        let record = records(&mut client, 16_000);
        for part in [&record[..10], &record[10..15_000]] {
            server.receive(part).expect("the record is valid");
            server.check();
        }
        assert!(server.state.held_bytes() > 10_000);
        server.receive(&record[15_000..]).expect("the record is valid");
        assert_eq!(server.state.held_bytes(), 0);
        server.check();
    }
}

#[test]
fn plaintext_is_counted_until_the_caller_takes_it() {
    for version in VERSIONS {
        let (mut client, mut server) = connected(version);
        let record = records(&mut client, 16_000);
        server.with_state(|state| {
            let mut rest = &record[..];
            while !rest.is_empty() {
                state.decrypt(&mut rest, &mut 1).expect("the record is valid");
            }
            state.free_input_buffer();
        });
        assert!(server.state.held_bytes() >= 16_000);
        server.check();
        server.with_state(take_all_plaintext);
        assert_eq!(server.state.held_bytes(), 0);
        server.check();
    }
}

#[test]
fn ciphertext_is_counted_until_the_socket_takes_it() {
    for version in VERSIONS {
        let (_client, mut server) = connected(version);
        assert_eq!(server.encrypt(&vec![b'x'; 1 << 20]), WRITE_BUFFER_BYTES);
        assert!(server.state.held_bytes() >= WRITE_BUFFER_BYTES);
        server.check();
        // rustls keeps a whole record until all of it is written.
        assert_eq!(server.write(1 << 10).len(), 1 << 10);
        server.check();
        server.write(1 << 20);
        assert_eq!(server.state.held_bytes(), 0);
        server.check();
    }
}

#[test]
fn handshake_messages_are_counted_until_the_handshake_is_refused() {
    let authority = Authority::new("authority");
    let mut server = Server::new(&server_config(&authority));
    // A ClientHello of 65,000 bytes arrives in many small records.
    let mut record = vec![0x16, 3, 1, 0, 100, 1, 0, 0xfd, 0xe8];
    record.resize(105, 0);
    let mut sent = 0;
    let fault = loop {
        if let Err(fault) = server.receive(&record) {
            break fault;
        }
        sent += record.len();
        record[5..9].fill(0);
        server.check();
        assert!(sent <= HANDSHAKE_BYTES_MAX, "the server accepts {sent} bytes");
    };
    assert!(sent > 60_000, "the server accepts only {sent} bytes: {fault}");
}

#[test]
fn certificates_of_a_client_are_counted() {
    let authority = Authority::new("authority");
    let mut identity = authority.client();
    while identity.chain.len() < 40_000 {
        identity = identity.with(&authority);
    }
    let certificates = CertificateDer::pem_slice_iter(identity.chain.as_bytes());
    let certificates_len: usize =
        certificates.map(|it| it.expect("the chain is valid PEM").len()).sum();
    for version in VERSIONS {
        let config = server_config(&authority);
        // What rustls holds for a connection without a certificate is not counted.
        let mut without = Server::new(&config);
        shake_hands(&mut client(&authority, None, version), &mut without);
        let mut server = Server::new(&config);
        shake_hands(&mut client(&authority, Some(&identity), version), &mut server);
        assert_eq!(server.state.held_bytes(), certificates_len);
        server.allocated_bytes -= without.allocated_bytes;
        server.check();
    }
}

#[test]
fn parts_of_a_message_after_the_handshake_are_counted_and_bounded() {
    for version in VERSIONS {
        let (client, mut server) = connected(version);
        let mut writer = RecordWriter::new(client);
        // The message announces 65,000 bytes. Its parts are in small records.
        let mut part = vec![0; 200];
        part[..4].copy_from_slice(&[1, 0, 0xfd, 0xe8]);
        let mut sent = 0;
        loop {
            let record = writer.record(ContentType::Handshake, &part);
            part[..4].fill(0);
            if server.receive(&record).is_err() {
                break;
            }
            sent += record.len();
            server.check();
            assert!(sent <= 64 << 10, "the server accepts {sent} bytes");
        }
        assert!(sent > 32 << 10, "the server accepts only {sent} bytes");
    }
}

#[test]
fn random_traffic_is_counted() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut client, mut server) = connected(VERSIONS[seed as usize % 2]);
        let (mut sent, mut received) = (Vec::new(), 0);
        for _ in 0..500 {
            let len_max = random.below(40_000);
            let len = random.below(1 + len_max) as usize;
            match random.below(5) {
                0 => sent.extend(records(&mut client, len)),
                1 | 2 => {
                    let end = sent.len().min(received + len);
                    server.receive(&sent[received..end]).expect("the records are valid");
                    received = end;
                }
                // The server encrypts nothing while ciphertext waits for the socket.
                3 if !server.state.wants_write() => drop(server.encrypt(&vec![b'y'; len])),
                _ => drop(server.write(len)),
            }
            let (held, allocated) = (server.state.held_bytes(), server.allocated_bytes);
            assert!(
                allocated <= (held + UNCOUNTED_BYTES_MAX) as isize,
                "seed {seed}: {allocated} bytes are allocated, but only {held} are counted"
            );
        }
        assert!(received > 100_000, "seed {seed}: the server received only {received} bytes");
    }
}
