//! The certificate authority of a campaign, and the certificate files of a server.

use crate::transport::{SERVER_NAME, TlsConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A certificate authority, and a directory with the files that a server reads.
pub struct Certificates {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Certificates {
    /// Makes an authority, and writes the files of a server.
    pub fn new() -> io::Result<Certificates> {
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(io::Error::other)?;
        let certificates = Certificates { issuer, directory: tempfile::tempdir()? };
        certificates.renew()?;
        Ok(certificates)
    }

    /// Replaces the server's certificate and key by new ones. No server may start meanwhile.
    pub fn renew(&self) -> io::Result<()> {
        let names = vec![SERVER_NAME.to_owned()];
        let params = CertificateParams::new(names).map_err(io::Error::other)?;
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        fs::write(self.chain(), certificate.pem())?;
        fs::write(self.key(), key.serialize_pem())
    }

    /// Returns the path of the file with the server's certificate.
    pub fn chain(&self) -> PathBuf {
        self.directory.path().join("chain.pem")
    }

    /// Returns the path of the file with the server's key.
    pub fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    /// Returns the configuration of clients that trust the authority.
    pub fn client(&self) -> io::Result<TlsConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).map_err(io::Error::other)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }
}
