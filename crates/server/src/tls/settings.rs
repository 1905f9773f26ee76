//! The settings of TLS.

use std::path::PathBuf;

/// What `-Z` and the options `ssl_*` ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// `-o ssl_chain_cert`: the server's certificate and those between it and its authority, in PEM.
    pub chain_file: PathBuf,
    /// `-o ssl_key`: the certificate's private key; where it is not said, in the file of the chain.
    pub key_file: Option<PathBuf>,
    pub key_format: KeyFormat,
    /// `-o ssl_ca_cert`: the authorities whose clients are let in, in PEM.
    pub ca_file: Option<PathBuf>,
    pub verify_mode: VerifyMode,
    /// `-o ssl_ciphers`: which suites of TLS 1.2 may be used, as OpenSSL writes such lists.
    pub ciphers: Option<String>,
    pub version_min: TlsVersion,
    /// `-o ssl_wbuf_size`: the most that is encrypted ahead of what the socket has taken.
    pub write_buffer_bytes: u32,
    pub session_cache: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFormat {
    /// Base64 between lines that say what it is.
    #[default]
    Pem,
    /// The bytes themselves.
    Der,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    #[default]
    Ignored,
    /// A certificate, if they have one: a bad one is worse than none.
    Optional,
    /// A certificate by an authority of `ssl_ca_cert`.
    Required,
}

/// `-o ssl_verify_mode`, by memcached's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyMode {
    #[default]
    None,
    Request,
    Require,
    /// As [`VerifyMode::Require`], since there is no renegotiation in which to ask again.
    Once,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    #[default]
    V1_2,
    V1_3,
}

impl Default for TlsSettings {
    /// memcached's defaults, without files.
    fn default() -> TlsSettings {
        TlsSettings {
            chain_file: PathBuf::new(),
            key_file: None,
            key_format: KeyFormat::default(),
            ca_file: None,
            verify_mode: VerifyMode::default(),
            ciphers: None,
            version_min: TlsVersion::default(),
            // A record holds as much.
            write_buffer_bytes: 16 << 10,
            session_cache: false,
        }
    }
}

impl VerifyMode {
    /// By memcached's numbers.
    pub const ALL: [VerifyMode; 4] =
        [VerifyMode::None, VerifyMode::Request, VerifyMode::Require, VerifyMode::Once];

    pub fn client_certificates(self) -> ClientCertificates {
        match self {
            VerifyMode::None => ClientCertificates::Ignored,
            VerifyMode::Request => ClientCertificates::Optional,
            VerifyMode::Require | VerifyMode::Once => ClientCertificates::Required,
        }
    }

    /// OpenSSL's flags: 1 to ask, 2 to fail without, 4 to ask once.
    pub fn openssl_flags(self) -> u32 {
        [0, 1, 3, 7][self as usize]
    }
}
