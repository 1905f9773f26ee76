//! The tables that are compared on one distribution.
//!
//! ```text
//!   memcached's own   96 120 ... 240 | 304 384 ... 944 | 1184 ... 524288
//!                         others           in use            others   largest
//! ```
//!
//! The sizes in use are those that the paper lists; as many other sizes take their place. The others are gone, as they
//! are where `-o slab_sizes` is given the sizes that the paper prints; on memcached's pages its largest chunk stays.

use super::setup::{DistributionSetup, TableSetup};
use slabwise_base::Random;
use slabwise_policy::sizes::{ChunkLayout, Demand, SizesError, exact, exact_beside, geometric};

/// A chunk so large that no waste elsewhere makes up for an item in it: where the paper counts, the sizes in use hold
/// all items.
const CHUNK_SIZE_BYTES_NEVER: usize = 1 << 40;

#[derive(Clone, Debug)]
pub struct Tables {
    used: Vec<usize>,
    others: Vec<usize>,
    /// How the paper counts: to the byte, and without the ends of pages. A table ends with a chunk for nothing.
    pub published: ChunkLayout,
    pub paged: ChunkLayout,
}

impl Tables {
    pub fn of(table: &TableSetup, distribution: &DistributionSetup) -> Tables {
        let published = ChunkLayout::published(CHUNK_SIZE_BYTES_NEVER);
        let paged = ChunkLayout {
            page_size_bytes: Some(table.page_size_kib << 10),
            chunk_size_bytes_min: table.first_bytes.next_multiple_of(table.align_bytes),
            chunk_size_bytes_max: table.chunk_size_kib_max << 10,
            chunk_align_bytes: table.align_bytes,
            ..published
        };
        let all = geometric(table.first_bytes, table.factor, &paged);
        let used = distribution.old_sizes.clone();
        let others: Vec<usize> = all.iter().copied().filter(|size| !used.contains(size)).collect();
        let name = &distribution.name;
        assert_eq!(others.len() + used.len(), all.len(), "{name}: old sizes are memcached's");
        Tables { used, others, published, paged }
    }

    pub fn least_item_bytes(&self) -> usize {
        self.others.iter().rev().find(|&&size| size < self.used[0]).map_or(1, |size| size + 1)
    }

    pub fn published(&self, sizes: &[usize]) -> Vec<usize> {
        [sizes, &[self.published.chunk_size_bytes_max]].concat()
    }

    pub fn old(&self) -> Vec<usize> {
        self.published(&self.used)
    }

    pub fn paged(&self, sizes: &[usize]) -> Vec<usize> {
        let align = self.paged.chunk_align_bytes;
        let mut table: Vec<usize> = sizes.iter().map(|size| size.next_multiple_of(align)).collect();
        table.push(self.paged.chunk_size_bytes_max);
        table
    }

    pub fn paged_old(&self) -> Vec<usize> {
        let mut table = [&self.used[..], &self.others].concat();
        table.sort();
        table
    }

    /// As many sizes as are in use, anywhere from `least` up to `most`, which is one of them, as a table of the paper's.
    pub fn random(&self, least: usize, most: usize, random: &mut Random) -> Vec<usize> {
        loop {
            let size = |_| least + random.below((most - least) as u64) as usize;
            let mut sizes: Vec<usize> = (1..self.used.len()).map(size).chain([most]).collect();
            sizes.sort();
            sizes.dedup();
            if sizes.len() == self.used.len() {
                return self.published(&sizes);
            }
        }
    }

    /// The best of as many sizes as the paper counts, and what they lose.
    pub fn exact(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &[], self.used.len())
    }

    /// The same beside memcached's others.
    pub fn exact_beside(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &self.others, self.used.len() + self.others.len())
    }

    /// The same where memcached's others are given other sizes, too.
    pub fn exact_of_all(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &[], self.used.len() + self.others.len())
    }

    fn best(
        &self,
        demands: &[Demand],
        kept: &[usize],
        sizes: usize,
    ) -> Result<(Vec<usize>, f64), SizesError> {
        // The chunk for nothing is a class, too.
        let count = sizes + 1;
        let tables = exact_beside(demands, &self.published, kept, count)?;
        let mut table = tables.table_of(count).to_vec();
        table.pop();
        Ok((table, tables.loss_of(count).total_bytes()))
    }

    /// The best table of as many sizes, and the largest, on memcached's pages.
    pub fn exact_paged(&self, demands: &[Demand]) -> Result<Vec<usize>, SizesError> {
        let count = self.used.len() + 1;
        Ok(exact(demands, &self.paged, count)?.table_of(count).to_vec())
    }
}
