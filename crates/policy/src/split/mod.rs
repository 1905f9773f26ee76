//! Splits: how many pages each class should have, by the classes' curves.
//!
//! ```text
//!   Snapshot --ClassCurve each--> best_split       exact, O(classes * pages^2); or in units of pages
//!                                 near_best_split  nearly, whatever the pages
//!                                 hull_split       exact where curves are convex, blind to cliffs
//!                                      |
//!                                      '--split--> moves: which pages go first
//! ```
//!
//! The cost of a split is the sum of its classes' misses, each times its class's cost of a miss above a hit.
//!
//! Invariants of every split: it has at most the given pages; each class has its `pages_min`; of equally cheap splits
//! it is the one nearest to the present, so that nothing moves without gain.

mod class_curve;
mod exact;
mod hull;
mod moves;
mod near;
mod what_if;

pub use class_curve::{ClassCurve, Objective, cost};
pub(crate) use class_curve::{class_curves, least_move_price};
pub use exact::best_split;
pub(crate) use exact::best_split_in_units;
pub(crate) use hull::{Size, hull, hull_split};
pub(crate) use moves::Moves;
pub use near::near_best_split;
pub(crate) use near::near_best_split_at;
pub(crate) use what_if::predict;
pub use what_if::{WhatIf, what_if};
