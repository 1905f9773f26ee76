//! What came of all trials.

use super::setup::Variant;
use crate::trial::class_curves::Bound;
use crate::trial::course::Course;
use std::collections::BTreeMap;

/// What came of a trial.
pub struct Finding<'s> {
    /// The variant.
    pub variant: &'s Variant,
    /// The memory limit in MiB.
    pub memory_mib: u64,
    /// Why there is nothing, where there is nothing.
    pub course: Result<Course, String>,
}

/// All that was found.
pub struct Findings<'s> {
    /// By variant and memory limit.
    pub trials: Vec<Finding<'s>>,
    /// By memory limit in MiB.
    pub bounds: BTreeMap<u64, Bound>,
}
