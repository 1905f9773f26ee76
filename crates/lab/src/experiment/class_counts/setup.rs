//! The kind `class-counts`, as its file tells it.

use crate::trial::setup::{AnswerSetup, CacheSetup, Stretch, TimeSetup, WorkloadSetup};
use serde::Deserialize;

/// The best tables of several numbers of classes, and others beside them, on some workloads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassCountsSetup {
    /// The numbers of classes that tables are made for, ascending.
    pub class_counts: Vec<usize>,
    pub geometric: Vec<GeometricSetup>,
    /// What a class is tried to cost in the prediction, in pages.
    pub class_prices_pages: Vec<f64>,
    /// The page policy; `warm` moves the pages.
    pub policy: String,
    /// Stretches of equal length for which miss ratios are kept.
    pub windows: u64,
    /// What the mover is charged for a visit to a chunk, in nanoseconds.
    pub visit_ns: f64,
    pub answer: AnswerSetup,
    pub time: TimeSetup,
    /// The workloads, each with its cache.
    pub streams: Vec<StreamSetup>,
}

/// A geometric table, beginning where memcached's or slabwise's begins.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometricSetup {
    pub name: String,
    pub first_bytes: usize,
    pub factor: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSetup {
    pub name: String,
    /// The first requests, at scale 1, from which tables are made and curves take their start.
    pub training_requests: u64,
    pub steady: Stretch,
    pub workload: WorkloadSetup,
    /// The cache; its chunk sizes are those by which pages of a small run are cut, the tables' own take their place.
    pub cache: CacheSetup,
}
