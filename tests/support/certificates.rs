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
#[derive(Clone)]
pub struct Identity {
    /// The certificate, which the certificates of intermediate authorities may follow.
    pub chain: String,
    /// The private key.
    pub key: String,
}

impl Authority {
    /// Makes an authority whose certificate has this common name.
    pub fn new(name: &str) -> Authority {
        let issuer = CertifiedIssuer::self_signed(authority_params(name), key())
            .expect("an authority can sign its own certificate");
        Authority { issuer }
    }

    /// Makes an intermediate authority: this authority signs its certificate. `change` changes the parameters of the
    /// certificate.
    pub fn intermediate(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Authority {
        let mut params = authority_params(name);
        change(&mut params);
        let issuer = CertifiedIssuer::signed_by(params, key(), &self.issuer)
            .expect("an authority can sign a certificate");
        Authority { issuer }
    }

    /// Returns the authority's own certificate in PEM.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// Returns the authority's own certificate in the binary format DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        self.issuer.der()
    }

    /// Issues a server certificate.
    pub fn server(&self) -> Identity {
        let mut params = params("server", &[SERVER_NAME, "127.0.0.1"]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// Issues a client certificate.
    pub fn client(&self) -> Identity {
        self.client_with(|_| {})
    }

    /// Issues a client certificate. `change` changes its parameters.
    pub fn client_with(&self, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = client_params();
        change(&mut params);
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
                    .with_client_auth_cert(identity.certificates(), key)
                    .expect("the certificate of an identity belongs to its key")
            }
        })
    }
}

impl Identity {
    /// Makes a client certificate that is signed with its own key, and by no authority.
    pub fn self_signed_client() -> Identity {
        let mut params = client_params();
        params.is_ca = IsCa::ExplicitNoCa;
        let key = key();
        let certificate = params.self_signed(&key).expect("a key can sign its own certificate");
        Identity { chain: certificate.pem(), key: key.serialize_pem() }
    }

    /// Returns an identity that presents also the certificate of this authority.
    pub fn with(mut self, authority: &Authority) -> Identity {
        self.chain.push_str(&authority.certificate());
        self
    }

    /// Returns the first certificate in the binary format DER.
    pub fn der(&self) -> CertificateDer<'static> {
        self.certificates().swap_remove(0)
    }

    /// Returns all certificates in the binary format DER.
    fn certificates(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.chain.as_bytes())
            .collect::<Result<_, _>>()
            .expect("the certificates of an identity are valid PEM")
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

/// Returns the parameters of an authority's certificate.
fn authority_params(name: &str) -> CertificateParams {
    let mut params = params(name, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// Returns the parameters of a client's certificate.
fn client_params() -> CertificateParams {
    let mut params = params("client", &["client"]);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
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

    /// Returns the server's certificate in the binary format DER.
    pub fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.path("chain.pem"))
            .expect("the certificate of the server is valid PEM")
    }

    pub fn directory(&self) -> &Path {
        self.0.path()
    }
}
