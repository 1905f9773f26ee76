//! Reads the server's credentials from files: the certificate chain, the private key, and the certificates of the
//! authorities that verify clients.
//!
//! Every error names the file and the remedy. An error starts with memcached's text, because the command
//! `refresh_certs` replies with the error and scripts search the reply for this text.

use super::settings::{KeyFormat, TlsSettings};
use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};

/// The reason why the credentials cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    #[error("Error loading the certificate chain: {path} : {1}", path = .0.display())]
    Chain(PathBuf, String),
    #[error("Error loading the key: {path} : {1}", path = .0.display())]
    Key(PathBuf, String),
    /// The files are valid, but rustls does not accept them together, for example because the key is not the key of the
    /// certificate.
    #[error("Error validating the certificate: {0}")]
    Mismatch(String),
    #[error("Error loading the CA certificate: {path} : {1}", path = .0.display())]
    Authorities(PathBuf, String),
    #[error("-o ssl_ciphers: {0}")]
    Ciphers(String),
}

/// The server's certificates and key, and the authorities of client certificates.
pub(super) struct Credentials {
    /// The server's certificate, followed by the intermediate certificates.
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    /// The certificates of `ssl_ca_cert`, or none without this option.
    pub authorities: RootCertStore,
}

impl Credentials {
    /// Reads all files that the settings name.
    pub(super) fn read(settings: &TlsSettings) -> Result<Credentials, CredentialsError> {
        let path = &settings.chain_file;
        let chain =
            certificates(path).map_err(|reason| CredentialsError::Chain(path.clone(), reason))?;
        let path = settings.key_file.as_ref().unwrap_or(path);
        let key = private_key(path, settings)
            .map_err(|reason| CredentialsError::Key(path.clone(), reason))?;
        let mut authorities = RootCertStore::empty();
        if let Some(path) = &settings.ca_file {
            let failed = |reason| CredentialsError::Authorities(path.clone(), reason);
            for certificate in certificates(path).map_err(failed)? {
                authorities.add(certificate).map_err(|error| {
                    failed(format!("{error}; the file must contain X.509 certificates in PEM"))
                })?;
            }
        }
        Ok(Credentials { chain, key, authorities })
    }
}

/// Reads the certificates in a PEM file, which must contain at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => {
            Err("no PEM certificate (BEGIN CERTIFICATE) in this file; convert a DER file with \
                      `openssl x509 -inform DER -in FILE -out NEW`"
                .to_owned())
        }
        Err(error) => Err(format!("invalid PEM: {}; give a valid PEM file", pem_fault(&error))),
    }
}

/// Texts in PEM files with an encrypted key: the first in the format PKCS #8, the second in OpenSSL's traditional
/// format.
const ENCRYPTED_KEY_MARKERS: [&[u8]; 2] =
    [b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"];

/// Reads the private key of the server.
fn private_key(path: &Path, settings: &TlsSettings) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    if settings.key_format == KeyFormat::Der {
        return PrivateKeyDer::try_from(bytes).map_err(|_| {
            "not a private key in DER (PKCS #8, PKCS #1 or SEC 1); for a PEM file leave ssl_keyformat out"
                .to_owned()
        });
    }
    if ENCRYPTED_KEY_MARKERS.iter().any(|mark| memchr::memmem::find(&bytes, mark).is_some()) {
        return Err(
            "the key is encrypted, and the server cannot ask for its password: decrypt it (openssl \
             pkey -in FILE -out NEW) and restrict the permissions of the new file"
                .to_owned(),
        );
    }
    // The file may also contain certificates, which this call skips.
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        PemError::NoItemsFound => {
            "no PEM private key (BEGIN PRIVATE KEY) in this file; for a DER file \
                                   give ssl_keyformat=2"
                .to_owned()
        }
        error => format!("invalid PEM: {}; give a valid PEM file", pem_fault(&error)),
    })
}

/// Returns the reason why a PEM file is invalid. The library's own text may contain lines of the file, and so the private
/// key.
fn pem_fault(error: &PemError) -> &'static str {
    match error {
        PemError::IllegalSectionStart { .. } => {
            "a line that begins with '-----BEGIN' does not end with '-----' (a line break may be missing)"
        }
        PemError::MissingSectionEnd { .. } => {
            "a line '-----END ...-----' is missing, or differs from its line '-----BEGIN ...-----'"
        }
        PemError::Base64Decode(_) => "the text between '-----BEGIN' and '-----END' is not base64",
        _ => "the file has another format",
    }
}

/// Reads a file. An error for lack of permission includes the remedy.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{error}: allow the server's user (-u) to read the file")
        }
        _ => error.to_string(),
    })
}
