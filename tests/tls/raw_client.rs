//! A TLS client that sends records which no correct client sends: the handshake is correct, and the test then encrypts
//! any bytes as a record of any type. Also clients that have not completed their handshake.

use crate::support::certificates::SERVER_NAME;
use crate::support::record_writer::RecordWriter;
use rustls::client::ClientConnection;
use rustls::{ClientConfig, ContentType};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The time for which a client waits for the server before the test fails.
const REPLY_DEADLINE: Duration = Duration::from_secs(20);

/// A connection after its handshake. The test encrypts what it sends, and does not decrypt what it receives.
pub struct RawClient {
    pub socket: TcpStream,
    pub records: RecordWriter,
}

impl RawClient {
    /// Connects and completes the handshake. The configuration must permit only one version of TLS.
    pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> RawClient {
        let mut config = ClientConfig::clone(config);
        config.enable_secret_extraction = true;
        let (mut tls, mut socket) = open(address, &Arc::new(config));
        while tls.is_handshaking() || tls.wants_write() {
            tls.complete_io(&mut socket).expect("the server completes the handshake");
        }
        RawClient { socket, records: RecordWriter::new(tls) }
    }

    /// Sends a record that contains these bytes.
    pub fn send(&mut self, content_type: ContentType, bytes: &[u8]) {
        let record = self.records.record(content_type, bytes);
        self.socket.write_all(&record).expect("the server keeps the connection open");
    }

    /// Returns all bytes that the server sends until it closes or resets the connection.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        read_to_end(&mut self.socket)
    }
}

/// Connects to the server, and makes the TLS state of a client. The handshake has not begun.
pub fn open(address: SocketAddr, config: &Arc<ClientConfig>) -> (ClientConnection, TcpStream) {
    let socket = connect(address);
    let name = SERVER_NAME.try_into().expect("the name of the server is valid");
    let tls = ClientConnection::new(Arc::clone(config), name);
    (tls.expect("the configuration of the client is valid"), socket)
}

/// Connects without a TLS handshake.
pub fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("the server listens");
    socket.set_read_timeout(Some(REPLY_DEADLINE)).expect("the time is valid");
    socket.set_write_timeout(Some(REPLY_DEADLINE)).expect("the time is valid");
    socket
}

/// Returns the ClientHello of a client with this configuration, as a record.
pub fn client_hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let name = SERVER_NAME.try_into().expect("the name of the server is valid");
    let tls = ClientConnection::new(Arc::clone(config), name);
    let mut tls = tls.expect("the configuration of the client is valid");
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).expect("a write to a Vec cannot fail");
    hello
}

/// Returns all bytes until the server closes or resets the connection. Panics if it does neither before the deadline.
pub fn read_to_end(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = socket.read_to_end(&mut bytes) {
        let kind = error.kind();
        assert_eq!(kind, ErrorKind::ConnectionReset, "the server closes or resets the connection");
    }
    bytes
}
