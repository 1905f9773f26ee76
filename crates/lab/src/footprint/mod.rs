//! Computes miss-ratio curves from footprints, in one pass over the reuse times.

mod local;
mod whole;

#[cfg(test)]
mod tests;

pub use local::LocalFootprint;
pub use whole::Footprint;
