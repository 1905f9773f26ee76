//! The configuration of an engine, which the server's options and the lab's specifications fill in.

use crate::evict::{EvictionKind, EvictionOptions};
use crate::index::{INDEX_BYTES_PER_ITEM, INDEX_UNEVEN_DIVISOR};
use crate::layout::{ADDRESS_BITS, ClassTable, SizeModel};
use crate::mem::{HugePages, page_entries_size_bytes};
use std::time::Duration;

/// The configuration of an [`Engine`](crate::Engine).
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The memory limit in bytes. The engine uses the largest number of whole pages within the limit, but at least one.
    pub memory_limit_bytes: u64,
    /// The page size: a power of two from 4 KiB to 16 MiB. [`page_size_default`] returns a suitable size.
    pub page_size_bytes: usize,
    /// The class table with which the engine starts.
    pub classes: ClassTable,
    /// The rule that counts the size of an item.
    pub size_model: SizeModel,
    /// True if every class may get its first page even if this exceeds the memory limit, as in memcached.
    pub first_page_beyond_limit: bool,
    /// True if the memory of the index counts against the memory limit. In memcached it does not count.
    pub index_within_limit: bool,
    /// The largest size of an item in bytes, header and key included. Larger stores fail.
    pub item_size_bytes_max: u64,
    /// True if a store into a full cache evicts items, which is the default. False if the store fails, as with
    /// memcached's `-M`.
    pub eviction_enabled: bool,
    /// The eviction kind of all classes.
    pub eviction: EvictionKind,
    /// The options of all eviction kinds.
    pub eviction_options: EvictionOptions,
    /// The kind of the mover.
    pub mover: MoverKind,
    /// The time for which the movers `base` and `fast` pause after a chunk that they could not empty. memcached's
    /// default is 1000 us.
    pub mover_pause: Duration,
    /// The limits of spare chunks.
    pub spares: SpareConfig,
    /// Whether items and the index are in transparent huge pages.
    pub huge_pages: HugePages,
    /// The seed of the hash of keys.
    pub hash_seed: u64,
}

/// The limits of spare chunks: free chunks that handles hold, so that most stores take fewer locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareConfig {
    /// The number of handles that may have spare chunks at the same time. Further handles have none.
    pub holders_max: u32,
    /// All spare chunks of a class together take at most the memory of the class divided by this number.
    pub memory_divisor: u64,
}

impl SpareConfig {
    /// No handle has spare chunks.
    pub const NONE: SpareConfig = SpareConfig::for_workers(0);

    /// Returns the limits for a number of workers, each with a handle. All spare chunks together take at most 0.25 % of
    /// the memory of each class.
    pub const fn for_workers(count: u32) -> SpareConfig {
        SpareConfig { holders_max: count, memory_divisor: 400 }
    }
}

/// The kind of a mover: how it empties a page. [`MOVER_NAMES`](crate::MOVER_NAMES) lists the names of all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoverKind(&'static str);

impl MoverKind {
    /// Copies every item of the page to another page. Evicts the coldest items of the class to get free chunks there.
    pub const WARM: MoverKind = MoverKind::new("warm");
    /// The mover that a paper describes for memcached 1.5.12 (MEMSYS 2019, algorithm 1). If no chunk is free on another
    /// page, the mover unlinks the item and visits the chunk again after a pause.
    pub const BASE: MoverKind = MoverKind::new("base");
    /// Like [`MoverKind::BASE`], but after a busy chunk the mover visits the next chunk of the page, and the busy chunks
    /// again after the last chunk. This is the order of memcached 1.5.12.
    pub const BASE_NEXT: MoverKind = MoverKind::new("base_next");
    /// The fast mover of the same paper (MEMSYS 2019, algorithm 2). If no chunk is free on another page, the mover
    /// unlinks the item and withdraws the item's chunk from use at once.
    pub const FAST: MoverKind = MoverKind::new("fast");
    /// The mover of memcached 1.6. It empties the page that the class has owned for the longest time. It copies items
    /// to chunks that are already free, and drops all other items of the page, even if they were used recently.
    pub const STOCK: MoverKind = MoverKind::new("stock");

    /// Returns the kind with this name, which must be in the table of `mover/kinds/mod.rs`.
    pub(crate) const fn new(name: &'static str) -> MoverKind {
        MoverKind(name)
    }

