//! Page policies: they decide which page moves from which class to which.
//!
//! ```text
//!   engine --> Snapshot --> PagePolicy::step --> Plan --> page mover
//!                               ^  |
//!                               '--' its own state
//! ```
//!
//! A policy is a pure state machine. Its plan depends only on the snapshots it has seen, its own state and the random
//! generator. It has no clock, no globals and no access to a cache, so the server and the lab (on virtual time) run
//! the same code.
//!
//! Invariants of every policy:
//!
//! - one caller steps it at its [`Trigger`], in order of time;
//! - the moves of a plan are carried out, or dropped, before the next step;
//! - a move's victim and receiver differ, and a plan takes no more pages from a class than it owns; only Twemcache's
//!   policies take the last page of a class that holds items;
//! - classes may change from step to step and come in any order of their numbers; retired classes are not among them,
//!   as the engine drains their pages without a policy.
//!
//! [`sizes`] finds the chunk sizes that waste the least memory for given item sizes. Other modules empty pages (the
//! engine's mover) and schedule steps (`tuner`).
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
