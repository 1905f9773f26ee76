//! Additional chunk sizes for items that are not yet known.
//!
//! The best table for known items can have wide gaps between its sizes. An item whose size is in such a gap would be
//! stored in a chunk many times as large. An empty class owns no page, so it costs only a class number. So unused class
//! numbers become sizes in the widest gaps.

use super::error::SizesError;
use super::layout::{ChunkLayout, check_class_count};

/// Adds sizes to a table, each in the middle of the widest gap, until no size is more than `factor` times the size
/// below it, or there are `class_count_max` classes. The loss does not increase.
///
/// # Panics
/// Panics if `factor` is not above 1.
pub fn fill_gaps(
    table: &[usize],
    layout: &ChunkLayout,
    factor: f64,
    class_count_max: usize,
) -> Result<Vec<usize>, SizesError> {
    assert!(factor > 1.0, "the gap factor must be above 1, not {factor}");
    layout.check()?;
    layout.check_table(table)?;
    check_class_count(class_count_max)?;
    let mut filled = table.to_vec();
    while filled.len() < class_count_max {
        let below = [layout.chunk_size_bytes_min].into_iter().chain(filled.iter().copied());
        let gaps = below.zip(filled.iter().copied());
        let ratio = |&(below, above): &(usize, usize)| above as f64 / below as f64;
        let wide = gaps.filter(|gap| ratio(gap) > factor && middle(*gap, layout).is_some());
        let Some(widest) = wide.max_by(|a, b| ratio(a).total_cmp(&ratio(b))) else { break };
        filled.extend(middle(widest, layout));
        filled.sort();
    }
    Ok(filled)
}

/// Returns the geometric mean of the two ends of a gap, rounded up to a chunk size; `None` if there is no chunk size
/// between the ends.
fn middle((below, above): (usize, usize), layout: &ChunkLayout) -> Option<usize> {
    let middle = layout.chunk_for((below as f64 * above as f64).sqrt() as usize);
    (middle > below && middle < above).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::fill_gaps;
    use crate::sizes::testing::{demands, layout, table};
    use crate::sizes::{ChunkLayout, error::BadArgument, loss};
    use slabwise_base::Random;

    #[test]
    fn a_filled_table_keeps_its_sizes_and_loses_no_more() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let layout = layout(&mut random, 200);
            let table = table(&mut random, &layout, 6);
            let demands = demands(&mut random, &layout, 20);
            let filled = fill_gaps(&table, &layout, 1.1, 12).expect("the table is valid");
            assert!(filled.len() <= 12 && table.iter().all(|size| filled.contains(size)));
            let lost = |table: &[usize]| {
                loss(&demands, table, &layout).expect("the arguments are valid").total_bytes()
            };
            let (before, after) = (lost(&table), lost(&filled));
            assert!(after <= before + 1e-9 * before, "seed {seed}: loss {after}, before {before}");
        }
    }

    #[test]
    fn with_more_classes_the_widest_gap_is_narrower() {
        let layout = ChunkLayout {
            chunk_size_bytes_min: 32,
            chunk_align_bytes: 8,
            ..ChunkLayout::published(1 << 20)
        };
        let table = [200, 1 << 20];
        let ratio = |filled: &[usize]| {
            let ratios = filled.windows(2).map(|two| two[1] as f64 / two[0] as f64);
            ratios.fold(filled[0] as f64 / 32.0, f64::max)
        };
        let filled = fill_gaps(&table, &layout, 1.5, 63).expect("the table is valid");
        assert!(ratio(&filled) <= 1.5, "no gap is wider than 1.5: {filled:?}");
        let mut wide = f64::INFINITY;
        for count in [2, 3, 5, 9, 17] {
            let filled = fill_gaps(&table, &layout, 1.5, count).expect("the table is valid");
            assert!(
                filled.len() == count && ratio(&filled) < wide,
                "{count} classes have narrower gaps: {filled:?}"
            );
            wide = ratio(&filled);
        }
        let refused = fill_gaps(&table, &layout, 1.5, 64);
        assert_eq!(refused, Err(BadArgument::ClassCount { count: 64, max: 63 }.into()));
    }
}
