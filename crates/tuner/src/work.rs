//! The work of a cache, by which the tuner and the policies count instead of time.

use slabwise_engine::Engine;

/// Returns the number of turnovers since the start: the bytes that were stored, divided by the memory for items.
pub fn turnovers(engine: &Engine) -> f64 {
    let memory = engine.page_stats().limit_for_items * engine.config().page_size_bytes as u64;
    engine.bytes_stored_ever() as f64 / memory.max(1) as f64
}
