//! New certificates without a restart, and files that are bad at the start.

use super::scene::{Scene, VERSIONS};
use crate::support::certificates::Authority;
use crate::support::wait_until;
use rustls::pki_types::CertificateDer;
use std::process::Command;
use std::time::Duration;

/// The certificate that the server shows now.
fn shown(scene: &Scene) -> CertificateDer<'static> {
    let client = scene.connect(VERSIONS[1]);
    client.tls().peer_certificates().expect("servers show one")[0].clone()
}

#[test]
fn new_connections_use_the_new_certificate_and_old_ones_go_on() {
    let scene = Scene::start(&[]);
    let before = shown(&scene);
    let mut old = scene.connect(VERSIONS[0]);
    let identity = scene.authority.server();
    scene.files.write(&identity, &scene.authority);
    assert_eq!(shown(&scene), before, "files alone change nothing");
    old.ask("refresh_certs\r\n", "OK\r\n");
    assert_eq!(shown(&scene), identity.der());
    old.ask("get none\r\n", "END\r\n");
    assert_eq!(old.tls().peer_certificates().expect("servers show one")[0], before);
    assert!(scene.stat("time_since_server_cert_refresh") < 60);
    assert_eq!(scene.stat("conn_yields"), 0, "the turn ended, and nobody waited");
}

#[test]
fn bad_files_are_answered_with_their_name_and_change_nothing() {
    let scene = Scene::start(&["-o", "ssl_verify_mode=2"]);
    let friend = scene.authority.client();
    let mut admin = scene.connect_plain();
    for (name, what) in [
        ("chain.pem", "Error loading the certificate chain: "),
        ("key.pem", "Error loading the key: "),
        ("ca.pem", "Error loading the CA certificate: "),
    ] {
        scene.files.write(&scene.authority.server(), &Authority::new("others"));
        scene.files.put(name, "nothing");
        let answer = admin.ask("refresh_certs");
        let path = scene.files.path(name).display().to_string();
        assert!(answer.starts_with(what) && answer.contains(&path), "{answer}");
        assert!(scene.lets_in(Some(&friend)), "{name}");
    }
    // Each right by itself.
    scene.files.write(&scene.authority.server(), &scene.authority);
    scene.files.put("key.pem", scene.authority.server().key);
    let answer = admin.ask("refresh_certs");
    assert!(answer.starts_with("Error validating the certificate: "), "{answer}");
    assert!(scene.lets_in(Some(&friend)));
}

#[test]
fn whoever_is_no_longer_trusted_stays_out_after_a_refresh() {
    let scene = Scene::start(&["-o", "ssl_verify_mode=2,ssl_session_cache"]);
    let config = scene.authority.client_config(Some(&scene.authority.client()), &VERSIONS);
    for _ in 0..2 {
        assert!(scene.try_connect(&config).is_ok());
    }
    scene.files.put("ca.pem", Authority::new("others").certificate());
    assert_eq!(scene.connect_plain().ask("refresh_certs"), "OK");
    // It has tickets of before.
    assert!(scene.try_connect(&config).is_err());
}

#[test]
fn a_hangup_signal_refreshes_too() {
    let scene = Scene::start(&[]);
    let identity = scene.authority.server();
    scene.files.write(&identity, &scene.authority);
    let id = scene.connect_plain().stat("pid").to_string();
    let status = Command::new("kill").args(["-HUP", &id]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill -HUP failed");
    let deadline = Duration::from_secs(20);
    wait_until("the new certificate is shown", deadline, || shown(&scene) == identity.der());
}

#[test]
fn a_server_with_bad_files_does_not_start() {
    let scene = Scene::start(&[]);
    let absent = scene.files.path("absent.pem").display().to_string();
    let good = scene.files.path("chain.pem").display().to_string();
    for (options, what) in [
        (None, "add -o ssl_chain_cert=FILE"),
        (Some(format!("ssl_chain_cert={absent}")), "absent.pem : No such file"),
        (Some(format!("ssl_chain_cert={good}")), "chain.pem : it holds no private key"),
        (Some(format!("ssl_chain_cert={good},ssl_key={absent}")), "the key: "),
        (Some(format!("ssl_chain_cert={good},ssl_keyformat=ENGINE")), "openssl pkey"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slabwise"));
        command.args(["-Z", "-p", "-1", "-u", "root"]);
        if let Some(options) = &options {
            command.args(["-o", options]);
        }
        let output = command.output().expect("the command runs");
        assert!(!output.status.success(), "{options:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.starts_with("slabwise: ") && text.contains(what), "{options:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
