//! The arguments of the program.

use clap::Parser;
use std::path::PathBuf;
use std::time::Duration;

/// Test a server with many idle and active connections.
///
/// The program starts the server, opens the idle connections and then the active ones. A third of the idle connections
/// sends nothing, a third half of a command line, and a third half of a value. An active connection sends a get or a set
/// of a value of random length, checks the reply, and pauses. At the end every idle connection completes its command.
///
/// The exit code is 1 if the server refused or closed a connection, or sent a wrong reply, or if slabwise needed more
/// memory than docs/memory.md allows.
#[derive(Debug, Parser)]
#[command(name = "slabwise-bench-connections")]
pub struct Arguments {
    /// Program of the server: slabwise or memcached
    #[arg(long, value_name = "PATH")]
    pub server: PathBuf,
    /// Number of idle connections
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub idle: usize,
    /// Number of active connections
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub active: usize,
    /// Duration of the load: a number with the unit ms, s, m or h
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub duration: Duration,
    /// Mean pause of an active connection between a reply and its next request
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = duration)]
    pub pause: Duration,
    /// Encrypt all connections with TLS
    #[arg(long)]
    pub tls: bool,
    /// Limit of connections (-c) of the server
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    pub limit: usize,
    /// Memory limit (-m) of the server in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub memory: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Further arguments of the server
    #[arg(last = true)]
    pub server_arguments: Vec<String>,
}

/// Parses a duration such as `10m`, `30s` or `250ms`.
fn duration(text: &str) -> Result<Duration, String> {
    const MILLIS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    let parsed = MILLIS.iter().find_map(|(unit, millis)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*millis).filter(|&millis| millis > 0)
    });
    let parsed = parsed.ok_or("give a whole number above 0 with the unit ms, s, m or h")?;
    Ok(Duration::from_millis(parsed))
}

#[cfg(test)]
mod tests {
    use super::{Arguments, duration};
    use clap::Parser;
    use std::time::Duration;

    #[test]
    fn a_duration_is_a_number_with_a_unit() {
        let millis = |text: &str| duration(text).map(|duration| duration.as_millis());
        assert_eq!(millis("250ms"), Ok(250));
        assert_eq!(millis("10s"), Ok(10_000));
        assert_eq!(millis("10m"), Ok(600_000));
        assert_eq!(millis("1h"), Ok(3_600_000));
        for wrong in ["", "10", "s", "0s", "-1s", "1.5s", "1d", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_arguments_after_two_dashes_are_those_of_the_server() {
        let line = "program --server slabwise --duration 5s -- -t 2";
        let arguments = Arguments::try_parse_from(line.split(' ')).expect("the line is valid");
        assert_eq!(arguments.server_arguments, ["-t", "2"]);
        assert_eq!(arguments.duration, Duration::from_secs(5));
        assert_eq!((arguments.idle, arguments.active), (10_000, 2_000));
        assert!(Arguments::try_parse_from(["program"]).is_err(), "the server is missing");
    }
}
