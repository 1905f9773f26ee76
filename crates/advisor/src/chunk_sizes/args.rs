//! The arguments of `slabwise classes` that belong to the advisor.

use crate::chunk_sizes::advice::Choice;
use crate::chunk_sizes::error::AdvisorError;
use clap::{CommandFactory, Parser};
use slabwise_base::ClassId;
use slabwise_client::{ConnectArgs, Connector, ServerAddress, Timeouts};
use slabwise_policy::sizes::Method;
use slabwise_text::command;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Recommend chunk sizes for the items of a memcached: the option `-o slab_sizes=` that wastes least memory.
///
/// memcached's chunk sizes grow by 25 % from class to class. The bytes of a chunk that its item does not
/// use are lost. This command computes the chunk sizes that lose the fewest bytes for the sizes of your
/// items, and compares them with the current chunk sizes. The last line is the option for the server. Keep
/// the other options of the server. Spare classes have sizes between the other sizes, for future items. They
/// own no pages until such items are stored.
///
/// From a server: item sizes are read with `stats sizes` if it is enabled (-o track_sizes), and otherwise
/// with `lru_crawler metadump`. The command changes nothing on the server. If the server is a slabwise, the
/// recommended option is for slabwise.
///
/// From a file: a text file with lines of SIZE COUNT or SIZE,COUNT, with one size per line, or with the
/// output of `stats sizes` (STAT 96 35). A header line, empty lines and lines that begin with # are
/// skipped. Lines can have any order, and counts of the same size are added. A size is the size of a whole
/// item in memcached: key, value and about 60 bytes.
///
/// Without --from-server and --from-histogram, `slabwise classes [slabwise's options]` prints the chunk
/// sizes that slabwise has with these options.
#[derive(Debug, Parser)]
#[command(
    name = "slabwise classes",
    verbatim_doc_comment,
    override_usage = "slabwise classes --from-server HOST:PORT [options]\n       \
                      slabwise classes --from-histogram FILE [options]\n       \
                      slabwise classes [slabwise's options]",
    after_long_help = "Examples:\n  \
        slabwise classes --from-server localhost:11211\n  \
        slabwise classes --from-histogram sizes.txt --classes 20 --json\n  \
        slabwise classes --from-histogram sizes.txt --method hill-climb --seed 7\n  \
        echo 'stats sizes' | nc -q1 localhost 11211 | slabwise classes --from-histogram -"
)]
pub struct Args {
    /// Server whose item sizes are read: HOST, HOST:PORT, [IPV6]:PORT or the path of a Unix socket; the default port is
    /// 11211
    #[arg(
        long,
        value_name = "ADDRESS",
        conflicts_with = "from_histogram",
        value_parser = ServerAddress::parse_short
    )]
    pub from_server: Option<ServerAddress>,
    /// File with item sizes; - means the standard input
    #[arg(long, value_name = "FILE")]
    pub from_histogram: Option<PathBuf>,
    /// Maximum number of chunk sizes, 1 to 63, without the last size, which memcached adds; with the last size
    /// there are at most 63 [default: the number with the lowest loss, counting half a page per class as lost]
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = parse_class_count)]
    pub classes: Option<usize>,
    /// Method: exact computes the sizes that lose the fewest bytes; hill-climb changes one size at a time at random, as
    /// published (Jai and Das, 2020), and keeps the current number of chunk sizes
    #[arg(long, value_name = "METHOD", default_value = "exact", value_parser = parse_method)]
    pub method: Method,
    /// With --method hill-climb: seed of the random steps
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the advice as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// With --from-server: timeout for connecting
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_seconds)]
    pub connect_timeout: Duration,
    /// With --from-server: longest time without a byte of the reply
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_seconds)]
    pub read_timeout: Duration,
    /// With --from-server: longest time until a reply is complete; a metadump is truncated after this time
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    pub reply_timeout: Duration,
    /// With --from-server: maximum number of items to read from a metadump
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub items_max: u64,
    /// With --from-histogram: maximum item size of the server (memcached's -I)
    #[arg(long, value_name = "BYTES", default_value = "1m", value_parser = parse_item_size)]
    pub item_size_max: usize,
    /// With --from-histogram: current growth factor of the server (memcached's -f)
    #[arg(long, value_name = "FACTOR", default_value_t = 1.25, value_parser = parse_growth_factor)]
    pub growth_factor: f64,
    /// With --from-histogram: current minimum space for key, value and flags of the server (memcached's -n)
    #[arg(long, value_name = "BYTES", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub chunk_size: u32,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl Args {
    /// Returns the connector to a server. The error names a file that cannot be used.
    pub fn connector(&self, server: &ServerAddress) -> Result<Connector, String> {
        let timeouts = Timeouts {
            connect: self.connect_timeout,
            read: self.read_timeout,
            reply: self.reply_timeout,
        };
        Ok(self.connect.load()?.connector(server.clone(), timeouts))
    }

    /// Returns how the advice selects its class table.
    pub fn choice(&self) -> Result<Choice, AdvisorError> {
        match (self.method, self.classes) {
            (Method::Exact, listed_count_max) => Ok(Choice::Exact { listed_count_max }),
            (Method::HillClimb, None) => Ok(Choice::HillClimb { seed: self.seed }),
            (Method::HillClimb, Some(count)) => Err(AdvisorError::CountOfClimb { count }),
        }
    }
}

