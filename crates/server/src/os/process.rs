//! The process: its limits, its user, its background life and its signals.
//!
//! Order at the start: limits, user, passwords, signals, listening sockets, engine, background, memory lock, files
//! that name this process, and only then threads. Sockets and engine come before the background, unlike in
//! memcached, so that a port in use or a memory file that is refused is reported to the one who starts the server.
//! Signals are caught before anyone can know this process, by a socket or by a file, so that a signal stops it
//! cleanly.

use super::sys::{self, BecomeUserError};
use crate::config::Settings;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook_mio::v1_0::Signals;
use std::io;

/// Descriptors that are no client's: listeners, event loops, wakers, files.
pub(crate) fn descriptors_of_our_own(settings: &Settings) -> u64 {
    // A name of `-l` stands for an address of each family.
    let udp_sockets = 2 * settings.udp.len() * settings.threads_per_udp_port();
    64 + 4 * settings.threads as u64 + udp_sockets as u64
}

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The limit of open files is below `-c` and cannot be raised.
    #[error(
        "-c {needed} is above the limit of open files, {limit}: lower -c, or raise the limit \
         (ulimit -n) or start as root"
    )]
    OpenFiles { needed: u64, limit: u64 },
    #[error("-r: core files are impossible here: raise the limit (ulimit -c)")]
    CoreFiles,
    #[error("started as root: add '-u USER' to run as USER ('-u root' to stay root)")]
    RootWithoutUser,
    #[error("-u {0}: {1}")]
    BecomeUser(String, BecomeUserError),
    #[error("-d: cannot go on in the background: {0}; leave -d out")]
    Daemonize(io::Error),
}

/// Limits and user: what must come before the sockets.
pub fn prepare(settings: &Settings) -> Result<(), ProcessError> {
    if settings.process.core_files && !sys::raise_core_limit() {
        return Err(ProcessError::CoreFiles);
    }
    let needed = u64::from(settings.connections_max);
    let own = descriptors_of_our_own(settings);
    sys::raise_open_files(needed, needed + own)
        .map_err(|limit| ProcessError::OpenFiles { needed, limit })?;
    if sys::is_root() {
        let user = settings.process.user.clone().ok_or(ProcessError::RootWithoutUser)?;
        sys::become_user(&user).map_err(|error| ProcessError::BecomeUser(user, error))?;
    }
    Ok(())
}

/// From here on signals end the server instead of the process: they wait, across the step into the
/// background too, until an event loop takes them from what is returned.
pub fn catch_signals() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])
}

/// Background: what must come after the sockets and before any thread.
pub fn go_to_background(settings: &Settings) -> Result<(), ProcessError> {
    if settings.process.daemonize {
        // A core file needs a directory that may be written to; -v needs somewhere to print.
        let keep_directory = settings.process.core_files;
        sys::daemonize(keep_directory, settings.verbosity > 0).map_err(ProcessError::Daemonize)?;
    }
    Ok(())
}

/// Memory lock. After the arena is reserved, so that a system that allows too little says so here,
/// where it is no more than a warning, as in memcached.
pub fn lock_memory(settings: &Settings) {
    if settings.process.lock_memory
        && let Err(error) = sys::lock_memory()
    {
        tracing::warn!("-k: memory is not locked: {error}; raise the limit (ulimit -l)");
    }
}
