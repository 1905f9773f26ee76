//! `slabwise demo`: compares a slabwise server with default options with a memcached server, under the same workload.
//!
//! ```text
//!   workload --replay, checked--> slabwise (a process) ----stats slabs--\
//!          '--the same requests--> memcached (a process) --stats slabs---+--> view --> terminal
//! ```
//!
//! Without an installed memcached, this process simulates memcached.
//!
//! Invariants:
//! - Both sides get the same requests and the same memory limit. memcached's rules allow every class a first page
//!   beyond the limit.
//! - The servers stop when the demo ends, fails, or receives a signal. Each server has a supervisor, which stops the
//!   server even if SIGKILL ends the demo ([`slabwise_client::supervisor`]). The supervisor runs this executable with
//!   the arguments [`SUPERVISOR`].
//! - The demo prints the address of the dashboard. It starts no browser.

mod args;
mod memcached;
#[cfg(test)]
mod tests;
mod view;

use crate::wire::Server;
use args::{Args, DemoError, Due, SAMPLES, open};
use indicatif::{ProgressBar, ProgressStyle};
use memcached::{Memcached, RealMemcached, SimulatedMemcached};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use slabwise_base::Clock;
use slabwise_client::supervisor;
use slabwise_engine::Engine;
use slabwise_replay::{Window, drive};
use slabwise_text::command;
use std::ffi::OsString;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use view::{Sample, View};

const NAME: &str = "slabwise demo";
/// The first arguments of the process that supervises a server. The program and the arguments of the server follow.
const SUPERVISOR: [&str; 2] = ["demo", "--supervise"];
/// If stderr is not a terminal, the demo prints this number of lines instead of the progress bar.
const LINES: u64 = 20;

pub fn main(args: Vec<OsString>) -> ExitCode {
    if let [first, program, arguments @ ..] = &args[..]
        && first == SUPERVISOR[1]
    {
        return supervise(program, arguments);
    }
    let args = match command::parse(NAME, args, ExitCode::FAILURE) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let result = run(&args, &mut |line| {
        // The demo continues if its output is closed.
        let _ = writeln!(std::io::stdout(), "{line}");
    });
    command::finish(NAME, result)
}

/// Runs a server until it ends or stdin ends. The exit code and the errors reach the process that started the supervisor.
fn supervise(program: &OsString, arguments: &[OsString]) -> ExitCode {
    match supervisor::run(Command::new(program).args(arguments)) {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{} cannot be started: {error}", program.display());
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, print: &mut dyn FnMut(&str)) -> Result<(), DemoError> {
    let stopped = stop_signals().map_err(|error| format!("cannot handle signals: {error}"))?;
    let http = free_address().map_err(|error| format!("the dashboard: {error}"))?;
    let command = ["slabwise", "-o", &format!("http={http}")].map(str::to_owned);
    let server = Server::start_supervised(&command, args.memory, &SUPERVISOR)?;
    let address = server.address();
    print(&format!("slabwise -m {} at {address}, with {}", args.memory, args.workload));
    let real = start_memcached(args, print)?;
    print(&format!("dashboard: http://{http}/"));
    if let Some(real) = &real {
        print(&format!("both servers in a terminal: slabwise top {address} {}", real.address()));
    }
    print("");
    let replayed = open(args)?;
    let requests = replayed.requests_expected();
    let mut due = Due::new(requests);
    let engine = if real.is_none() { Some(memcached::engine(args)?) } else { None };
    let memcached = memcached_side(real, engine.as_ref(), args, &due)?;
    let mut demo = Demo { memcached, server, view: View::default() };
    let bar = progress_bar(requests);
    let replayed: Result<_, DemoError> =
        drive(&address, replayed, &args.pace(), &Clock::real(), |so_far| {
            if stopped.load(Ordering::Relaxed) {
                return Err("stopped by a signal".into());
            }
            if !due.is_due(so_far.requests) {
                return Ok(());
            }
            let memcached = demo.memcached.sample(so_far.requests)?;
            demo.record(so_far, &memcached)?;
            if !bar.is_hidden() {
                bar.set_message(demo.view.text());
                bar.set_position(so_far.requests);
            } else if due.samples.is_multiple_of(SAMPLES / LINES) {
                print(&demo.view.line());
            }
            Ok(())
        });
    bar.finish_and_clear();
    let report = replayed?;
    let memcached = demo.memcached.last_sample(report.requests)?;
    let (requests, gets, misses) = (report.requests, report.gets, report.misses);
    demo.record(&Window { requests, gets, misses, miss_ratio: 0.0 }, &memcached)?;
    print(&demo.view.text());
    print(&demo.view.summary());
    Ok(())
}

/// Starts memcached, and prints its version. Returns `None` if no memcached is installed or the installed one does not
/// start. A memcached that the user named must start.
fn start_memcached(
    args: &Args,
    print: &mut dyn FnMut(&str),
) -> Result<Option<RealMemcached>, DemoError> {
    let Some(program) = args.memcached.clone().or_else(memcached::installed) else {
        print("memcached is simulated, because it is not installed (--memcached PATH names one)");
        return Ok(None);
    };
    match RealMemcached::start(&program, args.memory, &SUPERVISOR) {
        Ok(real) => {
            let (version, address) = (real.version(), real.address());
            print(&format!(
                "memcached {version} -m {} at {address}, with the same requests",
                args.memory
            ));
            Ok(Some(real))
        }
        Err(error) if args.memcached.is_some() => {
            let program = program.display();
            Err(format!("--memcached {program}: {error}; give the path of a memcached").into())
        }
        Err(error) => {
            print(&format!("memcached is simulated, because it does not start: {error}"));
            Ok(None)
        }
    }
}

/// Returns memcached's side: the server, whose replay begins, or the simulation on `engine`.
fn memcached_side<'e>(
    real: Option<RealMemcached>,
    engine: Option<&'e Engine>,
    args: &Args,
    due: &Due,
) -> Result<Memcached<'e>, DemoError> {
    match (real, engine) {
        (Some(mut real), _) => {
            real.start_replay(args, due.clone());
            Ok(Memcached::Real(Box::new(real)))
        }
        (None, Some(engine)) => {
            Ok(Memcached::Simulated(Box::new(SimulatedMemcached::new(engine, args)?)))
        }
        (None, None) => unreachable!("the demo has a server or an engine"),
    }
}

/// Returns an address of loopback on which no process listens.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Returns a flag that becomes true when the process receives SIGINT, SIGTERM or SIGHUP. The demo then ends in the normal
/// way, which also stops the servers.
fn stop_signals() -> std::io::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stopped))?;
    }
    Ok(stopped)
}

/// Both sides of the demo, and their samples.
struct Demo<'e> {
    memcached: Memcached<'e>,
    /// The slabwise server.
    server: Server,
    view: View,
}

impl Demo<'_> {
    /// Records a sample of both sides. `so_far` are the counts of the slabwise server.
    fn record(&mut self, so_far: &Window, memcached: &Sample) -> Result<(), DemoError> {
        let classes = memcached::bytes_of(&self.server.classes()?);
        self.view.requests = so_far.requests;
        self.view.ours.record(&Sample { classes, gets: so_far.gets, misses: so_far.misses });
        self.view.memcached.record(memcached);
        Ok(())
    }
}

/// Returns a progress bar on stderr with the view above it. If stderr is not a terminal, the bar is hidden.
fn progress_bar(requests: Option<u64>) -> ProgressBar {
    let bar = requests.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let template = "{msg}\n{bar:40} {human_pos}/{human_len} requests, {eta} left";
    bar.with_style(ProgressStyle::with_template(template).expect("the template is valid"))
}
