//! The advisor: recommends chunk sizes for the items in a memcached.
//!
//! ```text
//!   server          (a running memcached or slabwise) --.                               .--> report (text)
//!                                                         >-- sizes, limits --> advice --+
//!   histogram       (text) ------------------------------'    policy::sizes     slab_sizes '--> JSON
//! ```
//!
//! Invariants:
//! - The advisor changes nothing on a server.
//! - An error is one line on stderr with the server or file and the remedy.
//! - Every connection has timeouts.
//! - memcached accepts the printed option.
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

use advice::Advice;
use args::Args;
use cache::{Cache, Program};
use error::AdvisorError;
use sizes_seen::Source;
use slabwise_base::memcached;
use slabwise_client::{ServerAddress, Timeouts};
use slabwise_text::command;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Runs `slabwise classes` with the arguments after it, if for one of them [`is_ours`] is true.
pub fn main(args: Vec<OsString>) -> ExitCode {
    command::answer("slabwise classes", "advice", args, |args: &Args| {
        let advice = match (&args.from_server, &args.from_histogram) {
            (Some(server), _) => from_server(server, args),
            (None, Some(file)) => from_histogram(file, args),
            (None, None) => {
                return Err("give --from-server or --from-histogram; see --help".to_owned());
            }
        };
        let printed = advice.and_then(|advice| match args.json {
            true => Ok(serde_json::to_string(&advice)? + "\n"),
            false => Ok(report::text(&advice)),
        });
        printed.map_err(|error| error.to_string())
    })
}

fn from_server(server: &ServerAddress, args: &Args) -> Result<Advice, AdvisorError> {
    let timeouts = Timeouts {
        connect: args.connect_timeout,
        read: args.read_timeout,
        reply: args.reply_timeout,
    };
    let (source, state) = server::observe(server, timeouts, args.items_max)?;
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
        current: cache.geometric_table(args.growth_factor),
    };
    advice::advise(source, &cache, args.classes)
}
