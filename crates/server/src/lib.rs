//! The server: sockets, workers, options, and the background threads that call the engine.
//!
//! ```text
//!   config: options -> Settings -> Engine
//!                                   ^  ^
//!          net: acceptor, workers --'  '-- background: LRU maintainer, page mover, policy
//! ```
//!
//! [`main`] parses the command line and calls [`serve`], which runs the server until a signal, a command or the failure
//! of a thread stops it. All threads are scoped: they borrow the engine, and they end before the engine is dropped. A
//! thread that stops the server wakes the other threads, which then end.
#![deny(unsafe_code)]

mod admin;
mod background;
mod config;
mod container;
mod handover;
mod http;
mod memory_model;
mod metrics;
mod net;
mod ops;
mod os;
mod out;
mod passwords;
pub mod probe;
mod sasl;
mod session;
mod shared;
mod stats;
mod tls;
mod wire;

pub use config::Settings;
pub use handover::recompose as recompose_handover_message;
pub use os::sys::is_root;
pub use out::Out;
pub use session::{Next, Session};
pub use shared::{ConnectionTable, Shared, WorkerContext};

use admin::commands::set_memory_limit;
use config::{EXIT_USAGE, Request};
use handover::{Giver, MovedConnection, SocketKind, Taker};
use http::{Early, HttpServer};
use memory_model::MemoryModel;
use net::{Listeners, Loops, SignalHandler};
use os::confine::Confinement;
use os::inherited::InheritedSockets;
use os::process::{self, Launched, PidFile};
use os::service::Notifications;
use os::{memory_limits, processors, restart, sys};
use passwords::{PasswordFile, PasswordFileKind};
use shared::Wake;
use slabwise_base::sync::lock;
use slabwise_base::{Clock, Seconds};
use slabwise_engine::{Engine, EvictionObserver};
use std::error::Error;
use std::ffi::OsString;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::Builder;
use tls::Tls;

/// memcached's environment variable. It names the file to which the server writes the ports on which it listens.
const PORT_FILE_VARIABLE: &str = "MEMCACHED_PORT_FILENAME";

/// Parses the arguments, which do not include the program's name, and runs the server until a signal or a command stops
/// it.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    run(args, serve)
}

/// Runs a server that takes over from the running one (`slabwise upgrade`). The arguments are the options of the server.
pub fn upgrade(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if requests_help(&args) {
        print!("{}", handover::HELP);
        return ExitCode::SUCCESS;
    }
    run(args, take_over)
}

/// True if the arguments of a command contain `--help` or `-h`.
fn requests_help(args: &[OsString]) -> bool {
    args.iter().any(|argument| argument == "--help" || argument == "-h")
}

