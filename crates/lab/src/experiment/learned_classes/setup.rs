//! The kind `learned-classes`, as its file tells it.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedClassesSetup {
    /// Items of each distribution.
    pub items: u64,
    /// Climbs from each kind of start.
    pub restarts: u64,
    /// Of the items, so many MiB are stored where pages are counted.
    pub stored_mib: u64,
    pub table: TableSetup,
    pub distributions: Vec<DistributionSetup>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSetup {
    pub first_bytes: usize,
    pub factor: f64,
    pub chunk_size_kib_max: usize,
    pub page_size_kib: usize,
    pub align_bytes: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistributionSetup {
    pub name: String,
    pub mean_bytes: f64,
    pub sd_bytes_printed: f64,
    pub old_sizes: Vec<usize>,
    /// The new ones; none where they cannot be read.
    #[serde(default)]
    pub new_sizes: Vec<usize>,
}
