//! TLS settings.

use std::path::PathBuf;

/// The settings of `-Z` and of the options `ssl_*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// `-o ssl_chain_cert`: the server's certificate and the intermediate certificates, in PEM.
    pub chain_file: PathBuf,
    /// `-o ssl_key`: the private key; by default it is in the chain file.
    pub key_file: Option<PathBuf>,
    pub key_format: KeyFormat,
    /// `-o ssl_ca_cert`: the authorities of client certificates, in PEM.
    pub ca_file: Option<PathBuf>,
    pub verify_mode: VerifyMode,
    /// `-o ssl_ciphers`: the TLS 1.2 suites, in OpenSSL's format.
    pub ciphers: Option<String>,
    pub version_min: TlsVersion,
    /// `-o ssl_wbuf_size`: the maximum length of encrypted bytes that wait for the socket.
    pub write_buffer_bytes: u32,
    pub session_cache: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFormat {
    #[default]
    Pem,
    Der,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    #[default]
    Ignored,
    /// Clients without a certificate are accepted; clients with an invalid one are rejected.
    Optional,
    /// Clients need a certificate of an authority in `ssl_ca_cert`.
    Required,
}

/// `-o ssl_verify_mode`, with memcached's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyMode {
    #[default]
    None,
    Request,
    Require,
    /// Equal to [`VerifyMode::Require`], because there is no renegotiation.
    Once,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    #[default]
    V1_2,
    V1_3,
}

impl Default for TlsSettings {
    /// Returns memcached's defaults, without files.
    fn default() -> TlsSettings {
        TlsSettings {
            chain_file: PathBuf::new(),
            key_file: None,
            key_format: KeyFormat::default(),
            ca_file: None,
            verify_mode: VerifyMode::default(),
            ciphers: None,
            version_min: TlsVersion::default(),
            // The maximum length of a TLS record.
            write_buffer_bytes: 16 << 10,
            session_cache: false,
        }
    }
}

impl VerifyMode {
    /// The variants, indexed by memcached's numbers.
    pub const ALL: [VerifyMode; 4] =
        [VerifyMode::None, VerifyMode::Request, VerifyMode::Require, VerifyMode::Once];

    pub fn client_certificates(self) -> ClientCertificates {
        match self {
            VerifyMode::None => ClientCertificates::Ignored,
            VerifyMode::Request => ClientCertificates::Optional,
            VerifyMode::Require | VerifyMode::Once => ClientCertificates::Required,
        }
    }

    /// Returns OpenSSL's flags: 1 for verify, 2 for fail without a certificate, 4 for verify once.
    pub fn openssl_flags(self) -> u32 {
        [0, 1, 3, 7][self as usize]
    }
}
