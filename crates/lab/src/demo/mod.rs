//! `slabwise demo`: a server on its defaults under a recorded workload, beside what memcached would do.
//!
//! ```text
//!   workload --replay, checked--> a slabwise of its own (a process) --stats slabs--\
//!          '--the same requests--> this engine set up as memcached ------------------+--> sight --> terminal
//! ```
//!
//! Invariants: both get the same requests, in as much memory, but that memcached grants every class its first page beyond
//! it (what both hold is shown); the server is stopped when the demo ends, fails, or gets a signal.
//!
//! Two servers' classes are not of the same sizes: they are shown by ranges of chunk sizes, each twice the one before.

use crate::trial::served::{Served, ServedSetup};
use crate::vtime::MoverName;
use crate::wire::Server;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGTERM};
use slabwise_base::Clock;
use slabwise_engine::{Engine, EvictionKind};
use slabwise_replay::workload::{self, Request, Workload, WorkloadError};
use slabwise_replay::{Pace, drive};
use slabwise_text::{Column, command};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(test)]
mod tests;

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
        name: "memcached".to_owned(),
        is_memcached: true,
        policy: "automove".to_owned(),
        eviction: EvictionKind::Segmented,
        mover: MoverName::Stock,
        scale_min: 0.0,
    };
    let config = rival_setup.engine_config(args.memory << 20, args.seed);
    let engine = Engine::new(config).map_err(|error| format!("memcached's side: {error}"))?;
    let rival = Served::new(&rival_setup, &engine, (rate, VISIT_NS))?;
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

const LATELY_LOOKS: usize = 10;
const BAR_WIDTH: u16 = 16;
/// The least range: chunks of up to so many bytes.
const RANGE_MIN_BYTES: u64 = 64;

#[derive(Debug, Default)]
struct Sight {
    requests: u64,
    ours: Side,
    rival: Side,
}

#[derive(Debug, Default)]
struct Side {
    /// Of each range, how many classes have pages, and bytes of those.
    ranges: Vec<(u32, u64)>,
    looks: Vec<(u64, u64)>,
}

impl Side {
    /// Takes in chunk size and bytes of pages of each class, and all gets and misses so far.
    fn see(&mut self, classes: impl Iterator<Item = (u64, u64)>, gets: u64, misses: u64) {
        self.ranges.clear();
        for (chunk_size_bytes, page_bytes) in classes.filter(|&(_, bytes)| bytes > 0) {
            let range = range_of(chunk_size_bytes);
            if self.ranges.len() <= range {
                self.ranges.resize(range + 1, (0, 0));
            }
            self.ranges[range].0 += 1;
            self.ranges[range].1 += page_bytes;
        }
        self.looks.push((gets, misses));
    }

    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|&(_, bytes)| bytes).sum()
    }

    fn miss_ratio(&self) -> f64 {
        self.looks.last().map_or(0.0, |&(gets, misses)| misses as f64 / gets.max(1) as f64)
    }

    fn miss_ratio_lately(&self) -> f64 {
        let before = self.looks.len().checked_sub(LATELY_LOOKS + 1);
        let (gets_before, misses_before) = before.map_or((0, 0), |place| self.looks[place]);
        let (gets, misses) = self.looks.last().copied().unwrap_or_default();
        (misses - misses_before) as f64 / (gets - gets_before).max(1) as f64
    }
}

fn range_of(chunk_size_bytes: u64) -> usize {
    let whole = chunk_size_bytes.max(RANGE_MIN_BYTES).next_power_of_two();
    (whole.ilog2() - RANGE_MIN_BYTES.ilog2()) as usize
}

impl Sight {
    fn text(&self) -> String {
        let sides = [&self.ours, &self.rival];
        let line = |name: String, [ours, rival]: [String; 2]| [name, ours, rival];
        let mut lines = vec![["chunks up to", "slabwise", "memcached"].map(str::to_owned)];
        for range in 0..self.ours.ranges.len().max(self.rival.ranges.len()) {
            let cells = sides.map(|side| cell(side, range));
            if cells.iter().any(|cell| !cell.is_empty()) {
                lines.push(line(size(RANGE_MIN_BYTES << range), cells));
            }
        }
        let mib = |side: &Side| format!("{:.1} MiB", side.bytes() as f64 / f64::from(1 << 20));
        lines.push(line("pages".to_owned(), sides.map(mib)));
        let ratios = |ratio: fn(&Side) -> f64| sides.map(|side| format!("{:.4}", ratio(side)));
        lines.push(line("miss ratio".to_owned(), ratios(Side::miss_ratio)));
        lines.push(line("lately".to_owned(), ratios(Side::miss_ratio_lately)));
        let columns = [Column::right(12), Column::left(BAR_WIDTH + 21), Column::left(0)];
        slabwise_text::table(&columns, lines).trim_end().to_owned()
    }

    fn line(&self) -> String {
        let lately = [&self.ours, &self.rival].map(Side::miss_ratio_lately);
        let classes =
            [&self.ours, &self.rival].map(|side| side.ranges.iter().map(|it| it.0).sum::<u32>());
        format!(
            "{:>10} requests: misses lately slabwise {:.4} in {} classes, memcached {:.4} in {}",
            self.requests, lately[0], classes[0], lately[1], classes[1]
        )
    }

    fn summary(&self) -> String {
        let (ours, rival) = (self.ours.miss_ratio_lately(), self.rival.miss_ratio_lately());
        let whole = fewer(self.ours.miss_ratio(), self.rival.miss_ratio());
        let lately = fewer(ours, rival);
        format!(
            "\n{} requests, every hit's bytes checked. slabwise missed {whole} than memcached's rules, and {lately} lately.",
            self.requests
        )
    }
}

fn fewer(ours: f64, rival: f64) -> String {
    match (1.0 - ours / rival) * 100.0 {
        _ if ours == rival => "neither more nor less".to_owned(),
        _ if rival == 0.0 => format!("{ours:.4} of the gets more"),
        percent if percent < 0.0 => format!("{:.1} % more", -percent),
        percent => format!("{percent:.1} % less"),
    }
}

fn cell(side: &Side, range: usize) -> String {
    let (classes, bytes) = side.ranges.get(range).copied().unwrap_or_default();
    if classes == 0 {
        return String::new();
    }
    let share = bytes as f64 / side.bytes().max(1) as f64;
    let cells = (share * f64::from(BAR_WIDTH)).round() as usize;
    let width = usize::from(BAR_WIDTH);
    let bar = "#".repeat(cells.min(width));
    let noun = if classes == 1 { "class" } else { "classes" };
    format!("{bar:<width$} {:>3.0} % in {classes} {noun}", share * 100.0)
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}
