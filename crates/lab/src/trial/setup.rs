//! The tables that several experiment files share: workload, cache, time and response times. All counts are those of
//! scale 1.

use super::error::ExperimentError;
use crate::result::format_number;
use crate::vtime::Access;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use slabwise_engine::{ClassTable, EngineConfig, EvictionKind, SizeModel};
use slabwise_replay::workload::{self, Op, Workload, WorkloadError};

/// The default of scales and factors.
pub fn default_factor() -> f64 {
    1.0
}

fn default_true() -> bool {
    true
}

/// The requests of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSetup {
    /// Name of the workload, as in `slabwise replay --workload`.
    pub name: String,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests before the workload changes. 0 if the workload does not change.
    #[serde(default)]
    pub first_phase_requests: u64,
    /// Factor on the number of keys, in addition to the scale of the run.
    #[serde(default = "default_factor")]
    pub scale: f64,
    /// True for a recorded workload: the scale of the run reduces its number of requests, but does not change its keys.
    #[serde(default)]
    pub is_recorded: bool,
    /// Exponent of the Zipf popularity, for the workloads `zipf`, `etc` and `etc-mutilate`. `None`: the workload's own.
    pub skew: Option<f64>,
    /// Length of all values in bytes. `None`: the workload's own lengths.
    pub value_len: Option<u32>,
    /// Factor on value lengths that are from a size table.
    #[serde(default = "default_factor")]
    pub size_factor: f64,
    /// Number of bytes that are added to the length of each value.
    #[serde(default)]
    pub longer_bytes: u32,
}

/// The earlier contents of the cache: before the first request, the memory is filled with keys that the workload never
/// requests.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierSetup {
    /// Length of the earlier values, divided by the length of the workload's values.
    pub value_factor: f64,
    /// The part of the memory that the earlier values fill, from 0 to 1. The rest is free.
    #[serde(default = "default_factor")]
    pub memory_share: f64,
}

/// The configuration of an engine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSetup {
    /// Memory limit.
    pub memory_mib: u64,
    /// Page size. If the scale is below 1 and there would be too few pages, the engine uses smaller pages.
    pub page_size_kib: usize,
    /// The chunk sizes. The sizes of items are computed as in memcached.
    pub chunk_sizes: ChunkSizes,
    #[serde(deserialize_with = "eviction")]
    pub eviction: EvictionKind,
    /// True if every class may take its first page beyond the limit, as in memcached.
    #[serde(default = "default_true")]
    pub first_page_beyond_limit: bool,
    /// True if the engine uses the page size at every scale.
    #[serde(default)]
    pub page_size_is_fixed: bool,
}

/// The chunk sizes of a class table.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum ChunkSizes {
    /// These chunk sizes, in bytes.
    List(Vec<usize>),
    /// memcached's sequence: each size is the previous size times the factor. The last size is a whole page.
    Geometric { first_bytes: usize, factor: f64 },
}

/// Parses the name of an eviction kind.
pub fn eviction<'de, D: Deserializer<'de>>(name: D) -> Result<EvictionKind, D::Error> {
    let name = String::deserialize(name)?;
    EvictionKind::named(&name).ok_or_else(|| {
        let known = EvictionKind::NAMES.join(", ");
        D::Error::custom(format!("unknown eviction '{name}'; expected one of {known}"))
    })
}

/// A part of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    /// Name of the part in rows. Empty if the part has no rows of its own.
    #[serde(default)]
    pub name: String,
    /// Number of the first request of the part.
    pub from: u64,
    /// Number of the first request after the part.
    pub to: u64,
}

impl Stretch {
    /// Returns `from` and `to`, multiplied by the scale.
    pub fn at(&self, scale: f64) -> (u64, u64) {
        (request_at(self.from, scale), request_at(self.to, scale))
    }
}

/// The virtual time of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeSetup {
    /// Rate of gets and sets together.
    pub operations_per_second: f64,
    /// Length of the sleep of the movers `base` and `fast` after a chunk that they could not empty.
    pub sleep_us: u64,
}

/// The response times from which the mean response time of a run is computed. Virtual time does not wait for responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseSetup {
    /// Response time of a hit.
    pub hit_us: f64,
    /// Response time of a miss with an empty value: the get, the computation of the value, and the set.
    pub miss_us: f64,
    /// Additional response time of a miss for each KiB of its value.
    pub miss_us_per_kib: f64,
}

