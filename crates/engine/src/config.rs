//! What an engine is made with. A plain struct: the server's options and the lab's specs fill it.

use crate::evict::{EvictionKind, EvictionOptions};
use crate::layout::{ADDRESS_BITS, ClassTable, SizeModel};
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
    /// The options of the eviction kinds.
    pub eviction_options: EvictionOptions,
    /// What becomes of the items on a page that is moved.
    pub mover: MoverKind,
    /// How long `base` and `fast` rest after a chunk that was busy; memcached's default is 1000 us.
    pub mover_rest: Duration,
    /// Asks the system for huge pages (`-L`).
    pub huge_pages: bool,
    /// The key hash's seed.
    pub hash_seed: u64,
}

/// How the page mover empties a page: one of those that [`MOVER_NAMES`](crate::MOVER_NAMES) names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoverKind(&'static str);

impl MoverKind {
    /// Carries every item to another page; what is coldest in the class is evicted to make room.
    pub const WARM: MoverKind = MoverKind::new("warm");
    /// As published for memcached 1.5.12: an item that finds no free chunk is unlinked, and its chunk met
    /// again after a rest (MEMSYS 2019, algorithm 1).
    pub const BASE: MoverKind = MoverKind::new("base");
    /// As published: such a chunk is taken out of use at once (MEMSYS 2019, algorithm 2).
    pub const FAST: MoverKind = MoverKind::new("fast");
    /// As memcached 1.6 does it: empties the page that its class has had longest, carries items into chunks
    /// that are free already and drops the others, hot or not.
    pub const STOCK: MoverKind = MoverKind::new("stock");

    /// The kind of this name, which has its row in `mover/kinds/mod.rs`.
    pub(crate) const fn new(name: &'static str) -> MoverKind {
        MoverKind(name)
    }

    /// Its name in options and specifications.
    pub const fn name(self) -> &'static str {
        self.0
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

/// Address space reserved beyond the limit, so that `cache_memlimit` can raise it.
const RESERVE_FACTOR: u64 = 4;

/// At least this much is reserved where the system allows it.
const RESERVE_BYTES_MIN: u64 = 64 << 30;

/// More is reserved only if the limit itself asks for it.
const RESERVE_BYTES_MAX: u64 = 1 << 40;

/// What chunk addresses can reach.
const ARENA_SIZE_BYTES_MAX: u64 = (1 << (ADDRESS_BITS + 3)) - 16;

impl EngineConfig {
    /// Whole pages within a limit, at least one.
    pub(crate) fn pages_within(&self, limit_bytes: u64) -> u32 {
        (limit_bytes / self.page_size_bytes as u64).clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Bytes of whole pages that the limit allows, first pages beyond it included.
    pub(crate) fn arena_size_bytes(&self) -> u64 {
        let beyond_limit = if self.first_page_beyond_limit { self.classes.count() } else { 0 };
        let pages = u64::from(self.pages_within(self.memory_limit_bytes)) + beyond_limit as u64;
        let size_bytes = pages * self.page_size_bytes as u64;
        assert!(
            size_bytes <= ARENA_SIZE_BYTES_MAX,
            "{size_bytes} bytes are beyond what addresses reach"
        );
        size_bytes
    }

    /// The arena with room to raise the limit.
    pub(crate) fn roomy_arena_size_bytes(&self) -> u64 {
        let least = self.arena_size_bytes();
        (least * RESERVE_FACTOR).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX).max(least)
    }

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
            eviction_options: EvictionOptions::default(),
            mover: MoverKind::WARM,
            mover_rest: Duration::from_micros(1_000),
            huge_pages: false,
            hash_seed: 0,
        }
    }
}