    /// True if the mover withdraws the free chunks of a page, so that every chunk in use must hold an item.
    pub(crate) fn withdraws_chunks(self) -> bool {
        [MoverKind::BASE, MoverKind::BASE_NEXT, MoverKind::FAST].contains(&self)
    }

    /// Returns the name of the kind in options and specifications.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// Returns the default page size in bytes for a memory limit. A small cache has small pages, because each class that
/// holds items owns at least one page. A large cache has large pages, so that the number of pages stays small.
pub fn page_size_default(memory_limit_bytes: u64) -> usize {
    const MIB: u64 = 1 << 20;
    match memory_limit_bytes {
        0..0x0100_0000 => 16 << 10,
        0x0100_0000..0x0800_0000 => 64 << 10,
        0x0800_0000..0x1000_0000 => 128 << 10,
        limit if limit <= 1024 * MIB => 256 << 10,
        _ => 1 << 20,
    }
}

/// The reserved address space as a multiple of the memory limit at the start. The command `cache_memlimit` can raise
/// the limit up to the reserved address space.
const RESERVE_FACTOR: u64 = 4;

/// The smallest reserved address space in bytes, if the system allows it.
const RESERVE_BYTES_MIN: u64 = 64 << 30;

/// The largest reserved address space in bytes, unless the memory limit itself is larger.
const RESERVE_BYTES_MAX: u64 = 1 << 40;

/// The minimum size, in bytes, of the items in a cache with very many items. Smaller items have keys of a few bytes, so
/// there cannot be many of them.
const ITEM_SIZE_BYTES_MANY_MIN: u64 = 48;

/// The size of the largest arena that chunk addresses can cover.
const ARENA_SIZE_BYTES_MAX: u64 = (1 << (ADDRESS_BITS + 3)) - 16;

impl EngineConfig {
    /// Returns the number of whole pages within a memory limit, but at least one.
    pub(crate) fn pages_within(&self, limit_bytes: u64) -> u32 {
        (limit_bytes / self.page_size_bytes as u64).clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Returns the number of pages that classes may get beyond the memory limit.
    pub(crate) fn pages_beyond_limit(&self) -> u32 {
        if self.first_page_beyond_limit { self.classes.count() as u32 } else { 0 }
    }

    /// Returns the size in bytes of the smallest possible arena: the whole pages within the memory limit and, if
    /// allowed, the first page of each class. Panics if chunk addresses cannot cover this size.
    pub(crate) fn arena_size_bytes(&self) -> u64 {
        let pages = u64::from(self.pages_within(self.memory_limit_bytes))
            + u64::from(self.pages_beyond_limit());
        let size_bytes = pages * self.page_size_bytes as u64;
        assert!(
            size_bytes <= ARENA_SIZE_BYTES_MAX,
            "the memory limit needs {size_bytes} bytes, but chunk addresses cover only {ARENA_SIZE_BYTES_MAX} bytes: \
             lower the limit"
        );
        size_bytes
    }

    /// Returns the size in bytes of an arena in which the memory limit can be raised.
    pub(crate) fn roomy_arena_size_bytes(&self) -> u64 {
        let least = self.arena_size_bytes();
        (least * RESERVE_FACTOR).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX).max(least)
    }

    /// Returns the maximum memory, in bytes, that the engine takes in addition to the memory limit: the entries of its
    /// pages, the unevenness of the index and, depending on the configuration, the index itself
    /// and the first page of each class.
    pub fn beyond_limit_bytes_max(&self) -> u64 {
        let first_pages = u64::from(self.pages_beyond_limit());
        let pages = u64::from(self.pages_within(self.memory_limit_bytes)) + first_pages;
        let mut item_size_bytes = u64::from(self.classes.sizes()[0]).max(ITEM_SIZE_BYTES_MANY_MIN);
        if self.index_within_limit {
            item_size_bytes += INDEX_BYTES_PER_ITEM;
        }
        let index_bytes = self.memory_limit_bytes / item_size_bytes * INDEX_BYTES_PER_ITEM;
        let index_beyond_limit = if self.index_within_limit { 0 } else { index_bytes };
        page_entries_size_bytes(pages)
            + first_pages * self.page_size_bytes as u64
            + index_beyond_limit
            + index_bytes / INDEX_UNEVEN_DIVISOR
    }

    /// Returns slabwise's default configuration for a memory limit, with the eviction kind `segmented`.
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
            mover_pause: Duration::from_micros(1_000),
            spares: SpareConfig::NONE,
            huge_pages: HugePages::BySystem,
            hash_seed: 0,
        }
    }
}
