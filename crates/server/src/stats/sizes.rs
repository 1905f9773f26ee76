//! `stats sizes`: how many items there are by size, in memcached's steps.

use super::Rows;
use slabwise_engine::Engine;
use std::collections::BTreeMap;

const SIZE_STEP_BYTES: usize = 32;

pub(super) fn write(engine: &Engine, rows: &mut Rows<'_>) {
    let mut steps = BTreeMap::new();
    let size_bytes_max = engine.config().item_size_bytes_max as usize;
    for bar in engine.item_sizes().bars() {
        // A bar's largest size may be larger than any item.
        let size_bytes = bar.size_bytes.min(size_bytes_max).next_multiple_of(SIZE_STEP_BYTES);
        *steps.entry(size_bytes).or_insert(0) += bar.items;
    }
    for (size_bytes, items) in steps {
        rows.row(size_bytes, items);
    }
    rows.end();
}
