//! Page policies: they decide which page moves from which class to which.
//!
//! ```text
//!   engine --> Snapshot --> PagePolicy::step --> Plan --> page mover
//!                               ^  |
//!                               '--' its own state
//! ```
//!
//! A policy is a pure state machine. Its plan depends only on the snapshots that it has received, its own state and
//! the random generator. A policy has no clock, no globals and no access to a cache, so the server and the lab (on
//! virtual time) run the same code.
//!
//! Invariants of every policy:
//!
//! - a single caller steps the policy each time its [`Trigger`] fires, and the times of the snapshots never decrease;
//! - the caller carries out or drops the moves of a plan before the next step;
//! - the victim and the receiver of a move differ, unless the plan names the page, and a plan takes no more pages from a
//!   class than the class owns;
//! - a class that holds items keeps its last page, except under Twemcache's policies;
//! - a snapshot may have other classes than the previous snapshot, and class numbers can be in any order. A snapshot
//!   has no retired classes: the engine drains their pages without a policy.
//!
//! [`sizes`] finds the chunk sizes that waste the least memory for given item sizes. Two tasks are in other crates: the
//! engine's mover empties the pages, and the crate `tuner` decides when a step is due.
#![forbid(unsafe_code)]

mod history;
mod options;
mod page;
pub mod partition;
mod plan;
mod policy;
mod registry;
pub mod sizes;
mod snapshot;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use options::{OptionInfo, PolicyOptionError};
pub use plan::{PageMove, Plan, Prediction, QueueSplit};
pub use policy::{Inputs, Trigger};
pub use registry::PagePolicy;
pub use slabwise_profile::ClassProfile;
pub use snapshot::{ClassSnapshot, PageSnapshot, Snapshot};
