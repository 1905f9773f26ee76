//! The arguments of the program.

use clap::Parser;
use std::path::PathBuf;
use std::time::Duration;

/// Send random requests to a server, inject faults, and check every reply.
#[derive(Clone, Debug, Parser)]
#[command(name = "campaign")]
pub struct Options {
    /// Program of the server: slabwise or memcached [default: slabwise, beside this program]
    #[arg(long, value_name = "PATH")]
    pub server: Option<PathBuf>,
    /// Seed of all random decisions [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Duration of the campaign: a number with s, m or h
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    pub duration: Duration,
    /// Memory limit of the server in MiB (-m), or random
    #[arg(long, value_name = "MIB", default_value = "random")]
    pub memory: String,
    /// Number of rounds after which the campaign ends, even before its duration [default: no limit]
    #[arg(long, value_name = "N")]
    pub rounds: Option<u64>,
    /// Number of rounds for which one server runs; 0 for all rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub server_rounds: u64,
    /// Number of the first server; a run of a seed can be repeated from any of its servers on
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub first_server: u64,
    /// One of this number of values may be as large as the server allows [default: random]
    #[arg(long, value_name = "N")]
    pub huge_one_in: Option<u64>,
    /// Time without a byte of a reply after which the reply is missing
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub reply_timeout: Duration,
    /// Only faults whose name contains this text [default: all]
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub faults: String,
    /// Number of clients that behave well
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub clients: usize,
    /// Number of threads that cause faults
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub fault_threads: usize,
    /// Do not check the memory of the server, for example because a sanitizer needs more
    #[arg(long)]
    pub ignore_memory: bool,
    /// Factor of all time limits, for slow servers such as those with sanitizers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub slow_factor: u32,
}

/// Parses a duration such as 90s, 5m or 2h.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let error = || format!("give a number with s, m or h, such as 5m, not '{text}'");
    let (number, seconds) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => return Err(error()),
    };
    let number: u64 = number.parse().map_err(|_| error())?;
    Ok(Duration::from_secs(number * seconds))
}
