//! Derives the engine's configuration from the options: memory, page size and classes.

use super::draft::{Draft, Given};
use slabwise_base::memcached;
use slabwise_engine::{
    CHUNK_SIZE_BYTES_MIN, ClassTable, EngineConfig, MoverKind, SizeModel, SpareConfig, mover_kind,
    page_size_default,
};
use std::hash::{BuildHasher, Hasher, RandomState};

const MIB: u64 = 1 << 20;
const ITEM_SIZE_BYTES_MIN: u64 = 1 << 10;
const ITEM_SIZE_BYTES_MAX: u64 = 1 << 30;
const PAGE_SIZE_BYTES_MIN: usize = 4 << 10;
/// The maximum page size that the engine supports.
const PAGE_SIZE_BYTES_MAX: usize = 16 << 20;
/// The maximum number of chunks of a chained item. Pages must be large enough that the largest item needs no more
/// chunks.
const CHAIN_CHUNKS_MAX: u64 = 1024;
/// slabwise's default growth factor of chunk sizes, which [`ClassTable::default_for`] also uses.
const GROWTH_FACTOR: f64 = 1.12;

/// Returns the engine's configuration, or an error if the options conflict.
pub(super) fn engine_config(draft: &Draft) -> Result<EngineConfig, String> {
    let Draft { settings, given, .. } = draft;
    let options = &settings.engine;
    let limit = given.memory_limit_mib.map(|mib| u64::from(mib) * MIB);
    let memory_limit_bytes = limit.unwrap_or(options.memory_limit_bytes);
    let item_size_bytes_max = item_size_max(given, memory_limit_bytes)?;
    let page_size_bytes = page_size(given, memory_limit_bytes, item_size_bytes_max)?;
    let classes = classes(given, page_size_bytes, item_size_bytes_max)?;
    check_lru(options, settings.lru_maintainer)?;
    let preset = given.memcached_preset;
    Ok(EngineConfig {
        memory_limit_bytes,
        page_size_bytes,
        classes,
        size_model: if preset { SizeModel::Memcached } else { SizeModel::Exact },
        first_page_beyond_limit: preset,
        index_within_limit: !preset,
        item_size_bytes_max,
        eviction: given.eviction_kind(settings.lru_maintainer),
        mover: mover(given),
        spares: SpareConfig::for_workers(settings.threads as u32),
        huge_pages: given.huge_pages(),
        hash_seed: random_seed(),
        ..options.clone()
    })
}

/// Returns the mover that `-o page_mover` names, or the default mover.
fn mover(given: &Given) -> MoverKind {
    let default = if given.memcached_preset { MoverKind::STOCK } else { MoverKind::WARM };
    given.page_mover.and_then(mover_kind).unwrap_or(default)
}

/// Returns the maximum size of an item in bytes (`-I`).
fn item_size_max(given: &Given, memory_limit_bytes: u64) -> Result<u64, String> {
    let size = given.item_size_bytes_max.map_or(MIB, |size| size.unsigned_abs());
    if size < ITEM_SIZE_BYTES_MIN {
        return Err(format!("-I {size} is below the minimum, 1024 bytes: raise -I"));
    }
    if size > ITEM_SIZE_BYTES_MAX {
        return Err(format!("-I {size} is above the maximum, 1073741824 bytes (1024m): lower -I"));
    }
    if size > memory_limit_bytes / 2 {
        let limit = memory_limit_bytes / MIB;
        return Err(format!(
            "-I {size} (bytes) is above half of -m {limit} (megabytes): lower -I or raise -m"
        ));
    }
    Ok(size)
}

/// Returns the page size in bytes: the value of `-o page_size`, or the default page size. The function raises the
/// default if the largest chunk or the largest item needs larger pages.
fn page_size(given: &Given, memory_limit_bytes: u64, item_max: u64) -> Result<usize, String> {
    let needed = largest_requested_chunk(given, item_max)
        .max(item_max.div_ceil(CHAIN_CHUNKS_MAX) as usize * 2);
    if needed > PAGE_SIZE_BYTES_MAX {
        return Err(format!(
            "-o slab_sizes or slab_chunk_max: a chunk of {needed} bytes is above the largest page, \
             {PAGE_SIZE_BYTES_MAX} bytes: lower the size (larger items are stored in several chunks)"
        ));
    }
    let Some(requested) = given.page_size_bytes else {
        let default = if given.memcached_preset {
            memcached::PAGE_SIZE_BYTES
        } else {
            page_size_default(memory_limit_bytes)
        };
        return Ok(default.max(needed.next_power_of_two()));
    };
    let size = usize::try_from(requested).unwrap_or(0);
    if !size.is_power_of_two() || !(PAGE_SIZE_BYTES_MIN..=PAGE_SIZE_BYTES_MAX).contains(&size) {
        return Err(format!(
            "-o page_size={requested} is not valid: give a power of two from {PAGE_SIZE_BYTES_MIN} (4k) \
             to {PAGE_SIZE_BYTES_MAX} (16m)"
        ));
    }
    if size as u64 > memory_limit_bytes {
        return Err(format!(
            "-o page_size={requested} is above -m ({memory_limit_bytes} bytes): lower page_size or raise -m"
        ));
    }
    if size < needed {
        let least = needed.next_power_of_two();
        return Err(format!(
            "-o page_size={requested} is too small for slab_chunk_max, slab_sizes or -I: give at \
             least {least}, or leave page_size out"
        ));
    }
    Ok(size)
}

