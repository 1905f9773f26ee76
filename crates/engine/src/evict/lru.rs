//! `eviction=lru`: one queue per class in exact LRU order. The rules are in `order.rs`. A hit moves its item to the
//! head of the queue, so every hit takes the lock of the item's class.

use super::order::{Info, Order};

/// The exact LRU order of one class.
#[derive(Debug)]
pub struct Lru;

impl Lru {
    pub fn new() -> Lru {
        Lru
    }
}

impl Order for Lru {
    const INFO: Info = Info {
        is_segmented: true,
        is_exact: true,
        can_switch: true,
        evicts_in_batches: true,
        ..Info::new("lru", "exact LRU")
    };
}
