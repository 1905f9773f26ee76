//! Server names (SNI): the server has one certificate, and presents it whatever name the client requests.

use super::fixture::{Fixture, SecureClient, VERSIONS};
use super::openssl::OpenSslClient;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// Accepts every certificate, so that only the server decides whether a name is accepted.
#[derive(Debug)]
struct AcceptAll;

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[test]
fn the_server_presents_its_certificate_for_every_name() {
    let fixture = Fixture::start(&[]);
    let expected = fixture.files.certificate();
    for version in VERSIONS {
        let mut config = ClientConfig::clone(&fixture.config(version));
        config.dangerous().set_certificate_verifier(Arc::new(AcceptAll));
        for (name, enable_sni) in [
            ("localhost", true),
            ("unknown.example.org", true),
            ("UPPER.example", true),
            ("under_score", true),
            ("127.0.0.1", true),
            ("localhost", false),
        ] {
            config.enable_sni = enable_sni;
            let server_name = ServerName::try_from(name).expect("the client accepts the name");
            let config = Arc::new(config.clone());
            let client = SecureClient::connect_to(server_name, fixture.address, &config)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let presented = client.tls().peer_certificates().expect("the server has a certificate");
            assert_eq!(presented[0], expected, "{name}");
        }
    }
}

#[test]
fn only_names_that_are_not_valid_in_dns_are_refused() {
    let fixture = Fixture::start(&["-t", "1"]);
    let longest_label = "l".repeat(63);
    let valid =
        ["localhost", "other.example.org.", "192.0.2.1", "2001:db8::1", "a_b", &longest_label];
    let long_label = "l".repeat(64);
    let invalid = ["two words", "a..b", "-a", "a-", "[::1]", "*.example.org", "127.1", &long_label];
    let names = valid.map(|name| (name, true)).into_iter().chain(invalid.map(|name| (name, false)));
    for version in ["-tls1_2", "-tls1_3"] {
        for (name, is_valid) in names.clone() {
            let before = fixture.stat("ssl_handshake_errors");
            let arguments = [version, "-quiet", "-servername", name];
            let mut client = OpenSslClient::connect(fixture.address, &arguments);
            client.write(b"mn_unknown_command\r\nquit\r\n");
            let output = client.wait();
            assert_eq!(output.contains("ERROR\r\n"), is_valid, "'{name}': {output}");
            assert_eq!(output.contains("illegal parameter"), !is_valid, "'{name}': {output}");
            let errors = fixture.stat("ssl_handshake_errors") - before;
            assert_eq!(errors, u64::from(!is_valid), "'{name}'");
        }
    }
}
