//! Tests that cover several or all policies.

mod costs;
mod invariants;
mod options;
mod shift;
