//! The arguments of `slabwise steer`.

use clap::Parser;
use slabwise_client::{ConnectArgs, Connector, ServerAddress, Timeouts};
use slabwise_policy::PagePolicy;
use slabwise_text::command;
use std::path::PathBuf;
use std::time::Duration;

/// The policy that saved most misses of memcached in `bench/steer`.
const DEFAULT_POLICY: &str = "lama";
/// Options of policies whose defaults differ from those of slabwise's own pages. The curves of `ColdHits` are valid after
/// few gets, and near the present size only, so `lama` steps often.
const STEER_DEFAULTS: [(&str, &str); 1] =
    [("lama", "curve=distance:period_gets=25000:gain_min=0.0005")];

/// Move the pages of a running memcached to the classes where they save most misses.
///
/// memcached's own automover makes the ages of the oldest items of all classes equal. This command switches the
/// automover off, and moves pages with `slabs reassign` as one of slabwise's page policies decides. It measures
/// the effect of its moves, and undoes moves that cost misses. When it ends, it restores the former mode of the
/// automover. It changes no items and no other setting. The memcached needs no option except slab_reassign, which
/// is on by default.
///
/// SIGINT, SIGTERM and SIGHUP end the command. After a kill with SIGKILL the automover stays off: start the command again, or run it with --restore.
/// docs/steer.md describes the command.
#[derive(Debug, Parser)]
#[command(
    name = "slabwise steer",
    verbatim_doc_comment,
    after_long_help = "Examples:\n  \
        slabwise steer --server localhost:11211 --dry-run\n  \
        slabwise steer --server unix:/run/memcached.sock --log /var/log/steer.log\n  \
        slabwise steer --server localhost:11211 --restore"
)]
pub struct Args {
    /// Server: HOST, HOST:PORT, [IPV6]:PORT or the path of a Unix socket; the default port is 11211
    #[arg(long, value_name = "ADDRESS", value_parser = ServerAddress::parse_short)]
    pub server: ServerAddress,
    /// Page policy, with options as in -o page_policy=: lama, marginal, tail_age, and others that need no shadow hits.
    /// Here, lama has the defaults curve=distance:period_gets=25000:gain_min=0.0005
    #[arg(long, value_name = "POLICY", default_value = DEFAULT_POLICY, value_parser = parse_policy)]
    pub policy: PagePolicy,
    /// Log the moves, but order none and change no setting
    #[arg(long)]
    pub dry_run: bool,
    /// Only restore the mode that the automover had before the last start of this command, and end. With --dry-run, only
    /// print whether this is necessary
    #[arg(long)]
    pub restore: bool,
    /// State file [default: steer-ADDRESS.json in $XDG_STATE_HOME/slabwise or ~/.local/state/slabwise]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// File to which log lines are appended [default: the standard error]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Time between two readings of the statistics, at most 10: the effect of moves is measured in periods of 20 seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    /// Maximum number of page moves a minute; at the start, a quarter of the pages may move at once,
    /// but at least 8 and at most 256
    #[arg(long, value_name = "N", default_value = "30", value_parser = parse_moves)]
    pub moves_per_minute: f64,
    /// Minimum number of pages that each class keeps; memcached keeps one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub pages_min: u64,
    /// Address, HOST:PORT, on which GET /metrics is answered with metrics for Prometheus
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Timeout for connecting, without the time to resolve the host name
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_timeout)]
    pub connect_timeout: Duration,
    /// Longest time without a byte of a reply
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_timeout)]
    pub read_timeout: Duration,
    /// Longest time until a reply is complete
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_timeout)]
    pub reply_timeout: Duration,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl Args {
    /// Returns the connector to the server. The error names a file that cannot be used.
    pub fn connector(&self) -> Result<Connector, String> {
        let timeouts = Timeouts {
            connect: self.connect_timeout,
            read: self.read_timeout,
            reply: self.reply_timeout,
        };
        Ok(self.connect.load()?.connector(self.server.clone(), timeouts))
    }
}

/// Returns the default policy.
pub fn default_policy() -> PagePolicy {
    parse_policy(DEFAULT_POLICY)
        .unwrap_or_else(|error| panic!("the default policy is valid: {error}"))
}

/// Parses a page policy, and refuses those that cannot steer from outside.
fn parse_policy(text: &str) -> Result<PagePolicy, String> {
    let (name, given) = text.split_once(':').unwrap_or((text, ""));
    let defaults = STEER_DEFAULTS.iter().find(|(known, _)| *known == name);
    let words = [name, defaults.map_or("", |(_, options)| options), given];
    // Of an option that is given twice, the last value is used.
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let policy = PagePolicy::parse(&words.join(":")).map_err(|error| error.to_string())?;
    match crate::due::unusable(&policy) {
        Some(reason) => {
            let name = policy.name();
            Err(format!(
                "{name} cannot steer a server from outside: {reason}; choose marginal, lama or tail_age"
            ))
        }
        None => Ok(policy),
    }
}

/// Parses the time between readings. With more than ten seconds, there is no reading near the start of a period.
fn parse_interval(text: &str) -> Result<Duration, String> {
    command::seconds(text, 0.01..=10.0)
}

/// Parses a timeout in seconds.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    command::seconds(text, 0.01..=3600.0)
}

/// Parses a number of moves per minute.
fn parse_moves(text: &str) -> Result<f64, String> {
    const LIMITS: std::ops::RangeInclusive<f64> = 0.01..=6000.0;
    match text.parse::<f64>() {
        Ok(moves) if LIMITS.contains(&moves) => Ok(moves),
        _ => Err(format!("give {} to {} moves a minute", LIMITS.start(), LIMITS.end())),
    }
}

#[cfg(test)]
mod tests {
    use super::Args;
    use clap::Parser;

    fn parse(words: &[&str]) -> Result<Args, String> {
        let line = ["slabwise steer"].iter().chain(words);
        Args::try_parse_from(line).map_err(|error| error.to_string())
    }

    #[test]
    fn given_options_of_a_policy_replace_its_defaults() {
        let value = |text: &str, option: &str| {
            parse(&["--server", "a", "--policy", text]).expect(text).policy.value(option)
        };
        assert_eq!(value("lama", "period_gets").as_deref(), Some("25000"));
        assert_eq!(value("lama:period_gets=7", "period_gets").as_deref(), Some("7"));
        assert_eq!(value("lama:period_gets=7", "curve").as_deref(), Some("distance"));
        assert_eq!(value("marginal", "window_gets"), {
            slabwise_policy::PagePolicy::named("marginal").and_then(|it| it.value("window_gets"))
        });
    }

    #[test]
    fn an_error_names_the_limits_and_the_remedy() {
        let cases: [(&[&str], &str); 9] = [
            (&[], "--server"),
            (&["--server", ""], "give HOST, HOST:PORT"),
            (&["--server", "a", "--policy", "clever"], "unknown page policy"),
            (&["--server", "a", "--policy", "cliffhanger"], "choose marginal"),
            (&["--server", "a", "--interval", "0"], "give 0.01 to 10 seconds"),
            (&["--server", "a", "--interval", "10.1"], "give 0.01 to 10 seconds"),
            (&["--server", "a", "--read-timeout", "0"], "give 0.01 to 3600 seconds"),
            (&["--server", "a", "--moves-per-minute=-1"], "give 0.01 to 6000 moves"),
            (&["--server", "a", "--pages-min", "0"], "1.."),
        ];
        for (words, reason) in cases {
            let error = parse(words).expect_err(reason);
            assert!(error.contains(reason), "{words:?}: {error}");
        }
    }
}
