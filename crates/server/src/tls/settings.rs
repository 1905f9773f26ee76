//! What `-Z` and the options `ssl_*` ask for, and how `stats settings` shows it.

use std::path::PathBuf;

/// What `-Z` and the options `ssl_*` ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// `-o ssl_chain_cert`: the server's certificate and those between it and its authority, in PEM.
    pub chain_file: PathBuf,
    /// `-o ssl_key`: the certificate's private key; where it is not said, in the file of the chain.
    pub key_file: Option<PathBuf>,
    /// `-o ssl_keyformat`.
    pub key_format: KeyFormat,
    /// `-o ssl_ca_cert`: the authorities whose clients are let in, in PEM.
    pub ca_file: Option<PathBuf>,
    /// `-o ssl_verify_mode`.
    pub verify_mode: VerifyMode,
    /// `-o ssl_ciphers`: which suites of TLS 1.2 may be used, as OpenSSL writes such lists.
    pub ciphers: Option<String>,
    /// `-o ssl_min_version`.
    pub version_min: TlsVersion,
    /// `-o ssl_wbuf_size`: the most that is encrypted ahead of what the socket has taken.
    pub write_buffer_bytes: u32,
    /// `-o ssl_session_cache`: whether clients may resume sessions.
    pub session_cache: bool,
}

/// How the private key's file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFormat {
    /// Base64 between lines that say what it is.
    #[default]
    Pem,
    /// The bytes themselves.
    Der,
}

/// What a listener asks of its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Nothing.
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
    /// 0
    #[default]
    None,
    /// 1
    Request,
    /// 2
    Require,
    /// 3: as 2, since there is no renegotiation in which to ask again.
    Once,
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// Memcached's default for `ssl_wbuf_size`: a record holds as much.
pub const WRITE_BUFFER_BYTES_DEFAULT: u32 = 16 << 10;

impl VerifyMode {
    /// What it asks of clients.
    pub fn client_certificates(self) -> ClientCertificates {
        match self {
            VerifyMode::None => ClientCertificates::Ignored,
            VerifyMode::Request => ClientCertificates::Optional,
            VerifyMode::Require | VerifyMode::Once => ClientCertificates::Required,
        }
    }

    /// OpenSSL's flags: 1 to ask, 2 to fail without, 4 to ask once.
    fn openssl_flags(self) -> u32 {
        match self {
            VerifyMode::None => 0,
            VerifyMode::Request => 1,
            VerifyMode::Require => 3,
            VerifyMode::Once => 7,
        }
    }
}

/// The lines of `stats settings`, with memcached's names, order and formats; without TLS its defaults.
pub fn stats(tls: Option<&TlsSettings>) -> Vec<(&'static str, String)> {
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let file = |path: Option<&PathBuf>, absent: &str| {
        path.map_or_else(|| absent.to_owned(), |path| path.display().to_string())
    };
    let write_buffer_bytes = tls.map_or(WRITE_BUFFER_BYTES_DEFAULT, |tls| tls.write_buffer_bytes);
    let verify_mode = tls.map(|tls| tls.verify_mode).unwrap_or_default();
    let key_format = match tls.map(|tls| tls.key_format).unwrap_or_default() {
        KeyFormat::Pem => "1",
        KeyFormat::Der => "2",
    };
    let version_min = match tls.map(|tls| tls.version_min).unwrap_or_default() {
        TlsVersion::V1_2 => "tlsv1.2",
        TlsVersion::V1_3 => "tlsv1.3",
    };
    let ciphers = tls.and_then(|tls| tls.ciphers.clone());
    vec![
        ("ssl_enabled", yes_no(tls.is_some())),
        ("ssl_chain_cert", file(tls.map(|tls| &tls.chain_file), "(null)")),
        ("ssl_key", file(tls.and_then(|tls| tls.key_file.as_ref()), "(null)")),
        ("ssl_verify_mode", verify_mode.openssl_flags().to_string()),
        ("ssl_keyformat", key_format.to_owned()),
        ("ssl_ciphers", ciphers.unwrap_or_else(|| "NULL".to_owned())),
        ("ssl_ca_cert", file(tls.and_then(|tls| tls.ca_file.as_ref()), "NULL")),
        ("ssl_wbuf_size", write_buffer_bytes.to_string()),
        ("ssl_session_cache", yes_no(tls.is_some_and(|tls| tls.session_cache))),
        // Whatever was asked for: the kernel never does it here.
        ("ssl_kernel_tls", yes_no(false)),
        ("ssl_min_version", version_min.to_owned()),
    ]
}
