//! TLS of a client: which certificates it trusts, and which one it shows.
//!
//! Invariant: a connection whose server's certificate is not trusted is never used, unless [`TlsOptions::trust`] is
//! [`Trust::Any`].

use crate::address::ServerAddress;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The certificates of servers that a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that an authority of the system has signed.
    System,
    /// Those that an authority in this PEM file has signed.
    File(PathBuf),
    /// All of them. The connection is encrypted, but the server may be another one.
    Any,
}

/// The options of a client's TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificates of servers that the client trusts.
    pub trust: Trust,
    /// The PEM files of the client's certificate and of its private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The name that the server's certificate must have; `None`: the host of the address.
    pub server_name: Option<String>,
}

/// A client's TLS configuration, which any number of connections use.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

impl Tls {
    /// Reads the certificates. The error names the file, and is meant for people.
    pub fn load(options: &TlsOptions) -> Result<Tls, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS is not available: {error}"))?;
        let builder = match &options.trust {
            Trust::System => builder.with_root_certificates(system_roots()?),
            Trust::File(path) => builder.with_root_certificates(roots_in(path)?),
            Trust::Any => builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAny(
                provider.signature_verification_algorithms,
            ))),
        };
        let config = match &options.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates_in(certificate)?;
                let key_der = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| format!("{}: no private key: {error}", key.display()))?;
                builder.with_client_auth_cert(chain, key_der).map_err(|error| {
                    format!("{}: not usable with {}: {error}", certificate.display(), key.display())
                })?
            }
        };
        Ok(Tls { config: Arc::new(config), server_name: options.server_name.clone() })
    }

    /// Returns the state of a connection to `server` before its handshake.
    pub(crate) fn connection_to(&self, server: &ServerAddress) -> io::Result<ClientConnection> {
        let name = self.server_name.as_deref().unwrap_or_else(|| server.host());
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)
    }
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("the system has no certificates of authorities: give a CA file".to_owned());
    }
    Ok(roots)
}

fn roots_in(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_in(path)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(roots)
}

/// Reads the certificates in a PEM file, at least one.
fn certificates_in(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let fault = |error| format!("{}: no certificates: {error}", path.display());
    let certificates = CertificateDer::pem_file_iter(path).map_err(fault)?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(fault)?;
    if certificates.is_empty() {
        return Err(format!("{}: the file has no certificate", path.display()));
    }
    Ok(certificates)
}

/// Accepts every certificate of a server, but checks that the server has its private key.
#[derive(Debug)]
struct TrustAny(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for TrustAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
