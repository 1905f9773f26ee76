//! Partitions of pages among classes, computed from the classes' miss-ratio curves.
//!
//! ```text
//!   Snapshot --ClassCurve each--> best_partition       exact, O(classes * pages^2); or in units of pages
//!                                 near_best_partition  nearly exact, for any number of pages
//!                                 hull_partition       exact for convex curves, does not see cliffs
//!                                      |
//!                                      '--partition--> moves: which pages move first
//! ```
//!
//! The cost of a partition is the sum over all classes of the misses times the class's miss cost. The miss cost is the
//! cost of a miss minus the cost of a hit.
//!
//! Invariants of every computed partition: it has at most the given number of pages, and each class has at least its
//! `pages_min`. Of several partitions with the same cost, `best_partition` and `near_best_partition` return the one
//! nearest to the current partition, so no page moves without gain.

mod class_curve;
mod exact;
mod hull;
mod moves;
mod near;
mod what_if;

pub use class_curve::{ClassCurve, Objective, cost};
pub(crate) use class_curve::{class_curves, least_move_cost};
pub use exact::best_partition;
pub(crate) use exact::best_partition_in_units;
pub(crate) use hull::{Size, hull, hull_partition};
pub(crate) use moves::Moves;
pub use near::near_best_partition;
pub(crate) use near::near_best_partition_at;
pub(crate) use what_if::predict;
pub use what_if::{WhatIf, what_if};
