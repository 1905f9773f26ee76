//! `slabwise steer`: moves the pages of a running memcached from outside.
//!
//! ```text
//!   run: the driver ----> observer: reads statistics --> steerer: decides, without a clock or a connection
//!     |                                                    |-- curves: miss-ratio curves from the hits of COLD
//!     |-- dialogue: orders page moves                      |-- policy (crate policy): a plan of page moves
//!     |-- keeper:   the automover's mode, in saved         |-- trials: the effect of moves; goal: a split to reach
//!     |                                                    |-- shift: notices other traffic
//!     '-- journal, figures, metrics                        '-- rival, budget: other steerers, rate limit
//! ```
//!
//! Invariants:
//! - At the end, the automover has the mode that it had at the start. If the process cannot restore it, the state file
//!   has the mode, and the next start or `--restore` restores it.
//! - The server is changed by `slabs automove` and `slabs reassign` only.
//! - Every connection has a connect timeout, a read timeout and a reply timeout.
//! - With `--dry-run`, nothing is changed.
//!
//! docs/steer.md describes the command for operators.
#![forbid(unsafe_code)]

mod args;
mod budget;
mod curves;
mod dialogue;
mod due;
mod error;
mod figures;
mod goal;
mod journal;
mod keeper;
mod metrics;
mod rival;
mod run;
mod saved;
mod shift;
mod split;
mod steerer;
#[cfg(test)]
mod testing;
mod tracked;
mod trial;
mod trials;
mod waiting;
mod wording;

pub use args::default_policy;
pub use curves::ColdHits;
pub use goal::{GoalEnd, Purpose};
pub use shift::Shift;
pub use split::{Order, Split};
pub use steerer::{Decision, Event, Limits, Round, Steerer};
pub use trial::{Effect, Verdict};

use args::Args;
use error::SteerError;
use slabwise_text::command;
use std::ffi::OsString;
use std::process::ExitCode;

/// The name of the command, as errors show it.
const COMMAND: &str = "slabwise steer";
/// The exit code if the arguments are invalid.
const INVALID_ARGUMENTS: u8 = 2;
/// The exit code if somebody must decide before the next start ([`SteerError::needs_decision`]). The systemd unit names it.
const NEEDS_DECISION: u8 = 3;

/// Runs `slabwise steer`. `args` are the arguments after `steer`.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let args = match command::parse::<Args>(COMMAND, args, ExitCode::from(INVALID_ARGUMENTS)) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let done = if args.restore {
        restore(&args)
    } else {
        yield_to_server();
        run::Driver::new(&args).and_then(|mut it| it.run())
    };
    let needs_decision = done.as_ref().is_err_and(SteerError::needs_decision);
    let code = command::finish(COMMAND, done.map_err(|error| format!("{}: {error}", args.server)));
    if needs_decision { ExitCode::from(NEEDS_DECISION) } else { code }
}

/// Gives this process, and the threads that it starts later, the lowest priority: a server on the same machine must not wait
/// for a step of the policy, which takes some milliseconds.
fn yield_to_server() {
    const LOWEST_PRIORITY: i32 = 19;
    // An error is ignored: the systemd unit sets the priority itself, and refuses this call.
    let _ = rustix::process::nice(LOWEST_PRIORITY);
}

/// Restores the mode of the automover that the state file has, unless this is a dry run.
fn restore(args: &Args) -> Result<(), SteerError> {
    let mut keeper = run::keeper(args)?;
    if !keeper.has_changed_mode() {
        println!("the automover needs no restoration: the state file has no former mode");
        return Ok(());
    }
    if args.dry_run {
        println!("the automover needs a restoration: run this command without --dry-run");
        return Ok(());
    }
    let connector = args.connector().map_err(SteerError::Security)?;
    println!("{}", run::give_back(&connector, &mut keeper)?);
    Ok(())
}
