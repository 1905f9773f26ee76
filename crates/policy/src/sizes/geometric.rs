//! memcached's table: each chunk size is a fixed factor times the previous size.

use super::layout::ChunkLayout;
use slabwise_base::ClassId;

/// Returns a table whose first size is `first_bytes`. Each further size is `factor` times the previous size, rounded
/// up. The last size is the layout's largest chunk, even if the maximum number of classes is reached before.
///
/// # Panics
/// Panics if `factor` is not above 1.
pub fn geometric(first_bytes: usize, factor: f64, layout: &ChunkLayout) -> Vec<usize> {
    assert!(factor > 1.0, "the growth factor must be above 1, not {factor}");
    let last = layout.chunk_size_bytes_max;
    let mut sizes = Vec::new();
    let mut size = first_bytes.max(layout.chunk_size_bytes_min);
    while sizes.len() + 1 < ClassId::COUNT_MAX && (size as f64) < last as f64 / factor {
        size = size.next_multiple_of(layout.chunk_align_bytes);
        sizes.push(size);
        // If the factor is so small that the size would stay the same, the next multiple follows.
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
    fn the_table_equals_that_of_memcached() {
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
                layout.check_table(&geometric(1, factor, &layout)).expect("the table is valid");
            }
        }
    }
}
