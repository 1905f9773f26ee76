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

#[cfg(test)]
mod tests {
    use super::geometric;
    use crate::sizes::ChunkLayout;

    #[test]
    fn memcacheds_table_is_reproduced() {
        let layout = ChunkLayout { chunk_align_bytes: 8, ..ChunkLayout::published(512 << 10) };
        let layout = ChunkLayout { chunk_size_bytes_min: 8, ..layout };
        let table = geometric(96, 1.25, &layout);
        assert_eq!(table[..6], [96, 120, 152, 192, 240, 304]);
        assert_eq!((table[table.len() - 2], table[table.len() - 1]), (394840, 524288));
        assert_eq!(table.len(), 39);
    }

    #[test]
    fn any_factor_makes_a_table() {
        for factor in [1.0001, 1.05, 1.9, 50.0] {
            for align in [1, 8] {
                let layout = ChunkLayout {
                    chunk_size_bytes_min: 2 * align,
                    chunk_align_bytes: align,
                    ..ChunkLayout::published(1 << 20)
                };
                layout.check_table(&geometric(1, factor, &layout)).expect("a sound table");
            }
        }
    }
}
