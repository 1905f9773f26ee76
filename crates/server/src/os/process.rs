//! The process: limits, user, daemon mode, signals, pid file and the log on stderr. Without `-v` the log contains
//! warnings and errors. `-v` adds the level info, `-vv` the level debug, `-vvv` the level trace.
//!
//! The server sets up its parts in this order: limits, user, passwords, signals, listening sockets, engine, daemon,
//! memory lock, pid file, confinement, threads. `upgrade -d` becomes a daemon after the change of the user, because its
//! engine is made while the requests of the old process wait. Unlike memcached, slabwise creates the sockets and the engine
//! before the process becomes a daemon, so that their errors appear in the terminal. The server installs its signal
//! handlers before another process can find the sockets or the pid file, so that it handles the first signal that this
//! process sends.

use super::sys::Forked;
use super::{sys, users};
use crate::config::Settings;
use rustix::pipe::PipeFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook_mio::v1_0::Signals;
use slabwise_base::sync::lock;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// The number of file descriptors that the HTTP server needs: for its connections, its listener and its event loop.
const HTTP_DESCRIPTORS: u64 = 48;

/// Returns the number of file descriptors that the server needs in addition to those of client connections: for
/// listening sockets, event loops, wakers and files.
pub(crate) fn descriptors_without_clients(settings: &Settings) -> u64 {
    // The factor is 2 because a host name can have an IPv4 and an IPv6 address.
    let udp_sockets = 2 * settings.udp.len() * settings.threads_per_udp_port();
    let http = if settings.http.is_some() { HTTP_DESCRIPTORS } else { 0 };
    64 + 5 * settings.threads as u64 + udp_sockets as u64 + http
}

/// Sets the limits of the process and, if root started it, changes the user. The caller creates sockets afterwards.
pub fn prepare(settings: &Settings) -> Result<(), String> {
    if settings.process.core_files && !sys::raise_core_limit() {
        return Err(
            "-r: the limit of the size of core files is 0: raise the limit (ulimit -c)".to_owned()
        );
    }
    let needed = u64::from(settings.connections_max);
    let without_clients = descriptors_without_clients(settings);
    sys::raise_open_files(needed, needed + without_clients).map_err(|limit| {
        format!(
            "-c {needed} is above the limit of open files, {limit}: lower -c, raise the limit \
             (ulimit -n) or start as root"
        )
    })?;
    if sys::is_root() {
        let user = settings.process.user.as_ref().ok_or(
            "the server was started by root: add '-u USER' to run it as USER, or '-u root' to run it \
             as root",
        )?;
        become_user(user).map_err(|reason| format!("-u {user}: {reason}"))?;
    } else if let Some(user) = &settings.process.user {
        let id = sys::user_id();
        let current =
            users::with_id(id).ok().flatten().map_or_else(|| id.to_string(), |it| it.name);
        if *user != current {
            tracing::warn!(
                "-u {user} has no effect, because only root can change the user: the server runs as {current}"
            );
        }
    }
    Ok(())
}

fn become_user(name: &str) -> Result<(), String> {
    let cannot_change = |error: io::Error| format!("cannot change to this user: {error}");
    let user = users::named(name).map_err(cannot_change)?.ok_or("there is no such user")?;
    sys::become_user(user.id, user.group_id).map_err(cannot_change)
}

/// Installs the signal handlers. The returned value stores every signal that arrives, also while the process becomes a
/// daemon, until the acceptor's event loop reads the signal.
pub fn catch_signals() -> io::Result<Signals> {
    sys::ignore_file_size_signal()?;
    Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])
}

/// With `-d`, makes the process a daemon. The caller creates sockets before this call and threads after it.
pub fn daemonize_if_requested(settings: &Settings) -> Result<(), String> {
    if settings.process.daemonize {
        // With -r the working directory is kept, because core files are written there.
        sys::daemonize(settings.process.core_files, keeps_streams(settings))
            .map_err(cannot_daemonize)?;
    }
    Ok(())
}

fn cannot_daemonize(error: io::Error) -> String {
    format!("-d: cannot become a daemon: {error}; leave -d out")
}

