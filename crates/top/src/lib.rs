//! `slabwise top`: a terminal view of slabwise and memcached servers.
//!
//! ```text
//!   poll: one thread per server --> channel --> screen: the loop of the view --> state <-- keys
//!     reads rows of `stats`                                                        |
//!     sample: rows as typed values                                                 v
//!                                                                                view: draws the state
//!   once: two samples of each server --> tables, or json
//!   pool: all servers --> their sums, and the servers that differ from the others
//! ```
//!
//! - Drawing never waits for a server: a server has its own thread, and its timeouts are 2 seconds.
//! - A rate is the difference of a counter in two samples (`rates`). After a restart of the server there is no rate.
//! - The view is a function of the state, and the state changes only by updates and keys, so tests need no terminal.
//!
//! The module `json` documents the JSON document. `docs/top.md` describes the command for users.
#![forbid(unsafe_code)]

mod args;
mod columns;
#[cfg(test)]
mod examples;
mod json;
mod keys;
mod numbers;
mod once;
mod poll;
mod pool;
mod rates;
mod sample;
mod screen;
mod server;
mod state;
mod view;

use args::Args;
use slabwise_client::Connector;
use slabwise_text::command;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// The name of the command, as errors show it.
const COMMAND: &str = "slabwise top";
/// The exit code if the arguments are invalid, or if a list of servers cannot be read.
const INVALID_ARGUMENTS: u8 = 2;

/// Runs `slabwise top`. `args` are the arguments after `top`.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let args = match command::parse::<Args>(COMMAND, args, ExitCode::from(INVALID_ARGUMENTS)) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let connectors = match args.connectors() {
        Ok(connectors) => connectors,
        Err(reason) => {
            command::finish(COMMAND, Err(reason));
            return ExitCode::from(INVALID_ARGUMENTS);
        }
    };
    if args.once {
        return print_once(&args, &connectors);
    }
    if !std::io::stdout().is_terminal() {
        let reason = "stdout is not a terminal; use --once to print two samples";
        return command::finish(COMMAND, Err(reason));
    }
    let shown = screen::run(&args, &connectors);
    command::finish(COMMAND, shown.map_err(|error| format!("cannot use the terminal: {error}")))
}

/// Prints two samples of each server. The exit code is 1 if a server could not be read.
fn print_once(args: &Args, servers: &[Connector]) -> ExitCode {
    let printed = once::run(args, servers).and_then(|output| {
        let written = std::io::stdout().write_all(output.text.as_bytes());
        written.map_err(|error| format!("cannot print the samples: {error}"))?;
        Ok(output.all_read)
    });
    match printed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => command::finish(COMMAND, Err(reason)),
    }
}
