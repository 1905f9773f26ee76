//! TLS: the server's credentials, and the verification of client certificates.
//!
//! ```text
//!   options --TlsSettings--> files: chain, key, authorities --> one rustls configuration for each
//!                                  ^                            mode of client certificates
//!        start, refresh_certs, SIGHUP                                   |
//!                                                     a new connection uses the current one
//! ```
//!
//! [`crate::net`] transports the bytes. The server loads the credentials at the start, workers and the acceptor
//! refresh them, and workers accept connections.
//!
//! Invariants:
//! - WHOLE-OR-OLD: credentials are replaced only if all files are valid; otherwise the previous credentials stay in
//!   use. An open connection keeps its credentials.
//! - NO-LOOPHOLE: a session can be resumed only at a listener with the same mode of client certificates and with the
//!   same credentials. Otherwise a session from a listener without client certificates would be valid at one that
//!   requires them, and a session would stay valid after its authority is removed.
//! - Early data is not accepted, because it can be replayed.

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

/// The current credentials.
pub struct Tls {
    pub settings: TlsSettings,
    configurations: Mutex<Arc<Configurations>>,
    refreshed_at: AtomicU32,
    pub counters: Arc<TlsCounters>,
}

counters! {
    /// The counters of TLS connections.
    pub struct TlsCounters read as TlsCounts {
        /// Connections that failed during the handshake.
        handshake_errors,
        /// Connections that failed after the handshake.
        protocol_errors,
        /// Handshakes that created a session instead of resuming one.
        new_sessions,
    }
}

/// One configuration for each variant of [`ClientCertificates`], in their order.
type Configurations = [Arc<ServerConfig>; 3];

impl Tls {
    /// Loads the credentials. Call it before the process changes its user, because keys are often readable only by
    /// root.
    pub fn load(settings: &TlsSettings, now: Seconds) -> Result<Tls, CredentialsError> {
        Ok(Tls {
            settings: settings.clone(),
            configurations: Mutex::new(Arc::new(configurations(settings)?)),
            refreshed_at: AtomicU32::new(now.0),
            counters: Arc::default(),
        })
    }

    /// Loads the credentials again (WHOLE-OR-OLD).
    pub fn refresh(&self, now: Seconds) -> Result<(), CredentialsError> {
        let fresh = Arc::new(configurations(&self.settings)?);
        *lock(&self.configurations) = fresh;
        self.refreshed_at.store(now.0, Ordering::Relaxed);
        Ok(())
    }

    /// Sets the time of the last refresh, for credentials that were loaded before the clock started.
    pub fn date(&self, now: Seconds) {
        self.refreshed_at.store(now.0, Ordering::Relaxed);
    }

    pub fn refreshed_at(&self) -> Seconds {
        Seconds(self.refreshed_at.load(Ordering::Relaxed))
    }

    /// Returns the state of a new server connection.
    pub fn accept(&self, mode: ClientCertificates) -> ServerConnection {
        let configuration = Arc::clone(&lock(&self.configurations)[mode as usize]);
        let mut connection = ServerConnection::new(configuration)
            .expect("only an invalid fragment size fails, and none is set");
        connection.set_buffer_limit(Some(self.settings.write_buffer_bytes as usize));
        connection
    }
}

fn configurations(settings: &TlsSettings) -> Result<Configurations, CredentialsError> {
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
        allow_resumption(&mut configuration, settings)?;
        Ok(Arc::new(configuration))
    };
    let build = |mode| build(mode).map_err(CredentialsError::Together);
    Ok([
        build(ClientCertificates::Ignored)?,
        build(ClientCertificates::Optional)?,
        build(ClientCertificates::Required)?,
    ])
}

/// Enables or disables resumption. Clients store the sessions in tickets, so the server needs no memory for them. Each
/// configuration has its own ticket key (NO-LOOPHOLE).
fn allow_resumption(
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
