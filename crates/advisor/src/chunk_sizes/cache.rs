//! The limits of the cache that the advice is for, and the format of its option `slab_sizes`.
//!
//! The option is a list of numbers. Each number must be from `-n` to `slab_chunk_max`, and must exceed the previous
//! number by more than 8. memcached rounds each number up to a multiple of 8, which is the chunk size of a class, and
//! adds a last class of the size `slab_chunk_max`. The list therefore does not contain the last chunk size of a table.
//!
//! Two chunk sizes that differ by 8 cannot both be in the list. The list then contains a lower number that memcached
//! rounds up to the smaller size. For the chunk sizes 96, 104 and 136 the list is `95-104-136`.
//!
//! Invariants:
//! - memcached accepts each list, and creates the table from which the list was made.
//! - A list has at most [`LISTED_COUNT_MAX`] numbers.

use slabwise_base::ClassId;
use slabwise_base::memcached::{self, CHUNK_ALIGN_BYTES};
use slabwise_policy::sizes::{Chaining, ChunkLayout, geometric};

/// The size of the header of an item in slabwise.
const SLABWISE_HEADER_BYTES: usize = 30;
/// The smallest chunk size in slabwise.
const SLABWISE_CHUNK_SIZE_BYTES_MIN: usize = 32;
/// The assumed length of a key in bytes. The head of a chained item contains the key, but the sizes of items do not
/// give its length.
const KEY_LEN: usize = 30;

/// The program of the server.
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

/// The limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    pub program: Program,
    /// The rules for chunk sizes.
    pub layout: ChunkLayout,
    pub item_size_bytes_max: usize,
    /// The smallest number that the server accepts in `slab_sizes`.
    pub listed_min: usize,
}

impl Cache {
    /// Returns the limits of a cache with this page size, these maximum sizes of chunks and items, and memcached's
    /// option `-n`. `chunk_size` is the value of `-n`, the smallest number that `slab_sizes` may contain; `None` means
    /// the default.
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
            // There are chained items only if an item can be larger than the largest chunk.
            chaining: (item_size_bytes_max > largest).then_some(chaining),
        };
        Cache { program, layout, item_size_bytes_max, listed_min }
    }

    /// Returns the table that memcached creates from `-f` and `-n` if `slab_sizes` is not given.
    pub fn geometric_table(&self, growth_factor: f64) -> Vec<usize> {
        let first = self.listed_min + memcached::HEADER_SIZE_BYTES;
        geometric(first, growth_factor, &self.layout)
    }

    pub fn page_size_bytes(&self) -> usize {
        self.layout.page_size_bytes.unwrap_or_else(|| unreachable!("`Cache::new` sets a page size"))
    }
}

/// The number of bytes that the head of a chained item in slabwise uses for the length of the value and for the link to
/// the first body chunk.
const CHAIN_LINK: usize = 9;

/// The maximum number of sizes in `slab_sizes`. memcached adds one class, and has at most 63 classes.
pub const LISTED_COUNT_MAX: usize = ClassId::COUNT_MAX - 1;

/// The minimum difference of adjacent numbers in `slab_sizes`.
const LISTED_STEP_MIN: usize = CHUNK_ALIGN_BYTES + 1;

/// A class table and its list for `slab_sizes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The chunk sizes of the table in bytes, ascending, including the largest.
    pub table: Vec<usize>,
    /// The numbers of the list: one for each chunk size except the largest.
    pub numbers: Vec<usize>,
}

/// Makes the list of a table. The chunk sizes in `table` must be ascending multiples of 8. The numbers of the list are
/// at least `listed_min`.
///
/// Omits a chunk size that no valid number is rounded up to. This happens to every ninth size of a sequence in which
/// adjacent sizes differ by 8. The items of an omitted size use the next larger size.
///
/// If the table has only one size, the list contains this size, because a list must not be empty.
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
        let number_min = (size + 1 - CHUNK_ALIGN_BYTES).max(listed_min);
        if number >= number_min {
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
    /// Returns the value of the option `slab_sizes`.
    pub fn joined(&self) -> String {
        let numbers: Vec<String> = self.numbers.iter().map(usize::to_string).collect();
        numbers.join("-")
    }
}

#[cfg(test)]
mod tests {
    use super::{LISTED_COUNT_MAX, list};
    use slabwise_base::Random;

    /// Returns the table that memcached creates from a list, or `None` if memcached rejects the list.
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
    fn a_number_of_the_list_is_lower_if_the_next_size_differs_by_8() {
        let listed = list(&[96, 104, 136, 524_288], 48);
        assert_eq!(listed.joined(), "95-104-136");
        // Of nine sizes that differ by 8, one is omitted.
        let sequence: Vec<usize> = (0..9).map(|step| 96 + 8 * step).chain([524_288]).collect();
        let listed = list(&sequence, 48);
        assert_eq!(listed.numbers, [97, 106, 115, 124, 133, 142, 151, 160]);
        assert_eq!(listed.table.len(), 9);
        // The size 96 is omitted, because the number 95 would be below `-n`.
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
            assert!(
                !far_apart || listed.table == table,
                "seed {seed}: a size is omitted only if sizes differ by 8"
            );
        }
    }
}
