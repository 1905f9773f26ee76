//! The kind `learned-classes`, as its file tells it.

use serde::Deserialize;

/// Chunk sizes that learn, on published distributions of sizes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedClassesSetup {
    /// Items of each distribution.
    pub items: u64,
    /// Climbs from each kind of start.
    pub restarts: u64,
    /// Of the items, so many MiB are stored where pages are counted.
    pub stored_mib: u64,
    /// The old table.
    pub table: TableSetup,
    /// The sizes of items.
    pub distributions: Vec<DistributionSetup>,
}

/// memcached's table, and its pages.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSetup {
    /// The least chunk in bytes.
    pub first_bytes: usize,
    /// The growth factor.
    pub factor: f64,
    /// The largest chunk in KiB.
    pub chunk_size_kib_max: usize,
    /// A page in KiB.
    pub page_size_kib: usize,
    /// What sizes are rounded up to.
    pub align_bytes: usize,
}

/// One distribution, as printed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistributionSetup {
    /// What its rows are called.
    pub name: String,
    /// The mean in bytes.
    pub mean_bytes: f64,
    /// The standard deviation in bytes.
    pub sd_bytes_printed: f64,
    /// The old sizes in use.
    pub old_sizes: Vec<usize>,
    /// The new ones; none where they cannot be read.
    #[serde(default)]
    pub new_sizes: Vec<usize>,
}
