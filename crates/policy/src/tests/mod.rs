//! Tests of every policy by name.

mod costs;
mod invariants;
mod options;
mod shift;
