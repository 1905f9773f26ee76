//! The cache that the advice is for: what its chunks may be, and which `slab_sizes` it takes.
//!
//! memcached reads numbers, not sizes: each must be from `-n` to `slab_chunk_max`, and more than 8 above the one before
//! it; each is then rounded up to a multiple of 8, and `slab_chunk_max` follows as the last class. So a table is listed
//! without its last size, and where two sizes are only 8 apart the lower one is listed as a lower number that is rounded
//! up to it: 96 104 136 as `95-104-136`, as 96-104 is refused.
//!
//! Invariants: what is listed is taken, gives the table it was made of, and has at most [`LISTED_COUNT_MAX`] numbers.

use slabwise_base::ClassId;
use slabwise_base::memcached::{self, CHUNK_ALIGN_BYTES};
use slabwise_policy::sizes::{Chaining, ChunkLayout, geometric};

const SLABWISE_HEADER_BYTES: usize = 29;
const SLABWISE_CHUNK_SIZE_BYTES_MIN: usize = 32;
/// A usual key; sizes of items do not tell.
const KEY_LEN: usize = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Memcached,
    Slabwise,
}

impl Program {
    pub fn name(self) -> &'static str {
        match self {
            Program::Memcached => "memcached",
            Program::Slabwise => "slabwise",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    pub program: Program,
    pub layout: ChunkLayout,
    pub item_size_bytes_max: usize,
    /// The least number that it takes in `slab_sizes`.
    pub listed_min: usize,
}

impl Cache {
    /// A cache with pages of this size and these chunks and items at most. `chunk_size` is memcached's `-n`: no
    /// chunk size may be below it.
    pub fn new(
        program: Program,
        page_size_bytes: usize,
        chunk_size_bytes_max: usize,
        item_size_bytes_max: usize,
        chunk_size: Option<usize>,
    ) -> Cache {
        let listed_min = match program {
            Program::Memcached => chunk_size.unwrap_or(memcached::ITEM_ROOM_BYTES_MIN),
            Program::Slabwise => SLABWISE_CHUNK_SIZE_BYTES_MIN,
        };
        let aligned_down = |size: usize| size / CHUNK_ALIGN_BYTES * CHUNK_ALIGN_BYTES;
        let largest = aligned_down(chunk_size_bytes_max);
        let chaining = match program {
            Program::Memcached => Chaining::memcached(KEY_LEN),
            Program::Slabwise => Chaining {
                head_size_bytes: SLABWISE_HEADER_BYTES + KEY_LEN + CHAIN_LINK,
                link_size_bytes: CHAIN_LINK,
                body_header_size_bytes: SLABWISE_HEADER_BYTES,
            },
        };
        let head_size_bytes = chaining.head_size_bytes.min(largest);
        let chaining = Chaining { head_size_bytes, ..chaining };
        let layout = ChunkLayout {
            page_size_bytes: Some(page_size_bytes),
            chunk_size_bytes_min: listed_min.next_multiple_of(CHUNK_ALIGN_BYTES).min(largest),
            chunk_size_bytes_max: largest,
            chunk_align_bytes: CHUNK_ALIGN_BYTES,
            // Where no item can be larger than a chunk, none is chained, however small chunks are.
            chaining: (item_size_bytes_max > largest).then_some(chaining),
        };
        Cache { program, layout, item_size_bytes_max, listed_min }
    }

    /// The table that memcached makes without `slab_sizes`, by `-f` and `-n`.
    pub fn geometric_table(&self, growth_factor: f64) -> Vec<usize> {
        let first = self.listed_min + memcached::HEADER_SIZE_BYTES;
        geometric(first, growth_factor, &self.layout)
    }

    pub fn page_size_bytes(&self) -> usize {
        self.layout.page_size_bytes.unwrap_or_else(|| unreachable!("caches have pages"))
    }
}

/// What slabwise's head of a chained item has besides: the length of the whole, and where the bodies begin.
const CHAIN_LINK: usize = 9;

/// The most numbers that memcached takes: a class less than there are, as it adds the last.
pub const LISTED_COUNT_MAX: usize = ClassId::COUNT_MAX - 1;

/// A number is at least so much above the one before it.
const LISTED_STEP_MIN: usize = CHUNK_ALIGN_BYTES + 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Chunk sizes in bytes, ascending, the largest included.
    pub table: Vec<usize>,
    /// The numbers, for all but the largest.
    pub numbers: Vec<usize>,
}

