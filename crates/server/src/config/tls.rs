//! What `-Z` and the options of TLS come to.

use super::draft::{Draft, Given};
use super::error::OptionsError;
use super::settings::{Listen, ListenSecurity};
use crate::tls::{ClientCertificates, TlsSettings};
use std::path::{Path, PathBuf};

/// What `-Z` and the options come to; `absolute` makes a file's path absolute.
pub(super) fn settings(
    draft: &mut Draft,
    absolute: impl Fn(&PathBuf) -> Result<PathBuf, OptionsError>,
) -> Result<Option<TlsSettings>, OptionsError> {
    let Given { tls, tls_enabled, tls_names, .. } = &draft.given;
    if !tls_enabled {
        if !tls_names.is_empty() {
            let names = tls_names.join(", ");
            draft.warn(format!("without -Z traffic is in clear text: {names} have no effect"));
        }
        return Ok(None);
    }
    if tls.chain_file.as_os_str().is_empty() {
        return Err(OptionsError(
            "-Z needs the server's certificate and key: add -o ssl_chain_cert=FILE,ssl_key=FILE"
                .to_owned(),
        ));
    }
    Ok(Some(TlsSettings {
        chain_file: absolute(&tls.chain_file)?,
        key_file: tls.key_file.as_ref().map(&absolute).transpose()?,
        ca_file: tls.ca_file.as_ref().map(&absolute).transpose()?,
        ..tls.clone()
    }))
}

/// How listeners are secured of which `-l` says nothing else.
pub(super) fn default_security(given: &Given) -> ListenSecurity {
    match given.tls_enabled {
        true => ListenSecurity::Tls(given.tls.verify_mode.client_certificates()),
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
