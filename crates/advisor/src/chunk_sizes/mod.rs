//! The advisor: recommends chunk sizes for the items that a memcached or slabwise stores.
//!
//! ```text
//!   server: asks a running server ---.                                  .--> report: text
//!                                    +-- item sizes, limits --> advice --+
//!   histogram: reads a text file ----'                                  '--> JSON
//! ```
//!
//! Invariants:
//! - The advisor changes nothing on a server.
//! - An error is one line on stderr that names the server or the file, and the remedy.
//! - Every connection has timeouts.
//! - memcached accepts the printed option `-o slab_sizes`.

pub(crate) mod advice;
mod args;
pub(crate) mod cache;
pub(crate) mod error;
mod histogram;
mod report;
pub(crate) mod server;
pub(crate) mod sizes_seen;

#[cfg(test)]
mod tests;

pub use args::is_ours;
pub use histogram::{Form, HistogramLine, parse as parse_histogram_line};
pub use server::parse_metadump_line;

use advice::Advice;
use args::Args;
use cache::{Cache, Program};
use error::AdvisorError;
use sizes_seen::Source;
use slabwise_base::memcached;
use slabwise_client::ServerAddress;
use slabwise_text::command;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Runs `slabwise classes --from-server` or `slabwise classes --from-histogram`. `args` are the arguments after
/// `classes`. The caller has checked that [`is_ours`] is true for one of them.
pub fn main(args: Vec<OsString>) -> ExitCode {
    command::answer("slabwise classes", "advice", args, |args: &Args| {
        let advice = match (&args.from_server, &args.from_histogram) {
            (Some(server), _) => from_server(server, args),
            (None, Some(file)) => from_histogram(file, args),
            (None, None) => {
                return Err(
                    "no input: give --from-server or --from-histogram; see --help".to_owned()
                );
            }
        };
        let printed = advice.and_then(|advice| match args.json {
            true => Ok(serde_json::to_string(&advice)? + "\n"),
            false => Ok(report::text(&advice)),
        });
        printed.map_err(|error| error.to_string())
    })
}

/// Returns the advice for the items of a running server.
fn from_server(server: &ServerAddress, args: &Args) -> Result<Advice, AdvisorError> {
    let connector = args.connector(server).map_err(AdvisorError::Security)?;
    let (source, state) = server::observe(&connector, args.items_max)?;
    advice::advise(source, &state.cache, args.choice()?)
}

/// Returns the advice for the item sizes in a text file.
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
        current: cache.geometric_table(args.growth_factor),
    };
    advice::advise(source, &cache, args.choice()?)
}