/// The smallest number of pages for which a partition is meaningful. At scales below 1 an engine has smaller pages, to
/// reach this number.
const PAGES_MIN: u64 = 48;
/// The smallest number of pages per class, because every class owns at least one page. At scales below 1 an engine has
/// smaller pages, to reach this number.
const PAGES_PER_CLASS_MIN: u64 = 8;
const PAGE_SIZE_BYTES_MIN: usize = 4 << 10;

impl WorkloadSetup {
    /// Returns the set-up of a recorded workload, of which a run uses at most `requests_max` requests at scale 1.
    pub fn recorded(name: &str, requests_max: u64) -> WorkloadSetup {
        WorkloadSetup {
            name: name.to_owned(),
            requests: requests_max,
            first_phase_requests: 0,
            scale: 1.0,
            is_recorded: true,
            skew: None,
            value_len: None,
            size_factor: 1.0,
            longer_bytes: 0,
        }
    }

    /// Opens the workload at the scale of a run.
    pub fn open(&self, scale: f64, seed: u64) -> Result<Workload, WorkloadError> {
        let options = workload::Options {
            requests: Some(scaled(self.requests, scale)),
            scale: (!self.is_recorded).then_some(scale * self.scale),
            seed,
            skew: self.skew,
            value_len: self.value_len,
            size_factor: self.size_factor,
            ..workload::Options::default()
        };
        Ok(workload::open(&self.name, &options)?.with_longer_values(self.longer_bytes))
    }
}

impl TimeSetup {
    /// Describes the rate for a reader of the results.
    pub fn rate_text(&self) -> String {
        format!("{} gets and sets per second", format_number(self.operations_per_second))
    }
}

impl ResponseSetup {
    /// Describes the response times for a reader of the results.
    pub fn text(&self) -> String {
        let ResponseSetup { hit_us, miss_us, miss_us_per_kib } = self;
        format!(
            "a hit {hit_us} us, a miss {miss_us} us plus {miss_us_per_kib} us per KiB of its value"
        )
    }

    /// Returns the response time of a request in microseconds. Returns 0 for a set or a delete, because experiments
    /// count only the response times of gets.
    pub fn response_us(&self, access: Access, value_len: u32) -> f64 {
        match access {
            Access::Hit => self.hit_us,
            Access::Miss => self.miss_response_us(f64::from(value_len)),
            Access::Other => 0.0,
        }
    }

    /// Returns the response time of a miss, in microseconds. `value_len` is in bytes and may be a mean.
    pub fn miss_response_us(&self, value_len: f64) -> f64 {
        self.miss_us + self.miss_us_per_kib * value_len / 1024.0
    }
}

impl CacheSetup {
    /// Returns the page size at this scale divided by the published page size.
    pub fn page_share(&self, scale: f64) -> f64 {
        let page_size_bytes = self.engine_config(scale, 0).page_size_bytes;
        page_size_bytes as f64 / (self.page_size_kib << 10) as f64
    }

    pub fn engine_config(&self, scale: f64, seed: u64) -> EngineConfig {
        self.engine_config_of(self.memory_mib, scale, seed)
    }

    /// Returns the configuration of an engine with another memory limit than that of the set-up.
    pub fn engine_config_of(&self, memory_mib: u64, scale: f64, seed: u64) -> EngineConfig {
        let memory_limit_bytes = scaled(memory_mib << 20, scale);
        let mut page_size_bytes = self.page_size_kib << 10;
        let has_too_few_pages = |page_size_bytes: usize| {
            let classes = self.chunk_sizes.table(page_size_bytes).count() as u64;
            let pages = memory_limit_bytes / page_size_bytes as u64;
            pages < PAGES_MIN.max(classes * PAGES_PER_CLASS_MIN)
        };
        let page_size_bytes_min = PAGE_SIZE_BYTES_MIN.max(self.chunk_sizes.page_size_bytes_min());
        // At scale 1 the page size is always that of the experiment's file.
        while scale < 1.0
            && !self.page_size_is_fixed
            && page_size_bytes / 2 >= page_size_bytes_min
            && has_too_few_pages(page_size_bytes)
        {
            page_size_bytes /= 2;
        }
        EngineConfig {
            page_size_bytes,
            classes: self.chunk_sizes.table(page_size_bytes),
            size_model: SizeModel::Memcached,
            first_page_beyond_limit: self.first_page_beyond_limit,
            index_within_limit: false,
            eviction: self.eviction,
            hash_seed: seed,
            ..EngineConfig::new(memory_limit_bytes)
        }
    }
}

