//! Experiments as files: what is set up, and what was published of it.
//!
//! A file in `experiments/` names its source, its set-up with every number that matters, and each
//! published figure with its place in the paper. The files are in the binary.

use super::class_counts::ClassCountsSetup;
use super::cost::CostSetup;
use super::error::ExperimentError;
use super::explained::{Explained, explain};
use super::frontier::FrontierSetup;
use super::learned_classes::LearnedClassesSetup;
use super::policies::PoliciesSetup;
use crate::report::Figure;
use crate::virtual_time::{Access, MoverName};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use slabwise_base::ClassId;
use slabwise_engine::{ClassTable, EngineConfig, EvictionKind, SizeModel};
use slabwise_replay::workload::{self, Workload, WorkloadError};

macro_rules! spec {
    ($name:literal) => {
        ($name, include_str!(concat!("../../experiments/", $name, ".toml")))
    };
}

/// Every experiment: its name and its file.
const FILES: [(&str, &str); 17] = [
    spec!("two-phase"),
    spec!("mover-speed"),
    spec!("toy"),
    spec!("etc-steady"),
    spec!("etc-settled"),
    spec!("etc-memory-sweep"),
    spec!("three-phase"),
    spec!("time-varying"),
    spec!("multi-tenant"),
    spec!("learned-classes"),
    spec!("curves"),
    spec!("eviction-curves"),
    spec!("overhead"),
    spec!("classes-vs-misses"),
    spec!("cost-single"),
    spec!("cost-multi"),
    spec!("frontier"),
];

/// The largest scale: what the numbers of keys of other workloads allow, too.
const SCALE_MAX: f64 = 1000.0;

fn scale_max() -> f64 {
    SCALE_MAX
}

/// An experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What it is called on the command line.
    pub name: String,
    /// The question it answers.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// The smallest scale that it can be run at; none for any above 0.
    #[serde(default)]
    pub scale_min: f64,
    /// The largest; none for [`SCALE_MAX`].
    #[serde(default = "scale_max")]
    pub scale_max: f64,
    /// What is run.
    pub setup: Setup,
    /// What was published of it; none where it holds ours against each other.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Why ours differ, for figures that do not tell it themselves.
    #[serde(default)]
    explained: Vec<Explained>,
    /// What its report draws.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    /// What it draws of what a run is given beside the file.
    #[serde(skip)]
    pub figures_added: Vec<Figure>,
}

/// A published figure.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What was measured, by the row's name.
    pub measure: String,
    /// On what.
    pub variant: String,
    /// The figure, in the row's unit.
    pub value: f64,
    /// Where it stands.
    pub place: String,
    /// Why ours differs, where that is known.
    #[serde(default)]
    pub explained: Option<String>,
}

/// The kinds of experiments.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Setup {
    /// Pages move after a change of workload.
    TwoPhase(TwoPhaseSetup),
    /// What a move costs the mover.
    MoverSpeed(MoverSpeedSetup),
    /// Who divides the pages.
    PagePolicies(Box<PoliciesSetup>),
    /// Chunk sizes that follow the sizes of items.
    LearnedClasses(LearnedClassesSetup),
    /// How far cheap curves are from exact ones.
    Curves(CurvesSetup),
    /// What is told of a cache that is no LRU.
    EvictionCurves(CurvesSetup),
    /// What profiling costs.
    Overhead(OverheadSetup),
    /// How many classes.
    ClassCounts(Box<ClassCountsSetup>),
    /// What to keep where misses cost differently.
    Cost(Box<CostSetup>),
    /// How near a server comes to who knows the future.
    Frontier(Box<FrontierSetup>),
}

