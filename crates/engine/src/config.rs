//! The configuration of an engine, which the server's options and the lab's specifications fill in.

use crate::evict::{EvictionKind, EvictionOptions};
use crate::layout::{ADDRESS_BITS, ClassTable, SizeModel};
use std::time::Duration;

/// The configuration of an [`Engine`](crate::Engine).
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The limit of item memory. The engine uses as many whole pages as fit, at least one.
    pub memory_limit_bytes: u64,
    /// The page size, a power of two from 4 KiB to 16 MiB. [`page_size_default`] suggests one.
    pub page_size_bytes: usize,
    /// The classes and their chunk sizes.
    pub classes: ClassTable,
    /// How the size of an item is counted for the choice of its class.
    pub size_model: SizeModel,
    /// True if every class may get its first page beyond the limit, as in memcached.
    pub first_page_beyond_limit: bool,
    /// True if the index counts against the limit. In memcached it does not.
    pub index_within_limit: bool,
    /// The largest size of an item, key and header included.
    pub item_size_bytes_max: u64,
    /// True if a full cache evicts (the default). Otherwise stores fail, as with memcached's `-M`.
    pub eviction_enabled: bool,
    /// The eviction policy.
    pub eviction: EvictionKind,
    /// The options of the eviction kinds.
    pub eviction_options: EvictionOptions,
    /// How the page mover empties a page.
    pub mover: MoverKind,
    /// The pause of `base` and `fast` after a busy chunk; memcached's default is 1000 us.
    pub mover_rest: Duration,
    /// True to request huge pages from the system (`-L`).
    pub huge_pages: bool,
    /// The seed of the key hash.
    pub hash_seed: u64,
}

/// How the page mover empties a page; [`MOVER_NAMES`](crate::MOVER_NAMES) lists all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoverKind(&'static str);

impl MoverKind {
    /// Moves every item to another page and evicts the coldest items of the class to make room.
    pub const WARM: MoverKind = MoverKind::new("warm");
    /// The mover published for memcached 1.5.12: an item without a free chunk elsewhere is unlinked, and its chunk
    /// is visited again after a pause (MEMSYS 2019, algorithm 1).
    pub const BASE: MoverKind = MoverKind::new("base");
    /// The published fast mover: the chunk of such an item is withdrawn at once (MEMSYS 2019, algorithm 2).
    pub const FAST: MoverKind = MoverKind::new("fast");
    /// The mover of memcached 1.6: it empties the class's oldest page, moves items to chunks that are already free
    /// and drops the others, hot or cold.
    pub const STOCK: MoverKind = MoverKind::new("stock");

    /// The kind of this name. `mover/kinds/mod.rs` has its row.
    pub(crate) const fn new(name: &'static str) -> MoverKind {
        MoverKind(name)
    }

    /// Returns the name in options and specifications.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// Returns the default page size for a memory limit. Small caches need small pages, because a class owns at least
/// one; large caches need fewer pages.
pub fn page_size_default(memory_limit_bytes: u64) -> usize {
    const MIB: u64 = 1 << 20;
    match memory_limit_bytes {
        0..0x0100_0000 => 16 << 10,
        0x0100_0000..0x0800_0000 => 64 << 10,
        limit if limit <= 1024 * MIB => 256 << 10,
        _ => 1 << 20,
    }
}

/// The reserved address space as a multiple of the limit, so that `cache_memlimit` can raise the limit.
const RESERVE_FACTOR: u64 = 4;

/// The least reserved address space, if the system allows it.
const RESERVE_BYTES_MIN: u64 = 64 << 30;

/// The most reserved address space, unless the limit itself is larger.
const RESERVE_BYTES_MAX: u64 = 1 << 40;

/// The largest arena that chunk addresses can cover.
const ARENA_SIZE_BYTES_MAX: u64 = (1 << (ADDRESS_BITS + 3)) - 16;

impl EngineConfig {
    /// The number of whole pages within a limit, at least one.
    pub(crate) fn pages_within(&self, limit_bytes: u64) -> u32 {
        (limit_bytes / self.page_size_bytes as u64).clamp(1, u64::from(u32::MAX)) as u32
    }

    /// The size of the whole pages within the limit and the first pages beyond it.
    pub(crate) fn arena_size_bytes(&self) -> u64 {
        let beyond_limit = if self.first_page_beyond_limit { self.classes.count() } else { 0 };
        let pages = u64::from(self.pages_within(self.memory_limit_bytes)) + beyond_limit as u64;
        let size_bytes = pages * self.page_size_bytes as u64;
        assert!(
            size_bytes <= ARENA_SIZE_BYTES_MAX,
            "memory limit too high: {size_bytes} bytes exceed the address range of {ARENA_SIZE_BYTES_MAX} bytes"
        );
        size_bytes
    }

    /// The size of an arena in which the limit can be raised.
    pub(crate) fn roomy_arena_size_bytes(&self) -> u64 {
        let least = self.arena_size_bytes();
        (least * RESERVE_FACTOR).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX).max(least)
    }

    /// Returns slabwise's defaults for a memory limit.
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
