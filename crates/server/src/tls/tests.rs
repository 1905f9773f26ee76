//! Tests of the clients that the server accepts and rejects. rustls's client and the server exchange bytes in memory.

#[path = "../../../../tests/support/certificates.rs"]
pub(crate) mod certificates;

use super::{
    ClientCertificates, CredentialsError, KeyFormat, Tls, TlsSettings, TlsVersion, VerifyMode,
};
use certificates::{Authority, CertificateFiles, SERVER_NAME};
use rustls::client::ClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::ServerConnection;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, Error, HandshakeKind, SupportedProtocolVersion};
use slabwise_base::Seconds;
use std::sync::Arc;

const BOTH_VERSIONS: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

pub(crate) fn settings(files: &CertificateFiles) -> TlsSettings {
    TlsSettings {
        chain_file: files.path("chain.pem"),
        key_file: Some(files.path("key.pem")),
        key_format: KeyFormat::Pem,
        ca_file: Some(files.path("ca.pem")),
        verify_mode: VerifyMode::None,
        ciphers: None,
        version_min: TlsVersion::V1_2,
        write_buffer_bytes: 16 << 10,
        session_cache: true,
    }
}

pub(crate) fn load(settings: &TlsSettings) -> Tls {
    Tls::load(settings, Seconds(2)).expect("the files are valid")
}

pub(crate) fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from(SERVER_NAME).expect("the server's name is a DNS name");
    ClientConnection::new(Arc::clone(config), name).expect("the client's configuration is valid")
}

/// Passes bytes between client and server until neither has more bytes to write. Returns the first error.
fn shake_hands(client: &mut ClientConnection, server: &mut ServerConnection) -> Result<(), Error> {
    while client.wants_write() || server.wants_write() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).expect("a write into a vector succeeds");
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).expect("a read from a slice succeeds");
            server.process_new_packets()?;
        }
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).expect("a write into a vector succeeds");
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("a read from a slice succeeds");
            client.process_new_packets()?;
        }
    }
    Ok(())
}

/// Connects a client to a listener with this mode. Returns the client and whether it resumed a session, or the error of
/// the handshake.
fn connect(
    tls: &Tls,
    mode: ClientCertificates,
    config: &Arc<ClientConfig>,
) -> Result<(ClientConnection, HandshakeKind), Error> {
    let (mut client, mut server) = (client(config), tls.accept(mode));
    shake_hands(&mut client, &mut server)?;
    assert!(
        !client.is_handshaking() && !server.is_handshaking(),
        "client and server complete the handshake"
    );
    let kind = server.handshake_kind().expect("the handshake is complete");
    Ok((client, kind))
}

#[test]
fn the_mode_of_a_listener_decides_which_clients_are_accepted() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let files = CertificateFiles::new(&ours.server(), &ours);
    let tls = load(&settings(&files));
    let (good, bad) = (ours.client(), others.client());
    for version in BOTH_VERSIONS {
        let anonymous = ours.client_config(None, &[version]);
        let trusted = ours.client_config(Some(&good), &[version]);
        let untrusted = ours.client_config(Some(&bad), &[version]);
        for (mode, config, is_accepted) in [
            (ClientCertificates::Ignored, &anonymous, true),
            (ClientCertificates::Ignored, &trusted, true),
            (ClientCertificates::Ignored, &untrusted, true),
            (ClientCertificates::Optional, &anonymous, true),
            (ClientCertificates::Optional, &trusted, true),
            (ClientCertificates::Optional, &untrusted, false),
            (ClientCertificates::Required, &anonymous, false),
            (ClientCertificates::Required, &trusted, true),
            (ClientCertificates::Required, &untrusted, false),
        ] {
            let outcome = connect(&tls, mode, config).map(|_| ());
            assert_eq!(outcome.is_ok(), is_accepted, "{version:?}, {mode:?}: {outcome:?}");
        }
    }
}

#[test]
fn without_authorities_every_certificate_is_rejected() {
    let ours = Authority::new("ours");
    let files = CertificateFiles::new(&ours.server(), &ours);
    let tls = load(&TlsSettings { ca_file: None, ..settings(&files) });
    let certified = ours.client_config(Some(&ours.client()), BOTH_VERSIONS);
    let anonymous = ours.client_config(None, BOTH_VERSIONS);
    assert!(connect(&tls, ClientCertificates::Ignored, &certified).is_ok());
    assert!(connect(&tls, ClientCertificates::Optional, &anonymous).is_ok());
    assert!(connect(&tls, ClientCertificates::Optional, &certified).is_err());
    assert!(connect(&tls, ClientCertificates::Required, &certified).is_err());
    assert!(connect(&tls, ClientCertificates::Required, &anonymous).is_err());
}

