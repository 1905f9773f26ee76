//! The parts of items to be stored, and the loss of a table for them.
//!
//! An item that fits the largest chunk is one part. A larger item is divided as [`Chaining`](super::Chaining) says: its
//! head and its last body are parts; the bodies between them fill largest chunks in any table.

use super::error::{BadArgument, SizesError};
use super::layout::ChunkLayout;

/// A number of items of one size, and the value of a byte lost with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Bytes of an item, including header and key.
    pub size_bytes: usize,
    /// The number of items.
    pub items: u64,
    /// The weight of each lost byte; 1 if all memory has the same value.
    pub byte_value: f64,
}

impl Demand {
    /// A demand for this many items with a byte value of 1.
    pub fn new(size_bytes: usize, items: u64) -> Demand {
        Demand { size_bytes, items, byte_value: 1.0 }
    }
}

/// Bytes that are taken but hold nothing of an item, each weighted by its value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Bytes at the ends of chunks, after the contents.
    pub inside_bytes: f64,
    /// At the ends of pages.
    pub page_end_bytes: f64,
    /// Links and headers of chained items' parts, which are the same in every table.
    pub chained_bytes: f64,
}

impl Loss {
    /// The sum of all losses.
    pub fn total_bytes(&self) -> f64 {
        self.inside_bytes + self.page_end_bytes + self.chained_bytes
    }
}

/// The loss of this table with full pages; a class's last page, which is partly filled, does not count.
pub fn loss(demands: &[Demand], table: &[usize], layout: &ChunkLayout) -> Result<Loss, SizesError> {
    let parts = Parts::of(demands, layout)?;
    layout.check_table(table)?;
    Ok(parts.loss(table, layout))
}

/// Parts by size. A *weight* is a number of parts times the value of their bytes.
pub(super) struct Parts {
    /// The smallest possible chunk size of each part, ascending, without duplicates.
    pub sizes: Vec<usize>,
    /// The weight of all parts before each index of `sizes`, with one more element for all.
    pub weight_before: Vec<f64>,
    /// The bytes of these parts, each weighted by its value.
    pub worth_before: Vec<f64>,
    pub bytes_before: Vec<f64>,
    pub full_weight: f64,
    /// The bytes of links and body headers, each weighted by its value.
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

    /// The bytes of all parts, each weighted by its value.
    pub fn worth(&self) -> f64 {
        self.worth_before[self.sizes.len()]
    }

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
