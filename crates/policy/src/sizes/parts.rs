//! What has to be stored, and what a table loses on it.
//!
//! An item that fits the largest chunk is one part. A larger one is cut as [`Chaining`](super::Chaining) says: its
//! head and its last body are parts; the bodies between fill largest chunks whatever the table.

use super::error::{BadArgument, SizesError};
use super::layout::ChunkLayout;

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

impl Demand {
    /// So many items whose bytes are worth 1 each.
    pub fn new(size_bytes: usize, items: u64) -> Demand {
        Demand { size_bytes, items, byte_value: 1.0 }
    }
}

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
    Ok(parts.loss(table, layout))
}

/// Parts by size. A *weight* is a number of parts times what their bytes are worth.
pub(super) struct Parts {
    /// What a part's least chunk would be, ascending, each once.
    pub sizes: Vec<usize>,
    /// The weight of all parts before this place of `sizes`; one element more.
    pub weight_before: Vec<f64>,
    /// The bytes of these parts, each times what it is worth.
    pub worth_before: Vec<f64>,
    pub bytes_before: Vec<f64>,
    pub full_weight: f64,
    /// What links and headers of bodies take, each byte times what it is worth.
    pub chained_worth: f64,
}

struct Part {
    chunk_size_bytes: usize,
    size_bytes: usize,
    count: u64,
    byte_value: f64,
}

impl Parts {
    pub fn of(demands: &[Demand], layout: &ChunkLayout) -> Result<Parts, SizesError> {
        layout.check()?;
        let mut cut = Cut { layout, parts: Vec::new(), full_weight: 0.0, chained_worth: 0.0 };
        for demand in demands.iter().filter(|demand| demand.items > 0) {
            cut.add(demand)?;
        }
        let Cut { mut parts, full_weight, chained_worth, .. } = cut;
        if parts.is_empty() {
            return Err(BadArgument::NoItems.into());
        }
        parts.sort_by_key(|part| part.chunk_size_bytes);
        let mut sizes = Vec::new();
        let [mut weight_before, mut worth_before, mut bytes_before] = [(); 3].map(|()| vec![0.0]);
        let (mut weight, mut worth, mut bytes) = (0.0, 0.0, 0.0);
        for same in parts.chunk_by(|a, b| a.chunk_size_bytes == b.chunk_size_bytes) {
            for part in same {
                let count = part.count as f64;
                weight += count * part.byte_value;
                worth += count * part.byte_value * part.size_bytes as f64;
                bytes += count * part.size_bytes as f64;
            }
            sizes.push(same[0].chunk_size_bytes);
            weight_before.push(weight);
            worth_before.push(worth);
            bytes_before.push(bytes);
        }
        Ok(Parts { sizes, weight_before, worth_before, bytes_before, full_weight, chained_worth })
    }

    pub fn fitting(&self, chunk_size_bytes: usize) -> usize {
        self.sizes.partition_point(|&size| size <= chunk_size_bytes)
    }

    /// The bytes of all parts, each times what it is worth.
    pub fn worth(&self) -> f64 {
        self.worth_before[self.sizes.len()]
    }

    /// What a table that has been checked loses.
    pub fn loss(&self, table: &[usize], layout: &ChunkLayout) -> Loss {
        let page_end_of = |chunk: usize| layout.taken_bytes(chunk) - chunk as f64;
        let mut page_end_bytes = self.full_weight * page_end_of(layout.chunk_size_bytes_max);
        let mut chunk_bytes = 0.0;
        let mut first = 0;
        for &chunk in table {
            let end = self.fitting(chunk);
            let weight = self.weight_before[end] - self.weight_before[first];
            chunk_bytes += weight * chunk as f64;
            page_end_bytes += weight * page_end_of(chunk);
            first = end;
        }
        let inside_bytes = chunk_bytes - self.worth();
        Loss { inside_bytes, page_end_bytes, chained_bytes: self.chained_worth }
    }
}

struct Cut<'a> {
    layout: &'a ChunkLayout,
    parts: Vec<Part>,
    full_weight: f64,
    chained_worth: f64,
}

impl Cut<'_> {
    fn add(&mut self, demand: &Demand) -> Result<(), SizesError> {
        let Demand { size_bytes, items, byte_value } = *demand;
        if !(byte_value >= 0.0 && byte_value.is_finite()) {
            return Err(BadArgument::ByteValue { byte_value, size_bytes }.into());
        }
        let chunk_size_bytes_max = self.layout.chunk_size_bytes_max;
        if size_bytes <= chunk_size_bytes_max {
            self.add_part(size_bytes, items, byte_value);
            return Ok(());
        }
        let Some(chaining) = self.layout.chaining else {
            return Err(BadArgument::ItemTooLarge { size_bytes, chunk_size_bytes_max }.into());
        };
        self.add_part(chaining.head_size_bytes, items, byte_value);
        let value_size_bytes = size_bytes + chaining.link_size_bytes - chaining.head_size_bytes;
        let full = chunk_size_bytes_max - chaining.body_header_size_bytes;
        let (full_count, rest) = (value_size_bytes / full, value_size_bytes % full);
        let weight = items as f64 * byte_value;
        if rest > 0 {
            self.add_part(rest + chaining.body_header_size_bytes, items, byte_value);
        }
        self.full_weight += weight * full_count as f64;
        let bodies = full_count + usize::from(rest > 0);
        let added = chaining.link_size_bytes + bodies * chaining.body_header_size_bytes;
        self.chained_worth += weight * added as f64;
        Ok(())
    }

    fn add_part(&mut self, size_bytes: usize, count: u64, byte_value: f64) {
        let chunk_size_bytes = self.layout.chunk_for(size_bytes);
        self.parts.push(Part { chunk_size_bytes, size_bytes, count, byte_value });
    }
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
