//! The verification of client certificates.

use super::settings::ClientCertificates;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use std::sync::Arc;

/// Returns the verifier of client certificates for listeners with this mode. `authorities` are the certificates of
/// `-o ssl_ca_cert`, or empty without this option.
pub(super) fn verifier(
    mode: ClientCertificates,
    authorities: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mandatory = match mode {
        ClientCertificates::Ignored => return Ok(WebPkiClientVerifier::no_client_auth()),
        ClientCertificates::Optional => false,
        ClientCertificates::Required => true,
    };
    if authorities.is_empty() {
        return Ok(Arc::new(RejectAll { mandatory, provider: Arc::clone(provider) }));
    }
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(authorities), Arc::clone(provider));
    if !mandatory {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|error| error.to_string())
}

/// A verifier that rejects every client certificate, because without `-o ssl_ca_cert` no authority can verify a
/// certificate. memcached does the same.
#[derive(Debug)]
struct RejectAll {
    /// True if clients without a certificate are rejected, too.
    mandatory: bool,
    provider: Arc<CryptoProvider>,
}

const UNKNOWN_ISSUER: Error = Error::InvalidCertificate(CertificateError::UnknownIssuer);

impl ClientCertVerifier for RejectAll {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Err(UNKNOWN_ISSUER)
    }

    /// Returns an error. rustls never calls this function, because `verify_client_cert` rejects every certificate.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(UNKNOWN_ISSUER)
    }

    /// Returns an error. rustls never calls this function, because `verify_client_cert` rejects every certificate.
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(UNKNOWN_ISSUER)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
