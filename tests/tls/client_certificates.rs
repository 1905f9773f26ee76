//! Certificates of clients: which ones the server accepts, and what happens if their authority is no longer trusted.

use super::fixture::{Fixture, VERSIONS, alert};
use crate::support::certificates::{Authority, Identity};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, date_time_ymd};
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{AlertDescription, ClientConfig, SignatureScheme};
use std::sync::Arc;

/// The options of servers that accept no client with an invalid certificate: certificates are optional, or required.
const STRICT_MODES: [&str; 2] = ["ssl_verify_mode=1", "ssl_verify_mode=2"];

/// Makes a certificate that expired years ago.
fn expire(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2001, 1, 1);
    params.not_after = date_time_ymd(2002, 1, 1);
}

/// Asserts that the server refuses a client with this certificate, with this alert in TLS 1.3.
fn assert_refused(fixture: &Fixture, identity: &Identity, expected: AlertDescription) {
    assert!(!fixture.accepts(Some(identity)), "the certificate is refused with {expected:?}");
    let config = fixture.authority.client_config(Some(identity), &[&TLS13]);
    let error = fixture.try_connect(&config).err().expect("the certificate is refused again");
    assert_eq!(alert(&error), Some(expected), "{error}");
}

#[test]
fn a_certificate_is_valid_only_between_its_two_dates() {
    for mode in STRICT_MODES {
        let fixture = Fixture::start(&["-o", mode]);
        let ours = &fixture.authority;
        assert_refused(&fixture, &ours.client_with(expire), AlertDescription::CertificateExpired);
        let early = ours.client_with(|params| {
            params.not_before = date_time_ymd(2901, 1, 1);
            params.not_after = date_time_ymd(2902, 1, 1);
        });
        assert_refused(&fixture, &early, AlertDescription::CertificateExpired);
        let valid = ours.client_with(|params| params.not_after = date_time_ymd(2902, 1, 1));
        assert!(fixture.accepts(Some(&valid)));
    }
}

#[test]
fn a_certificate_needs_the_signature_of_the_authority_not_only_its_name() {
    for mode in STRICT_MODES {
        let fixture = Fixture::start(&["-o", mode]);
        // The fixture's authority has the same name.
        let impostor = Authority::new("ours").client();
        assert!(!fixture.accepts(Some(&impostor)));
        let stranger = Authority::new("others").client();
        assert_refused(&fixture, &stranger, AlertDescription::UnknownCA);
        // The client cannot make the server trust an authority by sending its certificate.
        let others = Authority::new("others");
        assert_refused(&fixture, &others.client().with(&others), AlertDescription::UnknownCA);
    }
}

#[test]
fn a_self_signed_certificate_is_accepted_only_if_the_file_of_authorities_has_it() {
    let fixture = Fixture::start(&["-o", "ssl_verify_mode=2"]);
    let known = Identity::self_signed_client();
    assert_refused(&fixture, &known, AlertDescription::UnknownCA);
    fixture.files.put("ca.pem", &known.chain);
    assert_eq!(fixture.connect_plain().ask("refresh_certs"), "OK");
    assert!(fixture.accepts(Some(&known)));
    assert!(!fixture.accepts(Some(&Identity::self_signed_client())));
}

#[test]
fn a_chain_must_lead_to_the_authority() {
    for mode in STRICT_MODES {
        let fixture = Fixture::start(&["-o", mode]);
        let first = fixture.authority.intermediate("first", |_| {});
        let second = first.intermediate("second", |_| {});
        assert!(fixture.accepts(Some(&first.client().with(&first))));
        assert!(fixture.accepts(Some(&second.client().with(&second).with(&first))));
        // The order of the certificates after the first does not matter.
        assert!(fixture.accepts(Some(&second.client().with(&first).with(&second))));
        assert_refused(&fixture, &first.client(), AlertDescription::UnknownCA);
        let incomplete = second.client().with(&second);
        assert_refused(&fixture, &incomplete, AlertDescription::UnknownCA);
        let other = second.client().with(&Authority::new("second")).with(&first);
        assert!(!fixture.accepts(Some(&other)));
    }
}

