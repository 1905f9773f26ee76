//! The scenario of a run, which is drawn from the seed before the first operation: the engine's configuration, the
//! keys, and the weight of each operation. In each scenario many weights are zero, so that the remaining operations
//! interact more often. This technique is called swarm testing.

use crate::oracle::Rules;
use slabwise_base::{ClassId, KEY_SIZE_BYTES_MAX, Random, Seconds};
use slabwise_engine::{
    CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, ClassTable, EngineConfig, EvictionKind,
    EvictionOptions, GdWheelConfig, HugePages, LruConfig, MoverKind, RankedHits, ReservedConfig,
    ReservedRank, SizeModel, SpareConfig,
};
use std::time::Duration;

/// The amount of memory. It determines whether items may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// More memory than all items of the run need. No item may be lost.
    Ample,
    /// A few pages, with eviction. Items may be lost.
    Short,
    /// A few pages, without eviction and page moves. No item may be lost, but stores may be refused.
    Refusing,
}

macro_rules! operations {
    ($($name:ident),* $(,)?) => {
        /// The operation of one step of the driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation { $($name),* }

        const OPERATIONS: &[Operation] = &[$(Operation::$name),*];
    };
}

operations! {
    Get, Peek, GetAndTouch, Touch, Set, Add, Replace, Append, Prepend, Cas, Delete, Arithmetic,
    Reserve, FillReservation, StoreReservation, DropReservation, Pin, Unpin, FlushNow, FlushLater,
    StoreIf, GetWith, DeleteIf, ArithmeticIf,
    Advance, Maintain, CrawlStep, CrawlAll, Reassign, MoverStep, MoverDrain, MemoryLimit, TuneLru,
    ChangeClasses, EvictPage, DivideQueues, NotePages, PlanMoves,
}

/// All parameters of a run, drawn from the seed.
#[derive(Debug)]
pub struct Scenario {
    pub config: EngineConfig,
    pub rules: Rules,
    pub keys: Vec<Vec<u8>>,
    /// The share of stores and touches that set a TTL, in percent.
    pub ttl_percent: u64,
    /// The share of values that are decimal numbers, or nearly so, in percent.
    pub numbers_percent: u64,
    /// The number of operations between two checks of all invariants.
    pub check_every: usize,
    /// The operations that may occur, and their relative frequencies.
    weights: Vec<(Operation, u64)>,
}

/// The memory limit of a scenario with ample memory, in bytes.
const AMPLE_BYTES: u64 = 512 << 20;

impl Scenario {
    /// Draws a scenario.
    pub fn random(memory: Memory, random: &mut Random) -> Scenario {
        let page_size_bytes = 4096 << random.below(5);
        let memory_limit_bytes = match memory {
            Memory::Ample => AMPLE_BYTES,
            Memory::Short | Memory::Refusing => page_size_bytes as u64 * (1 + random.below(24)),
        };
        let memcached = random.below(3) == 0;
        let item_size_bytes_max = 600 + random.below(4 * page_size_bytes as u64);
        let config = EngineConfig {
            memory_limit_bytes,
            page_size_bytes,
            classes: class_table(page_size_bytes, random),
            size_model: if memcached { SizeModel::Memcached } else { SizeModel::Exact },
            first_page_beyond_limit: memcached && random.below(2) == 0,
            index_within_limit: random.below(2) == 0,
            item_size_bytes_max,
            eviction_enabled: memory != Memory::Refusing,
            eviction: eviction(random),
            eviction_options: eviction_options(random),
            mover: mover(memory, random),
            mover_pause: Duration::from_millis(1),
            spares: spares(random),
            huge_pages: HugePages::BySystem,
            hash_seed: random.next_u64(),
        };
        let rules = Rules {
            losses_allowed: memory == Memory::Short,
            out_of_memory_allowed: memory != Memory::Ample,
            item_size_bytes_max: item_size_bytes_max as usize,
        };
        let key_count = [1, 10, 100, 400][random.below(4) as usize];
        Scenario {
            config,
            rules,
            keys: (0..key_count).map(|index| key(index, random)).collect(),
            ttl_percent: [0, 0, 20, 80][random.below(4) as usize],
            numbers_percent: [0, 10, 60][random.below(3) as usize],
            check_every: 16 + random.below(200) as usize,
            weights: weights(memory, random),
        }
    }

    /// True if this operation may occur.
    pub fn has(&self, operation: Operation) -> bool {
        self.weights.iter().any(|&(other, weight)| other == operation && weight > 0)
    }

    /// Draws the operation of the next step.
    pub fn operation(&self, random: &mut Random) -> Operation {
        let total: u64 = self.weights.iter().map(|&(_, weight)| weight).sum();
        let mut at = random.below(total);
        for &(operation, weight) in &self.weights {
            if at < weight {
                return operation;
            }
            at -= weight;
        }
        Operation::Get
    }
}

/// Draws the options of all eviction kinds. The wheels are often so small that ranks wrap around during a run.
fn eviction_options(random: &mut Random) -> EvictionOptions {
    let lru = lru(random);
    let wheels = [[16, 16, 4], [4, 8, 1], [256, 256, 1], [1, 16, 1], [64, 1, 1]];
    let sum = random.below(2) == 0;
    let reserved = ReservedConfig {
        percent: [0, 10, 50, 100][random.below(4) as usize],
        rank: if sum { ReservedRank::Sum } else { ReservedRank::Weighted { cost_max: 450 } },
        ranked_hits: [RankedHits::All, RankedHits::InReserved][random.below(2) as usize],
    };
    let wheel_sizes = wheels[random.below(wheels.len() as u64) as usize];
    EvictionOptions { lru, reserved, gd_wheel: GdWheelConfig { wheel_sizes } }
}

