//! What an engine is made with. A plain struct: the server's options and the lab's specs fill it.

use crate::class_table::{ClassTable, SizeModel};
use slabwise_base::Seconds;
use std::time::Duration;

/// Everything that an [`Engine`](crate::Engine) is made with.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The limit of item memory, in bytes; the arena holds as many whole pages as fit, at least one.
    pub memory_limit_bytes: u64,
    /// Bytes a page; a power of two from 4 KiB to 16 MiB. [`page_size_default`] chooses one.
    pub page_size_bytes: usize,
    /// The chunk sizes.
    pub classes: ClassTable,
    /// How an item's bytes are counted when its class is chosen.
    pub size_model: SizeModel,
    /// Grants every class its first page even beyond the limit, as memcached does.
    pub first_page_beyond_limit: bool,
    /// Counts the index against the limit, too. memcached's does not.
    pub index_within_limit: bool,
    /// The most bytes an item may take, key and header included.
    pub item_size_bytes_max: u64,
    /// Whether a full cache evicts (the default) or refuses (memcached's `-M`).
    pub eviction_enabled: bool,
    /// Which item leaves first.
    pub eviction: EvictionKind,
    /// The segmented LRU's limits.
    pub lru: LruConfig,
    /// What eviction kinds that rank items go by.
    pub ranking: RankingConfig,
    /// What becomes of the items on a page that is moved.
    pub mover: MoverKind,
    /// How long `base` and `fast` rest after a chunk that was busy; memcached's default is 1000 us.
    pub mover_rest: Duration,
    /// Asks the system for huge pages (`-L`).
    pub huge_pages: bool,
    /// The key hash's seed.
    pub hash_seed: u64,
}

/// The order in which a class gives up its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionKind {
    /// memcached's hot, warm, cold (and temp) queues; a hit only marks the item.
    Segmented,
    /// One queue in exact order of use; every hit takes the class's lock.
    Lru,
    /// Ours: the segmented LRU for each band of costs, and of the bands' coldest items the one that was unused
    /// longest for its cost. Without costs it is `Segmented`.
    CostBands,
    /// The segmented LRU beside a queue reserved for costly items (Coelho 2018).
    Reserved,
    /// The least of cost for size, aged by what was evicted (P. Cao and S. Irani, USITS 1997).
    GreedyDualSize,
    /// The least cost, aged likewise, in hierarchical wheels of queues (C. Li and A. L. Cox, EuroSys 2015).
    GdWheel,
}

/// What eviction kinds that rank items go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankingConfig {
    /// The share of a class's chunks whose items the reserved queue may hold, in percent.
    pub reserved_percent: u32,
    /// How `reserved` ranks an item.
    pub reserved_rank: ReservedRank,
    /// Places of each wheel, the finest first, each a power of two; 1 for a wheel that there is not. A cost
    /// beyond all of them but one place of the last ranks as that.
    pub wheel_sizes: [u16; 3],
}

/// The thesis's two formulas for the rank of an item of cost `c` where what was evicted had come to `l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedRank {
    /// `l + c` (section 3.2).
    Sum,
    /// `l + l * c / cost_max + c`: the costliest counts `l` twice (section 5.5.3).
    Weighted {
        /// The highest cost, in units.
        cost_max: u32,
    },
}

impl Default for RankingConfig {
    fn default() -> RankingConfig {
        RankingConfig {
            reserved_percent: 10,
            reserved_rank: ReservedRank::Sum,
            wheel_sizes: [256, 256, 1],
        }
    }
}

impl EvictionKind {
    /// All of them.
    pub const ALL: [EvictionKind; 6] = [
        EvictionKind::CostBands,
        EvictionKind::Segmented,
        EvictionKind::Lru,
        EvictionKind::Reserved,
        EvictionKind::GreedyDualSize,
        EvictionKind::GdWheel,
    ];

