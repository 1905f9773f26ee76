//! `slabwise demo` compares a server with default options with memcached, under a recorded workload.
//!
//! ```text
//!   workload --replay, checked--> a slabwise server (a process) ------stats slabs--\
//!          '--the same requests--> this engine set up as memcached ------------------+--> view --> terminal
//! ```
//!
//! Invariants: both sides get the same requests and memory limit, except that memcached grants every class its first page
//! beyond the limit; the server stops when the demo ends, fails, or gets a signal.
//!
//! The two sides have different chunk sizes, so the view groups classes by powers of two.

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
/// The cost of a mover's visit to a chunk; memcached moves few pages here.
const VISIT_NS: f64 = 100.0;
/// The number of samples of both sides over the whole demo.
const SAMPLES: u64 = 200;
/// The number of samples that print a line if the output is not a terminal.
const LINES: u64 = 20;

/// Watch slabwise tune itself, compared with memcached.
///
/// Starts a server with default options, replays a recorded workload to it, and compares its classes, pages and misses
/// with those of memcached under the same requests and memory.
#[derive(Debug, Parser)]
#[command(name = "slabwise demo")]
struct Args {
    /// Memory limit of each side, in MiB
    #[arg(long, short = 'm', value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(4..=1 << 20))]
    memory: u64,
    /// Workload to replay (see slabwise replay --help)
    #[arg(long, value_name = "NAME", default_value = "cache2k-orm-busy")]
    workload: String,
    /// Number of requests [default: that of the workload; of a trace, all]
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Requests per second
    #[arg(long, value_name = "R", default_value_t = 200_000)]
    rate: u64,
    /// Multiply value lengths that come from a size table
    #[arg(long, value_name = "F", default_value_t = 16.0)]
    size_factor: f64,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

type DemoError = Box<dyn std::error::Error>;

pub fn main(args: Vec<OsString>) -> ExitCode {
    let args = match command::parse(NAME, args, ExitCode::FAILURE) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let shown = run(&args, &mut |line| {
        // The demo continues if nobody reads its output.
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
    let stopped = stop_signals().map_err(|error| format!("cannot handle signals: {error}"))?;
    let server = Server::start(&["slabwise".to_owned()], args.memory)?;
    print(&format!(
        "slabwise -m {} at {}, with {}; memcached is simulated in this process\n",
        args.memory,
        server.address(),
        args.workload
    ));
    let address = server.address();
    let bar = progress_bar(requests);
    let mut demo = Demo { rival, rival_requests: open(args)?, server, view: View::default() };
    let requests_per_sample = (requests.unwrap_or(1_000_000) / SAMPLES).max(1);
    let mut samples = 0;
    let pace = Pace { rate: Some(rate), ..Pace::default() };
    let replayed: Result<_, DemoError> =
        drive(&address, replayed, &pace, &Clock::real(), |so_far| {
            if stopped.load(Ordering::Relaxed) {
                return Err("stopped by a signal".into());
            }
            if so_far.requests < (samples + 1) * requests_per_sample {
                return Ok(());
            }
            samples += 1;
            demo.sample(so_far.requests, so_far.gets, so_far.misses)?;
            if !bar.is_hidden() {
                bar.set_message(demo.view.text());
                bar.set_position(so_far.requests);
            } else if samples.is_multiple_of(SAMPLES / LINES) {
                print(&demo.view.line());
            }
            Ok(())
        });
    bar.finish_and_clear();
    let report = replayed?;
    demo.sample(report.requests, report.gets, report.misses)?;
    print(&demo.view.text());
    print(&demo.view.summary());
    Ok(())
}

/// Returns a flag that signals set, because the server must not outlive this process.
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
    view: View,
}

impl Demo<'_> {
    /// Serves memcached's side up to the request of the replay, whose totals are given, and samples both sides.
    fn sample(&mut self, requests: u64, gets: u64, misses: u64) -> Result<(), DemoError> {
        let behind = requests - self.view.requests;
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
        self.view.requests = requests;
        self.view.ours.record(ours, gets, misses);
        self.view.rival.record(rival, self.rival.gets, self.rival.misses);
        Ok(())
    }
}

/// A progress bar below the view on stderr; hidden if stderr is not a terminal.
fn progress_bar(requests: Option<u64>) -> ProgressBar {
    let bar = requests.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let template = "{msg}\n{bar:40} {human_pos}/{human_len} requests, {eta} left";
    bar.with_style(ProgressStyle::with_template(template).expect("the bar's template is fixed"))
}

const RECENT_SAMPLES: usize = 10;
const BAR_WIDTH: u16 = 16;
const RANGE_MIN_BYTES: u64 = 64;

#[derive(Debug, Default)]
struct View {
    requests: u64,
    ours: Side,
    rival: Side,
}

#[derive(Debug, Default)]
struct Side {
    /// The number of classes with pages in each range, and the bytes of their pages.
    ranges: Vec<(u32, u64)>,
    /// The totals of gets and misses at each sample.
    samples: Vec<(u64, u64)>,
}

impl Side {
    /// Records the chunk size and the bytes of pages of each class, and the totals of gets and misses.
    fn record(&mut self, classes: impl Iterator<Item = (u64, u64)>, gets: u64, misses: u64) {
        self.ranges.clear();
        for (chunk_size_bytes, page_bytes) in classes.filter(|&(_, bytes)| bytes > 0) {
            let range = range_of(chunk_size_bytes);
            if self.ranges.len() <= range {
                self.ranges.resize(range + 1, (0, 0));
            }
            self.ranges[range].0 += 1;
            self.ranges[range].1 += page_bytes;
        }
        self.samples.push((gets, misses));
    }

    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|&(_, bytes)| bytes).sum()
    }

    fn miss_ratio(&self) -> f64 {
        self.samples.last().map_or(0.0, |&(gets, misses)| misses as f64 / gets.max(1) as f64)
    }

    fn recent_miss_ratio(&self) -> f64 {
        let before = self.samples.len().checked_sub(RECENT_SAMPLES + 1);
        let (gets_before, misses_before) = before.map_or((0, 0), |place| self.samples[place]);
        let (gets, misses) = self.samples.last().copied().unwrap_or_default();
        (misses - misses_before) as f64 / (gets - gets_before).max(1) as f64
    }
}

