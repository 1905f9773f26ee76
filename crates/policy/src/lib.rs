//! Which page should move where.
//!
//! ```text
//!   engine --> Snapshot --> PagePolicy::step --> Plan --> page mover
//!                               ^  |
//!                               '--' its own state
//! ```
//!
//! A policy is a pure state machine: what it answers follows from the snapshots it was given, its own
//! state and the generator, and from nothing else. It has no clock, no globals and no handle to a
//! cache. So one policy runs in the server, and in the lab on virtual time.
//!
//! Invariants of every policy:
//!
//! - it is stepped at its [`Trigger`], by one caller, in the order of time;
//! - a plan's moves are carried out, or dropped, before the next step;
//! - a plan never has a class as its own receiver, and never takes more pages from a class than it
//!   owns; the last page of a class that holds items it takes only under Twemcache's policies;
//! - the classes may be others from step to step, and in any order of their numbers; retired ones are not
//!   among them: their pages leave without any policy's help.
//!
//! Beside these, [`sizes`]: which chunk sizes lose least memory for the sizes that items have.
//!
//! What is not here: how a page is emptied (the engine's mover) and when steps are made (`tuner`).
#![forbid(unsafe_code)]

mod history;
mod options;
mod page;
mod plan;
mod policy;
mod registry;
pub mod sizes;
mod snapshot;
pub mod split;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use options::{OptionInfo, PolicyOptionError};
pub use plan::{PageMove, Plan, Prediction};
pub use policy::{Trigger, Wants};
pub use registry::PagePolicy;
pub use slabwise_profile::ClassProfile;
pub use snapshot::{ClassSnapshot, Snapshot};
