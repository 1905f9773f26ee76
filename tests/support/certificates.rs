//! Authorities made for one test, the certificates they give out, and clients that trust them.

#![allow(dead_code, reason = "each test target uses its own part")]

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// What servers are called in their certificates.
pub const SERVER_NAME: &str = "localhost";

/// Somebody who gives out certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub struct Identity {
    pub chain: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("it signs itself");
        Authority { issuer }
    }

    /// Its own certificate, in PEM.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// A server's certificate.
    pub fn server(&self) -> Identity {
        let mut params = params("server", &[SERVER_NAME, "127.0.0.1"]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// A client's certificate.
    pub fn client(&self) -> Identity {
        let mut params = params("client", &["client"]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = key();
        let certificate = params.signed_by(&key, &self.issuer).expect("it signs");
        Identity { chain: certificate.pem(), key: key.serialize_pem() }
    }

    /// What a client needs that trusts this authority and shows `identity`.
    pub fn client_config(
        &self,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority's certificate");
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .expect("versions that there are")
            .with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(vec![identity.der()], key).expect("they match")
            }
        })
    }
}

impl Identity {
    /// The certificate itself.
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.chain.as_bytes()).expect("a certificate")
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn params(name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A directory with what a server reads, removed with the test.
pub struct CertificateFiles(TempDir);

impl CertificateFiles {
    /// The files of a server with this identity, which trusts this authority's clients.
    pub fn new(identity: &Identity, authority: &Authority) -> CertificateFiles {
        let files = CertificateFiles(tempfile::tempdir().expect("a directory for the test"));
        files.write(identity, authority);
        files
    }

    /// Puts others in their place.
    pub fn write(&self, identity: &Identity, authority: &Authority) {
        self.put("chain.pem", &identity.chain);
        self.put("key.pem", &identity.key);
        self.put("ca.pem", authority.certificate());
    }

    /// Writes one file.
    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.0.path().join(name), content).expect("the directory can be written to");
    }

    /// Where a file is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn directory(&self) -> &Path {
        self.0.path()
    }
}
