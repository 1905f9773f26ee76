//! memcached's table: each size is a factor times the previous one.

use super::layout::ChunkLayout;
use slabwise_base::ClassId;

/// Returns a table from `first_bytes` up: each size is `factor` times the previous one, rounded up, and the last size
/// is the layout's largest chunk, also if the number of classes reaches its limit.
///
/// # Panics
/// If the factor is not above 1.
pub fn geometric(first_bytes: usize, factor: f64, layout: &ChunkLayout) -> Vec<usize> {
    assert!(factor > 1.0, "the growth factor must be above 1, not {factor}");
    let last = layout.chunk_size_bytes_max;
    let mut sizes = Vec::new();
    let mut size = first_bytes.max(layout.chunk_size_bytes_min);
    while sizes.len() + 1 < ClassId::COUNT_MAX && (size as f64) < last as f64 / factor {
        size = size.next_multiple_of(layout.chunk_align_bytes);
        sizes.push(size);
        // A small factor may not reach the next multiple; then the step is one multiple.
        size = ((size as f64 * factor) as usize).max(size + 1);
    }
    if sizes.last().is_none_or(|&before| before < last) {
        sizes.push(last);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::geometric;
    use crate::sizes::ChunkLayout;

    #[test]
    fn reproduces_memcacheds_table() {
        let layout = ChunkLayout { chunk_align_bytes: 8, ..ChunkLayout::published(512 << 10) };
        let layout = ChunkLayout { chunk_size_bytes_min: 8, ..layout };
        let table = geometric(96, 1.25, &layout);
        assert_eq!(table[..6], [96, 120, 152, 192, 240, 304]);
        assert_eq!((table[table.len() - 2], table[table.len() - 1]), (394840, 524288));
        assert_eq!(table.len(), 39);
    }

    #[test]
    fn any_factor_gives_a_valid_table() {
        for factor in [1.0001, 1.05, 1.9, 50.0] {
            for align in [1, 8] {
                let layout = ChunkLayout {
                    chunk_size_bytes_min: 2 * align,
                    chunk_align_bytes: align,
                    ..ChunkLayout::published(1 << 20)
                };
                layout.check_table(&geometric(1, factor, &layout)).expect("a valid table");
            }
        }
    }
}