#[test]
fn a_session_resumes_only_with_the_same_mode_and_credentials() {
    let ours = Authority::new("ours");
    let files = CertificateFiles::new(&ours.server(), &ours);
    let identity = ours.client();
    for version in BOTH_VERSIONS {
        let tls = load(&settings(&files));
        let config = ours.client_config(Some(&identity), &[version]);
        let kind = |mode| connect(&tls, mode, &config).expect("the client is accepted").1;
        assert_eq!(kind(ClientCertificates::Ignored), HandshakeKind::Full);
        assert_eq!(kind(ClientCertificates::Ignored), HandshakeKind::Resumed);
        // NO-LOOPHOLE: a session of one mode is not resumed in another mode.
        assert_ne!(kind(ClientCertificates::Required), HandshakeKind::Resumed);
        assert_eq!(kind(ClientCertificates::Required), HandshakeKind::Resumed);
        tls.refresh(Seconds(3)).expect("the files are valid");
        assert_ne!(kind(ClientCertificates::Required), HandshakeKind::Resumed);

        let tls = load(&TlsSettings { session_cache: false, ..settings(&files) });
        for _ in 0..2 {
            let (_, kind) = connect(&tls, ClientCertificates::Ignored, &config)
                .expect("the client is accepted");
            assert_ne!(
                kind,
                HandshakeKind::Resumed,
                "without a session cache {version:?} must not resume"
            );
        }
    }
}

#[test]
fn a_client_whose_authority_was_removed_is_rejected() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let identity = before.server();
    let files = CertificateFiles::new(&identity, &before);
    let tls = load(&settings(&files));
    let config = before.client_config(Some(&before.client()), BOTH_VERSIONS);
    connect(&tls, ClientCertificates::Required, &config).expect("the client is accepted");
    files.write(&identity, &after);
    tls.refresh(Seconds(3)).expect("the files are valid");
    assert!(connect(&tls, ClientCertificates::Required, &config).is_err());
}

#[test]
fn ssl_min_version_and_ssl_ciphers_restrict_versions_and_cipher_suites() {
    let ours = Authority::new("ours");
    let files = CertificateFiles::new(&ours.server(), &ours);
    let old = ours.client_config(None, &[&TLS12]);
    let new = ours.client_config(None, &[&TLS13]);
    let only_new = load(&TlsSettings { version_min: TlsVersion::V1_3, ..settings(&files) });
    assert!(connect(&only_new, ClientCertificates::Ignored, &old).is_err());
    assert!(connect(&only_new, ClientCertificates::Ignored, &new).is_ok());
    let ciphers = Some("ECDHE+CHACHA20:!aRSA".to_owned());
    let tls = load(&TlsSettings { ciphers, ..settings(&files) });
    let (client, _) =
        connect(&tls, ClientCertificates::Ignored, &old).expect("the client has a selected suite");
    let suite = client.negotiated_cipher_suite().expect("the handshake selected a suite").suite();
    assert_eq!(suite.as_str(), Some("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"));
    assert!(connect(&tls, ClientCertificates::Ignored, &new).is_ok());
    let rsa_only = Some("ECDHE-RSA-AES128-GCM-SHA256".to_owned());
    let tls = load(&TlsSettings { ciphers: rsa_only, ..settings(&files) });
    assert!(connect(&tls, ClientCertificates::Ignored, &old).is_err());
}

#[test]
fn a_refresh_with_an_invalid_file_keeps_the_previous_credentials() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = CertificateFiles::new(&old.server(), &old);
    let tls = load(&settings(&files));
    let trusts_old = old.client_config(None, BOTH_VERSIONS);
    let trusts_new = new.client_config(None, BOTH_VERSIONS);
    let (server, other) = (new.server(), new.server());
    for (name, content) in
        [("chain.pem", "nothing"), ("key.pem", other.key.as_str()), ("ca.pem", "nothing")]
    {
        files.write(&server, &new);
        files.put(name, content);
        assert!(tls.refresh(Seconds(9)).is_err(), "a refresh with an invalid {name} must fail");
        assert_eq!(tls.refreshed_at(), Seconds(2));
        assert!(
            connect(&tls, ClientCertificates::Ignored, &trusts_old).is_ok(),
            "with an invalid {name} the server keeps its old certificate"
        );
    }
    let (mut client, mut before) = (client(&trusts_old), tls.accept(ClientCertificates::Ignored));
    files.write(&server, &new);
    tls.refresh(Seconds(9)).expect("the files are valid");
    assert_eq!(tls.refreshed_at(), Seconds(9));
    assert!(connect(&tls, ClientCertificates::Ignored, &trusts_old).is_err());
    assert!(connect(&tls, ClientCertificates::Ignored, &trusts_new).is_ok());
    shake_hands(&mut client, &mut before).expect("an open connection keeps its credentials");
}

