//! The arguments of the command.

use clap::Parser;
use slabwise_client::{ConnectArgs, Connector, ServerAddress, Timeouts};
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
/// Press ? for the list of keys. With --once, the exit code is 1 if the command could not read one of the servers.
#[derive(Debug, Parser)]
#[command(name = "slabwise top")]
pub struct Args {
    /// Servers: HOST, HOST:PORT, [IPV6]:PORT or the path of a Unix socket; the default port is 11211
    #[arg(value_name = "HOST[:PORT]", required = true, value_parser = ServerAddress::parse_short)]
    pub servers: Vec<ServerAddress>,
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
    /// Returns a connector to each server. The error names a file that cannot be used.
    pub fn connectors(&self) -> Result<Vec<Connector>, String> {
        let security = self.connect.load()?;
        let connector = |server: &ServerAddress| security.connector(server.clone(), TIMEOUTS);
        Ok(self.servers.iter().map(connector).collect())
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
