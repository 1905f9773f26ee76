//! `slabwise demo`: compares a slabwise server with default options with a simulated memcached, under the same
//! workload.
//!
//! ```text
//!   workload --replay, checked--> a slabwise server (a process) -------stats slabs--\
//!          '--the same requests--> this engine, configured as memcached --------------+--> view --> terminal
//! ```
//!
//! Invariants:
//! - Both sides get the same requests and the same memory limit. memcached's rules allow every class a first page
//!   beyond the limit.
//! - The server stops when the demo ends, fails, or receives a signal.
//!
//! The two sides have different chunk sizes. So the view groups the classes by the power of two of their chunk sizes.

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
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(test)]
mod tests;

const NAME: &str = "slabwise demo";
/// Virtual time of a visit of memcached's mover to a chunk. The value matters little, because memcached moves few
/// pages.
const VISIT_NS: f64 = 100.0;
/// How many times the demo samples the statistics of the server and of the simulated memcached.
const SAMPLES: u64 = 200;
/// If stderr is not a terminal, the demo prints this number of lines instead of the progress bar.
const LINES: u64 = 20;

/// Watch slabwise tune itself, compared with memcached.
///
/// Starts a server with default options, replays a recorded workload to it, and compares its classes, pages and misses
/// with those of memcached under the same requests and memory. The dashboard of the server shows its pages and curves.
#[derive(Debug, Parser)]
#[command(name = "slabwise demo")]
struct Args {
    /// Memory limit of each side, in MiB
    #[arg(long, short = 'm', value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(4..=1 << 20))]
    memory: u64,
    /// Workload to replay (see slabwise replay --help)
    #[arg(long, value_name = "NAME", default_value = "cache2k-orm-busy")]
    workload: String,
    /// Number of requests [default: the length of the workload or trace]
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
    let result = run(&args, &mut |line| {
        // The demo continues if its output is closed.
        let _ = writeln!(std::io::stdout(), "{line}");
    });
    command::finish(NAME, result)
}

fn run(args: &Args, print: &mut dyn FnMut(&str)) -> Result<(), DemoError> {
    let rate = args.rate.max(1) as f64;
    let memcached_setup = ServedSetup {
        name: "memcached".to_owned(),
        is_memcached: true,
        policy: "automove".to_owned(),
        eviction: EvictionKind::Segmented,
        mover: MoverName::Stock,
        scale_min: 0.0,
    };
    let config = memcached_setup.engine_config(args.memory << 20, args.seed);
    let engine = Engine::new(config).map_err(|error| format!("simulated memcached: {error}"))?;
    let memcached = Served::new(&memcached_setup, &engine, (rate, VISIT_NS))?;
    let replayed = open(args)?;
    let requests = replayed.requests_expected();
    let stopped = stop_signals().map_err(|error| format!("cannot handle signals: {error}"))?;
    let http = free_address().map_err(|error| format!("the dashboard: {error}"))?;
    let command = ["slabwise", "-o", &format!("http={http}")].map(str::to_owned);
    let server = Server::start(&command, args.memory)?;
    print(&format!(
        "slabwise -m {} at {}, with {}; memcached is simulated in this process\ndashboard: http://{http}/\n",
        args.memory,
        server.address(),
        args.workload
    ));
    let address = server.address();
    let bar = progress_bar(requests);
    let mut demo =
        Demo { memcached, memcached_requests: open(args)?, server, view: View::default() };
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

/// Returns an address of loopback on which no process listens.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Returns a flag that becomes true when the process receives SIGTERM or SIGHUP. The demo then ends in the normal way,
/// which also stops the server.
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

/// Both sides of the demo, and their samples.
struct Demo<'e> {
    /// The simulated memcached.
    memcached: Served<'e>,
    /// The requests that the simulated memcached has not yet served.
    memcached_requests: Workload,
    server: Server,
    view: View,
}

impl Demo<'_> {
    /// Takes a sample of both sides. `requests`, `gets` and `misses` are the totals of the slabwise server. Before the
    /// sample, the simulated memcached serves the same requests as the server.
    fn sample(&mut self, requests: u64, gets: u64, misses: u64) -> Result<(), DemoError> {
        let missing = requests - self.view.requests;
        let next = self.memcached_requests.by_ref().take(missing as usize);
        self.memcached.serve(&next.collect::<Result<Vec<Request>, _>>()?);
        let ours = self.server.classes()?;
        let ours =
            ours.iter().map(|class| (class.chunk_size_bytes, class.page_size_bytes * class.pages));
        let classes = self.memcached.classes();
        let memcached = classes.iter().filter(|class| class.class.is_some()).map(|class| {
            let page_bytes = class.chunk_size_bytes * class.chunks_per_page;
            (class.chunk_size_bytes as u64, page_bytes as u64 * class.pages)
        });
        self.view.requests = requests;
        self.view.ours.record(ours, gets, misses);
        self.view.memcached.record(memcached, self.memcached.gets, self.memcached.misses);
        Ok(())
    }
}

