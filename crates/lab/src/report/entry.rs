//! A result for which a report was written.

use crate::result::{Outcome, Spec};
use std::path::PathBuf;

pub struct Entry<'s> {
    pub spec: &'s Spec,
    pub outcome: Outcome,
    /// Path of the report, relative to the folder of the index.
    pub page: PathBuf,
}
