//! The arguments of the command.

use clap::Parser;
use slabwise_client::{ConnectArgs, Connector, Timeouts};
use slabwise_fleet::Target;
use std::time::Duration;

/// The timeout of connecting and of each reply.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The timeouts of the connections.
pub const TIMEOUTS: Timeouts = Timeouts { connect: TIMEOUT, read: TIMEOUT, reply: TIMEOUT };

/// Show the requests, hit ratios, memory and classes of servers in the terminal.
///
/// A server is slabwise or memcached. The command sends `stats`, `stats items` and `stats slabs` to each server, and
/// `stats profile` and `stats plan` to slabwise. It computes rates from the differences between two samples.
///
/// For several servers, it also shows their sums, and which server differs from the others. The lists of servers are read
/// once, at the start.
///
/// Press ? for the list of keys. With --once, the exit code is 1 if the command could not read one of the servers, and
/// 2 if it could not read a list of servers.
#[derive(Debug, Parser)]
#[command(name = "slabwise top")]
pub struct Args {
    /// Servers: HOST, HOST:PORT, [IPV6]:PORT or the path of a Unix socket; the default port is 11211. Or lists of servers:
    /// file:PATH (a server in each line, or a JSON or YAML file of Prometheus), dns:HOST[:PORT] (the addresses of a host), or
    /// srv:NAME (SRV records)
    #[arg(value_name = "HOST[:PORT]", required = true)]
    pub servers: Vec<Target>,
    /// Time between two samples, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Take two samples, print them, and exit
    #[arg(long)]
    pub once: bool,
    /// Print one JSON document instead of tables; needs --once
    #[arg(long, requires = "once")]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl Args {
    /// Returns a connector to each server. The error names a file or a list of servers that cannot be used.
    pub fn connectors(&self) -> Result<Vec<Connector>, String> {
        let security = self.connect.load()?;
        let servers = slabwise_fleet::servers(&self.servers).map_err(|error| error.to_string())?;
        Ok(servers.into_iter().map(|server| security.connector(server, TIMEOUTS)).collect())
    }
}

/// Parses the interval.
fn interval(text: &str) -> Result<Duration, String> {
    /// The shortest and the longest interval, in seconds.
    const LIMITS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
    match text.parse::<f64>() {
        Ok(seconds) if LIMITS.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("give a number of seconds from 0.1 to 3600".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::Args;
    use clap::Parser;
    use std::time::Duration;

    #[test]
    fn json_needs_once_and_the_interval_has_limits() {
        let parse = |args: &[&str]| {
            Args::try_parse_from([&["slabwise top"], args].concat()).map(|args| args.interval)
        };
        assert_eq!(parse(&["a"]).ok(), Some(Duration::from_secs(1)));
        assert_eq!(parse(&["a", "--interval", "0.5"]).ok(), Some(Duration::from_millis(500)));
        assert!(parse(&["a", "--once", "--json"]).is_ok());
        for args in
            [&["a", "--json"][..], &[], &["a", "--interval", "0"], &["a", "--interval", "x"]]
        {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }
}
