//! The arguments of the command, and the addresses of servers.

use clap::Parser;
use slabwise_client::ServerAddress;
use std::net::Ipv6Addr;
use std::time::Duration;

/// The port of a server whose address names none: memcached's default port.
pub const DEFAULT_PORT: u16 = 11211;

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
    #[arg(value_name = "HOST[:PORT]", required = true, value_parser = server)]
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
}

/// Parses the address of a server.
pub fn server(text: &str) -> Result<ServerAddress, String> {
    let tcp = |host: &str| ServerAddress::Tcp(format!("{host}:{DEFAULT_PORT}"));
    let invalid = || "give HOST, HOST:PORT, [IPV6]:PORT or the path of a Unix socket".to_owned();
    if text.starts_with("unix:") {
        return text.parse();
    }
    if text.contains('/') {
        return Ok(ServerAddress::Unix(text.to_owned()));
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok(tcp(&format!("[{text}]")));
    }
    if let Some((host, port)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        host.parse::<Ipv6Addr>().map_err(|_| invalid())?;
        return match port {
            "" => Ok(tcp(text)),
            _ if port.starts_with(':') => text.parse().map_err(|_| invalid()),
            _ => Err(invalid()),
        };
    }
    match text.matches(':').count() {
        0 if !text.is_empty() => Ok(tcp(text)),
        1 => text.parse().map_err(|_| invalid()),
        _ => Err(invalid()),
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
    use super::{Args, server};
    use clap::Parser;
    use slabwise_client::ServerAddress;
    use std::time::Duration;

    #[test]
    fn an_address_without_a_port_has_the_default_port() {
        let cases = [
            ("localhost", "localhost:11211"),
            ("localhost:1", "localhost:1"),
            ("10.0.0.1", "10.0.0.1:11211"),
            ("::1", "[::1]:11211"),
            ("[::1]", "[::1]:11211"),
            ("[::1]:2", "[::1]:2"),
        ];
        for (text, address) in cases {
            assert_eq!(server(text), Ok(ServerAddress::Tcp(address.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_path_is_the_address_of_a_unix_socket() {
        for text in ["/run/m.sock", "unix:/run/m.sock"] {
            assert_eq!(server(text), Ok(ServerAddress::Unix("/run/m.sock".to_owned())), "{text}");
        }
        assert_eq!(server("./m:1"), Ok(ServerAddress::Unix("./m:1".to_owned())));
    }

    #[test]
    fn an_invalid_address_is_refused() {
        for text in ["", ":1", "localhost:x", "localhost:65536", "a:1:2", "[::1", "[x]:1", "[::1]2"]
        {
            assert!(server(text).is_err(), "{text:?} is not an address");
        }
    }

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
