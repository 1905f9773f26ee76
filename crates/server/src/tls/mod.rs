//! TLS: the server's credentials, and what it asks of its clients.
//!
//! ```text
//!   options --TlsSettings--> files: chain, key, authorities --> one rustls configuration for each
//!                                  ^                            way to treat clients' certificates
//!        start, refresh_certs, SIGHUP                                   |
//!                                                     a new connection takes the present one
//! ```
//!
//! How bytes travel is [`crate::net`]'s business.
//!
//! Invariants:
//! - WHOLE-OR-OLD: credentials are read and checked as a whole before they are in force. Files that
//!   are bad leave those in force that were; connections keep the ones they began with.
//! - NO-LOOPHOLE: a session can be resumed only where it was made: at a listener that asks the same of
//!   its clients, under the same credentials. Otherwise one from a listener without client
//!   certificates would open one that demands them, and one of an authority no longer trusted would
//!   outlive it.
//! - No request is taken from early data, which could be replayed.
//!
//! Who may call it: the start loads; workers and the acceptor refresh; workers accept.

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

/// The credentials in force.
pub struct Tls {
    pub settings: TlsSettings,
    /// Held for a copy of a pointer, and while credentials are exchanged.
    configurations: Mutex<Arc<Configurations>>,
    refreshed_at: AtomicU32,
    pub counters: Arc<TlsCounters>,
}

counters! {
    /// What went wrong, and well, on connections with TLS.
    pub struct TlsCounters read as TlsCounts {
        /// Connections that failed before their handshake was through.
        handshake_errors,
        /// Connections that failed later.
        protocol_errors,
        /// Handshakes that made a session, instead of resuming one.
        new_sessions,
    }
}

/// One for each way to treat clients' certificates, in the order of [`ClientCertificates`].
type Configurations = [Arc<ServerConfig>; 3];

impl Tls {
    /// Reads the files that the settings name. Call before the process changes its user: keys are
    /// often readable by root only.
    pub fn load(settings: &TlsSettings, now: Seconds) -> Result<Tls, CredentialsError> {
        Ok(Tls {
            settings: settings.clone(),
            configurations: Mutex::new(Arc::new(configurations(settings)?)),
            refreshed_at: AtomicU32::new(now.0),
            counters: Arc::default(),
        })
    }

    /// Reads the files again; WHOLE-OR-OLD.
    pub fn refresh(&self, now: Seconds) -> Result<(), CredentialsError> {
        let fresh = Arc::new(configurations(&self.settings)?);
        *lock(&self.configurations) = fresh;
        self.refreshed_at.store(now.0, Ordering::Relaxed);
        Ok(())
    }

    /// Says when the credentials were read, where the clock was not running yet.
    pub fn date(&self, now: Seconds) {
        self.refreshed_at.store(now.0, Ordering::Relaxed);
    }

    pub fn refreshed_at(&self) -> Seconds {
        Seconds(self.refreshed_at.load(Ordering::Relaxed))
    }

    /// The server's side of a new connection, before its first byte.
    pub fn accept(&self, asked: ClientCertificates) -> ServerConnection {
        let configuration = Arc::clone(&lock(&self.configurations)[asked as usize]);
        let mut connection = ServerConnection::new(configuration)
            .expect("it fails only on a fragment size, and none is set");
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
    let build = |asked| -> Result<Arc<ServerConfig>, String> {
        let verifier = authority::verifier(asked, &authorities, &provider)?;
        let mut configuration = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(verifier)
            .with_single_cert(credentials.chain.clone(), credentials.key.clone_key())
            .map_err(|error| format!("{error}; ssl_chain_cert and ssl_key must belong together"))?;
        allow_resumption(&mut configuration, settings)?;
        Ok(Arc::new(configuration))
    };
    let build = |asked| build(asked).map_err(CredentialsError::Together);
    Ok([
        build(ClientCertificates::Ignored)?,
        build(ClientCertificates::Optional)?,
        build(ClientCertificates::Required)?,
    ])
}

/// NO-LOOPHOLE: every configuration has tickets of its own. Sessions are kept by clients, in tickets
/// that only this configuration can read, so that they take no memory here.
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

/// The cryptography, with the cipher suites that `ssl_ciphers` leaves.
fn provider(settings: &TlsSettings) -> Result<CryptoProvider, CredentialsError> {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(list) = &settings.ciphers {
        let chosen = ciphers::select(list).map_err(CredentialsError::Ciphers)?;
        provider.cipher_suites.retain(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
        provider.cipher_suites.extend(chosen);
    }
    Ok(provider)
}
