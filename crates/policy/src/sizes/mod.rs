//! Class tables: which chunk sizes lose least memory for the sizes that items have.
//!
//! ```text
//!   bars of sizes --Demand--> parts of items, rounded up (chained ones cut as the cache cuts them)
//!                               |
//!        loss <-----------------+-----> geometric    memcached's table, blind to the items
//!        of any table           |       hill_climb   one size a step at a time (Jai and Das, 2020)
//!                               |       exact        the best table of each number of classes
//!                               '-----> exact_change what a cache that holds items already should change to
//!                                           '-----> fill_gaps  sizes for items that are not yet known
//! ```
//!
//! [`SizeLearner`] decides when a cache that serves should change, and to what.
//!
//! A chunk of c bytes on pages of P bytes takes P / floor(P / c) bytes: itself and its share of the page's end. A table
//! *loses* what the chunks of all parts take, less the bytes of the items. A part is in the least chunk that holds it.
//!
//! Invariants: a table ascends, is within the layout's limits, and ends with its largest chunk, so that every part
//! fits; no table of at most as many classes loses less than [`exact`]'s, which loses no more with more classes;
//! [`exact_change`] returns the present table unless another is better by more than the change costs; results follow
//! from the arguments and, in [`hill_climb`], from the seed.

mod change;
mod error;
mod exact;
mod gaps;
mod geometric;
mod hill_climb;
mod layers;
mod layout;
mod learner;
mod parts;
#[cfg(test)]
mod testing;
mod values;

pub use change::{Change, ChangePrices, exact_change};
pub use error::SizesError;
pub use exact::{BestTable, ExactTables, exact};
pub use gaps::fill_gaps;
pub use geometric::geometric;
pub use hill_climb::{HillClimb, HillClimbOptions, hill_climb};
pub use layout::{Chaining, ChunkLayout};
pub use learner::{LearnerOptions, Lesson, SizeLearner, SizeSnapshot, Waiting};
pub use parts::{Demand, Loss, loss};
pub use values::valued;