/// The experiment `two-phase`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoPhaseSetup {
    /// The movers that are compared.
    pub movers: Vec<MoverName>,
    /// Stretches of equal length for which miss ratios are kept.
    pub windows: u64,
    /// How far a steady miss ratio may lie from the final one, in percentage points.
    pub steady_tolerance_points: f64,
    /// Requests of the second phase whose exact stack distances decide the split.
    pub profile_requests: u64,
    /// The requests.
    pub workload: WorkloadSetup,
    /// The cache.
    pub cache: CacheSetup,
    /// The time.
    pub time: TimeSetup,
    /// The same against real servers.
    pub live: LiveSetup,
}

/// The experiment `mover-speed`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoverSpeedSetup {
    /// The movers that are compared.
    pub movers: Vec<MoverName>,
    /// What `base` sleeps after a busy chunk, in microseconds, one run each.
    pub sleeps_us: Vec<u64>,
    /// Pages that are moved in each run.
    pub pages: u64,
    /// The requests.
    pub workload: WorkloadSetup,
    /// The cache.
    pub cache: CacheSetup,
    /// The time.
    pub time: TimeSetup,
}

/// The experiment `overhead`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverheadSetup {
    /// Rounds of each kind, in turns.
    pub rounds: usize,
    /// Requests of a round, at scale 1.
    pub requests_a_round: u64,
    /// The requests; those of its first phase fill the cache.
    pub workload: WorkloadSetup,
    /// The cache.
    pub cache: CacheSetup,
}

/// The experiments `curves` and `eviction-curves`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvesSetup {
    /// The scale where none is asked for.
    pub scale: f64,
    /// The streams whose curves are compared.
    pub streams: Vec<StreamSetup>,
}

/// Keys of which curves are made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSetup {
    /// The workload, or what a loop is called.
    pub name: String,
    /// Keys of a loop; none for a workload.
    pub loop_keys: Option<u64>,
    /// Whether the workload is a recorded one.
    #[serde(default)]
    pub is_recorded: bool,
    /// What the workload's keys are multiplied by beside the scale of the run.
    #[serde(default = "whole")]
    pub scale: f64,
    /// References.
    pub requests: u64,
    /// The memory of the cache whose server would sample them, in MiB.
    pub memory_mib: u64,
}

fn whole() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

/// Requests, at scale 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSetup {
    /// The workload's name.
    pub name: String,
    /// All requests.
    pub requests: u64,
    /// Those before the change; 0 where nothing changes.
    #[serde(default)]
    pub first_phase_requests: u64,
    /// What its keys are multiplied by beside the scale of the run.
    #[serde(default = "whole")]
    pub scale: f64,
    /// Whether it is a recorded one, which has the keys that it has: it is only cut short.
    #[serde(default)]
    pub is_recorded: bool,
    /// What lengths of a size table are multiplied by.
    #[serde(default = "whole")]
    pub size_factor: f64,
}

/// What filled the memory before the first request: as many other keys as it took, which are never asked for.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierSetup {
    /// How many times as long as the workload's their values were.
    pub value_factor: f64,
}

/// The engine, at scale 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSetup {
    /// The memory limit in MiB.
    pub memory_mib: u64,
    /// Bytes a page in KiB.
    pub page_size_kib: usize,
    /// The chunk sizes; items are counted as memcached counts them.
    pub chunk_sizes: ChunkSizes,
    /// The order in which items leave.
    #[serde(deserialize_with = "eviction")]
    pub eviction: EvictionKind,
    /// Whether every class is granted its first page even beyond the limit, as memcached does.
    #[serde(default = "yes")]
    pub first_page_beyond_limit: bool,
    /// Whether pages keep their size at every scale.
    #[serde(default)]
    pub page_size_is_fixed: bool,
}

/// The chunk sizes of an engine.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum ChunkSizes {
    /// These, in bytes.
    List(Vec<usize>),
    /// memcached's: each so many times the one before, up to a page.
    Geometric {
        /// The least, in bytes.
        first_bytes: usize,
        /// The growth factor.
        factor: f64,
    },
}

