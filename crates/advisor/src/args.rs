//! The command line.

use clap::{CommandFactory, Parser};
use slabwise_base::ClassId;
use slabwise_client::ServerAddress;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Chunk sizes for the items that a memcached holds: which `-o slab_sizes=` loses least memory.
///
/// memcached's chunk sizes grow by 25 % whatever its items are like, and what an item leaves of its
/// chunk is lost. This finds the chunk sizes that lose least for the sizes of your items, shows what
/// is lost now and would be lost then, and prints, as the last line, the option to start the server
/// with. The server's other options stay as they are. Numbers of classes that are left go to sizes for
/// items that are not there yet; they take no memory.
///
/// From a server: sizes come from `stats sizes` where it counts (-o track_sizes), else from a look at
/// its items by `lru_crawler metadump`. Nothing is changed on it. A slabwise gets advice for itself.
///
/// From a file: text, with lines of SIZE COUNT or SIZE,COUNT, or one size a line, or what
/// `stats sizes` printed (STAT 96 35). A first line of words, empty lines and lines that begin with #
/// are skipped; order does not matter, and counts of one size add up. Sizes are those of whole items
/// as memcached counts them: key, value, and about 60 bytes.
///
/// Without either, `slabwise classes [slabwise's options]` shows the chunk sizes that slabwise has
/// with those options.
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
        echo 'stats sizes' | nc -q1 localhost 11211 | slabwise classes --from-histogram -"
)]
pub struct Args {
    /// The server to look at: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", conflicts_with = "from_histogram")]
    pub from_server: Option<ServerAddress>,
    /// A file of sizes; - reads the standard input
    #[arg(long, value_name = "FILE")]
    pub from_histogram: Option<PathBuf>,
    /// At most K chunk sizes, 1 to 63 with the last, which memcached adds [default: as many as
    /// pay, where each costs half a page]
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = class_count)]
    pub classes: Option<usize>,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Of a server: how long to wait for the connection
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    pub connect_timeout: Duration,
    /// Of a server: how long to wait for the next bytes of a reply
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub read_timeout: Duration,
    /// Of a server: how long a reply may take; a look at its items ends then
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub reply_timeout: Duration,
    /// Of a server: how many items to look at, where it does not count sizes itself
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub items_max: u64,
    /// Of a file: the largest item of the server that it is for (memcached's -I)
    #[arg(long, value_name = "BYTES", default_value = "1m", value_parser = item_size)]
    pub item_size_max: usize,
    /// Of a file: the growth factor that the server has now (memcached's -f)
    #[arg(long, value_name = "FACTOR", default_value_t = 1.25, value_parser = growth_factor)]
    pub growth_factor: f64,
    /// Of a file: the least room for key, value and flags that the server has now (memcached's -n)
    #[arg(long, value_name = "BYTES", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub chunk_size: u32,
}

/// Whether an argument can only be meant for the advisor: not an option of the server's.
pub fn is_ours(argument: &OsStr) -> bool {
    let Some(text) = argument.to_str() else { return false };
    if matches!(text, "-h" | "--help") {
        return true;
    }
    let Some(name) = text.strip_prefix("--") else { return false };
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    Args::command().get_arguments().any(|argument| argument.get_long() == Some(name))
}

fn class_count(text: &str) -> Result<usize, String> {
    let max = ClassId::COUNT_MAX;
    match text.parse() {
        Ok(count) if (1..=max).contains(&count) => Ok(count),
        _ => Err(format!("memcached has at most {max} classes: give 1 to {max}")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    const SECONDS_MIN: f64 = 0.001;
    const SECONDS_MAX: f64 = 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(format!("give {SECONDS_MIN} to {SECONDS_MAX} seconds")),
    }
}

fn growth_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 1.0 && factor.is_finite() => Ok(factor),
        _ => Err("give a number above 1".to_owned()),
    }
}

/// Bytes, or with k or m behind them; memcached's limits.
fn item_size(text: &str) -> Result<usize, String> {
    const LEAST: usize = 1 << 10;
    const MOST: usize = 1 << 30;
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix(['k', 'm']) {
        Some(digits) if lower.ends_with('k') => (digits, 1 << 10),
        Some(digits) => (digits, 1 << 20),
        None => (lower.as_str(), 1),
    };
    let size = digits.parse::<usize>().ok().and_then(|size| size.checked_mul(unit));
    match size {
        Some(size) if (LEAST..=MOST).contains(&size) => Ok(size),
        _ => Err("give 1k to 1024m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, is_ours, item_size};
    use clap::Parser;
    use std::ffi::OsStr;

    fn parse(words: &[&str]) -> Result<Args, String> {
        let line = std::iter::once("slabwise classes").chain(words.iter().copied());
        Args::try_parse_from(line).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_kept_and_told() {
        for count in ["1", "20", "63"] {
            let args = parse(&["--from-histogram", "f", "--classes", count]);
            assert_eq!(args.ok().and_then(|args| args.classes), count.parse().ok());
        }
        let cases: [(&[&str], &str); 10] = [
            (&["--classes", "0"], "give 1 to 63"),
            (&["--classes", "64"], "give 1 to 63"),
            (&["--classes", "-1"], "give 1 to 63"),
            (&["--classes", "ten"], "give 1 to 63"),
            (&["--from-server", "localhost"], "give HOST:PORT or unix:PATH"),
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
    fn options_of_the_server_are_left_to_it() {
        for ours in ["--from-server=a:1", "--from-histogram", "--json", "--classes", "--help"] {
            assert!(is_ours(OsStr::new(ours)), "{ours}");
        }
        for others in ["-f", "1.1", "-o", "--memory-limit=64", "--max-item-size", "-m64"] {
            assert!(!is_ours(OsStr::new(others)), "{others}");
        }
    }

    #[test]
    fn item_sizes_have_units() {
        assert_eq!(item_size("2m"), Ok(2 << 20));
        assert_eq!(item_size("512K"), Ok(512 << 10));
        assert_eq!(item_size("4096"), Ok(4096));
        assert!(item_size("1").is_err() && item_size("m").is_err() && item_size("é").is_err());
    }
}
