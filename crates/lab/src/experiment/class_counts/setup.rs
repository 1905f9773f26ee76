//! The kind `class-counts`, as its file tells it.

use crate::trial::setup::{AnswerSetup, CacheSetup, Stretch, TimeSetup, WorkloadSetup};
use serde::Deserialize;

/// The best tables of several numbers of classes, and others beside them, on some workloads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassCountsSetup {
    /// The numbers of classes that tables are made for, ascending.
    pub class_counts: Vec<usize>,
    /// Tables that know nothing of the items.
    pub geometric: Vec<GeometricSetup>,
    /// What a class is tried to cost in the prediction, in pages.
    pub class_prices_pages: Vec<f64>,
    /// The page policy; `warm` moves the pages.
    pub policy: String,
    /// Stretches of equal length for which miss ratios are kept.
    pub windows: u64,
    /// What the mover is charged for a visit to a chunk, in nanoseconds.
    pub visit_ns: f64,
    /// How long answers take.
    pub answer: AnswerSetup,
    /// The time.
    pub time: TimeSetup,
    /// The workloads, each with its cache.
    pub streams: Vec<StreamSetup>,
}

/// A geometric table, beginning where memcached's or slabwise's begins.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometricSetup {
    /// What its rows are called.
    pub name: String,
    /// The least chunk, in bytes.
    pub first_bytes: usize,
    /// The growth factor.
    pub factor: f64,
}

/// A workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSetup {
    /// What its rows are called.
    pub name: String,
    /// The first requests, at scale 1, from which tables are made and curves take their start.
    pub training_requests: u64,
    /// Those that show what a table comes to.
    pub steady: Stretch,
    /// The requests.
    pub workload: WorkloadSetup,
    /// The cache; its chunk sizes are those by which pages of a small run are cut, the tables' own take their place.
    pub cache: CacheSetup,
}
