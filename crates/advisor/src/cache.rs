//! The cache that the advice is for: its limits, and the format of its `slab_sizes`.
//!
//! Each number of memcached's `slab_sizes` must be from `-n` to `slab_chunk_max`, and more than 8 above the previous one.
//! memcached rounds each number up to a multiple of 8, and adds `slab_chunk_max` as the last class. So a list does not
//! contain the last size of the table. If two sizes are only 8 apart, the list has a lower number that is rounded up to
//! the lower size: `95-104-136` for the sizes 96 104 136, because memcached rejects 96-104.
//!
//! Invariants: memcached accepts a list and creates the table of the list. A list has at most [`LISTED_COUNT_MAX`]
//! numbers.

use slabwise_base::ClassId;
use slabwise_base::memcached::{self, CHUNK_ALIGN_BYTES};
use slabwise_policy::sizes::{Chaining, ChunkLayout, geometric};

const SLABWISE_HEADER_BYTES: usize = 29;
const SLABWISE_CHUNK_SIZE_BYTES_MIN: usize = 32;
/// The assumed length of keys, which item sizes do not contain.
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
    /// The smallest number that it accepts in `slab_sizes`.
    pub listed_min: usize,
}

impl Cache {
    /// Returns a cache with this page size and these limits. `chunk_size` is memcached's `-n`, the smallest number that
    /// `slab_sizes` may contain.
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
            // If no item can be larger than the largest chunk, there are no chained items.
            chaining: (item_size_bytes_max > largest).then_some(chaining),
        };
        Cache { program, layout, item_size_bytes_max, listed_min }
    }

    /// Returns memcached's table for `-f` and `-n` without `slab_sizes`.
    pub fn geometric_table(&self, growth_factor: f64) -> Vec<usize> {
        let first = self.listed_min + memcached::HEADER_SIZE_BYTES;
        geometric(first, growth_factor, &self.layout)
    }

    pub fn page_size_bytes(&self) -> usize {
        self.layout.page_size_bytes.unwrap_or_else(|| unreachable!("caches have pages"))
    }
}

/// The length and the link to the body chunks in the head chunk of a chained item in slabwise.
const CHAIN_LINK: usize = 9;

/// The maximum number of sizes in memcached's `slab_sizes`, to which memcached adds the last class.
pub const LISTED_COUNT_MAX: usize = ClassId::COUNT_MAX - 1;

/// The minimum difference of adjacent numbers.
const LISTED_STEP_MIN: usize = CHUNK_ALIGN_BYTES + 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Chunk sizes in bytes, ascending, the largest included.
    pub table: Vec<usize>,
    /// The numbers, for all but the largest.
    pub numbers: Vec<usize>,
}

/// Formats a table as `slab_sizes`. Its sizes are ascending multiples of 8, at least `listed_min`. Omits a size that no
/// number can represent: every ninth in a sequence of sizes 8 apart. Its items use the next size.
///
/// The list of a table with one size contains that size.
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

    /// Returns the table that memcached creates from a list; `None` if it rejects the list.
    fn table_of(numbers: &[usize], min: usize, largest: usize) -> Option<Vec<usize>> {
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
    fn a_list_does_not_contain_the_last_size() {
        let listed = list(&[96, 120, 480, 524_288], 48);
        assert_eq!(listed.joined(), "96-120-480");
        assert_eq!(list(&[524_288], 48).joined(), "524288");
    }

    #[test]
    fn a_list_has_lower_numbers_for_sizes_8_apart() {
        let listed = list(&[96, 104, 136, 524_288], 48);
        assert_eq!(listed.joined(), "95-104-136");
        // Nine sizes in a sequence cannot be listed.
        let row: Vec<usize> = (0..9).map(|step| 96 + 8 * step).chain([524_288]).collect();
        let listed = list(&row, 48);
        assert_eq!(listed.numbers, [97, 106, 115, 124, 133, 142, 151, 160]);
        assert_eq!(listed.table.len(), 9);
        // A number below -n cannot be listed.
        assert_eq!(list(&[96, 104, 524_288], 96).joined(), "104");
    }

    #[test]
    fn memcached_creates_the_table_of_a_list() {
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
                table_of(&listed.numbers, min, LARGEST),
                Some(listed.table.clone()),
                "seed {seed}"
            );
            let far_apart = table.windows(2).all(|pair| pair[1] - pair[0] >= 16);
            assert!(!far_apart || listed.table == table, "seed {seed}: no size is omitted");
        }
    }
}
