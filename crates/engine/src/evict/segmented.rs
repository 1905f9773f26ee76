//! `eviction=segmented`: memcached's segmented LRU, with the queues hot, warm, cold and temp. The rules are in
//! `order.rs`.

use super::order::{Info, Order};

/// The segmented LRU order of one class.
#[derive(Debug)]
pub struct Segmented;

impl Segmented {
    pub fn new() -> Segmented {
        Segmented
    }
}

impl Order for Segmented {
    const INFO: Info = Info {
        is_segmented: true,
        can_switch: true,
        evicts_in_batches: true,
        ..Info::new("segmented", "memcached's segmented LRU")
    };
}
