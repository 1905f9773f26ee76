//! The server: sockets, workers, options, and the threads that drive the engine.
//!
//! ```text
//!   config: options -> Settings -> Engine
//!                                   ^  ^
//!          net: acceptor, workers --'  '-- background: LRU maintainer, page mover, policy
//! ```
//!
//! [`main`] is the whole program; [`serve`] is everything after the command line. All threads are scoped:
//! they borrow the engine and end before it is dropped. Any of them can stop the server, which wakes all others.
#![forbid(unsafe_code)]

mod admin;
mod background;
mod config;
mod net;
mod ops;
mod os;
mod out;
mod passwords;
mod sasl;
mod session;
mod shared;
mod stats;
mod tls;
mod wire;

pub use config::Settings;
pub use os::sys::is_root;
pub use out::Out;
pub use session::{Next, Session};
pub use shared::{ConnectionTable, Shared, WorkerContext};

use config::{Listen, Request};
use net::{Listeners, Loops};
use os::process::{self, PidFile};
use os::restart;
use passwords::{Kind, PasswordFile};
use slabwise_base::Seconds;
use slabwise_engine::EvictionObserver;
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tls::Tls;

/// The exit code for wrong options, `EX_USAGE` of sysexits.h, as in memcached.
const EXIT_USAGE: u8 = 64;
/// memcached's variable for the file to which the ports are written that the kernel chose.
const PORT_FILE_VARIABLE: &str = "MEMCACHED_PORT_FILENAME";

/// Parses the arguments (without the program's name) and serves until the server is stopped.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let settings = match read_options(args) {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    process::init_logging(settings.tunables.verbosity);
    match serve(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("slabwise: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the chunk sizes that the arguments result in (`slabwise classes`).
pub fn print_classes(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match read_options(args) {
        Ok(settings) => {
            print!("{}", class_lines(&settings));
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

/// Returns the settings, or the exit code after `--help`, `--version` or an error.
fn read_options(args: impl IntoIterator<Item = OsString>) -> Result<Settings, ExitCode> {
    match config::parse(args) {
        Ok(Request::Print(text)) => {
            print!("{text}");
            Err(ExitCode::SUCCESS)
        }
        Ok(Request::Serve { settings, warnings }) => {
            for warning in warnings {
                eprintln!("slabwise: {warning}");
            }
            Ok(*settings)
        }
        Err(error) => {
            eprintln!("slabwise: {error}");
            Err(ExitCode::from(EXIT_USAGE))
        }
    }
}

/// Returns the lines about classes that memcached prints with `-vv`.
fn class_lines(settings: &Settings) -> String {
    let page_size_bytes = settings.engine.page_size_bytes;
    let classes = &settings.engine.classes;
    let line = |class: slabwise_base::ClassId| {
        let size = classes.chunk_size_bytes(class);
        let chunks = page_size_bytes / size;
        format!("slab class {:3}: chunk size {size:9} perslab {chunks:7}\n", class.wire())
    };
    classes.ids().map(line).collect()
}

/// Serves until the server is stopped by a signal or the `shutdown` command.
pub fn serve(settings: &Settings) -> Result<(), Box<dyn Error>> {
    // Load keys before the user changes, because they are often readable by root only.
    let tls = settings.tls.as_ref().map(|tls| Tls::load(tls, Seconds::START)).transpose()?;
    process::prepare(settings)?;
    let auth_file = settings.auth_file.clone();
    let logins = auth_file.map(|path| PasswordFile::new(path, Kind::Login));
    logins.as_ref().map(PasswordFile::reload).transpose()?;
    let signals = process::catch_signals()?;
    let listeners = Listeners::bind(settings)?;
    let _socket_file = match &settings.listen {
        Listen::Unix { path, .. } => Some(SocketFile(path.clone())),
        Listen::Tcp(_) => None,
    };
    let (engine, clock) = restart::open_engine(settings)?;
    let clock = Arc::new(clock);
    process::go_to_background(settings)?;
    if settings.tunables.verbosity > 1 {
        eprint!("{}", class_lines(settings));
    }
    process::lock_memory(settings);
    let (loops, wakers) = Loops::new(settings.threads)?;
    let connection_table = ConnectionTable::default();
    let mut shared = Shared::new(
        &engine,
        &clock,
        settings,
        &connection_table,
        Box::new(|target| wakers.wake(target)),
    );
    shared.tls = tls.inspect(|tls| tls.date(clock.now().seconds));
    shared.logins = logins;
    if let Some(passwords) = &shared.passwords {
        // Logs at the start if the file has no usable password.
        passwords.refresh();
    }
    let tuner = background::tuner(&shared, &clock);
    engine
        .observers()
        .set_eviction_observer(Arc::clone(&shared.watch) as Arc<dyn EvictionObserver>);
    if let Some(path) = std::env::var_os(PORT_FILE_VARIABLE)
        && let Err(error) = listeners.write_port_file(path.as_ref())
    {
        tracing::warn!("cannot write the ports to {}: {error}", path.display());
    }
    let _pid_file = settings.process.pid_file.as_deref().and_then(PidFile::write);
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let drivers = background::start(scope, &shared, tuner);
        let served = drivers.and_then(|()| loops.run(scope, listeners, signals, &wakers, &shared));
        // If a thread could not be started, this ends the others.
        shared.stop();
        Ok(served?)
    })?;
    let save = settings.memory_file.is_some() && shared.is_stopping_gracefully();
    drop(shared);
    if save {
        restart::close_engine(engine, &clock)?;
    }
    Ok(())
}

/// Removes the file of the Unix socket when dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}
