//! Certificate authorities that exist for one test, the certificates that they issue, and the configurations of clients
//! that trust them.

#![allow(dead_code, reason = "each test target uses only some of these helpers")]

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

/// The host name in every server certificate.
pub const SERVER_NAME: &str = "localhost";

/// A certificate authority that exists only for the test.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its private key, both in PEM.
pub struct Identity {
    /// The certificate.
    pub chain: String,
    /// The private key.
    pub key: String,
}

impl Authority {
    /// Makes an authority whose certificate has this common name.
    pub fn new(name: &str) -> Authority {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, key())
            .expect("an authority can sign its own certificate");
        Authority { issuer }
    }

    /// Returns the authority's own certificate in PEM.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a server certificate.
    pub fn server(&self) -> Identity {
        let mut params = params("server", &[SERVER_NAME, "127.0.0.1"]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// Issues a client certificate.
    pub fn client(&self) -> Identity {
        let mut params = params("client", &["client"]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    /// Issues a certificate for a new key.
    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = key();
        let certificate =
            params.signed_by(&key, &self.issuer).expect("an authority can sign a certificate");
        Identity { chain: certificate.pem(), key: key.serialize_pem() }
    }

    /// Returns the configuration of a client that trusts this authority and presents `identity`.
    pub fn client_config(
        &self,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.issuer.der().clone())
            .expect("the certificate of an authority is a valid root");
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .expect("rustls supports the TLS versions of the test")
            .with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())
                    .expect("the private key of an identity is valid PEM");
                builder
                    .with_client_auth_cert(vec![identity.der()], key)
                    .expect("the certificate of an identity belongs to its key")
            }
        })
    }
}

impl Identity {
    /// Returns the certificate in the binary format DER.
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.chain.as_bytes())
            .expect("the certificate of an identity is valid PEM")
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key pair can be generated")
}

/// Returns the parameters of a certificate with this common name and these host names.
fn params(name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("the host names of the test are valid");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A temporary directory with the certificate files that a server reads.
pub struct CertificateFiles(TempDir);

impl CertificateFiles {
    /// Writes the files of a server that presents `identity` and trusts clients of `authority`.
    pub fn new(identity: &Identity, authority: &Authority) -> CertificateFiles {
        let files =
            CertificateFiles(tempfile::tempdir().expect("a temporary directory can be created"));
        files.write(identity, authority);
        files
    }

    /// Replaces the files by those of another identity and authority.
    pub fn write(&self, identity: &Identity, authority: &Authority) {
        self.put("chain.pem", &identity.chain);
        self.put("key.pem", &identity.key);
        self.put("ca.pem", authority.certificate());
    }

    /// Writes one file in the directory.
    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.0.path().join(name), content)
            .expect("the temporary directory is writable");
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn directory(&self) -> &Path {
        self.0.path()
    }
}
