//! The process: limits, user, daemon mode, signals, pid file and the log on stderr. The log has warnings; `-v`, `-vv`
//! and `-vvv` each add a level.
//!
//! The order at the start is: limits, user, passwords, signals, listening sockets, engine, daemon, memory lock, pid
//! file, threads. Unlike in memcached, sockets and engine are created before the process becomes a daemon, so errors
//! about them appear in the terminal. Signals are handled before other processes can see the sockets or the pid file,
//! so a signal always causes a clean shutdown.

use super::sys;
use crate::config::Settings;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook_mio::v1_0::Signals;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, io};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// Returns the number of descriptors for listeners, event loops, wakers and files.
pub(crate) fn descriptors_of_our_own(settings: &Settings) -> u64 {
    // A host name can have an IPv4 and an IPv6 address.
    let udp_sockets = 2 * settings.udp.len() * settings.threads_per_udp_port();
    64 + 4 * settings.threads as u64 + udp_sockets as u64
}

/// Sets the limits and the user. Call it before sockets are created.
pub fn prepare(settings: &Settings) -> Result<(), String> {
    if settings.process.core_files && !sys::raise_core_limit() {
        return Err("-r: the limit of core files is 0: raise it (ulimit -c)".to_owned());
    }
    let needed = u64::from(settings.connections_max);
    let own = descriptors_of_our_own(settings);
    sys::raise_open_files(needed, needed + own).map_err(|limit| {
        format!(
            "-c {needed} is above the limit of open files, {limit}: lower -c, raise the limit \
             (ulimit -n) or start as root"
        )
    })?;
    if sys::is_root() {
        let user = settings.process.user.as_ref();
        let user =
            user.ok_or("started as root: add '-u USER' to run as USER ('-u root' to stay root)")?;
        sys::become_user(user).map_err(|reason| format!("-u {user}: {reason}"))?;
    }
    Ok(())
}

/// Installs the signal handlers. Signals stay pending in the returned value until an event loop reads them, also while
/// the process becomes a daemon.
pub fn catch_signals() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])
}

/// Becomes a daemon with `-d`. Call it after sockets are created and before threads are spawned.
pub fn go_to_background(settings: &Settings) -> Result<(), String> {
    if settings.process.daemonize {
        // Core files need a writable directory, and -v needs stderr.
        let (keep_directory, keep_streams) =
            (settings.process.core_files, settings.tunables.verbosity > 0);
        sys::daemonize(keep_directory, keep_streams)
            .map_err(|error| format!("-d: cannot become a daemon: {error}; leave -d out"))?;
    }
    Ok(())
}

/// Locks the memory with `-k`. Call it after the arena is reserved. As in memcached, a failure is only a warning.
pub fn lock_memory(settings: &Settings) {
    if settings.process.lock_memory
        && let Err(error) = sys::lock_memory()
    {
        tracing::warn!("-k: cannot lock the memory: {error}; raise the limit (ulimit -l)");
    }
}

/// A pid file; removed when dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file. As in memcached, a failure is only a warning.
    pub fn write(path: &Path) -> Option<PidFile> {
        let written = PidFile::try_write(path).inspect_err(|error| {
            tracing::warn!("cannot write the pid file {}: {error}", path.display());
        });
        written.ok()
    }

    /// Writes a temporary file and renames it, so readers never see an empty file.
    fn try_write(path: &Path) -> io::Result<PidFile> {
        if let Some(other) = running_process_in(path) {
            tracing::warn!(
                "the pid file {} contains process {other}, which is running",
                path.display()
            );
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".tmp");
        fs::write(&partial, format!("{}\n", std::process::id()))?;
        fs::rename(&partial, path)?;
        Ok(PidFile { path: path.to_owned() })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("cannot remove the pid file {}: {error}", self.path.display());
        }
    }
}

fn running_process_in(path: &Path) -> Option<i32> {
    let id = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    sys::process_exists(id).then_some(id)
}

/// The filter of the global subscriber.
static FILTER: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Initializes logging, unless there is already a subscriber, as in tests.
pub fn init_logging(verbosity: u32) {
    let (filter, handle) = reload::Layer::new(level(verbosity));
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false).without_time();
    // As in memcached, a line has only the message.
    let lines = lines.with_target(false).with_level(false);
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        // `try_init` succeeds once, so the cell is empty.
        let _ = FILTER.set(handle);
    }
}

pub fn set_verbosity(verbosity: u32) {
    if let Some(filter) = FILTER.get() {
        // It fails only without a subscriber, and then there is no output.
        let _ = filter.reload(level(verbosity));
    }
}

fn level(verbosity: u32) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}
