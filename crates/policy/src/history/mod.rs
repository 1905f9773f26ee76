//! The data about each class that policies keep from step to step.

pub(crate) mod changes;
pub(crate) mod costs;
pub(crate) mod filling;
pub(crate) mod per_class;
