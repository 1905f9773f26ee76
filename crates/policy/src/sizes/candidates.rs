//! Sizes that a table may have, ready for dynamic programming.

use super::layout::ChunkLayout;
use super::parts::Parts;

/// Sizes, ascending. A *place* is the number of a size from 1; 0 is before all.
pub(super) struct Candidates {
    pub sizes: Vec<usize>,
    pub is_fixed: Vec<bool>,
    /// By place: what a chunk takes.
    pub taken: Vec<f64>,
    /// By place: the weight of all parts up to it.
    pub weight: Vec<f64>,
    /// By place: the bytes of these parts, each times what it is worth.
    pub worth: Vec<f64>,
}

impl Candidates {
    /// Free sizes, and fixed ones, of which the last is the largest; both never fall.
    pub fn new(
        parts: &Parts,
        free: impl Iterator<Item = usize>,
        fixed: &[usize],
        layout: &ChunkLayout,
    ) -> Candidates {
        let mut sizes: Vec<usize> = free.collect();
        sizes.dedup();
        sizes.extend(fixed);
        // Stable: it finds two ascending rows.
        sizes.sort();
        sizes.dedup();
        let is_fixed = sizes.iter().map(|size| fixed.binary_search(size).is_ok()).collect();
        let (mut taken, mut weight, mut worth) = (vec![0.0], vec![0.0], vec![0.0]);
        let mut end = 0;
        for &size in &sizes {
            end += parts.sizes[end..].iter().take_while(|&&part| part <= size).count();
            taken.push(layout.taken_bytes(size));
            weight.push(parts.weight_before[end]);
            worth.push(parts.worth_before[end]);
        }
        Candidates { sizes, is_fixed, taken, weight, worth }
    }
}
