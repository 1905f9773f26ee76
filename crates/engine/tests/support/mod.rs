//! A small engine, which the tests of the observers share.

use slabwise_engine::{ClassTable, Engine, EngineConfig};

pub const PAGE_SIZE_BYTES: usize = 16 << 10;

/// Returns an engine with this number of pages and two classes, with chunks of 128 and 1,024 bytes.
pub fn small_engine(pages: u64) -> Engine {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes =
        ClassTable::explicit(&[128, 1024], PAGE_SIZE_BYTES).expect("the class table is valid");
    config.index_within_limit = false;
    Engine::new(config).expect("the arena can be reserved")
}
