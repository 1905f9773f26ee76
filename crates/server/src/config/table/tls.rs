//! The TLS options of `-o`.

use crate::config::option::{COUNT_MAX, ServerOption, option, switch, yes_no};
use crate::config::settings::{Draft, Running};
use crate::tls::{KeyFormat, TlsSettings, TlsVersion, VerifyMode};
use std::path::Path;

/// A write is at most one mebibyte long, so a larger buffer would never be full.
const WRITE_BUFFER_KIB_MAX: u32 = 1024;

/// The TLS options. Their names begin with [`TLS_PREFIX`].
pub(in crate::config) static TLS: &[ServerOption] = &[
    option("ssl_chain_cert")
        .text("file", |it, path| it.given.tls.chain_file = path.into())
        .daily_help("certificate chain of the server, in PEM; required with -Z")
        .stat("ssl_chain_cert", |it| file(Some(&tls(it).chain_file), "(null)")),
    option("ssl_key")
        .text("file", |it, path| it.given.tls.key_file = Some(path.into()))
        .daily_help("unencrypted private key, if it is not in the file of ssl_chain_cert")
        .stat("ssl_key", |it| file(tls(it).key_file.as_deref(), "(null)")),
    option("ssl_keyformat")
        .checked("1|2", key_format)
        .default("1")
        .help("format of the key: 1 (PEM) or 2 (DER)")
        .stat("ssl_keyformat", |it| match tls(it).key_format {
            KeyFormat::Pem => "1".to_owned(),
            KeyFormat::Der => "2".to_owned(),
        }),
    option("ssl_verify_mode")
        .number(0, 3, "", |it, mode| {
            it.given.tls.verify_mode = VerifyMode::ALL[mode as usize];
        })
        .default("0")
        .help("client certificates: 0 (ignored), 1 (requested), 2 (required) or 3 (as 2)")
        .stat("ssl_verify_mode", |it| tls(it).verify_mode.openssl_flags().to_string()),
    option("ssl_ca_cert")
        .text("file", |it, path| it.given.tls.ca_file = Some(path.into()))
        .help("certificate authorities of clients, in PEM")
        .stat("ssl_ca_cert", |it| file(tls(it).ca_file.as_deref(), "NULL")),
    option("ssl_ciphers")
        .text("list", |it, list| it.given.tls.ciphers = Some(list.to_owned()))
        .default("all")
        .help("TLS 1.2 cipher suites by OpenSSL's names, separated by ':'")
        .stat("ssl_ciphers", |it| tls(it).ciphers.unwrap_or_else(|| "NULL".to_owned())),
    option("ssl_min_version")
        .number(0, 3, "", version_min)
        .default("2")
        .help("minimum TLS version: 2 (tlsv1.2) or 3 (tlsv1.3); 0 and 1 mean 2")
        .stat("ssl_min_version", |it| match tls(it).version_min {
            TlsVersion::V1_2 => "tlsv1.2".to_owned(),
            TlsVersion::V1_3 => "tlsv1.3".to_owned(),
        }),
    switch("ssl_session_cache", |it| it.given.tls.session_cache = true)
        .help("enable TLS session resumption")
        .stat("ssl_session_cache", |it| yes_no(tls(it).session_cache)),
    option("ssl_wbuf_size")
        .number(1, COUNT_MAX, "kilobytes", write_buffer)
        .default("16")
        .help("TLS write buffer of a connection in kilobytes")
        .stat("ssl_wbuf_size", |it| tls(it).write_buffer_bytes.to_string()),
    option("ssl_kernel_tls")
        .no_effect("the process encrypts, not the kernel")
        .stat("ssl_kernel_tls", |_| yes_no(false)),
];

pub(in crate::config) const TLS_PREFIX: &str = "ssl_";

/// Returns the TLS settings, or their defaults without `-Z`.
fn tls(running: &Running<'_>) -> TlsSettings {
    running.settings.tls.clone().unwrap_or_default()
}

fn file(path: Option<&Path>, absent: &str) -> String {
    let path = path.filter(|path| !path.as_os_str().is_empty());
    path.map_or_else(|| absent.to_owned(), |path| path.display().to_string())
}

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

fn write_buffer(draft: &mut Draft, kib: i64) {
    let kib = kib as u32;
    draft.given.tls.write_buffer_bytes = kib.min(WRITE_BUFFER_KIB_MAX) << 10;
    if kib > WRITE_BUFFER_KIB_MAX {
        draft.warn(format!(
            "-o ssl_wbuf_size={kib} is above the maximum: {WRITE_BUFFER_KIB_MAX} is used"
        ));
    }
}

fn version_min(draft: &mut Draft, number: i64) {
    draft.given.tls.version_min = if number == 3 { TlsVersion::V1_3 } else { TlsVersion::V1_2 };
    if number < 2 {
        draft.warn(format!(
            "-o ssl_min_version={number} means 2: TLS versions below 1.2 are insecure and not \
             supported"
        ));
    }
}