    /// The names of all of them.
    pub const NAMES: [&str; EvictionKind::ALL.len()] = {
        let mut names = [""; EvictionKind::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = EvictionKind::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Its name in options and specifications.
    pub const fn name(self) -> &'static str {
        match self {
            EvictionKind::Segmented => "segmented",
            EvictionKind::Lru => "lru",
            EvictionKind::CostBands => "cost_bands",
            EvictionKind::Reserved => "reserved",
            EvictionKind::GreedyDualSize => "greedydual_size",
            EvictionKind::GdWheel => "gd_wheel",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<EvictionKind> {
        EvictionKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The order of the items of one lane.
    pub fn within_lanes(self) -> EvictionKind {
        match self {
            EvictionKind::CostBands => EvictionKind::Segmented,
            kind => kind,
        }
    }

    /// What tells its items apart, as a memory file names it.
    pub(crate) fn lanes_name(self, ranking: &RankingConfig) -> String {
        let [first, second, third] = ranking.wheel_sizes;
        match self {
            EvictionKind::Segmented | EvictionKind::Lru => "one".to_owned(),
            EvictionKind::GdWheel => format!("{}:{first}x{second}x{third}", self.name()),
            kind => kind.name().to_owned(),
        }
    }

    /// Whether a hit may move its item.
    pub fn acts_on_hits(self) -> bool {
        self == EvictionKind::Lru || self.goes_by_rank()
    }

    /// Whether items move from hot and warm to cold by their shares and ages.
    pub(crate) fn balances(self) -> bool {
        !matches!(self, EvictionKind::GreedyDualSize | EvictionKind::GdWheel)
    }

    /// Whether items store a rank.
    pub fn goes_by_rank(self) -> bool {
        match self {
            EvictionKind::Segmented | EvictionKind::Lru | EvictionKind::CostBands => false,
            EvictionKind::Reserved | EvictionKind::GreedyDualSize | EvictionKind::GdWheel => true,
        }
    }
}

/// How the page mover empties a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoverKind {
    /// Carries every item to another page; what is coldest in the class is evicted to make room.
    Warm,
    /// As published for memcached 1.5.12: an item that finds no free chunk is unlinked, and its chunk met
    /// again after a rest (MEMSYS 2019, algorithm 1).
    Base,
    /// As published: such a chunk is taken out of use at once (MEMSYS 2019, algorithm 2).
    Fast,
    /// As memcached 1.6 does it: empties the page that its class has had longest, carries items into chunks
    /// that are free already and drops the others, hot or not.
    Stock,
}

/// The limits of the segmented LRU, with memcached's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LruConfig {
    /// The share of a class's bytes that the hot queue may hold, in percent.
    pub hot_percent: u32,
    /// The same for the warm queue.
    pub warm_percent: u32,
    /// A hot item older than this factor of the cold tail's age goes to cold.
    pub hot_age_factor: f64,
    /// The same for the warm queue.
    pub warm_age_factor: f64,
    /// Items that live at most this long go to the temp queue, which only expiry empties.
    pub temporary_ttl: Option<Seconds>,
}

impl Default for LruConfig {
    fn default() -> LruConfig {
        LruConfig {
            hot_percent: 20,
            warm_percent: 40,
            hot_age_factor: 0.2,
            warm_age_factor: 2.0,
            temporary_ttl: None,
        }
    }
}

/// The page size that suits a memory limit: small caches need small pages, because a class cannot
/// own less than one; large ones prefer fewer.
pub fn page_size_default(memory_limit_bytes: u64) -> usize {
    const MIB: u64 = 1 << 20;
    match memory_limit_bytes {
        0..0x0100_0000 => 16 << 10,
        0x0100_0000..0x0800_0000 => 64 << 10,
        limit if limit <= 1024 * MIB => 256 << 10,
        _ => 1 << 20,
    }
}

impl EngineConfig {
    /// slabwise's own defaults for this memory limit.
    pub fn new(memory_limit_bytes: u64) -> EngineConfig {
        let page_size_bytes = page_size_default(memory_limit_bytes);
        EngineConfig {
            memory_limit_bytes,
            page_size_bytes,
            classes: ClassTable::default_for(page_size_bytes),
            size_model: SizeModel::Exact,
            first_page_beyond_limit: false,
            index_within_limit: true,
            item_size_bytes_max: 1 << 20,
            eviction_enabled: true,
            eviction: EvictionKind::Segmented,
            lru: LruConfig::default(),
            ranking: RankingConfig::default(),
            mover: MoverKind::Warm,
            mover_rest: Duration::from_micros(1_000),
            huge_pages: false,
            hash_seed: 0,
        }
    }
}
