//! `eviction=segmented`: memcached's segmented LRU (`order.rs`).

use super::order::{Info, Order};

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
        ..Info::new("segmented", "memcached's segmented LRU")
    };
}
