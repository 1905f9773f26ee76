//! The page mover: empties a page of one class, the victim, and gives it to another class, the receiver, or to the page
//! pool.
//!
//! ```text
//!   idle --reassign--> a page of the victim is chosen, and begins to move
//!          --step--> some chunks of the page are emptied, by the rules of the kind of mover (`kinds/`)
//!          --step--> ...
//!          --step--> the page is empty, and is given to the receiver or to the page pool
//! ```
//!
//! Invariants:
//!
//! - Between two steps, the mover holds no lock on the cache's data.
//! - The mover never waits. A step returns the time until the next step is due.
//! - A chunk that cannot be emptied is visited again. If no chunk was emptied for a time that depends on the kind of
//!   mover, the move is given up, and the page stays in its class.
//! - While a page moves, no chunk of the page is allocated. The published kinds `base` and `fast` are exceptions.

mod job;
mod kinds;
mod moves;
#[cfg(all(test, not(loom)))]
mod tests;

pub use kinds::{MOVER_NAMES, mover_kind};
pub use moves::{MOVE_RECORDS_MAX, MoveOutcome, MoveRecord, Mover, MoverStep, ReassignError};
