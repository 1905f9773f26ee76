//! The table of memcached's TLS options of `-o`.

use crate::config::draft::Draft;
use crate::config::option::{COUNT_MAX, ServerOption, option, switch, yes_no};
use crate::config::settings::Running;
use crate::tls::{KeyFormat, TlsSettings, TlsVersion, VerifyMode};
use std::path::Path;

/// The maximum size of a TLS write buffer in KiB. A connection writes at most 1 MiB in a round, so a larger buffer
/// would never be full.
const WRITE_BUFFER_KIB_MAX: u32 = 1024;

/// The TLS options, in the order of the help. Their names begin with [`TLS_PREFIX`].
pub(in crate::config) static TLS: &[ServerOption] = &[
    option("ssl_chain_cert")
        .text("file", |it, path| it.given.tls.chain_file = path.into())
        .frequent_help("file of the server's certificate chain, in PEM; required with -Z")
        .stat("ssl_chain_cert", |it| file(Some(&tls(it).chain_file), "(null)")),
    option("ssl_key")
        .text("file", |it, path| it.given.tls.key_file = Some(path.into()))
        .frequent_help("file of the private key, not encrypted; by default the file of ssl_chain_cert")
        .stat("ssl_key", |it| file(tls(it).key_file.as_deref(), "(null)")),
    option("ssl_keyformat")
        .checked("1|2", key_format)
        .default("1")
        .help("format of the private key: 1 (PEM) or 2 (DER)")
        .stat("ssl_keyformat", |it| match tls(it).key_format {
            KeyFormat::Pem => "1".to_owned(),
            KeyFormat::Der => "2".to_owned(),
        }),
    option("ssl_verify_mode")
        .number(0, 3, "", |it, mode| {
            it.given.tls.verify_mode = VerifyMode::ALL[mode as usize];
        })
        .default("0")
        .help("client certificates: 0 (ignored), 1 (optional), 2 (required) or 3 (required)")
        .stat("ssl_verify_mode", |it| tls(it).verify_mode.openssl_flags().to_string()),
    option("ssl_ca_cert")
        .text("file", |it, path| it.given.tls.ca_file = Some(path.into()))
        .help("file of the authorities that verify client certificates, in PEM")
        .stat("ssl_ca_cert", |it| file(tls(it).ca_file.as_deref(), "NULL")),
    option("ssl_ciphers")
        .text("list", |it, list| it.given.tls.ciphers = Some(list.to_owned()))
        .default("all")
        .help("list of TLS 1.2 cipher suites in OpenSSL's format, separated by ':'; TLS 1.3 suites are always enabled")
        .stat("ssl_ciphers", |it| tls(it).ciphers.unwrap_or_else(|| "NULL".to_owned())),
    option("ssl_min_version")
        .number(0, 3, "", version_min)
        .default("2")
        .help("minimum TLS version: 2 (TLS 1.2) or 3 (TLS 1.3); 0 and 1 are read as 2")
        .stat("ssl_min_version", |it| match tls(it).version_min {
            TlsVersion::V1_2 => "tlsv1.2".to_owned(),
            TlsVersion::V1_3 => "tlsv1.3".to_owned(),
        }),
    switch("ssl_session_cache", |it| it.given.tls.session_cache = true)
        .help("allow clients to resume TLS sessions")
        .stat("ssl_session_cache", |it| yes_no(tls(it).session_cache)),
    option("ssl_wbuf_size")
        .number(1, COUNT_MAX, "kilobytes", write_buffer)
        .default("16")
        .help("maximum size of a connection's buffer of encrypted bytes, in kilobytes")
        .stat("ssl_wbuf_size", |it| tls(it).write_buffer_bytes.to_string()),
    option("ssl_kernel_tls")
        .no_effect("the server encrypts the bytes itself, without the kernel")
        .stat("ssl_kernel_tls", |_| yes_no(false)),
];

/// The start of the names of the TLS options.
pub(in crate::config) const TLS_PREFIX: &str = "ssl_";

/// Returns the TLS settings of a running server, or the defaults without `-Z`.
fn tls(running: &Running<'_>) -> TlsSettings {
    running.settings.tls.clone().unwrap_or_default()
}

/// Returns the path of a file, or `absent` if the file is not given.
fn file(path: Option<&Path>, absent: &str) -> String {
    let path = path.filter(|path| !path.as_os_str().is_empty());
    path.map_or_else(|| absent.to_owned(), |path| path.display().to_string())
}

/// Sets the format of the private key.
fn key_format(draft: &mut Draft, text: &str) -> Result<(), String> {
    draft.given.tls.key_format = match text {
        "1" | "PEM" => KeyFormat::Pem,
        "2" | "DER" => KeyFormat::Der,
        other => {
            return Err(format!(
                "takes 1 (PEM) or 2 (DER), not '{other}': convert other keys to PEM first (openssl \
                 pkey -in FILE -out NEW)"
            ));
        }
    };
    Ok(())
}

/// Sets the size of the TLS write buffer, and warns if the size is above the maximum.
fn write_buffer(draft: &mut Draft, kib: i64) {
    let kib = kib as u32;
    draft.given.tls.write_buffer_bytes = kib.min(WRITE_BUFFER_KIB_MAX) << 10;
    if kib > WRITE_BUFFER_KIB_MAX {
        draft.warn(format!(
            "-o ssl_wbuf_size={kib} is above the maximum, so {WRITE_BUFFER_KIB_MAX} is used"
        ));
    }
}

/// Sets the minimum TLS version, and warns if the version is not supported.
fn version_min(draft: &mut Draft, number: i64) {
    draft.given.tls.version_min = if number == 3 { TlsVersion::V1_3 } else { TlsVersion::V1_2 };
    if number < 2 {
        draft.warn(format!(
            "-o ssl_min_version={number} is read as 2 (TLS 1.2): slabwise does not support TLS versions \
             below 1.2, which are insecure"
        ));
    }
}
