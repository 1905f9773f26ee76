//! The server under test: its limits, its certificate, and its start.

use crate::arguments::Arguments;
use crate::link::Target;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use slabwise_client::process::{Server, ServerCommand};
use std::path::Path;
use std::sync::Arc;

const HOST_NAME: &str = "localhost";
/// The files that the program and the server open besides connections.
const FILES_SPARE: u64 = 1_000;

/// Raises the limit of open files of this process, which the server inherits.
pub fn raise_open_files(arguments: &Arguments) -> Result<(), String> {
    let needed = arguments.limit as u64 + FILES_SPARE;
    let limit = getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if soft >= needed {
        return Ok(());
    }
    let raised = Rlimit { current: Some(needed), maximum: Some(needed.max(hard)) };
    setrlimit(Resource::Nofile, raised).map_err(|_| {
        format!(
            "--limit {} needs {needed} open files, but the limit is {hard}: raise the limit (ulimit -Hn), or lower \
             --limit, --idle and --active",
            arguments.limit
        )
    })
}

/// Starts the server. `folder` receives its certificate, with TLS.
pub fn start(arguments: &Arguments, folder: &Path) -> Result<(Server, Target), String> {
    let (limit, memory) = (arguments.limit.to_string(), arguments.memory.to_string());
    let mut command = ServerCommand::on_free_port(&arguments.server)
        .with(&["-c", &limit, "-m", &memory])
        .with(&arguments.server_arguments)
        .keeping_stderr();
    let mut tls = None;
    if arguments.tls {
        let (config, options) = certificate(folder)?;
        command = command.with(&["-Z", "-o", &options]);
        let name = ServerName::try_from(HOST_NAME).expect("the name of the host is valid");
        tls = Some((config, name));
    }
    println!("{}", command.describe());
    let server = Server::start(&command).map_err(|error| error.to_string())?;
    let address = server.socket_address();
    Ok((server, Target { address, tls }))
}

/// Makes a certificate. Returns the configuration of clients that trust it, and the options of the server.
fn certificate(folder: &Path) -> Result<(Arc<ClientConfig>, String), String> {
    let made = generate_simple_self_signed([HOST_NAME.to_owned()]);
    let CertifiedKey { cert, signing_key } = made.map_err(|error| error.to_string())?;
    let write = |name: &str, content: String| {
        let path = folder.join(name);
        let written = std::fs::write(&path, content);
        written.map(|()| path).map_err(|error| format!("cannot write the certificate: {error}"))
    };
    let chain = write("chain.pem", cert.pem())?;
    let key = write("key.pem", signing_key.serialize_pem())?;
    let options = format!("ssl_chain_cert={},ssl_key={}", chain.display(), key.display());
    let mut roots = RootCertStore::empty();
    let added = roots.add(CertificateDer::from(cert.der().to_vec()));
    added.expect("a certificate that was just made is valid");
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((Arc::new(config), options))
}
