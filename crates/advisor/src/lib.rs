//! The advisor: chunk sizes for the items that a memcached holds.
//!
//! ```text
//!   server          (a running memcached or slabwise) --.                               .--> report (people)
//!                                                         >-- sizes, limits --> advice --+
//!   histogram_file  (text) ------------------------------'    policy::sizes     slab_sizes '--> JSON
//! ```
//!
//! Laws: nothing is changed on a server; what is wrong with a server or a file is one line on stderr that names
//! it and says what to do; every dialogue ends; the option that is printed is one that memcached takes.
//!
//! It is driven by the command line through [`main`].
#![forbid(unsafe_code)]

mod advice;
mod args;
mod cache;
mod error;
mod histogram;
mod report;
mod server;
mod sizes_seen;

#[cfg(test)]
mod tests;

pub use args::is_ours;

use advice::{Advice, Source};
use args::Args;
use cache::{Cache, Program};
use clap::Parser;
use error::AdvisorError;
use slabwise_base::memcached;
use slabwise_client::{ServerAddress, Timeouts};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Runs `slabwise classes` with the arguments after it, where one of them [`is_ours`].
pub fn main(args: Vec<OsString>) -> ExitCode {
    let line = std::iter::once(OsString::from("slabwise classes")).chain(args);
    let args = match Args::try_parse_from(line) {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => {
            // A reader that has left wants no more help.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&first_paragraph(&error.to_string())),
    };
    let advice = match (&args.from_server, &args.from_histogram) {
        (Some(server), _) => from_server(server, &args),
        (None, Some(file)) => from_histogram(file, &args),
        (None, None) => return fail("give --from-server or --from-histogram; see --help"),
    };
    match advice.and_then(|advice| printed(&advice, args.json)) {
        Ok(text) => print_last(&text),
        Err(error) => fail(&error.to_string()),
    }
}

fn printed(advice: &Advice, json: bool) -> Result<String, AdvisorError> {
    if json { Ok(serde_json::to_string(advice)? + "\n") } else { Ok(report::text(advice)) }
}

fn from_server(server: &ServerAddress, args: &Args) -> Result<Advice, AdvisorError> {
    let timeouts = Timeouts {
        connect: args.connect_timeout,
        read: args.read_timeout,
        reply: args.reply_timeout,
    };
    let observed = server::observe(server, timeouts, args.items_max)?;
    let state = observed.state;
    let source = Source {
        text: format!("{} of {server}", observed.how),
        version: Some(state.version),
        seen: observed.seen,
        present: state.table,
    };
    advice::advise(source, &state.cache, args.classes)
}

fn from_histogram(file: &Path, args: &Args) -> Result<Advice, AdvisorError> {
    let (item_size_max, chunk_size) = (args.item_size_max, args.chunk_size as usize);
    let largest = item_size_max.min(memcached::CHUNK_SIZE_BYTES_MAX);
    let cache = Cache::new(
        Program::Memcached,
        memcached::PAGE_SIZE_BYTES,
        largest,
        item_size_max,
        Some(chunk_size),
    );
    let source = Source {
        text: file.display().to_string(),
        version: None,
        seen: histogram::read(file, item_size_max)?,
        present: cache.geometric_table(args.growth_factor),
    };
    advice::advise(source, &cache, args.classes)
}

fn print_last(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("the advice cannot be printed: {error}")),
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("slabwise classes: {reason}");
    ExitCode::FAILURE
}

/// An argument error in one line.
fn first_paragraph(error: &str) -> String {
    let lines = error.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    let text = lines.collect::<Vec<_>>().join(" ");
    format!("{}; see slabwise classes --help", text.trim_start_matches("error: "))
}
