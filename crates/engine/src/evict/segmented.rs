//! `eviction=segmented`: memcached's segmented LRU (`order.rs`).

use super::order::{Info, LruConfig, Order, Segments};

/// The segmented LRU of one class.
#[derive(Debug)]
pub struct Segmented {
    segments: Segments,
}

impl Segmented {
    pub fn new(limits: &LruConfig) -> Segmented {
        Segmented { segments: Segments { limits: *limits, is_exact: false } }
    }
}

impl Order for Segmented {
    const INFO: Info = Info { can_switch: true, ..Info::new("segmented", "that one") };

    #[inline]
    fn segments(&self) -> Option<&Segments> {
        Some(&self.segments)
    }

    fn segments_mut(&mut self) -> Option<&mut Segments> {
        Some(&mut self.segments)
    }
}
