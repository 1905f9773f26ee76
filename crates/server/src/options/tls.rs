//! The rows of TLS in the table of `-o`, and what follows from them.

use super::OptionsError;
use super::extended::{row, switch};
use super::kind::{Kind, OptionRow, Value};
use super::raw::Raw;
use crate::settings::{Listen, ListenSecurity};
use crate::tls::{
    ClientCertificates, KeyFormat, TlsSettings, TlsVersion, VerifyMode, WRITE_BUFFER_BYTES_DEFAULT,
};
use std::path::{Path, PathBuf};

/// What was said about TLS.
#[derive(Clone, Debug, Default)]
pub(super) struct RawTls {
    pub enabled: bool,
    pub chain_file: Option<String>,
    pub key_file: Option<String>,
    pub key_format: KeyFormat,
    pub ca_file: Option<String>,
    pub verify_mode: VerifyMode,
    pub ciphers: Option<String>,
    pub version_min: TlsVersion,
    pub write_buffer_kib: Option<u32>,
    pub session_cache: bool,
    /// The names that were given, which mean nothing without `-Z`.
    pub names: Vec<&'static str>,
}

/// A write takes no more than a mebibyte, so that a larger buffer would never be filled.
const WRITE_BUFFER_KIB_MAX: u32 = 1024;

/// Rows of TLS.
pub(super) static TLS: &[OptionRow] = &[
    row(
        "ssl_chain_cert",
        Kind::Text("file"),
        "",
        "certificate chain of the server, in PEM; -Z needs it",
        |raw, value| {
            said(raw, "ssl_chain_cert").chain_file = Some(value.text().to_owned());
            Ok(())
        },
    ),
    row(
        "ssl_key",
        Kind::Text("file"),
        "",
        "private key, if not part of ssl_chain_cert; not encrypted",
        |raw, value| {
            said(raw, "ssl_key").key_file = Some(value.text().to_owned());
            Ok(())
        },
    ),
    row(
        "ssl_keyformat",
        Kind::Text("1|2"),
        "1",
        "format of the key: 1 (PEM) or 2 (DER)",
        key_format,
    ),
    row(
        "ssl_verify_mode",
        Kind::Number { min: 0, max: 3, unit: "" },
        "0",
        "clients' certificates: 0 (not asked for), 1 (asked for), 2 (needed) or 3 (as 2)",
        |raw, value| {
            said(raw, "ssl_verify_mode").verify_mode = match value.number() {
                0 => VerifyMode::None,
                1 => VerifyMode::Request,
                2 => VerifyMode::Require,
                _ => VerifyMode::Once,
            };
            Ok(())
        },
    ),
    row(
        "ssl_ca_cert",
        Kind::Text("file"),
        "",
        "authorities of clients' certificates, in PEM",
        |raw, value| {
            said(raw, "ssl_ca_cert").ca_file = Some(value.text().to_owned());
            Ok(())
        },
    ),
    row(
        "ssl_ciphers",
        Kind::Text("list"),
        "all",
        "cipher suites of TLS 1.2 by OpenSSL's names, separated by ':'",
        |raw, value| {
            said(raw, "ssl_ciphers").ciphers = Some(value.text().to_owned());
            Ok(())
        },
    ),
    row(
        "ssl_min_version",
        Kind::Number { min: 0, max: 3, unit: "" },
        "2",
        "oldest version allowed: 2 (tlsv1.2) or 3 (tlsv1.3); 0 and 1 count as 2",
        version_min,
    ),
    switch("ssl_session_cache", "let clients resume their sessions", |raw, _| {
        said(raw, "ssl_session_cache").session_cache = true;
        Ok(())
    }),
    row(
        "ssl_wbuf_size",
        Kind::Number { min: 1, max: i32::MAX as i64, unit: "kilobytes" },
        "16",
        "kilobytes that are encrypted ahead of a client that reads slowly",
        write_buffer,
    ),
    switch("ssl_kernel_tls", "no effect: encryption is done in the process", |raw, _| {
        said(raw, "ssl_kernel_tls");
        raw.warn("-o ssl_kernel_tls has no effect: encryption is done in the process");
        Ok(())
    }),
];

