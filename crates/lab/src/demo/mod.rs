//! `slabwise demo`: a server on its defaults under a recorded workload, beside what memcached would do.
//!
//! ```text
//!   workload --replay, checked--> a slabwise of its own (a process) --stats slabs--\
//!          '--the same requests--> this engine set up as memcached ------------------+--> sight --> terminal
//! ```
//!
//! Laws: both are asked for the same, request by request, in as much memory, but that memcached grants every class its
//! first page beyond it (what both hold is shown); the server is stopped when the demo ends, fails, or is told to end.

mod sight;

#[cfg(test)]
mod tests;

use crate::trial::served::{Served, ServedSetup};
use crate::vtime::MoverName;
use crate::wire::Server;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use sight::Sight;
use signal_hook::consts::{SIGHUP, SIGTERM};
use slabwise_base::Clock;
use slabwise_engine::{Engine, EvictionKind};
use slabwise_replay::workload::{self, Request, Workload, WorkloadError};
use slabwise_replay::{Pace, drive};
use slabwise_text::command;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const NAME: &str = "slabwise demo";
/// What the mover is charged for a visit; memcached moves little here.
const VISIT_NS: f64 = 100.0;
/// Looks at both over the whole demo.
const LOOKS: u64 = 200;
/// Of these, how many print a line where the output is no terminal.
const LINES: u64 = 20;

/// Watch slabwise tune itself: starts a server on its defaults, replays a recorded workload to it, and shows how its
/// classes, pages and misses move, beside what memcached would do with the same requests and memory.
#[derive(Debug, Parser)]
#[command(name = "slabwise demo")]
struct Args {
    /// Memory of each, in MiB, as of -m
    #[arg(long, short = 'm', value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(4..=1 << 20))]
    memory: u64,
    /// What is asked for: a workload of slabwise replay
    #[arg(long, value_name = "NAME", default_value = "cache2k-orm-busy")]
    workload: String,
    /// Requests to make [default: the workload's own number, a trace's all]
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Requests per second
    #[arg(long, value_name = "R", default_value_t = 200_000)]
    rate: u64,
    /// Multiply value lengths that come from a size table
    #[arg(long, value_name = "F", default_value_t = 16.0)]
    size_factor: f64,
    /// Everything random follows from this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Why a demo ended early.
type DemoError = Box<dyn std::error::Error>;

pub fn main(args: Vec<OsString>) -> ExitCode {
    let args = match command::parse(NAME, args, ExitCode::FAILURE) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let shown = run(&args, &mut |line| {
        // The demo goes on to its end where its reader has left.
        let _ = writeln!(std::io::stdout(), "{line}");
    });
    command::finish(NAME, shown)
}

fn run(args: &Args, print: &mut dyn FnMut(&str)) -> Result<(), DemoError> {
    let rate = args.rate.max(1) as f64;
    let rival_setup = ServedSetup {
        is_memcached: true,
        policy: "automove",
        eviction: EvictionKind::Segmented,
        mover: MoverName::Stock,
        operations_per_second: rate,
        visit_ns: VISIT_NS,
    };
    let config = rival_setup.engine_config(args.memory << 20, args.seed);
    let engine = Engine::new(config).map_err(|error| format!("memcached's side: {error}"))?;
    let rival = Served::new(&rival_setup, &engine)?;
    let replayed = open(args)?;
    let requests = replayed.requests_expected();
    let stopped = stop_signals().map_err(|error| format!("signals cannot be caught: {error}"))?;
    let server = Server::start(&["slabwise".to_owned()], args.memory)?;
    print(&format!(
        "slabwise -m {} at {}, with {}; memcached's rules in the process\n",
        args.memory,
        server.address(),
        args.workload
    ));
    let address = server.address();
    let bar = progress_bar(requests);
    let mut demo = Demo { rival, rival_requests: open(args)?, server, sight: Sight::default() };
    let look_each = (requests.unwrap_or(1_000_000) / LOOKS).max(1);
    let mut looks = 0;
    let pace = Pace { rate: Some(rate), ..Pace::default() };
    let replayed: Result<_, DemoError> =
        drive(&address, replayed, &pace, &Clock::real(), |so_far| {
            if stopped.load(Ordering::Relaxed) {
                return Err("stopped by a signal".into());
            }
            if so_far.requests < (looks + 1) * look_each {
                return Ok(());
            }
            looks += 1;
            demo.look(so_far.requests, so_far.gets, so_far.misses)?;
            if !bar.is_hidden() {
                bar.set_message(demo.sight.text());
                bar.set_position(so_far.requests);
            } else if looks.is_multiple_of(LOOKS / LINES) {
                print(&demo.sight.line());
            }
            Ok(())
        });
    bar.finish_and_clear();
    let report = replayed?;
    demo.look(report.requests, report.gets, report.misses)?;
    print(&demo.sight.text());
    print(&demo.sight.summary());
    Ok(())
}

/// Set once this process is asked to end: its server must not outlive it. An interrupt from a terminal reaches both.
fn stop_signals() -> std::io::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stopped))?;
    }
    Ok(stopped)
}

fn open(args: &Args) -> Result<Workload, WorkloadError> {
    let options = workload::Options {
        requests: args.requests,
        seed: args.seed,
        size_factor: args.size_factor,
        ..workload::Options::default()
    };
    workload::open(&args.workload, &options)
}

struct Demo<'e> {
    rival: Served<'e>,
    rival_requests: Workload,
    server: Server,
    sight: Sight,
}

impl Demo<'_> {
    /// Brings memcached's side as far as the replay is, which has found so much, and looks at both.
    fn look(&mut self, requests: u64, gets: u64, misses: u64) -> Result<(), DemoError> {
        let behind = requests - self.sight.requests;
        let next = self.rival_requests.by_ref().take(behind as usize);
        self.rival.serve(&next.collect::<Result<Vec<Request>, _>>()?);
        let ours = self.server.classes()?;
        let ours =
            ours.iter().map(|class| (class.chunk_size_bytes, class.page_size_bytes * class.pages));
        let rival = self.rival.classes();
        let rival = rival.iter().filter(|class| class.class.is_some()).map(|class| {
            let page_bytes = class.chunk_size_bytes * class.chunks_per_page;
            (class.chunk_size_bytes as u64, page_bytes as u64 * class.pages)
        });
        self.sight.requests = requests;
        self.sight.ours.see(ours, gets, misses);
        self.sight.rival.see(rival, self.rival.gets, self.rival.misses);
        Ok(())
    }
}

/// The sight above a bar on stderr if that is a terminal, else nothing.
fn progress_bar(requests: Option<u64>) -> ProgressBar {
    let bar = requests.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let template = "{msg}\n{bar:40} {human_pos}/{human_len} requests, {eta} left";
    bar.with_style(ProgressStyle::with_template(template).expect("the bar's template is fixed"))
}
