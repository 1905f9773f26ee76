//! Certificates that are replaced while the server runs, and certificate files that are invalid at the start.

use super::fixture::{Fixture, VERSIONS};
use crate::support::certificates::Authority;
use crate::support::wait_until;
use rustls::pki_types::CertificateDer;
use std::process::Command;
use std::time::Duration;

/// Returns the certificate that the server presents to a new connection.
fn presented(fixture: &Fixture) -> CertificateDer<'static> {
    let client = fixture.connect(VERSIONS[1]);
    client.tls().peer_certificates().expect("a server presents a certificate")[0].clone()
}

#[test]
fn new_connections_get_the_new_certificate_and_old_ones_continue() {
    let fixture = Fixture::start(&[]);
    let before = presented(&fixture);
    let mut old = fixture.connect(VERSIONS[0]);
    let identity = fixture.authority.server();
    fixture.files.write(&identity, &fixture.authority);
    assert_eq!(
        presented(&fixture),
        before,
        "the server does not use new files before refresh_certs"
    );
    old.ask("refresh_certs\r\n", "OK\r\n");
    assert_eq!(presented(&fixture), identity.der());
    old.ask("get none\r\n", "END\r\n");
    assert_eq!(old.tls().peer_certificates().expect("a server presents a certificate")[0], before);
    assert!(fixture.stat("time_since_server_cert_refresh") < 60);
    assert_eq!(
        fixture.stat("conn_yields"),
        0,
        "refresh_certs does not count as a connection yield"
    );
}

#[test]
fn a_refresh_with_an_invalid_file_names_the_file_and_changes_nothing() {
    let fixture = Fixture::start(&["-o", "ssl_verify_mode=2"]);
    let friend = fixture.authority.client();
    let mut admin = fixture.connect_plain();
    for (name, error) in [
        ("chain.pem", "Error loading the certificate chain: "),
        ("key.pem", "Error loading the key: "),
        ("ca.pem", "Error loading the CA certificate: "),
    ] {
        fixture.files.write(&fixture.authority.server(), &Authority::new("others"));
        fixture.files.put(name, "nothing");
        let answer = admin.ask("refresh_certs");
        let path = fixture.files.path(name).display().to_string();
        assert!(answer.starts_with(error) && answer.contains(&path), "{answer}");
        assert!(
            fixture.accepts(Some(&friend)),
            "the server still accepts the client after an error in {name}"
        );
    }
    // Each file is valid, but the key belongs to another certificate.
    fixture.files.write(&fixture.authority.server(), &fixture.authority);
    fixture.files.put("key.pem", fixture.authority.server().key);
    let answer = admin.ask("refresh_certs");
    assert!(answer.starts_with("Error validating the certificate: "), "{answer}");
    assert!(fixture.accepts(Some(&friend)));
}

#[test]
fn a_refresh_refuses_clients_that_are_no_longer_trusted() {
    let fixture = Fixture::start(&["-o", "ssl_verify_mode=2,ssl_session_cache"]);
    let config = fixture.authority.client_config(Some(&fixture.authority.client()), &VERSIONS);
    for _ in 0..2 {
        assert!(fixture.try_connect(&config).is_ok());
    }
    fixture.files.put("ca.pem", Authority::new("others").certificate());
    assert_eq!(fixture.connect_plain().ask("refresh_certs"), "OK");
    // The client has session tickets from before the refresh, which the server must not accept any more.
    assert!(fixture.try_connect(&config).is_err());
}

#[test]
fn sighup_refreshes_the_certificates() {
    let fixture = Fixture::start(&[]);
    let identity = fixture.authority.server();
    fixture.files.write(&identity, &fixture.authority);
    let id = fixture.connect_plain().stat("pid").to_string();
    let status = Command::new("kill").args(["-HUP", &id]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill -HUP succeeds");
    let deadline = Duration::from_secs(20);
    wait_until("the server presents the new certificate", deadline, || {
        presented(&fixture) == identity.der()
    });
}

#[test]
fn a_server_with_invalid_files_does_not_start() {
    let fixture = Fixture::start(&[]);
    let absent = fixture.files.path("absent.pem").display().to_string();
    let good = fixture.files.path("chain.pem").display().to_string();
    for (options, message) in [
        (None, "add -o ssl_chain_cert=FILE"),
        (Some(format!("ssl_chain_cert={absent}")), "absent.pem : No such file"),
        (Some(format!("ssl_chain_cert={good}")), "chain.pem : no PEM private key"),
        (Some(format!("ssl_chain_cert={good},ssl_key={absent}")), "the key: "),
        (Some(format!("ssl_chain_cert={good},ssl_keyformat=ENGINE")), "openssl pkey"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slabwise"));
        command.args(["-Z", "-p", "-1", "-u", "root"]);
        if let Some(options) = &options {
            command.args(["-o", options]);
        }
        let output = command.output().expect("the command slabwise can be started");
        assert!(!output.status.success(), "{options:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.starts_with("slabwise: ") && text.contains(message), "{options:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
