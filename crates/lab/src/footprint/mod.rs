//! Computes the miss-ratio curve of an LRU from footprints, in one pass over the references.

mod local;
mod whole;

#[cfg(test)]
mod tests;

pub use local::LocalFootprint;
pub use whole::Footprint;
