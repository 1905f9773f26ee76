//! Tests of the division of queues.

use crate::{MoveBudget, Tuner};
use slabwise_base::{ClassId, Clock};
use slabwise_engine::{ClassTable, Engine, EngineConfig, EvictionKind, ItemMeta, StoreMode};
use slabwise_policy::{PagePolicy, QueueSplit};

const PAGE_SIZE_BYTES: usize = 4096;
const CHUNKS: u64 = 1_024;

/// Requests twice as many keys as the cache has chunks, in a loop, with a store after each miss. Returns the hit ratio of
/// the last round.
fn loop_hits(engine: &Engine) -> f64 {
    let (mut handle, clock) = (engine.handle(), Clock::manual());
    let mut hits = 0;
    for _ in 0..6 {
        hits = 0;
        for key in (0..2 * CHUNKS).map(u64::to_le_bytes) {
            if handle.get(&key, clock.now(), |_| ()).is_some() {
                hits += 1;
            } else {
                handle.set(&key, b"value", ItemMeta::default(), StoreMode::Set, clock.now());
            }
        }
    }
    hits as f64 / (2 * CHUNKS) as f64
}

#[test]
fn a_plan_without_splits_leaves_the_queues_divided() {
    let mut config = EngineConfig::new(CHUNKS * 128);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(&[128], PAGE_SIZE_BYTES).expect("the table is valid");
    config.item_size_bytes_max = 128;
    config.index_within_limit = false;
    config.eviction = EvictionKind::SplitLru;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let budget = MoveBudget::default();
    let mut tuner = Tuner::new(PagePolicy::none(), budget, 1);
    // The right queue has almost all chunks, for less than half of the keys.
    let split = QueueSplit { class: ClassId(0), left_key_share: 0.54, left_item_share: 0.01 };
    tuner.divide_queues(&engine, &[split]);
    tuner.divide_queues(&engine, &[]);
    let hits = loop_hits(&engine);
    assert!((0.4..0.5).contains(&hits), "46 % of the keys are in the right queue: {hits}");
    engine.check();
}
