//! The arguments of `slabwise advise`.

use clap::Parser;
use slabwise_client::{ConnectArgs, Timeouts};
use slabwise_fleet::Target;
use slabwise_text::command;
use std::path::PathBuf;
use std::time::Duration;

/// Report what a running memcached or slabwise would gain from its memory, and how.
///
/// The command watches each server for a while, and changes no item, no order and no setting. It reports the misses
/// with a better division of the pages, with other chunk sizes, with more or less memory, and with slabwise
/// instead, each with its error, and how much memory each gain is worth. For several servers, it also reports how
/// their memory would best be spread over them.
///
/// While the command watches, the server writes a line for each request. This costs it about 1 us of processor time
/// per request. On average over an hour, this is at most --cost-share-max of the processor time of the server; if it
/// would be more, the command watches only a part of the time.
///
/// SIGINT (Ctrl-C) ends the observation early. The exit code is 1 if one of the servers could not be observed.
/// docs/advise.md describes the report.
#[derive(Debug, Parser)]
#[command(
    name = "slabwise advise",
    verbatim_doc_comment,
    after_long_help = "Examples:\n  \
        slabwise advise --server localhost\n  \
        slabwise advise --server 10.0.0.1 --server 10.0.0.2:11311 --for 300 --html report.html\n  \
        slabwise advise --server file:servers.yml --for 300\n  \
        slabwise advise --server unix:/run/memcached.sock --json"
)]
pub struct Args {
    /// Server: HOST, HOST:PORT, [IPV6]:PORT or the path of a Unix socket; the default port is 11211. Or a list of servers:
    /// file:PATH (a server in each line, or a JSON or YAML file of Prometheus), dns:HOST[:PORT] (the addresses of a host), or
    /// srv:NAME (SRV records). Give it once for each server or list
    #[arg(long = "server", value_name = "ADDRESS", required = true)]
    pub servers: Vec<Target>,
    /// Time to watch. Predictions for a larger memory and for slabwise need the time in which the server stores about as
    /// many bytes as its memory, or several times as long
    #[arg(long = "for", value_name = "SECONDS", default_value = "120", value_parser = parse_duration)]
    pub duration: Duration,
    /// Write the report as one HTML page to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the report as one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Maximum cost of watching on average over an hour, as a share of the processor time of the server
    #[arg(long, value_name = "SHARE", default_value = "0.03", value_parser = parse_share)]
    pub cost_share_max: f64,
    /// Timeout for connecting
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_timeout)]
    pub connect_timeout: Duration,
    /// Longest time without a byte of a reply
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_timeout)]
    pub read_timeout: Duration,
    /// Longest time until a reply is complete
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_timeout)]
    pub reply_timeout: Duration,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl Args {
    /// Returns the timeouts of connections.
    pub fn timeouts(&self) -> Timeouts {
        Timeouts {
            connect: self.connect_timeout,
            read: self.read_timeout,
            reply: self.reply_timeout,
        }
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    command::seconds(text, 1.0..=86_400.0)
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    command::seconds(text, 0.01..=3600.0)
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("give a share above 0 and at most 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::Args;
    use clap::Parser;

    #[test]
    fn an_error_names_the_limits() {
        let parse = |words: &[&str]| {
            let line = ["slabwise advise"].iter().chain(words);
            Args::try_parse_from(line).map_err(|error| error.to_string())
        };
        let args = parse(&["--server", "a", "--server", "::1"]).expect("the arguments are valid");
        let servers = slabwise_fleet::servers(&args.servers).expect("the servers are named");
        let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["a:11211", "[::1]:11211"]);
        let cases: [(&[&str], &str); 4] = [
            (&[], "--server"),
            (&["--server", "a", "--for", "0"], "give 1 to 86400 seconds"),
            (&["--server", "a", "--cost-share-max", "0"], "above 0 and at most 1"),
            (&["--server", "a", "--tls-ca", "f"], "--tls"),
        ];
        for (words, reason) in cases {
            let error = parse(words).expect_err(reason);
            assert!(error.contains(reason), "{words:?}: {error}");
        }
    }
}
