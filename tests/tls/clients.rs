//! The client of our own commands, over TLS and with authentication.

use super::fixture::Fixture;
use crate::support::certificates::{Authority, CertificateFiles, SERVER_NAME};
use slabwise_client::{
    ClientError, Connector, Credentials, ServerAddress, Timeouts, Tls, TlsOptions, Trust,
};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    read: Duration::from_secs(10),
    reply: Duration::from_secs(20),
};

fn tls(trust: Trust, server_name: &str) -> Tls {
    let server_name = Some(server_name.to_owned());
    Tls::load(&TlsOptions { trust, certificate: None, server_name }).expect("the files are valid")
}

fn credentials(folder: &Path, text: &str) -> Credentials {
    let path = folder.join("credentials");
    std::fs::write(&path, text).expect("the file can be written");
    Credentials::read(&path).expect("the first line is valid")
}

#[test]
fn a_client_trusts_only_the_servers_of_its_authorities() {
    let fixture = Fixture::start(&[]);
    let address = ServerAddress::Tcp(fixture.address.to_string());
    let authority = Trust::File(fixture.files.path("ca.pem"));
    let open = |trust, name| {
        let tls = Some(tls(trust, name));
        Connector { tls, ..Connector::new(address.clone(), TIMEOUTS) }.open()
    };
    let mut connection = open(authority.clone(), SERVER_NAME).expect("the authority is trusted");
    let rows = connection.ask_rows("stats").expect("the server replies");
    assert!(rows.get("pid").is_some());
    assert!(open(Trust::Any, "other.example").is_ok(), "any server is trusted");
    let others = Authority::new("others");
    let others = CertificateFiles::new(&others.server(), &others);
    let others = Trust::File(others.path("ca.pem"));
    for (trust, name) in [(authority, "other.example"), (others, SERVER_NAME)] {
        let opened = open(trust, name);
        assert!(matches!(opened, Err(ClientError::Handshake(_))), "{name}: {opened:?}");
    }
}

#[test]
fn a_client_authenticates_before_its_first_command() {
    let folder = tempfile::tempdir().expect("a folder can be created");
    let passwords = folder.path().join("passwords");
    std::fs::write(&passwords, "cache:secret\n").expect("the file can be written");
    let fixture = Fixture::start(&["-Y", passwords.to_str().expect("the path is UTF-8")]);
    let address = ServerAddress::Tcp(fixture.address.to_string());
    let open = |text: Option<&str>| {
        let tls = tls(Trust::File(fixture.files.path("ca.pem")), SERVER_NAME);
        let credentials = text.map(|text| credentials(folder.path(), text));
        let connector = Connector::new(address.clone(), TIMEOUTS);
        Connector { tls: Some(tls), credentials, ..connector }.open()
    };
    let mut connection = open(Some("cache:secret\n")).expect("the password is right");
    assert!(connection.ask_rows("stats").is_ok());
    assert!(matches!(open(Some("cache:wrong\n")), Err(ClientError::Refused(_))));
    let mut without = open(None).expect("a connection needs no password yet");
    assert!(matches!(without.ask_rows("stats"), Err(ClientError::Refused(_))));
}

#[test]
fn a_command_connects_with_the_options_for_tls_and_credentials() {
    let folder = tempfile::tempdir().expect("a folder can be created");
    let passwords = folder.path().join("passwords");
    std::fs::write(&passwords, "cache:secret\n").expect("the file can be written");
    let passwords = passwords.to_str().expect("the path is UTF-8");
    let fixture = Fixture::start(&["-Y", passwords]);
    let (address, ca) = (fixture.address.to_string(), fixture.files.path("ca.pem"));
    let ca = ca.to_str().expect("the path is UTF-8");
    let top = |options: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_slabwise"));
        command.args(["top", "--once", "--interval", "0.1", &address]).args(options);
        let output = command.output().expect("the command starts");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let tls = ["--tls", "--tls-ca", ca, "--tls-server-name", SERVER_NAME];
    let (is_read, text) = top(&[&tls[..], &["--auth-file", passwords]].concat());
    assert!(is_read, "{text}");
    for options in [&tls[..], &["--tls", "--auth-file", passwords], &["--auth-file", passwords]] {
        let (is_read, text) = top(options);
        assert!(!is_read, "{options:?}: {text}");
    }
}

#[test]
fn a_handshake_that_the_server_never_answers_ends_with_a_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = ServerAddress::Tcp(silent.local_addr().expect("the port is known").to_string());
    let timeouts = Timeouts { read: Duration::from_millis(50), ..TIMEOUTS };
    let tls = Some(tls(Trust::Any, SERVER_NAME));
    let opened = Connector { tls, ..Connector::new(address, timeouts) }.open();
    assert!(matches!(opened, Err(ClientError::ReadTimeout)), "{opened:?}");
}
