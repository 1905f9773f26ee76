//! HTTP beyond loopback: TLS, the token, and the refusal to start without them.

use super::client::{HttpServer, Response, ask, connect, slabwise};
use crate::support::certificates::{Authority, CertificateFiles, SERVER_NAME};
use crate::support::{ServerCommand, wait_until};
use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// An IP address on which a server listens for clients of other machines.
const ALL_INTERFACES: &str = "0.0.0.0";
const TOKEN: &str = "a-token-of-28-bytes-in-a-file";
/// The time within which the server uses a new certificate.
const REFRESH_DEADLINE: Duration = Duration::from_secs(20);

/// A server with TLS that requires a token, the authority that issued its certificate, and its files.
struct Fixture {
    http: HttpServer,
    authority: Authority,
    files: CertificateFiles,
}

impl Fixture {
    /// Starts a server with HTTP on all interfaces, and with these further options of `-o`.
    fn start(options: &str) -> Fixture {
        let authority = Authority::new("ours");
        let files = CertificateFiles::new(&authority.server(), &authority);
        files.put("token", format!("{TOKEN}\n"));
        let options = [&tls_options(&files), &token_option(&files), options].join(",");
        let http = HttpServer::start_at(ALL_INTERFACES, &["-Z"], options.trim_end_matches(','));
        Fixture { http, authority, files }
    }

    /// Sends a request for the metrics over this version of TLS, and returns the response.
    fn ask(&self, version: &'static SupportedProtocolVersion, headers: &str) -> Response {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n"
        );
        ask(self.connect(self.authority.client_config(None, &[version])), &request)
    }

    fn connect(&self, config: Arc<ClientConfig>) -> impl Read + Write + use<> {
        let name = ServerName::try_from(SERVER_NAME).expect("the name of the server is valid");
        let tls = ClientConnection::new(config, name).expect("the configuration is valid");
        StreamOwned::new(tls, connect(self.http.address))
    }
}

/// Returns the options of `-o` that name the files of the certificate.
fn tls_options(files: &CertificateFiles) -> String {
    let path = |name: &str| files.path(name).display().to_string();
    let (chain, key, authority) = (path("chain.pem"), path("key.pem"), path("ca.pem"));
    format!("ssl_chain_cert={chain},ssl_key={key},ssl_ca_cert={authority}")
}

fn token_option(files: &CertificateFiles) -> String {
    format!("http_token_file={}", files.path("token").display())
}

#[test]
fn a_client_needs_the_token_in_every_version_of_tls() {
    let fixture = Fixture::start("");
    assert_eq!(fixture.http.scheme, "https");
    for version in [&TLS12, &TLS13] {
        let refused = fixture.ask(version, "");
        assert_eq!(refused.status, 401, "{refused:?}");
        assert!(!refused.body.contains("slabwise_"), "{refused:?}");
        let wrong = fixture.ask(version, "Authorization: Bearer a-token-of-28-bytes-in-a-fil\r\n");
        assert_eq!(wrong.status, 401, "{wrong:?}");
        let metrics = fixture.ask(version, &format!("Authorization: Bearer {TOKEN}\r\n"));
        assert_eq!(metrics.status, 200, "{metrics:?}");
        assert!(metrics.body.contains("\nmemcached_up 1"), "{metrics:?}");
    }
}

#[test]
fn a_client_without_tls_gets_no_response_and_others_are_served() {
    let fixture = Fixture::start("");
    let mut plain = connect(fixture.http.address);
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    plain.write_all(request.as_bytes()).expect("the server accepts the connection");
    let mut reply = Vec::new();
    match plain.read_to_end(&mut reply) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    // The server may send a TLS alert, whose first byte is 21.
    assert!(reply.is_empty() || reply[0] == 21, "{}", reply.escape_ascii());
    let metrics = fixture.ask(&TLS13, &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert_eq!(metrics.status, 200, "{metrics:?}");
}

#[test]
fn http_requests_no_client_certificate_and_uses_a_new_server_certificate() {
    // Clients of the cache need a certificate.
    let mut fixture = Fixture::start("ssl_verify_mode=2");
    let header = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(fixture.ask(&TLS13, &header).status, 200);
    fixture.authority = Authority::new("new");
    fixture.files.write(&fixture.authority.server(), &fixture.authority);
    fixture.http.server.signal(Signal::HUP);
    wait_until("the server uses the new certificate", REFRESH_DEADLINE, || {
        let config = fixture.authority.client_config(None, &[&TLS13]);
        let mut stream = fixture.connect(config);
        // The handshake fails while the server has the certificate of the other authority.
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").is_ok()
    });
    assert_eq!(fixture.ask(&TLS13, &header).status, 200);
}

/// Starts a server that must refuse these arguments, and returns its error.
fn refusal(flags: &[&str], options: &str) -> String {
    let command: ServerCommand = slabwise();
    let output = Command::new(command.program())
        .args(slabwise_client::process::user_arguments())
        .args(["-l", "127.0.0.1", "-p", "-1", "-o", options])
        .args(flags)
        .output()
        .expect("the server can be started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    text
}

#[test]
fn the_error_names_what_is_missing_beyond_loopback() {
    let authority = Authority::new("ours");
    let files = CertificateFiles::new(&authority.server(), &authority);
    files.put("token", TOKEN);
    let address = format!("http={ALL_INTERFACES}:0");
    let without_token = refusal(&["-Z"], &format!("{},{address}", tls_options(&files)));
    assert!(without_token.contains(&format!("-o {address}: ")), "{without_token}");
    let needed = "needs a token (-o http_token_file): add this";
    assert!(without_token.contains(needed), "{without_token}");
    let without_tls = refusal(&[], &format!("{address},{}", token_option(&files)));
    assert!(without_tls.contains("needs TLS (-Z): add this"), "{without_tls}");
    assert!(without_tls.contains("or add http_insecure"), "{without_tls}");
    fs::write(files.path("token"), "short").expect("the temporary directory is writable");
    let options = format!("{},{address},{}", tls_options(&files), token_option(&files));
    let short_token = refusal(&["-Z"], &options);
    assert!(short_token.contains("the token has 5 bytes"), "{short_token}");
}

#[test]
fn http_insecure_allows_a_server_without_tls_and_token() {
    let http = HttpServer::start_at(ALL_INTERFACES, &[], "http_insecure");
    assert_eq!(http.scheme, "http");
    assert_eq!(http.get("/metrics").status, 200);
}