/// Draws the limits of spare chunks. In a small memory, spare chunks exist only if they may take a large part of it.
fn spares(random: &mut Random) -> SpareConfig {
    let memory_divisor = [2, 4, 8, 400][random.below(4) as usize];
    SpareConfig { holders_max: random.below(4) as u32, memory_divisor }
}

/// Draws an eviction kind. The kind with queues that can be divided is drawn more often than each other kind.
fn eviction(random: &mut Random) -> EvictionKind {
    if random.below(6) == 0 {
        return EvictionKind::SplitLru;
    }
    EvictionKind::ALL[random.below(EvictionKind::ALL.len() as u64) as usize]
}

/// Draws a kind of mover. With ample memory only `warm` is drawn, because the other kinds may drop items even then.
fn mover(memory: Memory, random: &mut Random) -> MoverKind {
    match random.below(6) {
        0 if memory != Memory::Ample => MoverKind::BASE,
        1 if memory != Memory::Ample => MoverKind::FAST,
        2 if memory != Memory::Ample => MoverKind::STOCK,
        3 if memory != Memory::Ample => MoverKind::BASE_NEXT,
        _ => MoverKind::WARM,
    }
}

/// Draws the limits of the hot and warm queues, including extreme limits.
pub fn lru(random: &mut Random) -> LruConfig {
    if random.below(2) == 0 {
        return LruConfig::default();
    }
    let hot_percent = 1 + random.below(79) as u32;
    LruConfig {
        hot_percent,
        warm_percent: 1 + random.below(u64::from(80 - hot_percent)) as u32,
        hot_age_factor: 0.01 + random.unit(),
        warm_age_factor: 0.01 + 3.0 * random.unit(),
        temporary_ttl: (random.below(2) == 0).then_some(Seconds(random.below(8) as u32)),
    }
}

/// Draws the weight of each operation that this amount of memory permits.
fn weights(memory: Memory, random: &mut Random) -> Vec<(Operation, u64)> {
    let forbidden = |operation| match memory {
        Memory::Ample => matches!(operation, Operation::MemoryLimit | Operation::EvictPage),
        Memory::Short => false,
        Memory::Refusing => matches!(
            operation,
            Operation::MemoryLimit
                | Operation::Reassign
                | Operation::MoverStep
                | Operation::MoverDrain
                | Operation::EvictPage
                | Operation::PlanMoves
        ),
    };
    let draw = |operation| {
        let weight = match operation {
            // A scenario without stores would test nothing.
            Operation::Set => 5 + random.below(30),
            // These operations remove many items at once, so they are rare.
            Operation::FlushNow | Operation::FlushLater | Operation::MemoryLimit => {
                return (operation, random.below(4) / 3);
            }
            Operation::ChangeClasses => return (operation, random.below(6) / 3),
            Operation::CrawlAll | Operation::MoverDrain => return (operation, random.below(2)),
            _ => 1 + random.below(20),
        };
        (operation, if random.below(3) == 0 && operation != Operation::Set { 0 } else { weight })
    };
    OPERATIONS.iter().copied().filter(|&operation| !forbidden(operation)).map(draw).collect()
}

/// Draws the chunk sizes of the next class table: some sizes of the current table and some new ones, in ascending
/// order. Sometimes the largest size is missing; the engine then adds this size.
pub fn chunk_sizes(present: &ClassTable, random: &mut Random) -> Vec<usize> {
    let largest = present.chunk_size_bytes_max();
    let steps = (largest - CHUNK_SIZE_BYTES_MIN) / CHUNK_ALIGN_BYTES;
    let kept_percent = random.below(101);
    let kept = present.sizes().iter().map(|&size| size as usize);
    let mut sizes: Vec<usize> = kept.filter(|_| random.below(100) < kept_percent).collect();
    let new = (0..random.below(12)).map(|_| random.below(steps as u64 + 1) as usize);
    sizes.extend(new.map(|above| CHUNK_SIZE_BYTES_MIN + above * CHUNK_ALIGN_BYTES));
    sizes.sort_unstable();
    sizes.dedup();
    sizes.truncate(ClassId::COUNT_MAX - 1);
    if sizes.is_empty() {
        sizes.push(largest);
    }
    sizes
}

/// Draws the class table at the start.
fn class_table(page_size_bytes: usize, random: &mut Random) -> ClassTable {
    let largest = page_size_bytes >> random.below(3);
    match random.below(3) {
        0 => ClassTable::default_for(page_size_bytes),
        1 => {
            let first = CHUNK_SIZE_BYTES_MIN + random.below(200) as usize;
            ClassTable::geometric(first, 1.05 + 1.5 * random.unit(), largest)
        }
        _ => {
            let steps = (largest - CHUNK_SIZE_BYTES_MIN) / CHUNK_ALIGN_BYTES;
            let mut sizes: Vec<usize> = (0..random.below(12))
                .map(|_| random.below(steps as u64) as usize * CHUNK_ALIGN_BYTES)
                .map(|above| CHUNK_SIZE_BYTES_MIN + above)
                .collect();
            // The first chunk of an item must have room for the longest key.
            sizes.push(largest);
            sizes.sort_unstable();
            sizes.dedup();
            ClassTable::explicit(&sizes, page_size_bytes)
                .expect("the sizes ascend and are at most the page size")
        }
    }
}

/// Draws a key that begins with this number.
fn key(index: usize, random: &mut Random) -> Vec<u8> {
    let mut key = format!("{index}").into_bytes();
    let len = match random.below(8) {
        0 => KEY_SIZE_BYTES_MAX,
        1 => key.len(),
        _ => key.len() + random.below(60) as usize,
    };
    // Keys may contain any bytes.
    key.push(b':');
    while key.len() < len {
        key.push(random.next_u64() as u8);
    }
    key
}