/// True if an argument is an option of the advisor. Other arguments are options of the server.
pub fn is_ours(argument: &OsStr) -> bool {
    let Some(text) = argument.to_str() else { return false };
    if matches!(text, "-h" | "--help" | command::MAN_PAGE) {
        return true;
    }
    let Some(name) = text.strip_prefix("--") else { return false };
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    Args::command().get_arguments().any(|argument| argument.get_long() == Some(name))
}

/// Parses the name of a method.
fn parse_method(name: &str) -> Result<Method, String> {
    name.parse()
}

/// Parses a number of classes.
fn parse_class_count(text: &str) -> Result<usize, String> {
    let max = ClassId::COUNT_MAX;
    match text.parse() {
        Ok(count) if (1..=max).contains(&count) => Ok(count),
        _ => Err(format!("memcached has at most {max} classes: give 1 to {max}")),
    }
}

/// Parses a duration in seconds.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    command::seconds(text, 0.001..=86_400.0)
}

/// Parses a growth factor.
fn parse_growth_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 1.0 && factor.is_finite() => Ok(factor),
        _ => Err("give a number above 1".to_owned()),
    }
}

/// Parses an item size in bytes with an optional suffix k or m. The limits are memcached's.
fn parse_item_size(text: &str) -> Result<usize, String> {
    const SIZE_MIN: usize = 1 << 10;
    const SIZE_MAX: usize = 1 << 30;
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix(['k', 'm']) {
        Some(digits) if lower.ends_with('k') => (digits, 1 << 10),
        Some(digits) => (digits, 1 << 20),
        None => (lower.as_str(), 1),
    };
    let size = digits.parse::<usize>().ok().and_then(|size| size.checked_mul(unit));
    match size {
        Some(size) if (SIZE_MIN..=SIZE_MAX).contains(&size) => Ok(size),
        _ => Err("give 1k to 1024m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, is_ours, parse_item_size};
    use clap::Parser;
    use std::ffi::OsStr;

    fn parse(words: &[&str]) -> Result<Args, String> {
        let line = std::iter::once("slabwise classes").chain(words.iter().copied());
        Args::try_parse_from(line).map_err(|error| error.to_string())
    }

    #[test]
    fn the_error_of_an_invalid_argument_names_the_limits() {
        for count in ["1", "20", "63"] {
            let args = parse(&["--from-histogram", "f", "--classes", count]);
            assert_eq!(args.ok().and_then(|args| args.classes), count.parse().ok());
        }
        let cases: [(&[&str], &str); 12] = [
            (&["--method", "fast"], "give exact or hill-climb"),
            (&["--seed", "x"], "invalid digit"),
            (&["--classes", "0"], "give 1 to 63"),
            (&["--classes", "64"], "give 1 to 63"),
            (&["--classes", "-1"], "give 1 to 63"),
            (&["--classes", "ten"], "give 1 to 63"),
            (&["--from-server", "a:1:2"], "give HOST, HOST:PORT"),
            (&["--from-server", "a:1", "--from-histogram", "f"], "cannot be used with"),
            (&["--read-timeout", "0"], "give 0.001 to 86400 seconds"),
            (&["--growth-factor", "1"], "give a number above 1"),
            (&["--item-size-max", "2000m"], "give 1k to 1024m"),
            (&["--items-max", "0"], "0 is not in 1.."),
        ];
        for (words, reason) in cases {
            let error = parse(words).expect_err(reason);
            assert!(error.contains(reason), "{words:?}: {error}");
        }
    }

    #[test]
    fn options_of_the_server_are_not_options_of_the_advisor() {
        for ours in ["--from-server=a:1", "--from-histogram", "--json", "--classes", "--help"] {
            assert!(is_ours(OsStr::new(ours)), "{ours}");
        }
        for others in ["-f", "1.1", "-o", "--memory-limit=64", "--max-item-size", "-m64"] {
            assert!(!is_ours(OsStr::new(others)), "{others}");
        }
    }

    #[test]
    fn an_item_size_may_have_a_suffix() {
        assert_eq!(parse_item_size("2m"), Ok(2 << 20));
        assert_eq!(parse_item_size("512K"), Ok(512 << 10));
        assert_eq!(parse_item_size("4096"), Ok(4096));
        assert!(
            parse_item_size("1").is_err()
                && parse_item_size("m").is_err()
                && parse_item_size("é").is_err()
        );
    }
}
