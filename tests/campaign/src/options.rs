//! The arguments of the program.

use clap::Parser;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Send random requests to a server, inject faults, and check every reply.
#[derive(Clone, Debug, Parser, PartialEq, Eq)]
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
    /// Memory limit of the server in MiB (-m) [default: random]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    pub memory: Option<u64>,
    /// Interface by which the server waits, receives and sends (-o io) [default: random]
    #[arg(long, value_name = "KIND", value_parser = ["epoll", "io_uring", "auto"])]
    pub io: Option<String>,
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
    /// Only faults whose name contains this text; with !TEXT, only faults whose name does not contain it [default: all]
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

impl Options {
    /// Returns the arguments that repeat a run with this program and seed from this server on. The defaults are left
    /// out, except that of the duration.
    pub fn to_repeat(&self, program: &Path, seed: u64, first_server: u64) -> Vec<String> {
        let default = Options::parse_from(["campaign"]);
        let mut arguments = vec!["--server".to_owned(), program.display().to_string()];
        let mut add = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        // Without `..`, the compiler notices that a new option is missing here.
        let Options {
            server: _,
            seed: _,
            duration,
            memory,
            io,
            rounds,
            server_rounds,
            first_server: _,
            huge_one_in,
            reply_timeout,
            faults,
            clients,
            fault_threads,
            ignore_memory,
            slow_factor,
        } = self;
        add("seed", seed.to_string());
        add("duration", format!("{}s", duration.as_secs()));
        let mut add_changed = |name: &str, value: String, default: String| {
            if value != default {
                add(name, value);
            }
        };
        add_changed("server-rounds", server_rounds.to_string(), default.server_rounds.to_string());
        add_changed("first-server", first_server.to_string(), default.first_server.to_string());
        let seconds = |time: Duration| format!("{}s", time.as_secs());
        add_changed("reply-timeout", seconds(*reply_timeout), seconds(default.reply_timeout));
        add_changed("faults", faults.clone(), default.faults);
        add_changed("clients", clients.to_string(), default.clients.to_string());
        add_changed("fault-threads", fault_threads.to_string(), default.fault_threads.to_string());
        add_changed("slow-factor", slow_factor.to_string(), default.slow_factor.to_string());
        memory.iter().for_each(|mib| add("memory", mib.to_string()));
        io.iter().for_each(|kind| add("io", kind.clone()));
        rounds.iter().for_each(|rounds| add("rounds", rounds.to_string()));
        huge_one_in.iter().for_each(|number| add("huge-one-in", number.to_string()));
        if *ignore_memory {
            arguments.push("--ignore-memory".to_owned());
        }
        arguments
    }
}

/// Returns the arguments as a part of a command line of a shell.
pub fn command_line(arguments: &[String]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let quote = |argument: &String| match !argument.is_empty() && argument.bytes().all(is_plain) {
        true => argument.clone(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    };
    arguments.iter().map(quote).collect::<Vec<_>>().join(" ")
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

#[cfg(test)]
mod tests {
    use super::{Options, command_line};
    use clap::Parser;
    use std::path::Path;

    /// Parses these arguments, and those that repeat the run from this server on.
    fn parse_and_repeat(arguments: &str, first_server: u64) -> (Options, Vec<String>) {
        let options = Options::parse_from(arguments.split('/'));
        let repeated = options.to_repeat(Path::new("a b"), 7, first_server);
        (options, repeated)
    }

    #[test]
    fn a_run_is_repeated_with_every_option() {
        let given = "campaign/--server/a b/--seed/7/--duration/2m/--memory/64/--rounds/5/--server-rounds/0\
                     /--first-server/3/--io/io_uring/--huge-one-in/9/--reply-timeout/30s/--faults/warm restart/--clients/2\
                     /--fault-threads/0/--ignore-memory/--slow-factor/10";
        let (options, repeated) = parse_and_repeat(given, 3);
        let name = "campaign".to_owned();
        assert_eq!(Options::parse_from(std::iter::once(&name).chain(&repeated)), options);
        let (_, repeated) = parse_and_repeat(given, 4);
        assert_eq!(Options::parse_from(std::iter::once(&name).chain(&repeated)).first_server, 4);
    }

    #[test]
    fn an_invalid_memory_limit_is_refused() {
        for memory in ["64m", "random", "7", "-1"] {
            let argument = format!("--memory={memory}");
            assert!(Options::try_parse_from(["campaign", &argument]).is_err(), "{memory}");
        }
    }

    #[test]
    fn defaults_are_left_out_and_arguments_are_quoted_for_a_shell() {
        let (_, repeated) = parse_and_repeat("campaign", 0);
        assert_eq!(command_line(&repeated), "--server 'a b' --seed 7 --duration 60s");
        assert_eq!(command_line(&["it's".to_owned(), String::new()]), r"'it'\''s' ''");
    }
}
