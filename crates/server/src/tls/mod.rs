//! TLS: the server's credentials, and the verification of client certificates.
//!
//! ```text
//!   options --TlsSettings--> files: chain, key, authorities --> one rustls configuration for each
//!                                  ^                            mode of client certificates
//!        start, refresh_certs, SIGHUP                                   |
//!                                               a new connection uses the configuration of its listener's mode
//! ```
//!
//! [`crate::net`] transports the bytes. The server loads the credentials at the start. A worker loads the credentials
//! again for the command `refresh_certs`, and the acceptor's thread loads them again on SIGHUP.
//!
//! Invariants:
//! - WHOLE-OR-OLD: the credentials are replaced only if all files are valid. Otherwise new connections still use the
//!   previous credentials. An open connection keeps its credentials.
//! - NO-LOOPHOLE: a session can be resumed only at a listener with the same mode of client certificates and with the
//!   same credentials. Otherwise a client without a certificate could start a session at a listener that requires none
//!   and resume it at a listener that requires one, and a session would stay valid after its authority is removed.
//! - The server does not accept early data, because an attacker can replay early data.

mod authority;
mod ciphers;
mod files;
mod settings;

#[cfg(test)]
pub(crate) mod tests;

pub use files::CredentialsError;
pub use settings::{ClientCertificates, KeyFormat, TlsSettings, TlsVersion, VerifyMode};

use files::Credentials;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{NoServerSessionStorage, ServerConnection};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedCipherSuite};
use slabwise_base::sync::lock;
use slabwise_base::{Seconds, counters};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// The TLS configuration of the server, with the credentials that new connections use.
pub struct Tls {
    pub settings: TlsSettings,
    configurations: Mutex<Arc<Configurations>>,
    /// The second of the clock at which the credentials were last loaded.
    refreshed_at: AtomicU32,
    pub counters: Arc<TlsCounters>,
}

counters! {
    /// Counts of TLS connections since the start of the server.
    pub struct TlsCounters read as TlsCounts {
        /// Connections that ended with an error during the handshake.
        handshake_errors,
        /// Connections that ended with an error of the TLS protocol after the handshake.
        protocol_errors,
        /// Completed handshakes that created a session and did not resume one.
        new_sessions,
    }
}

/// One rustls configuration for each variant of [`ClientCertificates`], in the order of the variants.
type Configurations = [Arc<ServerConfig>; 3];

impl Tls {
    /// Loads the credentials at the start. The caller changes the user of the process afterwards, because often only
    /// root can read the key.
    pub fn load(settings: &TlsSettings, now: Seconds) -> Result<Tls, CredentialsError> {
        Ok(Tls {
            settings: settings.clone(),
            configurations: Mutex::new(Arc::new(load_configurations(settings)?)),
            refreshed_at: AtomicU32::new(now.0),
            counters: Arc::default(),
        })
    }

    /// Loads the credentials again. Keeps the previous credentials if a file is invalid (WHOLE-OR-OLD).
    pub fn refresh(&self, now: Seconds) -> Result<(), CredentialsError> {
        let configurations = Arc::new(load_configurations(&self.settings)?);
        *lock(&self.configurations) = configurations;
        self.refreshed_at.store(now.0, Ordering::Relaxed);
        Ok(())
    }

    /// Sets the time of the last refresh. The server calls this function once, because it loads the credentials before
    /// the clock starts.
    pub fn set_refresh_time(&self, now: Seconds) {
        self.refreshed_at.store(now.0, Ordering::Relaxed);
    }

    /// Returns the time at which the credentials were last loaded.
    pub fn refreshed_at(&self) -> Seconds {
        Seconds(self.refreshed_at.load(Ordering::Relaxed))
    }

    /// Returns the current configuration for connections whose clients need no certificate.
    pub fn configuration(&self) -> Arc<ServerConfig> {
        Arc::clone(&lock(&self.configurations)[ClientCertificates::Ignored as usize])
    }

    /// Returns the TLS state of a new connection at a listener with this mode.
    pub fn accept(&self, mode: ClientCertificates) -> ServerConnection {
        let configuration = Arc::clone(&lock(&self.configurations)[mode as usize]);
        let mut connection = ServerConnection::new(configuration).expect(
            "the configuration sets no maximum fragment size, the only value that rustls rejects",
        );
        connection.set_buffer_limit(Some(self.settings.write_buffer_bytes as usize));
        connection
    }
}

/// Reads the files and makes the configurations of all modes.
fn load_configurations(settings: &TlsSettings) -> Result<Configurations, CredentialsError> {
    let credentials = Credentials::read(settings)?;
    let authorities = Arc::new(credentials.authorities.clone());
    let provider = Arc::new(provider(settings)?);
    let versions = match settings.version_min {
        TlsVersion::V1_2 => &[&TLS13, &TLS12][..],
        TlsVersion::V1_3 => &[&TLS13][..],
    };
    let build = |mode| -> Result<Arc<ServerConfig>, String> {
        let verifier = authority::verifier(mode, &authorities, &provider)?;
        let mut configuration = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(verifier)
            .with_single_cert(credentials.chain.clone(), credentials.key.clone_key())
            .map_err(|error| format!("{error}; ssl_chain_cert and ssl_key must match"))?;
        configure_resumption(&mut configuration, settings)?;
        Ok(Arc::new(configuration))
    };
    let build = |mode| build(mode).map_err(CredentialsError::Mismatch);
    Ok([
        build(ClientCertificates::Ignored)?,
        build(ClientCertificates::Optional)?,
        build(ClientCertificates::Required)?,
    ])
}

/// Enables or disables the resumption of sessions. The server sends the state of a session to the client as a ticket,
/// so the server stores no sessions. Each configuration encrypts its tickets with its own key (NO-LOOPHOLE).
fn configure_resumption(
    configuration: &mut ServerConfig,
    settings: &TlsSettings,
) -> Result<(), String> {
    configuration.session_storage = Arc::new(NoServerSessionStorage {});
    configuration.max_early_data_size = 0;
    if settings.session_cache {
        configuration.ticketer = aws_lc_rs::Ticketer::new().map_err(|error| error.to_string())?;
    } else {
        configuration.send_tls13_tickets = 0;
    }
    Ok(())
}

/// Returns the crypto provider with the cipher suites of `ssl_ciphers`.
fn provider(settings: &TlsSettings) -> Result<CryptoProvider, CredentialsError> {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(list) = &settings.ciphers {
        let chosen = ciphers::select(list).map_err(CredentialsError::Ciphers)?;
        provider.cipher_suites.retain(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
        provider.cipher_suites.extend(chosen);
    }
    Ok(provider)
}
