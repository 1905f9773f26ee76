//! What a table loses.

use super::demand::Demand;
use super::error::SizesError;
use super::layout::ChunkLayout;
use super::parts::Parts;

/// Bytes that are taken and hold nothing of an item, each times what it is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// In chunks, behind what they hold.
    pub inside_bytes: f64,
    /// At the ends of pages.
    pub page_end_bytes: f64,
    /// Links and headers of chained items' parts: the same in every table.
    pub chained_bytes: f64,
}

impl Loss {
    /// All of it.
    pub fn total_bytes(&self) -> f64 {
        self.inside_bytes + self.page_end_bytes + self.chained_bytes
    }
}

/// What this table loses where pages are full: the last page of a class, which is not, does not count.
pub fn loss(demands: &[Demand], table: &[usize], layout: &ChunkLayout) -> Result<Loss, SizesError> {
    let parts = Parts::of(demands, layout)?;
    layout.check_table(table)?;
    Ok(loss_of_parts(&parts, table, layout))
}

/// The same of parts, for a table that has been checked.
pub(super) fn loss_of_parts(parts: &Parts, table: &[usize], layout: &ChunkLayout) -> Loss {
    let largest = layout.chunk_size_bytes_max;
    let page_end_of = |chunk: usize| layout.taken_bytes(chunk) - chunk as f64;
    let mut page_end_bytes = parts.full_weight * page_end_of(largest);
    let mut chunk_bytes = 0.0;
    let mut first = 0;
    for &chunk in table {
        let end = parts.fitting(chunk);
        let weight = parts.weight_before[end] - parts.weight_before[first];
        chunk_bytes += weight * chunk as f64;
        page_end_bytes += weight * page_end_of(chunk);
        first = end;
    }
    let chained_bytes = parts.chained_worth;
    Loss { inside_bytes: chunk_bytes - parts.worth(), page_end_bytes, chained_bytes }
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
