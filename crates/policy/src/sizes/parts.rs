//! Demands as what chunks have to hold: parts of items, rounded up to sizes that a chunk may have.
//!
//! An item that fits the largest chunk is one part. A larger one is cut as [`Chaining`](super::Chaining) says: its
//! head and its last body are parts; the bodies between fill largest chunks whatever the table.

use super::demand::Demand;
use super::error::SizesError;
use super::layout::ChunkLayout;

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
            return Err(SizesError::NoItems);
        }
        parts.sort_by_key(|part| part.chunk_size_bytes);
        let zero = || vec![0.0];
        let (mut weights, mut worths, mut bytes) = (zero(), zero(), zero());
        let (mut sizes, mut sums) = (Vec::new(), (0.0, 0.0, 0.0));
        for part in parts {
            if sizes.last() != Some(&part.chunk_size_bytes) {
                sizes.push(part.chunk_size_bytes);
                weights.push(0.0);
                worths.push(0.0);
                bytes.push(0.0);
            }
            let count = part.count as f64;
            sums.0 += count * part.byte_value;
            sums.1 += count * part.byte_value * part.size_bytes as f64;
            sums.2 += count * part.size_bytes as f64;
            let last = sizes.len();
            (weights[last], worths[last], bytes[last]) = sums;
        }
        let (weight_before, worth_before, bytes_before) = (weights, worths, bytes);
        Ok(Parts { sizes, weight_before, worth_before, bytes_before, full_weight, chained_worth })
    }

    pub fn fitting(&self, chunk_size_bytes: usize) -> usize {
        self.sizes.partition_point(|&size| size <= chunk_size_bytes)
    }

    /// The bytes of all parts, each times what it is worth.
    pub fn worth(&self) -> f64 {
        self.worth_before[self.sizes.len()]
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
            return Err(SizesError::ByteValue { byte_value, size_bytes });
        }
        let chunk_size_bytes_max = self.layout.chunk_size_bytes_max;
        if size_bytes <= chunk_size_bytes_max {
            self.add_part(size_bytes, items, byte_value);
            return Ok(());
        }
        let Some(chaining) = self.layout.chaining else {
            return Err(SizesError::ItemTooLarge { size_bytes, chunk_size_bytes_max });
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
