//! `eviction=lru`: one queue in exact LRU order (`order.rs`). Every hit takes the class's lock.

use super::order::{Info, Order};

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
        ..Info::new("lru", "exact LRU")
    };
}
