//! memcached's table: each size a factor times the one before.

use super::layout::ChunkLayout;
use slabwise_base::ClassId;

/// From `first_bytes`, each size `factor` times the one before, rounded up, ending with the layout's largest chunk;
/// where there are no more classes the last one is that, too.
///
/// # Panics
/// If the factor is not above 1.
pub fn geometric(first_bytes: usize, factor: f64, layout: &ChunkLayout) -> Vec<usize> {
    assert!(factor > 1.0, "a growth factor of {factor} does not grow");
    let last = layout.chunk_size_bytes_max;
    let mut sizes = Vec::new();
    let mut size = first_bytes.max(layout.chunk_size_bytes_min);
    while sizes.len() + 1 < ClassId::COUNT_MAX && (size as f64) < last as f64 / factor {
        size = size.next_multiple_of(layout.chunk_align_bytes);
        sizes.push(size);
        // A small factor may not reach the next multiple: the step is then one multiple.
        size = ((size as f64 * factor) as usize).max(size + 1);
    }
    if sizes.last().is_none_or(|&before| before < last) {
        sizes.push(last);
    }
    sizes
}