/// Returns a progress bar on stderr with the view above it. If stderr is not a terminal, the bar is hidden.
fn progress_bar(requests: Option<u64>) -> ProgressBar {
    let bar = requests.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let template = "{msg}\n{bar:40} {human_pos}/{human_len} requests, {eta} left";
    bar.with_style(ProgressStyle::with_template(template).expect("the template is valid"))
}

/// The recent miss ratio is that of the last 10 samples.
const RECENT_SAMPLES: usize = 10;
/// Width in characters of the bar of a range of chunk sizes, if its classes own all pages.
const BAR_WIDTH: u16 = 16;
/// The first range of chunk sizes ends at this number of bytes. Each further range ends at twice the end of the range
/// before it.
const RANGE_MIN_BYTES: u64 = 64;

/// The last samples of both sides, formatted for the terminal.
#[derive(Debug, Default)]
struct View {
    /// Number of requests that both sides have served.
    requests: u64,
    /// The slabwise server.
    ours: Side,
    /// The simulated memcached.
    memcached: Side,
}

/// The samples of the slabwise server or of the simulated memcached.
#[derive(Debug, Default)]
struct Side {
    /// For each range of chunk sizes, the number of classes that own pages, and the bytes of these pages.
    ranges: Vec<(u32, u64)>,
    /// The totals of gets and of misses at each sample.
    samples: Vec<(u64, u64)>,
}

impl Side {
    /// Adds a sample. `classes` has the chunk size and the bytes of the pages of each class; `gets` and `misses` are
    /// totals.
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

    /// Returns the bytes of the pages of all classes.
    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|&(_, bytes)| bytes).sum()
    }

    fn miss_ratio(&self) -> f64 {
        self.samples.last().map_or(0.0, |&(gets, misses)| misses as f64 / gets.max(1) as f64)
    }

    fn recent_miss_ratio(&self) -> f64 {
        let before = self.samples.len().checked_sub(RECENT_SAMPLES + 1);
        let (gets_before, misses_before) = before.map_or((0, 0), |index| self.samples[index]);
        let (gets, misses) = self.samples.last().copied().unwrap_or_default();
        (misses - misses_before) as f64 / (gets - gets_before).max(1) as f64
    }
}

/// Returns the index of the range that contains the chunk size.
fn range_of(chunk_size_bytes: u64) -> usize {
    let range_end = chunk_size_bytes.max(RANGE_MIN_BYTES).next_power_of_two();
    (range_end.ilog2() - RANGE_MIN_BYTES.ilog2()) as usize
}

impl View {
    /// Formats the last sample as a table: one line per range of chunk sizes, then the memory and the miss ratios.
    fn text(&self) -> String {
        let sides = [&self.ours, &self.memcached];
        let line = |name: String, [ours, memcached]: [String; 2]| [name, ours, memcached];
        let mut lines = vec![["chunks up to", "slabwise", "memcached"].map(str::to_owned)];
        for range in 0..self.ours.ranges.len().max(self.memcached.ranges.len()) {
            let cells = sides.map(|side| cell(side, range));
            if cells.iter().any(|cell| !cell.is_empty()) {
                lines.push(line(format_size(RANGE_MIN_BYTES << range), cells));
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

    /// Formats the last sample as a single line.
    fn line(&self) -> String {
        let recent = [&self.ours, &self.memcached].map(Side::recent_miss_ratio);
        let classes = [&self.ours, &self.memcached]
            .map(|side| side.ranges.iter().map(|(classes, _)| classes).sum::<u32>());
        format!(
            "{:>10} requests: recent miss ratio: slabwise {:.4} with {} classes, memcached {:.4} with {}",
            self.requests, recent[0], classes[0], recent[1], classes[1]
        )
    }

    /// Formats the comparison of the two sides at the end of the demo.
    fn summary(&self) -> String {
        let (ours, memcached) = (self.ours.recent_miss_ratio(), self.memcached.recent_miss_ratio());
        let total = comparison(self.ours.miss_ratio(), self.memcached.miss_ratio());
        let recent = comparison(ours, memcached);
        format!(
            "\n{} requests; the value of every hit was checked. slabwise missed {total} memcached. Recently it missed \
             {recent} memcached.",
            self.requests
        )
    }
}

/// Compares two miss ratios. The returned text fits between "slabwise missed" and "memcached".
fn comparison(ours: f64, memcached: f64) -> String {
    match (1.0 - ours / memcached) * 100.0 {
        _ if ours == memcached => "as often as".to_owned(),
        _ if memcached == 0.0 => format!("{ours:.4} of all gets, more than"),
        percent if percent < 0.0 => format!("{:.1} % more often than", -percent),
        percent => format!("{percent:.1} % less often than"),
    }
}

/// Formats a range of a side: a bar, the share of the side's memory, and the number of classes. Empty if no class in
/// the range owns pages.
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

fn format_size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}
