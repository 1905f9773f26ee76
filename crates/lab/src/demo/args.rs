//! The arguments of the demo, and what they determine: the workload, its pace, and when samples are due.

use clap::Parser;
use slabwise_replay::Pace;
use slabwise_replay::workload::{self, Workload, WorkloadError};
use std::path::PathBuf;

/// How many times the demo samples the statistics of both sides.
pub const SAMPLES: u64 = 200;

/// Watch slabwise tune itself, compared with memcached.
///
/// Starts a slabwise server with default options and a memcached server, replays a recorded workload to both, and
/// compares their classes, pages and misses. If memcached is not installed, the demo simulates it. The dashboard of the
/// slabwise server shows its pages and curves. Both servers stop when the demo ends.
#[derive(Clone, Debug, Parser)]
#[command(name = "slabwise demo")]
pub struct Args {
    /// Memory limit of each side, in MiB
    #[arg(long, short = 'm', value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(4..=1 << 20))]
    pub memory: u64,
    /// memcached to compare with [default: the first one in $PATH]
    #[arg(long, value_name = "PATH")]
    pub memcached: Option<PathBuf>,
    /// Workload to replay (see slabwise replay --help)
    #[arg(long, value_name = "NAME", default_value = "cache2k-orm-busy")]
    pub workload: String,
    /// Number of requests [default: the length of the workload or trace]
    #[arg(long, value_name = "N")]
    pub requests: Option<u64>,
    /// Requests per second to each side
    #[arg(long, value_name = "R", default_value_t = 200_000)]
    pub rate: u64,
    /// Multiply value lengths that come from a size table
    #[arg(long, value_name = "F", default_value_t = 16.0)]
    pub size_factor: f64,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Args {
    pub fn requests_per_second(&self) -> f64 {
        self.rate.max(1) as f64
    }

    pub fn pace(&self) -> Pace {
        Pace { rate: Some(self.requests_per_second()), ..Pace::default() }
    }
}

/// An error that a thread can return to another one.
pub type DemoError = Box<dyn std::error::Error + Send + Sync>;

/// Opens the workload of the arguments.
pub fn open(args: &Args) -> Result<Workload, WorkloadError> {
    let options = workload::Options {
        requests: args.requests,
        seed: args.seed,
        size_factor: args.size_factor,
        ..workload::Options::default()
    };
    workload::open(&args.workload, &options)
}

/// Determines when a sample is due.
#[derive(Clone, Debug)]
pub struct Due {
    requests_per_sample: u64,
    /// Number of samples so far.
    pub samples: u64,
}

impl Due {
    /// Plans [`SAMPLES`] samples of a workload of this length.
    pub fn new(requests: Option<u64>) -> Due {
        Due { requests_per_sample: (requests.unwrap_or(1_000_000) / SAMPLES).max(1), samples: 0 }
    }

    /// True if a sample is due after this number of requests. Counts the sample.
    pub fn is_due(&mut self, requests: u64) -> bool {
        let is_due = requests >= (self.samples + 1) * self.requests_per_sample;
        self.samples += u64::from(is_due);
        is_due
    }
}
