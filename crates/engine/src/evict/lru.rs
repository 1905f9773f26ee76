//! `eviction=lru`: one queue in exact order of use (`order.rs`). Every hit takes the class's lock.

use super::order::{Info, LruConfig, Order, Segments};

/// The exact LRU of one class.
#[derive(Debug)]
pub struct Lru {
    segments: Segments,
}

impl Lru {
    /// A class with these limits, which count if it switches to segments.
    pub fn new(limits: &LruConfig) -> Lru {
        Lru { segments: Segments { limits: *limits, is_exact: true } }
    }
}

impl Order for Lru {
    const INFO: Info = Info { is_exact: true, can_switch: true, ..Info::new("lru", "exact LRU") };

    #[inline]
    fn segments(&self) -> Option<&Segments> {
        Some(&self.segments)
    }

    fn segments_mut(&mut self) -> Option<&mut Segments> {
        Some(&mut self.segments)
    }
}
