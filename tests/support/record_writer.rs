//! Encrypts any bytes as TLS records of any type. So a test can send what no correct client sends.

#![allow(dead_code, reason = "each test target uses only some of these helpers")]

use rustls::client::ClientConnection;
use rustls::crypto::cipher::{MessageEncrypter, OutboundPlainMessage};
use rustls::{ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedCipherSuite};

/// The sending side of a client whose handshake is complete.
pub struct RecordWriter {
    encrypter: Box<dyn MessageEncrypter>,
    /// The number of the next record.
    number: u64,
}

impl RecordWriter {
    /// Continues the connection of this client, whose configuration must enable the extraction of secrets.
    pub fn new(client: ClientConnection) -> RecordWriter {
        let suite = client.negotiated_cipher_suite().expect("the handshake is complete");
        let secrets = client.dangerous_extract_secrets().expect("the extraction is enabled");
        let (number, secrets) = secrets.tx;
        let mut writer = RecordWriter { encrypter: encrypter(suite, secrets), number: 0 };
        if number > 0 {
            // The encrypter requires that its first record has the number 0.
            writer.record(ContentType::Handshake, b"");
            writer.number = number;
        }
        writer
    }

    /// Returns the next record, which contains these bytes.
    pub fn record(&mut self, content_type: ContentType, bytes: &[u8]) -> Vec<u8> {
        let message = OutboundPlainMessage {
            typ: content_type,
            version: ProtocolVersion::TLSv1_2,
            payload: bytes.into(),
        };
        let record = self.encrypter.encrypt(message, self.number);
        self.number += 1;
        record.expect("the client can encrypt a record").encode()
    }
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
