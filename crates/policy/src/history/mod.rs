//! What policies remember of classes from step to step.

pub(crate) mod changes;
pub(crate) mod costs;
pub(crate) mod per_class;
