//! Tests of every policy by its name.

mod costs;
mod invariants;
mod options;
mod shift;
