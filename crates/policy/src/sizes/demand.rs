//! What has to be stored.

use slabwise_base::SizeBar;

/// So many items of one size, and what a byte is worth that is lost with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Bytes an item, header and key included.
    pub size_bytes: usize,
    /// How many.
    pub items: u64,
    /// What each lost byte counts: 1 where all memory is worth the same.
    pub byte_value: f64,
}

impl From<SizeBar> for Demand {
    fn from(bar: SizeBar) -> Demand {
        Demand { size_bytes: bar.size_bytes, items: bar.items, byte_value: 1.0 }
    }
}