fn run(
    args: impl IntoIterator<Item = OsString>,
    serve: fn(&Settings) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    let settings = match read_options(args, processors::available(Path::new("/"))) {
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

/// Prints the classes of a server with these options (`slabwise classes`).
pub fn print_classes(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match read_options(args, processors::available(Path::new("/"))) {
        Ok(settings) => {
            print!("{}", class_lines(&settings));
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

/// Prints the memory limit for a container of a server with these options, and its parts (`slabwise memory`).
pub fn print_memory(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if requests_help(&args) {
        print!("{}", container::HELP);
        return ExitCode::SUCCESS;
    }
    match read_options(args, container::PROCESSORS_ASSUMED) {
        Ok(settings) => {
            print!("{}", container::lines(&settings));
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

/// Parses the options and prints the warnings. Returns the settings. If the options request a text such as the help, or
/// if they are invalid, prints the text or the error and returns the exit code. `processors` is the number of
/// processors that the server may use.
fn read_options(
    args: impl IntoIterator<Item = OsString>,
    processors: usize,
) -> Result<Settings, ExitCode> {
    match config::parse(args, processors) {
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

/// Returns a line for each class, in the format in which memcached prints the classes with `-vv`.
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

/// Runs the server until a signal or the command `shutdown` stops it.
pub fn serve(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let with_saved_pages = restart::with_saved_page_size(settings);
    let settings = with_saved_pages.as_ref().unwrap_or(settings);
    report_memory(settings);
    // The keys are loaded before the process changes its user, because often only root can read them.
    let tls = load_tls(settings)?;
    process::prepare(settings)?;
    serve_with(settings, tls, InheritedSockets::default(), None)
}

/// A handover to this process.
struct TakeOver {
    taker: Taker,
    /// The memory limit that the server has afterwards.
    limit_bytes: u64,
    /// This process, if it is a daemon.
    launched: Option<Launched>,
}

/// Takes over from the running server with these options, and then runs the server. After an error before that, the
/// running server serves on.
fn take_over(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let tls = load_tls(settings)?;
    report_memory(settings);
    process::prepare(settings)?;
    // The launcher of a daemon reports whether the upgrade has succeeded.
    let launched = settings.process.daemonize.then(|| Launched::daemonize(settings)).transpose()?;
    let (taker, sockets) = Taker::connect(settings)?;
    let adjusted = taker.adjusted(settings)?;
    let limit_bytes = taker.limit_bytes(settings);
    serve_with(&adjusted, tls, sockets, Some(TakeOver { taker, limit_bytes, launched }))
}

fn load_tls(settings: &Settings) -> Result<Option<Tls>, Box<dyn Error>> {
    Ok(settings.tls.as_ref().map(|tls| Tls::load(tls, Seconds::START)).transpose()?)
}

/// Runs the server with the sockets of an earlier process, if any, from which it takes over.
fn serve_with(
    settings: &Settings,
    tls: Option<Tls>,
    mut inherited: InheritedSockets,
    mut take_over: Option<TakeOver>,
) -> Result<(), Box<dyn Error>> {
    let logins = load_logins(settings)?;
    let signals = process::catch_signals()?;
    let notifications = Notifications::from_environment();
    let mut listeners = Listeners::open(settings, &mut inherited)?;
    let mut http = HttpServer::bind(settings, inherited.http.take())?;
    let giver = open_giver(settings, &listeners, http.as_ref(), inherited)?;
    let (engine, clock, moved) = match &take_over {
        None => open_engine(settings, http.as_ref(), tls.as_ref())?,
        Some(TakeOver { taker, .. }) => taker.open_engine(settings)?,
    };
    let clock = Arc::new(clock);
    print_classes_if_verbose(settings);
    process::lock_memory(settings);
    let (loops, wakers) = Loops::new(settings, &listeners)?;
    let connection_table = ConnectionTable::default();
    let http_waker = http.as_ref().map(HttpServer::waker);
    let wake = |target| {
        wakers.wake(target);
        if target == Wake::All {
            http_waker.as_ref().inspect(|it| it.wake());
            giver.as_ref().inspect(|it| it.wake());
        }
    };
    let mut shared = Shared::new(&engine, &clock, settings, &connection_table, Box::new(wake));
    shared.tls = tls.inspect(|tls| tls.set_refresh_time(clock.now().seconds));
    shared.io = loops.kind();
    shared.logins = logins;
    if let Some(passwords) = &shared.passwords {
        // Reads the file once at the start, so that the warning about an invalid file appears then.
        passwords.refresh();
    }
    if let Some(take_over) = &take_over {
        complete_handover(&shared, take_over, &mut listeners, http.as_mut())?;
    }
    let tuner = background::tuner(&shared, &clock);
    engine
        .observers()
        .set_eviction_observer(Arc::clone(&shared.watch) as Arc<dyn EvictionObserver>);
    write_port_file(&listeners);
    let pid_file = settings.process.pid_file.as_deref();
    let _pid_file = pid_file.and_then(|path| PidFile::write(path, take_over.is_some()));
    let confinement = Confinement::begin(settings, shared.io)?;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let run = || -> Result<(), Box<dyn Error>> {
            threads.extend(background::start(scope, &shared, tuner)?);
            threads.extend(http.map(|http| http::start(http, scope, &shared)).transpose()?);
            if let Some(giver) = &giver {
                let thread = Builder::new().name("control".to_owned());
                threads.push(thread.spawn_scoped(scope, || giver.run(&shared))?);
            }
            let options = settings.source.options.clone();
            let signals = SignalHandler::new(signals, notifications, options);
            let (mut acceptor, workers) =
                loops.start(scope, listeners, signals, &wakers, &shared)?;
            threads.extend(workers);
            confinement.map(Confinement::complete).transpose()?;
            acceptor.adopt(moved);
            Ok(acceptor.run(|| take_over.take().into_iter().for_each(TakeOver::notify_serving))?)
        };
        let result = run();
        // Also ends the threads that were started before an error.
        shared.stop();
        // The scope waits for the functions of the threads. This also waits for the end of the threads, which
        // ThreadSanitizer recognizes.
        for thread in threads {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        result
    })?;
    let saves_items = settings.memory_file.is_some() && shared.is_stopping_gracefully();
    drop(shared);
    if saves_items { Ok(restart::close_engine(engine, &clock)?) } else { Ok(()) }
}

/// With `-vv`, prints the classes to stderr.
fn print_classes_if_verbose(settings: &Settings) {
    if settings.tunables.verbosity > 1 {
        eprint!("{}", class_lines(settings));
    }
}

impl TakeOver {
    /// Notifies the old process, which then ends, and the launcher of this one.
    fn notify_serving(self) {
        self.taker.notify_serving();
        self.launched.into_iter().for_each(Launched::serves);
    }
}

/// Ends a handover: from now on this process serves.
fn complete_handover(
    shared: &Shared<'_>,
    TakeOver { taker, limit_bytes, launched }: &TakeOver,
    listeners: &mut Listeners,
    http: Option<&mut HttpServer>,
) -> Result<(), String> {
    process::check_threads(shared.settings).inspect_err(|reason| taker.refuse(reason))?;
    taker.commit(shared.engine)?;
    taker.restore_counters(shared);
    listeners.claim_file(shared.settings);
    http.into_iter().for_each(|http| http.claim_file(shared.settings));
    restore_limit(shared, *limit_bytes);
    launched.iter().for_each(Launched::leave_streams);
    Ok(())
}

fn load_logins(settings: &Settings) -> Result<Option<PasswordFile>, Box<dyn Error>> {
    let path = settings.auth_file.clone();
    let logins = path.map(|path| PasswordFile::new(path, PasswordFileKind::Login));
    logins.as_ref().map(PasswordFile::reload).transpose()?;
    Ok(logins)
}

/// Makes the control socket. Returns `None` without `-o upgradable`.
fn open_giver(
    settings: &Settings,
    listeners: &Listeners,
    http: Option<&HttpServer>,
    inherited: InheritedSockets,
) -> Result<Option<Giver>, Box<dyn Error>> {
    let Some(path) = &settings.control_path else { return Ok(None) };
    let mut sockets = listeners.duplicates()?;
    let http = http.map(HttpServer::descriptor);
    sockets.extend(handover::duplicates(SocketKind::Http, http.into_iter())?);
    Ok(Some(Giver::open(path, sockets, listeners.are_passed(), inherited.control)?))
}

/// Sets the memory limit after an upgrade, which may differ from that with which the memory was laid out.
fn restore_limit(shared: &Shared<'_>, limit_bytes: u64) {
    let laid_out_bytes = shared.settings.engine.memory_limit_bytes;
    if [laid_out_bytes, shared.engine.memory_limit_bytes()] == [limit_bytes; 2] {
        return;
    }
    let megabytes = (limit_bytes >> 20) as u32;
    if let Err(error) = set_memory_limit(shared, megabytes) {
        tracing::warn!("upgrade: -m {megabytes} (MiB): the old memory limit stays: {error}");
        // A reload and the next upgrade try the new limit again.
        lock(&shared.tunables).memory_limit_option_bytes = shared.engine.memory_limit_bytes();
    }
}

/// Opens the cache, and restores its items. Then becomes a daemon with `-d`. Meanwhile the HTTP server answers health checks,
/// except in a daemon, whose process begins afterwards.
fn open_engine(
    settings: &Settings,
    http: Option<&HttpServer>,
    tls: Option<&Tls>,
) -> Result<(Engine, Clock, Vec<MovedConnection>), Box<dyn Error>> {
    let http = http.filter(|_| !settings.process.daemonize);
    let early = http.map(|http| http.start_early(tls.map(Tls::configuration))).transpose()?;
    let opened = restart::open_engine(settings);
    early.into_iter().for_each(Early::end);
    let (engine, clock) = opened?;
    process::daemonize_if_requested(settings)?;
    Ok((engine, clock, Vec::new()))
}

/// Writes the ports of the server to the file that an environment variable names, if it is set.
fn write_port_file(listeners: &Listeners) {
    let Some(path) = std::env::var_os(PORT_FILE_VARIABLE) else { return };
    if let Err(error) = listeners.write_port_file(path.as_ref()) {
        let path = path.display();
        tracing::warn!("cannot write the ports to {path} ({PORT_FILE_VARIABLE}): {error}");
    }
}

/// With `-v`, logs the parts of the server's memory. Warns if the memory can exceed that of the machine or a limit.
fn report_memory(settings: &Settings) {
    let model = MemoryModel::new(settings);
    model.log_lines().for_each(|line| tracing::info!("{line}"));
    let limit = memory_limits::lowest(Path::new("/"));
    let Some(warning) = limit.and_then(|limit| model.warning(&limit)) else { return };
    // The kernel can write the pages of a file to its disk, so they need not fit into the memory.
    if settings.memory_file.as_deref().is_none_or(sys::is_on_ram_disk) {
        tracing::warn!("{warning}");
    }
}
