//! The page mover: empties a page of one class and hands it to another, or to the pool.
//!
//! ```text
//!   idle --reassign--> a page of the victim is chosen
//!          --step--> some of its chunks are visited; how they are emptied is the kind's business (`kinds/`)
//!          --step--> the page is empty: it goes to the receiver, or to the pool
//! ```
//!
//! Invariants: between steps the mover holds no lock; it never waits, but says how long to rest before its
//! next step; chunks that are held are met again, and when nothing has moved for as long as the kind allows,
//! the page is given back. But for the published kinds, a page that drains hands out nothing from its lists.

mod job;
mod kinds;
mod moves;
#[cfg(all(test, not(loom)))]
mod tests;

pub use kinds::{MOVER_NAMES, mover_kind};
pub use moves::{MOVE_RECORDS_MAX, MoveOutcome, MoveRecord, Mover, MoverStep, ReassignError};