/// True if a daemon keeps its standard streams: with `-v`, and under a service manager, which stores what it reads there.
fn keeps_streams(settings: &Settings) -> bool {
    settings.tunables.verbosity > 0 || std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// A daemon whose launcher, the process that the user has started, waits until the daemon serves. If the daemon ends before,
/// the launcher ends with exit code 1.
#[derive(Debug)]
pub struct Launched {
    /// A pipe to the launcher. If the daemon fails, only its end closes the pipe, after it has reported its error.
    launcher: ManuallyDrop<OwnedFd>,
    keeps_streams: bool,
}

impl Launched {
    /// Makes the process a daemon, before it has any thread. Returns only in the daemon, which reports its errors on the
    /// standard streams of the launcher until [`Launched::leave_streams`].
    pub fn daemonize(settings: &Settings) -> Result<Launched, String> {
        let (reader, launcher) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .map_err(|errno| cannot_daemonize(errno.into()))?;
        match sys::fork().map_err(cannot_daemonize)? {
            Forked::Parent => {
                drop(launcher);
                let outcome = File::from(reader).read(&mut [0]);
                std::process::exit(i32::from(outcome.ok() != Some(1)));
            }
            Forked::Child => {
                sys::leave_terminal(settings.process.core_files).map_err(cannot_daemonize)?;
                Ok(Launched {
                    launcher: ManuallyDrop::new(launcher),
                    keeps_streams: keeps_streams(settings),
                })
            }
        }
    }

    /// Redirects the standard streams to `/dev/null`, unless a daemon keeps them. The caller confines the process later.
    pub fn leave_streams(&self) {
        if !self.keeps_streams
            && let Err(error) = sys::close_streams()
        {
            tracing::warn!("-d: cannot redirect the standard streams: {error}");
        }
    }

    /// Reports to the launcher that this process serves.
    pub fn serves(self) {
        // An error is ignored, because the launcher may have been killed.
        let _ = File::from(ManuallyDrop::into_inner(self.launcher)).write(&[1]);
    }
}

/// The number of threads in addition to the workers: the main thread, the LRU maintainer, the tuner, the crawler, and those of
/// the HTTP server and of the control socket.
const THREADS_BESIDE_WORKERS: usize = 6;

/// Checks that the system permits as many threads as the server starts, while those of the process that it takes over from
/// still exist.
pub fn check_threads(settings: &Settings) -> Result<(), String> {
    let count = settings.threads + THREADS_BESIDE_WORKERS - 1;
    let gate = Mutex::new(());
    let closed = lock(&gate);
    std::thread::scope(|scope| {
        let started: io::Result<Vec<_>> = (0..count)
            .map(|_| std::thread::Builder::new().spawn_scoped(scope, || drop(lock(&gate))))
            .collect();
        // The threads end.
        drop(closed);
        started.map(|_| ()).map_err(|error| {
            format!(
                "cannot start {count} threads beside those of the running server: {error}: raise the limit of processes \
                 (ulimit -u, TasksMax= of a unit, or pids.max of a container)"
            )
        })
    })
}

/// With `-k`, locks the memory of the process. The caller reserves the arena before this call. As in memcached, a
/// failure only causes a warning.
pub fn lock_memory(settings: &Settings) {
    if settings.process.lock_memory
        && let Err(error) = sys::lock_memory()
    {
        tracing::warn!("-k: cannot lock the memory: {error}; raise the limit (ulimit -l)");
    }
}

/// The pid file. Dropping this value removes the file.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the process id to the file at `path`. As in memcached, a failure only causes a warning: the function then
    /// returns `None`. `is_upgrade` is true if this process replaces a running one, whose id may be in the file.
    pub fn write(path: &Path, is_upgrade: bool) -> Option<PidFile> {
        let written = PidFile::try_write(path, is_upgrade).inspect_err(|error| {
            tracing::warn!("cannot write the pid file {}: {error}", path.display());
        });
        written.ok()
    }

    /// Writes a temporary file and renames it to `path`, so that no other process can read an empty file.
    fn try_write(path: &Path, is_upgrade: bool) -> io::Result<PidFile> {
        if let Some(other) = running_process_in(path).filter(|_| !is_upgrade) {
            tracing::warn!(
                "the pid file {} names process {other}, which is running: its content is replaced",
                path.display()
            );
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".tmp");
        // A file that another user has created in advance, perhaps a symbolic link, is not written.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&partial)?;
        writeln!(file, "{}", std::process::id())?;
        drop(file);
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

/// Returns the process id in the file at `path` if a process with this id exists.
fn running_process_in(path: &Path) -> Option<i32> {
    let id = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    sys::process_exists(id).then_some(id)
}

/// Changes the log level of the global log subscriber. The cell is empty until [`init_logging`] has set the subscriber.
static LEVEL_FILTER: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Sets the global log subscriber, which writes to stderr. Does nothing if there is already a subscriber, as in tests.
pub fn init_logging(verbosity: u32) {
    let (filter, handle) = reload::Layer::new(level_of(verbosity));
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false).without_time();
    // As in memcached, a line contains only the message, without time, level and module.
    let lines = lines.with_target(false).with_level(false);
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        // `set` cannot fail: `try_init` succeeds only once in a process, so the cell is still empty.
        let _ = LEVEL_FILTER.set(handle);
    }
}

/// Changes the log level to that of `-v` given `verbosity` times.
pub fn set_verbosity(verbosity: u32) {
    if let Some(filter) = LEVEL_FILTER.get() {
        // `reload` fails only if the subscriber no longer exists, and then nothing is logged.
        let _ = filter.reload(level_of(verbosity));
    }
}

fn level_of(verbosity: u32) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}