/// Lists a table whose sizes are multiples of 8, ascending, none below `listed_min`. A size that no number can
/// stand for is left out: in a row of sizes 8 apart, every ninth; its items go to the next size.
///
/// A table of one size is listed as that: memcached then has it twice, and uses the first.
pub fn list(table: &[usize], listed_min: usize) -> Listed {
    let Some((&largest, sizes)) = table.split_last() else {
        return Listed { table: Vec::new(), numbers: Vec::new() };
    };
    let mut kept = vec![largest];
    let mut numbers: Vec<usize> = Vec::new();
    for &size in sizes.iter().rev() {
        let number = match numbers.last() {
            Some(above) => size.min(above.saturating_sub(LISTED_STEP_MIN)),
            None => size,
        };
        let least = (size + 1 - CHUNK_ALIGN_BYTES).max(listed_min);
        if number >= least {
            kept.push(size);
            numbers.push(number);
        }
    }
    kept.reverse();
    numbers.reverse();
    if numbers.is_empty() {
        numbers.push(largest);
    }
    Listed { table: kept, numbers }
}

impl Listed {
    pub fn joined(&self) -> String {
        let numbers: Vec<String> = self.numbers.iter().map(usize::to_string).collect();
        numbers.join("-")
    }
}

#[cfg(test)]
mod tests {
    use super::{LISTED_COUNT_MAX, list};
    use slabwise_base::Random;

    /// memcached's rules, for one list.
    fn taken(numbers: &[usize], min: usize, largest: usize) -> Option<Vec<usize>> {
        if numbers.is_empty() || numbers.len() > LISTED_COUNT_MAX {
            return None;
        }
        let mut before = 0;
        for &number in numbers {
            if number < min || number > largest || (before > 0 && number <= before + 8) {
                return None;
            }
            before = number;
        }
        let rounded = numbers.iter().map(|number| number.next_multiple_of(8));
        Some(rounded.filter(|&size| size < largest).chain([largest]).collect())
    }

    #[test]
    fn a_table_is_listed_without_its_last_size() {
        let listed = list(&[96, 120, 480, 524_288], 48);
        assert_eq!(listed.joined(), "96-120-480");
        assert_eq!(list(&[524_288], 48).joined(), "524288");
    }

    #[test]
    fn sizes_8_apart_are_listed_by_lower_numbers() {
        let listed = list(&[96, 104, 136, 524_288], 48);
        assert_eq!(listed.joined(), "95-104-136");
        // Nine in a row cannot be.
        let row: Vec<usize> = (0..9).map(|step| 96 + 8 * step).chain([524_288]).collect();
        let listed = list(&row, 48);
        assert_eq!(listed.numbers, [97, 106, 115, 124, 133, 142, 151, 160]);
        assert_eq!(listed.table.len(), 9);
        // Nor a first one whose number would be below -n.
        assert_eq!(list(&[96, 104, 524_288], 96).joined(), "104");
    }

    #[test]
    fn what_is_listed_is_taken_and_gives_its_table() {
        const LARGEST: usize = 8192;
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let min = 48 + random.below(60) as usize;
            let mut table: Vec<usize> = (0..random.below(62))
                .map(|_| min.next_multiple_of(8) + 8 * random.below(120) as usize)
                .chain([LARGEST])
                .collect();
            table.sort_unstable();
            table.dedup();
            let listed = list(&table, min);
            assert_eq!(
                taken(&listed.numbers, min, LARGEST),
                Some(listed.table.clone()),
                "seed {seed}"
            );
            let far_apart = table.windows(2).all(|pair| pair[1] - pair[0] >= 16);
            assert!(!far_apart || listed.table == table, "seed {seed}: nothing had to go");
        }
    }
}
