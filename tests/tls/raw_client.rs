//! A TLS client that sends records which no correct client sends: the handshake is correct, and the test then encrypts
//! any bytes as a record of any type.

use crate::support::certificates::SERVER_NAME;
use rustls::client::ClientConnection;
use rustls::crypto::cipher::{MessageEncrypter, OutboundPlainMessage};
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedCipherSuite,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The time for which a client waits for the server before the test fails.
const REPLY_DEADLINE: Duration = Duration::from_secs(20);

/// A connection after its handshake. The test encrypts what it sends, and does not decrypt what it receives.
pub struct RawClient {
    pub socket: TcpStream,
    encrypter: Box<dyn MessageEncrypter>,
    /// The number of the next record that the client sends.
    record_number: u64,
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
        let suite = tls.negotiated_cipher_suite().expect("the handshake is complete");
        let secrets = tls.dangerous_extract_secrets().expect("the extraction is enabled");
        let (record_number, secrets) = secrets.tx;
        let mut client =
            RawClient { socket, encrypter: encrypter(suite, secrets), record_number: 0 };
        // The encrypter requires that its first record has the number 0.
        client.record(ContentType::Handshake, b"");
        client.record_number = record_number;
        client
    }

    /// Returns the next record of the connection, which contains these bytes.
    pub fn record(&mut self, content_type: ContentType, bytes: &[u8]) -> Vec<u8> {
        let message = OutboundPlainMessage {
            typ: content_type,
            version: ProtocolVersion::TLSv1_2,
            payload: bytes.into(),
        };
        let record = self.encrypter.encrypt(message, self.record_number);
        self.record_number += 1;
        record.expect("the client can encrypt a record").encode()
    }

    /// Sends a record that contains these bytes.
    pub fn send(&mut self, content_type: ContentType, bytes: &[u8]) {
        let record = self.record(content_type, bytes);
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

/// Returns the encrypter of a cipher suite with these keys.
fn encrypter(
    suite: SupportedCipherSuite,
    secrets: ConnectionTrafficSecrets,
) -> Box<dyn MessageEncrypter> {
    let ConnectionTrafficSecrets::Aes256Gcm { key, iv } = secrets else {
        panic!("the client prefers AES-256-GCM, but the handshake selected {:?}", suite.suite());
    };
    match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
        // The nonce of TLS 1.2 has four bytes that are fixed and eight bytes that each record contains.
        SupportedCipherSuite::Tls12(suite) => {
            let (fixed, explicit) = iv.as_ref().split_at(4);
            suite.aead_alg.encrypter(key, fixed, explicit)
        }
    }
}
