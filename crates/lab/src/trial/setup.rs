//! The set-ups that several experiment files share: requests, engines, time and response times, all at scale 1.

use super::error::ExperimentError;
use crate::result::number;
use crate::vtime::Access;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use slabwise_engine::{ClassTable, EngineConfig, EvictionKind, SizeModel};
use slabwise_replay::workload::{self, Op, Workload, WorkloadError};

pub fn whole() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSetup {
    pub name: String,
    pub requests: u64,
    /// The requests before the change of phase; 0 without one.
    #[serde(default)]
    pub first_phase_requests: u64,
    /// A factor on the number of keys, in addition to the scale of the run.
    #[serde(default = "whole")]
    pub scale: f64,
    /// True for a recorded workload: the scale shortens it, but does not change its keys.
    #[serde(default)]
    pub is_recorded: bool,
    /// A factor on value lengths that come from a size table.
    #[serde(default = "whole")]
    pub size_factor: f64,
}

/// Fills the memory before the first request with other keys, which are never requested.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierSetup {
    pub value_factor: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSetup {
    pub memory_mib: u64,
    pub page_size_kib: usize,
    /// The chunk sizes, for memcached's item sizes.
    pub chunk_sizes: ChunkSizes,
    #[serde(deserialize_with = "eviction")]
    pub eviction: EvictionKind,
    /// True if every class may take its first page beyond the limit, as in memcached.
    #[serde(default = "yes")]
    pub first_page_beyond_limit: bool,
    #[serde(default)]
    pub page_size_is_fixed: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum ChunkSizes {
    List(Vec<usize>),
    /// Sizes as memcached's: each is the previous one times the factor, up to a page.
    Geometric {
        first_bytes: usize,
        factor: f64,
    },
}

pub fn eviction<'de, D: Deserializer<'de>>(name: D) -> Result<EvictionKind, D::Error> {
    let name = String::deserialize(name)?;
    EvictionKind::named(&name).ok_or_else(|| {
        let known = EvictionKind::NAMES.join(", ");
        D::Error::custom(format!("unknown eviction '{name}'; expected one of {known}"))
    })
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    #[serde(default)]
    pub name: String,
    pub from: u64,
    pub to: u64,
}

impl Stretch {
    pub fn at(&self, scale: f64) -> (u64, u64) {
        (place_at(self.from, scale), place_at(self.to, scale))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeSetup {
    pub operations_per_second: f64,
    /// The sleep of `base` and `fast` after a busy chunk.
    pub sleep_us: u64,
}

/// Response times. They are added up; virtual time does not wait for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerSetup {
    pub hit_us: f64,
    /// Microseconds of a miss, which includes the get, the source, and the set.
    pub miss_us: f64,
    /// Additional microseconds of a miss per KiB of the value.
    pub miss_us_per_kib: f64,
}

/// The least number of pages: below scale 1, pages get smaller instead, because fewer are too coarse to partition.
const PAGES_MIN: u64 = 48;
/// The least number of pages per class, because a class owns at least one.
const PAGES_A_CLASS_MIN: u64 = 8;
const PAGE_SIZE_BYTES_MIN: usize = 4 << 10;

impl WorkloadSetup {
    pub fn recorded(name: &str, requests_max: u64) -> WorkloadSetup {
        WorkloadSetup {
            name: name.to_owned(),
            requests: requests_max,
            first_phase_requests: 0,
            scale: 1.0,
            is_recorded: true,
            size_factor: 1.0,
        }
    }

    pub fn open(&self, scale: f64, seed: u64) -> Result<Workload, WorkloadError> {
        let options = workload::Options {
            requests: Some(scaled(self.requests, scale)),
            scale: (!self.is_recorded).then_some(scale * self.scale),
            seed,
            size_factor: self.size_factor,
            ..workload::Options::default()
        };
        workload::open(&self.name, &options)
    }
}

impl TimeSetup {
    pub fn rate_text(&self) -> String {
        format!("{} gets and sets per second", number(self.operations_per_second))
    }
}

impl AnswerSetup {
    pub fn text(&self) -> String {
        let AnswerSetup { hit_us, miss_us, miss_us_per_kib } = self;
        format!(
            "a hit {hit_us} us, a miss {miss_us} us plus {miss_us_per_kib} us per KiB of its value"
        )
    }

    /// The response time in microseconds; 0 for other requests than gets, because no client waits for them.
    pub fn us(&self, access: Access, value_len: u32) -> f64 {
        match access {
            Access::Hit => self.hit_us,
            Access::Miss => self.of_miss_us(f64::from(value_len)),
            Access::Other => 0.0,
        }
    }

    pub fn of_miss_us(&self, value_len: f64) -> f64 {
        self.miss_us + self.miss_us_per_kib * value_len / 1024.0
    }
}

impl CacheSetup {
    pub fn engine_config(&self, scale: f64, seed: u64) -> EngineConfig {
        self.engine_config_of(self.memory_mib, scale, seed)
    }

    pub fn engine_config_of(&self, memory_mib: u64, scale: f64, seed: u64) -> EngineConfig {
        let memory_limit_bytes = scaled(memory_mib << 20, scale);
        let mut page_size_bytes = self.page_size_kib << 10;
        let is_coarse = |page_size_bytes: usize| {
            let classes = self.chunk_sizes.table(page_size_bytes).count() as u64;
            let pages = memory_limit_bytes / page_size_bytes as u64;
            pages < PAGES_MIN.max(classes * PAGES_A_CLASS_MIN)
        };
        let page_size_bytes_min = PAGE_SIZE_BYTES_MIN.max(self.chunk_sizes.largest_bytes());
        // At scale 1 an experiment keeps its own page size.
        while scale < 1.0
            && !self.page_size_is_fixed
            && page_size_bytes / 2 >= page_size_bytes_min
            && is_coarse(page_size_bytes)
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
    /// The smallest page that these sizes allow. A geometric table ends with a page, which must hold most items.
    fn largest_bytes(&self) -> usize {
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
                table.unwrap_or_else(|error| panic!("an experiment's classes: {error}"))
            }
            &ChunkSizes::Geometric { first_bytes, factor } => {
                ClassTable::geometric(first_bytes, factor, page_size_bytes)
            }
        }
    }
}

/// A count times the scale, at least 1.
pub fn scaled(count: u64, scale: f64) -> u64 {
    place_at(count, scale).max(1)
}

pub fn place_at(requests: u64, scale: f64) -> u64 {
    (requests as f64 * scale).round() as u64
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSetup {
    pub name: String,
    pub loop_keys: Option<u64>,
    #[serde(default)]
    pub is_recorded: bool,
    /// A factor on the number of keys, in addition to the scale of the run.
    #[serde(default = "whole")]
    pub scale: f64,
    pub requests: u64,
    /// The memory limit in MiB of the server whose sampling is simulated.
    pub memory_mib: u64,
}

pub type Keys = Box<dyn Iterator<Item = Result<u64, ExperimentError>>>;

impl StreamSetup {
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
    fn pages_get_smaller_if_there_would_be_too_few() {
        let (_, setup) = registry::parsed::<TwoPhaseSetup>("two-phase");
        let full = setup.cache.engine_config(1.0, 1);
        assert_eq!((full.page_size_bytes, full.memory_limit_bytes), (1 << 20, 384 << 20));
        let tiny = setup.cache.engine_config(0.01, 1);
        assert!(tiny.memory_limit_bytes / tiny.page_size_bytes as u64 >= 48);
    }
}
