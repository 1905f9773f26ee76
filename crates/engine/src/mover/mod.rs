//! The page mover: empties a page of one class and hands it to another, or to the pool.
//!
//! ```text
//!   idle --reassign--> a page of the victim is chosen
//!          --step--> some of its chunks are emptied, in the way of the mover's kind (`kinds/`)
//!          --step--> the page is empty: it moves to the receiver, or to the pool
//! ```
//!
//! Invariants: between steps the mover holds no lock; it never waits, but returns how long to rest before the
//! next step; chunks that are in use are visited again, and if nothing has moved for as long as the kind allows,
//! the page returns to its class. Except under the published kinds, a page that drains hands out no chunk.

mod job;
mod kinds;
mod moves;
#[cfg(all(test, not(loom)))]
mod tests;

pub use kinds::{MOVER_NAMES, mover_kind};
pub use moves::{MOVE_RECORDS_MAX, MoveOutcome, MoveRecord, Mover, MoverStep, ReassignError};