#[test]
fn an_error_names_the_file_and_the_remedy() {
    let ours = Authority::new("ours");
    let server = ours.server();
    let files = CertificateFiles::new(&server, &ours);
    let good = settings(&files);
    files.put("empty.pem", "");
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    files.put("encrypted.pem", encrypted);
    let traditional = server.key.replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\n\n");
    files.put("traditional.pem", traditional);
    files.put("other.pem", ours.server().key);
    files.put("damaged.pem", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n");
    let chain = |name| TlsSettings { chain_file: files.path(name), ..good.clone() };
    let key = |name| TlsSettings { key_file: Some(files.path(name)), ..good.clone() };
    let ca = |name| TlsSettings { ca_file: Some(files.path(name)), ..good.clone() };
    let der = TlsSettings { key_format: KeyFormat::Der, ..good.clone() };
    let ciphers = TlsSettings { ciphers: Some("RC4".to_owned()), ..good.clone() };
    for (settings, object, reason) in [
        (chain("absent.pem"), "chain: ", "absent.pem : No such file"),
        (chain("empty.pem"), "chain: ", "empty.pem : no PEM certificate"),
        (chain("damaged.pem"), "chain: ", "damaged.pem : invalid PEM"),
        (key("absent.pem"), "the key: ", "absent.pem : No such file"),
        (key("chain.pem"), "the key: ", "chain.pem : no PEM private key"),
        (key("encrypted.pem"), "the key: ", "decrypt it (openssl pkey"),
        (key("traditional.pem"), "the key: ", "decrypt it (openssl pkey"),
        (key("other.pem"), "validating the certificate: ", "must match"),
        (der, "the key: ", "ssl_keyformat"),
        (ca("absent.pem"), "CA certificate: ", "absent.pem : No such file"),
        (ca("key.pem"), "CA certificate: ", "key.pem : no PEM certificate"),
        (ciphers, "ssl_ciphers", "choose from"),
    ] {
        let error: CredentialsError = match Tls::load(&settings, Seconds(2)) {
            Ok(_) => panic!("an error that contains \"{reason}\" is expected"),
            Err(error) => error,
        };
        let text = error.to_string();
        assert!(text.contains(object) && text.contains(reason), "{object}, {reason}: {text}");
        assert_eq!(text.lines().count(), 1, "an error must have one line: {text}");
    }
}

#[test]
fn an_error_does_not_depend_on_the_private_key() {
    let ours = Authority::new("ours");
    let server = ours.server();
    let files = CertificateFiles::new(&server, &ours);
    // Each text is a common mistake of a script that copies a key.
    let mistakes: [fn(&str) -> String; 6] = [
        |key| key.replace('\n', "\\n"),
        |key| key.replace('\n', " "),
        |key| key.replace('\n', ""),
        |key| key.replacen("KEY-----\n", "KEY-----", 1),
        |key| key.replace("-----END", "----END"),
        |key| key.replace('\n', "!\n"),
    ];
    for mistake in mistakes {
        let errors = [ours.server().key, ours.server().key].map(|key| {
            let text = mistake(&key);
            files.put("key.pem", &text);
            // The key may also be in the file of the chain, or in a wrong file.
            files.put("both.pem", format!("{}{text}", server.chain));
            let good = settings(&files);
            let both = files.path("both.pem");
            [
                good.clone(),
                TlsSettings { chain_file: both.clone(), key_file: None, ..good.clone() },
                TlsSettings { chain_file: files.path("key.pem"), ..good.clone() },
                TlsSettings { key_file: Some(both), ..good },
            ]
            .map(|settings| Tls::load(&settings, Seconds(2)).err().map(|error| error.to_string()))
        });
        assert_eq!(errors[0], errors[1], "the error must not contain the key");
        let first = errors[0][0].as_ref().expect("the key is invalid");
        assert!(first.contains("give a valid PEM file") || first.contains("no PEM"), "{first}");
    }
}

#[test]
fn the_key_may_be_in_the_chain_file_or_in_a_der_file() {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;
    let ours = Authority::new("ours");
    let server = ours.server();
    let files = CertificateFiles::new(&server, &ours);
    let trusts = ours.client_config(None, BOTH_VERSIONS);
    files.put("both.pem", format!("{}{}", server.chain, server.key));
    let both = files.path("both.pem");
    let tls = load(&TlsSettings { chain_file: both, key_file: None, ..settings(&files) });
    assert!(connect(&tls, ClientCertificates::Ignored, &trusts).is_ok());
    let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes()).expect("the text is a PEM key");
    files.put("key.der", key.secret_der());
    let key_file = Some(files.path("key.der"));
    let tls = load(&TlsSettings { key_file, key_format: KeyFormat::Der, ..settings(&files) });
    assert!(connect(&tls, ClientCertificates::Ignored, &trusts).is_ok());
}
