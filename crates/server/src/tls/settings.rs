//! The settings of TLS: `-Z` and the options `ssl_*`.

use std::path::PathBuf;

/// The settings of a server with `-Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// `-o ssl_chain_cert`: the file of the server's certificate and the intermediate certificates, in PEM.
    pub chain_file: PathBuf,
    /// `-o ssl_key`: the file of the private key. `None` if the key is in the chain file.
    pub key_file: Option<PathBuf>,
    /// `-o ssl_keyformat`: the format of the private key.
    pub key_format: KeyFormat,
    /// `-o ssl_ca_cert`: the file of the authorities that verify client certificates, in PEM. `None` if there are none.
    pub ca_file: Option<PathBuf>,
    /// `-o ssl_verify_mode`: whether clients need certificates.
    pub verify_mode: VerifyMode,
    /// `-o ssl_ciphers`: the list of TLS 1.2 cipher suites, in OpenSSL's format. `None` for all supported suites.
    pub ciphers: Option<String>,
    /// `-o ssl_min_version`: the lowest TLS version that a client may use.
    pub version_min: TlsVersion,
    /// `-o ssl_wbuf_size`: the maximum number of encrypted bytes of a connection that wait to be written to the socket.
    pub write_buffer_bytes: u32,
    /// `-o ssl_session_cache`: whether clients can resume sessions.
    pub session_cache: bool,
}

/// The format of the file with the private key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFormat {
    #[default]
    Pem,
    Der,
}

/// How a listener uses client certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// The server requests no certificate.
    #[default]
    Ignored,
    /// Clients without a certificate are accepted. Clients with an invalid certificate are rejected.
    Optional,
    /// Clients without a valid certificate of an authority in `ssl_ca_cert` are rejected.
    Required,
}

/// The values of `-o ssl_verify_mode`, with memcached's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyMode {
    /// 0: client certificates are ignored.
    #[default]
    None,
    /// 1: client certificates are optional.
    Request,
    /// 2: client certificates are required.
    Require,
    /// 3: client certificates are required. In memcached this value also prevents a second request for a certificate
    /// when a connection is renegotiated; slabwise does not support renegotiation.
    Once,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    #[default]
    V1_2,
    V1_3,
}

impl Default for TlsSettings {
    /// Returns the defaults of memcached's TLS options, without files.
    fn default() -> TlsSettings {
        TlsSettings {
            chain_file: PathBuf::new(),
            key_file: None,
            key_format: KeyFormat::default(),
            ca_file: None,
            verify_mode: VerifyMode::default(),
            ciphers: None,
            version_min: TlsVersion::default(),
            // The maximum length of the plaintext in a TLS record.
            write_buffer_bytes: 16 << 10,
            session_cache: false,
        }
    }
}

impl VerifyMode {
    /// The variants. The index of a variant is the number that `ssl_verify_mode` takes.
    pub const ALL: [VerifyMode; 4] =
        [VerifyMode::None, VerifyMode::Request, VerifyMode::Require, VerifyMode::Once];

    /// Returns how listeners of this mode use client certificates.
    pub fn client_certificates(self) -> ClientCertificates {
        match self {
            VerifyMode::None => ClientCertificates::Ignored,
            VerifyMode::Request => ClientCertificates::Optional,
            VerifyMode::Require | VerifyMode::Once => ClientCertificates::Required,
        }
    }

    /// Returns the flags of OpenSSL that memcached sets for this mode: 1 to verify a certificate, 2 to reject clients
    /// without a certificate, 4 to request a certificate only once.
    pub fn openssl_flags(self) -> u32 {
        [0, 1, 3, 7][self as usize]
    }
}