/// An eviction kind, by the engine's name of it.
pub fn eviction<'de, D: Deserializer<'de>>(name: D) -> Result<EvictionKind, D::Error> {
    let name = String::deserialize(name)?;
    EvictionKind::named(&name).ok_or_else(|| {
        let known = EvictionKind::NAMES.join(", ");
        D::Error::custom(format!("no eviction is called '{name}': {known}"))
    })
}

/// Virtual time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeSetup {
    /// Gets and sets a second.
    pub operations_per_second: f64,
    /// What `base` and `fast` sleep after a busy chunk.
    pub sleep_us: u64,
}

/// How long answers take: nothing on virtual time waits for them, they are added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerSetup {
    /// Microseconds of a hit.
    pub hit_us: f64,
    /// Microseconds of a miss: the get, the source, and the set.
    pub miss_us: f64,
    /// What it takes more for each KiB of the value.
    pub miss_us_per_kib: f64,
}

/// Real servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveSetup {
    /// The scale where none is asked for.
    pub scale: f64,
    /// Requests, at scale 1, between two looks at the allocation.
    pub poll_requests: u64,
    /// The allocation is in place when it stays so near to its last state, in percent of the memory.
    pub settled_percent: f64,
    /// Requests a second; a miss's set is part of its request.
    pub requests_per_second: f64,
    /// Connections of a client.
    pub connections: usize,
    /// Requests in a round, per connection.
    pub batch: usize,
    /// What is compared.
    pub servers: Vec<ServerSetup>,
}

/// A server that is compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSetup {
    /// What its rows are called.
    pub name: String,
    /// The program and its flags; `slabwise` is the program that runs.
    pub command: Vec<String>,
    /// Whether its own policy is off and the lab tells it how to divide its pages, at the change of phase.
    #[serde(default)]
    pub told: bool,
}

/// Fewer pages than this are too coarse to be divided: below scale 1 pages get smaller instead.
const PAGES_MIN: u64 = 48;
/// The same for each class: one cannot own less than a page.
const PAGES_A_CLASS_MIN: u64 = 8;
const PAGE_SIZE_BYTES_MIN: usize = 4 << 10;

/// The class that owns all memory at first, and the one that wants some of it.
pub const FIRST_CLASS: ClassId = ClassId(0);
/// See [`FIRST_CLASS`].
pub const SECOND_CLASS: ClassId = ClassId(1);

impl Spec {
    /// Every experiment, in the order in which they are listed.
    pub fn all() -> Vec<Spec> {
        FILES.map(|(name, text)| Spec::parse(name, text)).into()
    }

    /// The experiment of this name.
    pub fn named(name: &str) -> Result<Spec, ExperimentError> {
        let known = || Spec::all().into_iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
        let found = Spec::all().into_iter().find(|spec| spec.name == name);
        found.ok_or_else(|| ExperimentError::UnknownName { name: name.to_owned(), known: known() })
    }

    /// The scale where none is asked for.
    pub fn default_scale(&self, live: bool) -> f64 {
        match &self.setup {
            Setup::TwoPhase(setup) if live => setup.live.scale,
            Setup::PagePolicies(setup) => setup.scale,
            Setup::ClassCounts(setup) => setup.scale,
            Setup::Cost(setup) => setup.scale,
            Setup::Frontier(setup) => setup.scale,
            Setup::Curves(setup) | Setup::EvictionCurves(setup) => setup.scale,
            _ => 1.0,
        }
    }

    /// The scale at which it can be run that is nearest to this one.
    pub fn nearest_scale(&self, scale: f64) -> f64 {
        scale.clamp(self.scale_min, self.scale_max)
    }

    /// Whether it can be run at this scale.
    pub fn check_scale(&self, scale: f64) -> Result<(), ExperimentError> {
        if scale > 0.0 && self.nearest_scale(scale) == scale {
            return Ok(());
        }
        let Spec { name, scale_min, scale_max, .. } = self;
        Err(ExperimentError::Option(if scale_min == scale_max {
            format!("--scale {scale}: {name} runs at {scale_min} only: leave it out")
        } else if *scale_min > 0.0 {
            format!("--scale {scale}: give {name} at least {scale_min} and at most {scale_max}")
        } else {
            format!("--scale {scale}: give {name} more than 0 and at most {scale_max}")
        }))
    }

