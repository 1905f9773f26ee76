//! Partitions of pages: how many pages each class should have, by the classes' miss-ratio curves.
//!
//! ```text
//!   Snapshot --ClassCurve each--> best_split       exact, O(classes * pages^2); or in units of pages
//!                                 near_best_split  nearly exact, for any number of pages
//!                                 hull_split       exact for convex curves, does not see cliffs
//!                                      |
//!                                      '--split--> moves: which pages move first
//! ```
//!
//! The cost of a partition is the sum over its classes of the misses, times the class's cost of a miss above a hit.
//!
//! Invariants of every partition: it has at most the given pages; each class has its `pages_min`; among equally cheap
//! partitions it is the one nearest to the current one, so that nothing moves without gain.

mod class_curve;
mod exact;
mod hull;
mod moves;
mod near;
mod what_if;

pub use class_curve::{ClassCurve, Objective, cost};
pub(crate) use class_curve::{class_curves, least_move_cost};
pub use exact::best_split;
pub(crate) use exact::best_split_in_units;
pub(crate) use hull::{Size, hull, hull_split};
pub(crate) use moves::Moves;
pub use near::near_best_split;
pub(crate) use near::near_best_split_at;
pub(crate) use what_if::predict;
pub use what_if::{WhatIf, what_if};
