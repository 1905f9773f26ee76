//! The configuration of a small engine with one class, which the tests of the eviction kinds share.

use slabwise_engine::{ClassTable, EngineConfig, EvictionKind};

pub const PAGE_SIZE_BYTES: usize = 4096;
pub const CHUNK_SIZE_BYTES: usize = 128;

/// Returns the configuration of an engine with this number of pages. No item is chained, unless the test raises the
/// limit of item sizes.
pub fn config(pages: u64, eviction: EvictionKind) -> EngineConfig {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(&[CHUNK_SIZE_BYTES], PAGE_SIZE_BYTES)
        .expect("the class table is valid");
    config.item_size_bytes_max = CHUNK_SIZE_BYTES as u64;
    config.index_within_limit = false;
    config.eviction = eviction;
    config
}
