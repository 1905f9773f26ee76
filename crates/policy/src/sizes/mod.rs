//! Class tables: the chunk sizes that waste the least memory for given item sizes.
//!
//! ```text
//!   bins of sizes --Demand--> parts of items, rounded up (chained items are divided as the cache does)
//!                               |
//!        loss <-----------------+-----> geometric    memcached's table, independent of the items
//!        of any table           |       hill_climb   one size and step at a time (Jai and Das, 2020)
//!                               |       exact        the best table of each number of classes
//!                               '-----> exact_change the best table for a cache that already holds items
//!                                           '-----> fill_gaps  sizes for items that are not yet known
//! ```
//!
//! [`Method`] selects between the exact tables and hill climbing. [`SizeLearner`] decides when a running cache should change its table, and to which table.
//!
//! A chunk of c bytes on pages of P bytes takes P / floor(P / c) bytes: its own bytes and its share of the unused end
//! of the page. A part of an item is stored in the smallest chunk that holds it. The *loss* of a table is the bytes
//! that the chunks of all parts take, minus the bytes of the items.
//!
//! Invariants:
//!
//! - a table ascends, is within the layout's limits, and ends with the largest chunk, which holds every part;
//! - no table with at most the same number of classes has a lower loss than the table of [`exact`], and more classes do
//!   not increase the loss of [`exact`]'s table;
//! - [`exact_change`] returns the current table unless another table is better by more than the change costs;
//! - results depend only on the arguments and, in [`hill_climb`], on the seed of the random generator.

mod change;
mod error;
mod exact;
mod gaps;
mod geometric;
mod hill_climb;
mod layers;
mod layout;
mod learner;
mod method;
mod parts;
#[cfg(test)]
mod testing;
mod values;

pub use change::{Change, ChangePrices, climbed_change, exact_change};
pub use error::SizesError;
pub use exact::{BestTable, ExactTables, exact};
pub use gaps::fill_gaps;
pub use geometric::geometric;
pub use hill_climb::{HillClimb, HillClimbOptions, hill_climb};
pub use layout::{Chaining, ChunkLayout};
pub use learner::{LearnerOptions, SizeEvaluation, SizeLearner, SizeSnapshot, Waiting};
pub use method::Method;
pub use parts::{Demand, Loss, loss};
pub use values::valued;