#[test]
fn every_authority_of_a_chain_must_be_valid() {
    let fixture = Fixture::start(&["-o", "ssl_verify_mode=2"]);
    let ours = &fixture.authority;
    let refused = |authority: Authority| {
        assert!(!fixture.accepts(Some(&authority.client().with(&authority))));
    };
    refused(ours.intermediate("expired", expire));
    // A client must not issue certificates with its own certificate.
    refused(ours.intermediate("client", |params| params.is_ca = IsCa::ExplicitNoCa));
    let last = ours.intermediate("last", |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    });
    assert!(fixture.accepts(Some(&last.client().with(&last))));
    let too_deep = last.intermediate("too deep", |_| {});
    assert!(!fixture.accepts(Some(&too_deep.client().with(&too_deep).with(&last))));
}

#[test]
fn an_intermediate_authority_can_be_trusted_without_its_root() {
    let fixture = Fixture::start(&["-o", "ssl_verify_mode=2"]);
    let trusted = fixture.authority.intermediate("trusted", |_| {});
    fixture.files.put("ca.pem", trusted.certificate());
    assert_eq!(fixture.connect_plain().ask("refresh_certs"), "OK");
    assert!(fixture.accepts(Some(&trusted.client())));
    // The root and its other intermediate authorities are not trusted.
    assert!(!fixture.accepts(Some(&fixture.authority.client())));
    let sibling = fixture.authority.intermediate("sibling", |_| {});
    assert!(!fixture.accepts(Some(&sibling.client().with(&sibling))));
}

#[test]
fn a_certificate_that_is_not_for_clients_is_refused() {
    let fixture = Fixture::start(&["-o", "ssl_verify_mode=2"]);
    let ours = &fixture.authority;
    assert!(!fixture.accepts(Some(&ours.server())));
    assert!(fixture.accepts(Some(&ours.client_with(|params| params.extended_key_usages.clear()))));
    let both = ours.client_with(|params| {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    });
    assert!(fixture.accepts(Some(&both)));
}

/// Presents a certificate, but signs with another key.
#[derive(Debug)]
struct WrongKey(Arc<CertifiedKey>);

impl ResolvesClientCert for WrongKey {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[test]
fn a_client_must_have_the_key_of_its_certificate() {
    let fixture = Fixture::start(&["-o", "ssl_verify_mode=2"]);
    let (victim, thief) = (fixture.authority.client(), fixture.authority.client());
    let key = PrivateKeyDer::from_pem_slice(thief.key.as_bytes()).expect("the key is valid PEM");
    let key = any_supported_type(&key).expect("the key is supported");
    let stolen = Arc::new(CertifiedKey::new(vec![victim.der()], key));
    for version in VERSIONS {
        let mut config = ClientConfig::clone(&fixture.authority.client_config(None, &[version]));
        config.client_auth_cert_resolver = Arc::new(WrongKey(Arc::clone(&stolen)));
        assert!(fixture.try_connect(&Arc::new(config)).is_err(), "{:?}", version.version);
    }
}

#[test]
fn a_removed_authority_is_refused_and_its_open_connections_continue() {
    let fixture = Fixture::start(&["-o", "ssl_verify_mode=2,ssl_session_cache"]);
    let removed = Authority::new("removed");
    let both = [fixture.authority.certificate(), removed.certificate()].concat();
    fixture.files.put("ca.pem", both);
    let mut admin = fixture.connect_plain();
    assert_eq!(admin.ask("refresh_certs"), "OK");
    let (kept, revoked) = (fixture.authority.client(), removed.client());
    for version in VERSIONS {
        let config = fixture.authority.client_config(Some(&revoked), &[version]);
        let mut open = fixture.try_connect(&config).expect("both authorities are trusted");
        fixture.files.put("ca.pem", fixture.authority.certificate());
        assert_eq!(admin.ask("refresh_certs"), "OK");
        assert!(fixture.try_connect(&config).is_err(), "the authority was removed");
        assert!(fixture.accepts(Some(&kept)));
        open.ask("get none\r\n", "END\r\n");
        fixture
            .files
            .put("ca.pem", [fixture.authority.certificate(), removed.certificate()].concat());
        assert_eq!(admin.ask("refresh_certs"), "OK");
        assert!(fixture.try_connect(&config).is_ok(), "the authority was added again");
    }
}
