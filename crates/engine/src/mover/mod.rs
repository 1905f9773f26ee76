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
//! A step runs in a background thread, or in a store that needs the page (`help.rs`).
//!
//! Invariants:
//!
//! - Between two steps, the mover holds no lock on the cache's data.
//! - The mover never sleeps. A step returns the time until the next step is due.
//! - A chunk that cannot be emptied is visited again. If a move empties no chunk and neither evicts nor carries an item
//!   for a time that depends on the kind of mover, the mover gives it up, and the page stays in its class.
//! - While a page moves, no free chunk of the page is allocated. A store may still reuse the chunk of an item that it
//!   evicts from the page. The kinds `base` and `fast` are exceptions: under them, stores may allocate free chunks of
//!   the page, too.

mod help;
mod job;
mod kinds;
mod moves;
mod plan;
#[cfg(all(test, not(loom)))]
mod tests;

pub use kinds::{MOVER_NAMES, mover_kind};
pub use moves::{MOVE_RECORDS_MAX, MoveOutcome, MoveRecord, Mover, MoverStep};
pub use plan::{BegunMove, PlannedMove, ReassignError};
