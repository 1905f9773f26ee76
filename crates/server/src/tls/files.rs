//! The files that credentials are read from: certificates, a private key, authorities.
//!
//! Every error names the file and what to do. The first words of each are memcached's, since
//! `refresh_certs` answers with them and scripts look for them.

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
    /// Each file is right by itself.
    #[error("Error validating the certificate: {0}")]
    Together(String),
    #[error("Error loading the CA certificate: {path} : {1}", path = .0.display())]
    Authorities(PathBuf, String),
    #[error("-o ssl_ciphers: {0}")]
    Ciphers(String),
}

/// What the files hold.
pub(super) struct Credentials {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    /// None when no file of authorities was named.
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
        Ok(_) => Err("it holds no certificate: it must be in PEM, with lines 'BEGIN CERTIFICATE' \
                      (from DER: openssl x509 -inform DER -in FILE -out NEW)"
            .to_owned()),
        Err(error) => Err(format!("it is damaged: {error}")),
    }
}

/// OpenSSL's two ways to say that a key is encrypted.
const ENCRYPTED: [&[u8]; 2] = [b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"];

fn private_key(path: &Path, settings: &TlsSettings) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    if settings.key_format == KeyFormat::Der {
        return PrivateKeyDer::try_from(bytes).map_err(|_| {
            "it is no private key in DER (PKCS #8, PKCS #1 or SEC 1): for PEM leave ssl_keyformat out"
                .to_owned()
        });
    }
    if ENCRYPTED.iter().any(|mark| memchr::memmem::find(&bytes, mark).is_some()) {
        return Err(
            "it is encrypted, and nobody is there to be asked for its password: decrypt it \
                    (openssl pkey -in FILE -out NEW) and guard the new file by its mode"
                .to_owned(),
        );
    }
    // A file may hold certificates, too.
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        PemError::NoItemsFound => "it holds no private key: it must be in PEM, with a line 'BEGIN \
                                   PRIVATE KEY' (for DER say ssl_keyformat=2)"
            .to_owned(),
        error => format!("it is damaged: {error}"),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{error}: the user that the server runs as must be able to read it")
        }
        _ => error.to_string(),
    })
}