/// Returns the value of `-o slab_chunk_max` in bytes. Up to version 1.6.18 memcached reads the value as bytes, and
/// later versions read it as kilobytes. Therefore a value above 1024, or equal to `-I`, which would be too large in
/// kilobytes, is read as bytes.
fn requested_chunk_max(given: &Given, item_max: u64) -> Option<usize> {
    // The largest value that is read as kilobytes, as in memcached: 1024, which is 1 MiB.
    const KIB_MAX: u64 = 1024;
    let value = u64::from(given.slab_chunk_max?);
    let in_bytes = value > KIB_MAX || (value << 10 > item_max && value == item_max);
    Some(if in_bytes { value } else { value << 10 } as usize)
}

/// Returns the largest chunk size that the options request, in bytes, or 0 if they request no chunk size.
fn largest_requested_chunk(given: &Given, item_max: u64) -> usize {
    let explicit = requested_chunk_max(given, item_max).unwrap_or(0);
    let listed = given.slab_sizes.iter().flatten().copied().max().unwrap_or(0);
    explicit.max(listed)
}

/// Returns the class table at the start of the server.
fn classes(given: &Given, page_size: usize, item_max: u64) -> Result<ClassTable, String> {
    let chunk_max = chunk_size_max(given, page_size, item_max)?;
    let preset = given.memcached_preset;
    if let Some(sizes) = &given.slab_sizes {
        let mut sizes = sizes.clone();
        // As in memcached, there is always a class with chunks of the largest chunk size.
        if sizes.last().is_none_or(|&last| last.next_multiple_of(8) < chunk_max) {
            sizes.push(chunk_max);
        }
        let table = ClassTable::explicit(&sizes, page_size);
        return table.map_err(|error| format!("-o slab_sizes: {error}"));
    }
    let first = match (given.chunk_size_bytes, preset) {
        (Some(bytes), true) => memcached::HEADER_SIZE_BYTES + bytes as usize,
        (None, true) => memcached::HEADER_SIZE_BYTES + memcached::ITEM_ROOM_BYTES_MIN,
        (Some(bytes), false) => CHUNK_SIZE_BYTES_MIN + bytes as usize,
        (None, false) => CHUNK_SIZE_BYTES_MIN,
    };
    if first > chunk_max {
        let bytes = given.chunk_size_bytes.unwrap_or_default();
        return Err(format!("-n {bytes} is above the largest chunk, {chunk_max} bytes: lower -n"));
    }
    Ok(ClassTable::geometric(first, growth_factor(given), chunk_max))
}

/// Returns the growth factor of chunk sizes (`-f`). With `classes=geometric` or `preset=memcached` the default is
/// memcached's, 1.25.
pub(super) fn growth_factor(given: &Given) -> f64 {
    let is_memcached_default = given.memcached_preset || given.classes == Some("geometric");
    let default = if is_memcached_default { memcached::GROWTH_FACTOR } else { GROWTH_FACTOR };
    given.growth_factor.unwrap_or(default)
}

/// Returns the size of the largest chunk in bytes.
fn chunk_size_max(given: &Given, page_size: usize, item_max: u64) -> Result<usize, String> {
    let explicit = requested_chunk_max(given, item_max);
    if let Some(size) = explicit.filter(|&size| size as u64 > item_max) {
        return Err(format!(
            "-o slab_chunk_max is {size} bytes, above -I ({item_max} bytes): lower slab_chunk_max or raise -I"
        ));
    }
    let default = if given.chunked_items_disabled { page_size } else { page_size / 2 };
    let size = explicit.unwrap_or(default.min(item_max.next_multiple_of(8) as usize));
    Ok(size.max(largest_requested_chunk(given, item_max)))
}

/// Returns an error if the options of the LRU queues conflict.
fn check_lru(options: &EngineConfig, lru_maintainer: bool) -> Result<(), String> {
    let lru = &options.eviction_options.lru;
    let (hot, warm) = (lru.hot_percent, lru.warm_percent);
    if hot + warm > 80 {
        return Err(format!(
            "-o hot_lru_pct={hot},warm_lru_pct={warm}: the sum of the two percentages is above 80: lower one of them"
        ));
    }
    if lru.temporary_ttl.is_some() && !lru_maintainer {
        return Err(
            "-o temporary_ttl needs the LRU maintainer: leave out no_lru_maintainer and no_modern"
                .to_owned(),
        );
    }
    Ok(())
}

/// Returns a random number from the source with which the standard library seeds its hash maps.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
