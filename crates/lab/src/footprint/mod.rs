//! Miss-ratio curves from footprints: from reuse times alone, in one pass.

mod local;
mod whole;

#[cfg(test)]
mod tests;

pub use local::LocalFootprint;
pub use whole::Footprint;