    /// Whether it can be run against real servers.
    pub fn has_live(&self) -> bool {
        matches!(self.setup, Setup::TwoPhase(_) | Setup::LearnedClasses(_) | Setup::Frontier(_))
    }

    fn parse(name: &str, text: &str) -> Spec {
        let mut spec: Spec =
            toml::from_str(text).unwrap_or_else(|error| panic!("experiments/{name}.toml: {error}"));
        explain(&mut spec.published, &spec.explained);
        assert_eq!(spec.name, name, "experiments/{name}.toml is named after its experiment");
        spec
    }
}

impl WorkloadSetup {
    /// A recorded one by its name, of at most so many requests.
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

    /// The stream at a scale.
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

impl AnswerSetup {
    /// Microseconds of an answer; what is no get is nobody's wait.
    pub fn us(&self, access: Access, value_len: u32) -> f64 {
        match access {
            Access::Hit => self.hit_us,
            Access::Miss => self.of_miss_us(f64::from(value_len)),
            Access::Other => 0.0,
        }
    }

    /// Microseconds of a miss of a value of so many bytes.
    pub fn of_miss_us(&self, value_len: f64) -> f64 {
        self.miss_us + self.miss_us_per_kib * value_len / 1024.0
    }
}

impl CacheSetup {
    /// What the engine is made with, at a scale.
    pub fn engine_config(&self, scale: f64, seed: u64) -> EngineConfig {
        self.engine_config_of(self.memory_mib, scale, seed)
    }

    /// The same with another memory limit.
    pub fn engine_config_of(&self, memory_mib: u64, scale: f64, seed: u64) -> EngineConfig {
        let memory_limit_bytes = scaled(memory_mib << 20, scale);
        let mut page_size_bytes = self.page_size_kib << 10;
        let is_coarse = |page_size_bytes: usize| {
            let classes = self.chunk_sizes.table(page_size_bytes).count() as u64;
            let pages = memory_limit_bytes / page_size_bytes as u64;
            pages < PAGES_MIN.max(classes * PAGES_A_CLASS_MIN)
        };
        let page_size_bytes_min = PAGE_SIZE_BYTES_MIN.max(self.chunk_sizes.largest_bytes());
        // At its own size an experiment keeps its own pages.
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
    /// A page is never smaller; a geometric table ends with the page, which must hold most items.
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

/// A place in the run times the scale.
pub fn place_at(requests: u64, scale: f64) -> u64 {
    (requests as f64 * scale).round() as u64
}

#[cfg(test)]
mod tests {
    use super::{Setup, Spec};

    /// Those that hold ours against each other.
    const OURS: [&str; 5] =
        ["etc-settled", "curves", "eviction-curves", "classes-vs-misses", "frontier"];

    #[test]
    fn every_file_is_an_experiment_with_published_figures() {
        for spec in Spec::all() {
            let is_ours = OURS.contains(&spec.name.as_str());
            assert!(is_ours || !spec.published.is_empty(), "{}: nothing to compare", spec.name);
            assert!(spec.published.iter().all(|figure| !figure.place.is_empty()));
        }
    }

    #[test]
    fn pages_get_smaller_where_there_would_be_too_few() {
        let spec = Spec::named("two-phase").expect("it is there");
        let Setup::TwoPhase(setup) = spec.setup else { panic!("another kind") };
        let full = setup.cache.engine_config(1.0, 1);
        assert_eq!((full.page_size_bytes, full.memory_limit_bytes), (1 << 20, 384 << 20));
        let tiny = setup.cache.engine_config(0.01, 1);
        assert!(tiny.memory_limit_bytes / tiny.page_size_bytes as u64 >= 48);
    }
}