/// Notes that a name was given.
fn said<'r>(raw: &'r mut Raw, name: &'static str) -> &'r mut RawTls {
    raw.tls.names.push(name);
    &mut raw.tls
}

fn key_format(raw: &mut Raw, value: Value<'_>) -> Result<(), String> {
    said(raw, "ssl_keyformat").key_format = match value.text() {
        "1" | "PEM" => KeyFormat::Pem,
        "2" | "DER" => KeyFormat::Der,
        other => {
            return Err(format!(
                "takes 1 (PEM) or 2 (DER), not '{other}': keys in other stores and formats must be \
                 converted first (openssl pkey -in FILE -out NEW)"
            ));
        }
    };
    Ok(())
}

fn write_buffer(raw: &mut Raw, value: Value<'_>) -> Result<(), String> {
    let kib = value.number_u32();
    said(raw, "ssl_wbuf_size").write_buffer_kib = Some(kib.min(WRITE_BUFFER_KIB_MAX));
    if kib > WRITE_BUFFER_KIB_MAX {
        raw.warn(format!(
            "-o ssl_wbuf_size={kib} counts as {WRITE_BUFFER_KIB_MAX}: no write takes more"
        ));
    }
    Ok(())
}

fn version_min(raw: &mut Raw, value: Value<'_>) -> Result<(), String> {
    let number = value.number();
    said(raw, "ssl_min_version").version_min = match number {
        3 => TlsVersion::V1_3,
        _ => TlsVersion::V1_2,
    };
    if number < 2 {
        raw.warn(format!(
            "-o ssl_min_version={number} counts as 2: TLS below 1.2 is broken and not spoken"
        ));
    }
    Ok(())
}

/// What `-Z` and the options come to; a file's path by way of `absolute`.
pub(super) fn settings(
    raw: &mut Raw,
    absolute: impl Fn(&str) -> Result<PathBuf, OptionsError>,
) -> Result<Option<TlsSettings>, OptionsError> {
    if !raw.tls.enabled {
        if !raw.tls.names.is_empty() {
            let names = raw.tls.names.join(", ");
            raw.warn(format!("without -Z traffic is in clear text: {names} have no effect"));
        }
        return Ok(None);
    }
    let tls = &raw.tls;
    let file = |path: &Option<String>| path.as_deref().map(&absolute).transpose();
    let Some(chain_file) = file(&tls.chain_file)? else {
        return Err(OptionsError(
            "-Z needs the server's certificate and key: add -o ssl_chain_cert=FILE,ssl_key=FILE"
                .to_owned(),
        ));
    };
    let write_buffer_bytes = tls.write_buffer_kib.map(|kib| kib << 10);
    Ok(Some(TlsSettings {
        chain_file,
        key_file: file(&tls.key_file)?,
        key_format: tls.key_format,
        ca_file: file(&tls.ca_file)?,
        verify_mode: tls.verify_mode,
        ciphers: tls.ciphers.clone(),
        version_min: tls.version_min,
        write_buffer_bytes: write_buffer_bytes.unwrap_or(WRITE_BUFFER_BYTES_DEFAULT),
        session_cache: tls.session_cache,
    }))
}

/// How listeners are secured of which `-l` says nothing else.
pub(super) fn default_security(tls: &RawTls) -> ListenSecurity {
    match tls.enabled {
        true => ListenSecurity::Tls(tls.verify_mode.client_certificates()),
        false => ListenSecurity::Plain,
    }
}

/// What cannot be what its user wants.
pub(super) fn warning(listen: &Listen, authorities: Option<&Path>) -> Option<String> {
    let Listen::Tcp(addresses) = listen else { return None };
    let asks =
        |asked| addresses.iter().any(|address| address.security == ListenSecurity::Tls(asked));
    if authorities.is_some() {
        None
    } else if asks(ClientCertificates::Required) {
        Some("clients need certificates, and without -o ssl_ca_cert=FILE none is good".to_owned())
    } else if asks(ClientCertificates::Optional) {
        Some("without -o ssl_ca_cert=FILE clients with a certificate are turned away".to_owned())
    } else {
        None
    }
}
