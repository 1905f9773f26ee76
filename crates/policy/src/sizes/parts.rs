//! The parts into which items are divided, and the loss of a table that stores these parts.
//!
//! An item that fits into the largest chunk is one part. A larger item is divided as [`Chaining`](super::Chaining)
//! describes: its head and its last body are parts. The bodies between them fill chunks of the largest size, in every
//! table.

use super::error::{BadArgument, SizesError};
use super::layout::ChunkLayout;

/// A number of items of one size, and the value of the bytes that are lost in their chunks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The bytes of each item, including header and key.
    pub size_bytes: usize,
    /// The number of items.
    pub items: u64,
    /// The value of each lost byte; 1 for all items if all memory has the same value.
    pub byte_value: f64,
}

impl Demand {
    /// Creates a demand for this many items of this size, with a byte value of 1.
    pub fn new(size_bytes: usize, items: u64) -> Demand {
        Demand { size_bytes, items, byte_value: 1.0 }
    }
}

/// The bytes that chunks take but that hold no item data. Each byte is multiplied by the byte value of its items.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// The unused bytes at the ends of chunks.
    pub inside_bytes: f64,
    /// The unused bytes at the ends of pages.
    pub page_end_bytes: f64,
    /// The bytes of the links and body headers of chained items. Every table has the same number of them.
    pub chained_bytes: f64,
}

impl Loss {
    /// Returns the sum of all three losses.
    pub fn total_bytes(&self) -> f64 {
        self.inside_bytes + self.page_end_bytes + self.chained_bytes
    }
}

/// Returns the loss of this table. All pages are assumed to be full of items: the free chunks on the last page of a
/// class do not count.
pub fn loss(demands: &[Demand], table: &[usize], layout: &ChunkLayout) -> Result<Loss, SizesError> {
    let parts = Parts::of(demands, layout)?;
    layout.check_table(table)?;
    Ok(parts.loss(table, layout))
}

/// The parts of all items, sorted by size. The *weight* of parts is their number times the value of a byte.
pub(super) struct Parts {
    /// The smallest possible chunk size of each part, ascending, without duplicates.
    pub sizes: Vec<usize>,
    /// For each index i from 0 to the length of `sizes`: the weight of all parts whose chunk size is before index i.
    pub weight_before: Vec<f64>,
    /// For each index i: the bytes of all parts whose chunk size is before index i, each multiplied by its value.
    pub valued_bytes_before: Vec<f64>,
    /// For each index i: the bytes of all parts whose chunk size is before index i.
    pub bytes_before: Vec<f64>,
    /// The weight of the bodies that fill chunks of the largest size.
    pub full_weight: f64,
    /// The bytes of links and body headers, each multiplied by its value.
    pub chained_valued_bytes: f64,
}

/// Parts of one size.
struct Part {
    /// The smallest possible size of a chunk that holds the part.
    chunk_size_bytes: usize,
    size_bytes: usize,
    /// The number of parts.
    count: u64,
    byte_value: f64,
}

impl Parts {
    /// Divides all items into parts.
    pub fn of(demands: &[Demand], layout: &ChunkLayout) -> Result<Parts, SizesError> {
        layout.check()?;
        let mut divider =
            Divider { layout, parts: Vec::new(), full_weight: 0.0, chained_valued_bytes: 0.0 };
        for demand in demands.iter().filter(|demand| demand.items > 0) {
            divider.add(demand)?;
        }
        let Divider { mut parts, full_weight, chained_valued_bytes, .. } = divider;
        if parts.is_empty() {
            return Err(BadArgument::NoItems.into());
        }
        parts.sort_by_key(|part| part.chunk_size_bytes);
        let mut sizes = Vec::new();
        let [mut weight_before, mut valued_bytes_before, mut bytes_before] =
            [(); 3].map(|()| vec![0.0]);
        let (mut weight, mut valued_bytes, mut bytes) = (0.0, 0.0, 0.0);
        for same in parts.chunk_by(|a, b| a.chunk_size_bytes == b.chunk_size_bytes) {
            for part in same {
                let count = part.count as f64;
                weight += count * part.byte_value;
                valued_bytes += count * part.byte_value * part.size_bytes as f64;
                bytes += count * part.size_bytes as f64;
            }
            sizes.push(same[0].chunk_size_bytes);
            weight_before.push(weight);
            valued_bytes_before.push(valued_bytes);
            bytes_before.push(bytes);
        }
        Ok(Parts {
            sizes,
            weight_before,
            valued_bytes_before,
            bytes_before,
            full_weight,
            chained_valued_bytes,
        })
    }

    /// Returns the number of sizes of parts that fit into a chunk of this size.
    pub fn fitting(&self, chunk_size_bytes: usize) -> usize {
        self.sizes.partition_point(|&size| size <= chunk_size_bytes)
    }

    /// Returns the bytes of all parts, each multiplied by its value.
    pub fn valued_bytes(&self) -> f64 {
        self.valued_bytes_before[self.sizes.len()]
    }

    /// Returns the loss of a table that stores these parts.
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
        let inside_bytes = chunk_bytes - self.valued_bytes();
        Loss { inside_bytes, page_end_bytes, chained_bytes: self.chained_valued_bytes }
    }
}

struct Divider<'a> {
    layout: &'a ChunkLayout,
    parts: Vec<Part>,
    full_weight: f64,
    chained_valued_bytes: f64,
}

impl Divider<'_> {
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
        self.chained_valued_bytes += weight * added as f64;
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