fn range_of(chunk_size_bytes: u64) -> usize {
    let whole = chunk_size_bytes.max(RANGE_MIN_BYTES).next_power_of_two();
    (whole.ilog2() - RANGE_MIN_BYTES.ilog2()) as usize
}

impl View {
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
        lines.push(line("recent".to_owned(), ratios(Side::recent_miss_ratio)));
        let columns = [Column::right(12), Column::left(BAR_WIDTH + 21), Column::left(0)];
        slabwise_text::table(&columns, lines).trim_end().to_owned()
    }

    fn line(&self) -> String {
        let recent = [&self.ours, &self.rival].map(Side::recent_miss_ratio);
        let classes =
            [&self.ours, &self.rival].map(|side| side.ranges.iter().map(|it| it.0).sum::<u32>());
        format!(
            "{:>10} requests: recent miss ratio: slabwise {:.4} in {} classes, memcached {:.4} in {}",
            self.requests, recent[0], classes[0], recent[1], classes[1]
        )
    }

    fn summary(&self) -> String {
        let (ours, rival) = (self.ours.recent_miss_ratio(), self.rival.recent_miss_ratio());
        let total = comparison(self.ours.miss_ratio(), self.rival.miss_ratio());
        let recent = comparison(ours, rival);
        format!(
            "\n{} requests, every hit checked. slabwise missed {total} memcached; recently, {recent} memcached.",
            self.requests
        )
    }
}

fn comparison(ours: f64, rival: f64) -> String {
    match (1.0 - ours / rival) * 100.0 {
        _ if ours == rival => "as often as".to_owned(),
        _ if rival == 0.0 => format!("{ours:.4} of all gets, more than"),
        percent if percent < 0.0 => format!("{:.1} % more often than", -percent),
        percent => format!("{percent:.1} % less often than"),
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
