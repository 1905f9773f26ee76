//! The process: its limits, its user, its background life, its signals, the file that tells others its id, and its log on
//! stderr: warnings always; -v, -vv and -vvv add a level each.
//!
//! Order at the start: limits, user, passwords, signals, listening sockets, engine, background, memory lock, files
//! that name this process, and only then threads. Sockets and engine come before the background, unlike in
//! memcached, so that a port in use or a memory file that is refused is reported to the one who starts the server.
//! Signals are caught before anyone can know this process, by a socket or by a file, so that a signal stops it
//! cleanly.

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

/// Descriptors that are no client's: listeners, event loops, wakers, files.
pub(crate) fn descriptors_of_our_own(settings: &Settings) -> u64 {
    // A name of `-l` stands for an address of each family.
    let udp_sockets = 2 * settings.udp.len() * settings.threads_per_udp_port();
    64 + 4 * settings.threads as u64 + udp_sockets as u64
}

/// Limits and user: what must come before the sockets.
pub fn prepare(settings: &Settings) -> Result<(), String> {
    if settings.process.core_files && !sys::raise_core_limit() {
        return Err("-r: core files are impossible here: raise the limit (ulimit -c)".to_owned());
    }
    let needed = u64::from(settings.connections_max);
    let own = descriptors_of_our_own(settings);
    sys::raise_open_files(needed, needed + own).map_err(|limit| {
        format!(
            "-c {needed} is above the limit of open files, {limit}: lower -c, or raise the limit \
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

/// From here on signals end the server instead of the process: they wait, across the step into the
/// background too, until an event loop takes them from what is returned.
pub fn catch_signals() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])
}

/// Background: what must come after the sockets and before any thread.
pub fn go_to_background(settings: &Settings) -> Result<(), String> {
    if settings.process.daemonize {
        // A core file needs a directory that may be written to; -v needs somewhere to print.
        let (keep_directory, keep_streams) =
            (settings.process.core_files, settings.tunables.verbosity > 0);
        sys::daemonize(keep_directory, keep_streams).map_err(|error| {
            format!("-d: cannot go on in the background: {error}; leave -d out")
        })?;
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

/// A pid file; removed when dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file. As in memcached, a server that cannot write it serves all the same.
    pub fn write(path: &Path) -> Option<PidFile> {
        let written = PidFile::try_write(path).inspect_err(|error| {
            tracing::warn!("cannot write the pid file {}: {error}", path.display());
        });
        written.ok()
    }

    /// The file appears whole, so that no reader finds it empty.
    fn try_write(path: &Path) -> io::Result<PidFile> {
        if let Some(other) = running_process_in(path) {
            tracing::warn!("{} names process {other}, which is running", path.display());
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

/// The one filter of the process: a subscriber is global, too.
static FILTER: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Begins to print. Does nothing where a subscriber is there already, as in tests.
pub fn init_logging(verbosity: u32) {
    let (filter, handle) = reload::Layer::new(level(verbosity));
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false).without_time();
    // The text alone, as memcached prints it.
    let lines = lines.with_target(false).with_level(false);
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        // Only the first initialisation gets here.
        let _ = FILTER.set(handle);
    }
}

pub fn set_verbosity(verbosity: u32) {
    if let Some(filter) = FILTER.get() {
        // It fails only once the subscriber is gone, and then nothing is printed anyway.
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
