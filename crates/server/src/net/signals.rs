//! The handling of signals, on the acceptor's thread: a stop, and the reload of files by SIGHUP. The service manager is
//! notified of both.

use crate::admin::commands::set_memory_limit;
use crate::config::{self, GivenOptions};
use crate::os::service::Notifications;
use crate::passwords::PasswordFile;
use crate::shared::Shared;
use mio::{Interest, Registry, Token};
use signal_hook::consts::{SIGHUP, SIGUSR1};
use signal_hook_mio::v1_0::Signals;
use slabwise_base::sync::lock;
use std::io;

/// The name of the option that SIGHUP applies.
const MEMORY_LIMIT: &str = "-m";

/// The signals of the process, and the state that their handling needs.
pub(crate) struct SignalHandler {
    signals: Signals,
    notifications: Option<Notifications>,
    /// The options of the last read of the file of `-o conf_file`.
    options: GivenOptions,
}

impl SignalHandler {
    /// `options` are those with which the server was started.
    pub fn new(
        signals: Signals,
        notifications: Option<Notifications>,
        options: GivenOptions,
    ) -> SignalHandler {
        SignalHandler { signals, notifications, options }
    }

    /// Registers the signals as events of an event loop. Signals that arrived earlier are also reported.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.signals, token, Interest::READABLE)
    }

    /// Notifies the service manager that the server accepts requests.
    pub(super) fn notify_ready(&self) {
        self.notifications.as_ref().inspect(|it| it.ready());
    }

    /// Notifies the service manager that the server stops.
    pub(super) fn notify_stopping(&self) {
        self.notifications.as_ref().inspect(|it| it.stopping());
    }

    /// Handles the signals that have arrived since the last call.
    pub(super) fn handle(&mut self, shared: &Shared<'_>) {
        let pending: Vec<_> = self.signals.pending().collect();
        for signal in pending {
            match signal {
                SIGHUP => {
                    self.notifications.as_ref().inspect(|it| it.reloading());
                    self.reload(shared);
                    self.notify_ready();
                }
                SIGUSR1 => {
                    tracing::warn!("stopping gracefully on signal SIGUSR1");
                    shared.stop_gracefully();
                }
                _ => {
                    tracing::info!("stopping on signal {signal}");
                    shared.stop();
                }
            }
        }
    }

    /// Reloads the password file of `-Y`, the certificates and the file of `-o conf_file`. As in memcached, the old
    /// passwords or certificates stay active if their files are invalid. So do the old options.
    fn reload(&mut self, shared: &Shared<'_>) {
        let Shared { tls, logins, clock, settings, .. } = shared;
        let has_conf_file = settings.source.conf_file.is_some();
        if tls.is_none() && logins.is_none() && !has_conf_file {
            tracing::info!(
                "SIGHUP: nothing to reload, as neither -Y, -Z nor -o conf_file is given"
            );
        }
        match logins.as_ref().map(PasswordFile::reload) {
            None => {}
            Some(Ok(())) => tracing::info!("SIGHUP: reloaded the password file"),
            Some(Err(error)) => tracing::warn!("SIGHUP: the old passwords stay active: {error}"),
        }
        match tls.as_ref().map(|tls| tls.refresh(clock.now().seconds)) {
            None => {}
            Some(Ok(())) => tracing::info!("SIGHUP: reloaded the certificates"),
            Some(Err(error)) => tracing::warn!("SIGHUP: the old certificates stay active: {error}"),
        }
        if has_conf_file {
            self.reload_options(shared);
        }
    }

    /// Reads the file of `-o conf_file` again. If the value of `-m` has changed since the start and the last change that
    /// succeeded, changes the memory limit. A limit that `cache_memlimit` has set stays if `-m` has not changed.
    fn reload_options(&mut self, shared: &Shared<'_>) {
        let reread = match config::reread(&shared.settings.source) {
            Ok(reread) => reread,
            Err(error) => {
                return tracing::warn!("SIGHUP: the old options stay active: {error}");
            }
        };
        let mut changed = reread.options.differing(&self.options);
        changed.retain(|name| name != MEMORY_LIMIT);
        let megabytes = reread.memory_limit_mib;
        let option_bytes = u64::from(megabytes) << 20;
        if option_bytes != shared.tunables().memory_limit_option_bytes {
            match set_memory_limit(shared, megabytes) {
                Ok(()) => {
                    lock(&shared.tunables).memory_limit_option_bytes = option_bytes;
                    tracing::info!("SIGHUP: -m is now {megabytes} (MiB)");
                }
                Err(error) => tracing::warn!(
                    "SIGHUP: the old memory limit stays active, as -m is {megabytes} (MiB): {error}"
                ),
            }
        }
        if !changed.is_empty() {
            let names = changed.join(", ");
            tracing::warn!("SIGHUP: these options change when the server starts again: {names}");
        }
        self.options = reread.options;
    }
}