impl ChunkSizes {
    /// Returns the smallest page size for these chunk sizes. A page holds the largest chunk of a list. In a geometric
    /// table, the largest chunk is a whole page, which must be large enough for most items.
    fn page_size_bytes_min(&self) -> usize {
        const GEOMETRIC_BYTES_MIN: usize = 16 << 10;
        match self {
            ChunkSizes::List(sizes) => sizes.iter().copied().max().unwrap_or(0),
            ChunkSizes::Geometric { .. } => GEOMETRIC_BYTES_MIN,
        }
    }

    fn table(&self, page_size_bytes: usize) -> ClassTable {
        match self {
            ChunkSizes::List(sizes) => {
                let table = ClassTable::explicit(sizes, page_size_bytes);
                table.unwrap_or_else(|error| panic!("chunk_sizes in an experiment's file: {error}"))
            }
            &ChunkSizes::Geometric { first_bytes, factor } => {
                ClassTable::geometric(first_bytes, factor, page_size_bytes)
            }
        }
    }
}

/// Multiplies a count by the scale. The result is at least 1.
pub fn scaled(count: u64, scale: f64) -> u64 {
    request_at(count, scale).max(1)
}

/// Multiplies the number of a request at scale 1 by the scale.
pub fn request_at(request: u64, scale: f64) -> u64 {
    (request as f64 * scale).round() as u64
}

/// A stream of keys, whose curves an experiment compares.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSetup {
    /// Name of the workload. If `loop_keys` is given, any name.
    pub name: String,
    /// If given, the stream is no workload, but requests this number of keys in a loop.
    pub loop_keys: Option<u64>,
    /// True for a recorded workload, as in [`WorkloadSetup`].
    #[serde(default)]
    pub is_recorded: bool,
    /// Factor on the number of keys, in addition to the scale of the run.
    #[serde(default = "default_factor")]
    pub scale: f64,
    /// Number of requests of the workload, or of gets in the loop.
    pub requests: u64,
    /// Memory limit of the server whose sampling is simulated.
    pub memory_mib: u64,
}

/// The keys of the gets of a stream, or the error that ended the stream.
pub type Keys = Box<dyn Iterator<Item = Result<u64, ExperimentError>>>;

impl StreamSetup {
    /// Returns the keys of all gets, in the order of time.
    pub fn keys(&self, scale: f64, seed: u64) -> Result<Keys, ExperimentError> {
        let requests = scaled(self.requests, scale);
        if let Some(keys) = self.loop_keys {
            let keys = scaled(keys, scale);
            return Ok(Box::new((0..requests).map(move |at| Ok(at % keys))));
        }
        let StreamSetup { scale: own_scale, is_recorded, .. } = *self;
        let recorded = WorkloadSetup::recorded(&self.name, self.requests);
        let requests = WorkloadSetup { scale: own_scale, is_recorded, ..recorded };
        let keys = requests.open(scale, seed)?.filter_map(|request| match request {
            Ok(request) => (request.op == Op::Get).then_some(Ok(request.key)),
            Err(error) => Some(Err(error.into())),
        });
        Ok(Box::new(keys))
    }
}

#[cfg(test)]
mod tests {
    use crate::experiment::two_phase::TwoPhaseSetup;
    use crate::registry;

    #[test]
    fn at_a_small_scale_pages_are_smaller_so_that_there_are_enough_pages() {
        let (_, setup) = registry::parsed::<TwoPhaseSetup>("two-phase");
        let full = setup.cache.engine_config(1.0, 1);
        assert_eq!((full.page_size_bytes, full.memory_limit_bytes), (1 << 20, 384 << 20));
        let tiny = setup.cache.engine_config(0.01, 1);
        assert!(tiny.memory_limit_bytes / tiny.page_size_bytes as u64 >= 48);
    }
}
