//! Reads the credentials from files: certificates, a private key and authorities.
//!
//! Every error names the file and the remedy. It starts with memcached's text, because `refresh_certs` replies with
//! it and scripts search for it.

use super::settings::{KeyFormat, TlsSettings};
use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    #[error("Error loading the certificate chain: {path} : {1}", path = .0.display())]
    Chain(PathBuf, String),
    #[error("Error loading the key: {path} : {1}", path = .0.display())]
    Key(PathBuf, String),
    /// Each file is valid, but they do not match.
    #[error("Error validating the certificate: {0}")]
    Together(String),
    #[error("Error loading the CA certificate: {path} : {1}", path = .0.display())]
    Authorities(PathBuf, String),
    #[error("-o ssl_ciphers: {0}")]
    Ciphers(String),
}

pub(super) struct Credentials {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    /// Empty without `ssl_ca_cert`.
    pub authorities: RootCertStore,
}

impl Credentials {
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
                    failed(format!("{error}; it must hold X.509 certificates in PEM"))
                })?;
            }
        }
        Ok(Credentials { chain, key, authorities })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err("no PEM certificate (BEGIN CERTIFICATE) in this file; convert DER with \
                      openssl x509 -inform DER -in FILE -out NEW"
            .to_owned()),
        Err(error) => Err(format!("invalid PEM: {error}")),
    }
}

/// OpenSSL's two markers of encrypted keys.
const ENCRYPTED: [&[u8]; 2] = [b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"];

fn private_key(path: &Path, settings: &TlsSettings) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    if settings.key_format == KeyFormat::Der {
        return PrivateKeyDer::try_from(bytes).map_err(|_| {
            "not a private key in DER (PKCS #8, PKCS #1 or SEC 1); for PEM leave ssl_keyformat out"
                .to_owned()
        });
    }
    if ENCRYPTED.iter().any(|mark| memchr::memmem::find(&bytes, mark).is_some()) {
        return Err(
            "the key is encrypted, and the server cannot ask for its password: decrypt it (openssl \
             pkey -in FILE -out NEW) and restrict the permissions of the new file"
                .to_owned(),
        );
    }
    // This skips certificates in the file.
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        PemError::NoItemsFound => "no PEM private key (BEGIN PRIVATE KEY) in this file; for DER \
                                   give ssl_keyformat=2"
            .to_owned(),
        error => format!("invalid PEM: {error}"),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{error}: the server's user (-u) must be able to read it")
        }
        _ => error.to_string(),
    })
}
