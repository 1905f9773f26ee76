//! Counts the items of each size, and estimates these counts from the bins of `stats sizes`.
//!
//! A size is the size of a whole item in memcached: header, CAS value, key, flags, value and line end. A metadump shows
//! this number as `size=`. The chunk of an item must have at least this size.
//!
//! Invariants:
//! - No size is 0, and no size has 0 items.
//! - All items together have at most [`BYTES_MAX`] bytes, and there are at most [`ITEMS_MAX`] items. Sums of the sizes
//!   of items or chunks therefore do not overflow.
//!
//! `stats sizes` counts items in bins of 32 bytes, but chunk sizes are multiples of 8. With the number of items in each
//! class, [`spread`] estimates sizes more exactly than with the bins alone: the sum over the classes up to a chunk size
//! is the number of items up to this size. The ends of bins and the chunk sizes are thus points of the cumulative
//! distribution of sizes:
//!
//! ```text
//!   items                 .----o  all
//!   up to             .--'
//!   a size      o----*            o  end of a bin     *  a chunk size inside a bin
//!           .--'
//!      o---'                      between two points, the items are spread evenly over steps of 8 bytes
//!      64      96   104       128
//! ```

use std::collections::BTreeMap;

/// The maximum sum of the sizes of all items: 1 EiB.
pub const BYTES_MAX: u64 = 1 << 60;

/// The maximum number of items. Even if each item is in a chunk of 16 MiB, the size of the largest page, the number of
/// bytes of all chunks fits into 63 bits.
pub const ITEMS_MAX: u64 = 1 << 38;

/// The numbers of items of each size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizesSeen {
    /// The number of items of each size in bytes.
    items: BTreeMap<usize, u64>,
    /// The number of all items.
    item_count: u64,
    /// The sum of the sizes of all items, in bytes.
    bytes: u64,
}

/// The input of the advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The description of the input in the report.
    pub text: String,
    /// The version of the server; `None` if the input is a file.
    pub version: Option<String>,
    pub seen: SizesSeen,
    /// The chunk sizes of the current class table in bytes, ascending.
    pub current: Vec<usize>,
}

/// The error that there are more than [`ITEMS_MAX`] items, or that the items have more than [`BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitExceeded;

impl SizesSeen {
    /// Adds items of one size. Ignores items of size 0.
    pub fn add(&mut self, size_bytes: usize, items: u64) -> Result<(), LimitExceeded> {
        if size_bytes == 0 || items == 0 {
            return Ok(());
        }
        let added = items.checked_mul(size_bytes as u64).ok_or(LimitExceeded)?;
        let bytes = self.bytes.checked_add(added).filter(|&bytes| bytes <= BYTES_MAX);
        let item_count = self.item_count.checked_add(items).filter(|&count| count <= ITEMS_MAX);
        self.bytes = bytes.ok_or(LimitExceeded)?;
        self.item_count = item_count.ok_or(LimitExceeded)?;
        *self.items.entry(size_bytes).or_default() += items;
        Ok(())
    }

    /// Returns each size in bytes with its number of items, in ascending order of the sizes.
    pub fn bins(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        self.items.iter().map(|(&size_bytes, &items)| (size_bytes, items))
    }

    /// Returns the number of all items.
    pub fn item_count(&self) -> u64 {
        self.item_count
    }

    /// Returns the sum of the sizes of all items, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The width of a bin of `stats sizes` in bytes.
pub const BIN_BYTES: usize = 32;
/// Chunk sizes of memcached and slabwise are multiples of this number of bytes.
pub const STEP_BYTES: usize = 8;

/// Estimates the sizes of items that are counted in bins. `bins` contains the number of items of each bin; a bin is
/// given by its upper end in bytes, a multiple of [`BIN_BYTES`]. `classes` contains the number of items of each known
/// chunk size. `classes` is ignored if its sum differs by more than 2 % from the sum of the bins.
///
/// All items of a step of 8 bytes are counted with the middle size of the step, so the estimated loss is correct on
/// average. The class of the largest chunks also contains chained items, which are larger than its chunks. The ends of
/// the bins limit their sizes.
pub fn spread(
    bins: &BTreeMap<usize, u64>,
    classes: &BTreeMap<usize, u64>,
) -> Result<SizesSeen, LimitExceeded> {
    let all = bins.values().try_fold(0u64, |sum, &items| sum.checked_add(items));
    let all = all.ok_or(LimitExceeded)?;
    let ends = class_ends(classes, all);
    let mut seen = SizesSeen::default();
    let mut before = 0;
    for (&bin_end, &items) in bins {
        let start = bin_end.saturating_sub(BIN_BYTES);
        let (mut from, mut from_count) = (start, before);
        before += items;
        let within = ends.range(start + 1..bin_end).map(|(&size, &count)| (size, count));
        for (to, count) in within.chain([(bin_end, before)]) {
            let count = count.clamp(from_count, before);
            spread_evenly(&mut seen, from, to, count - from_count)?;
            (from, from_count) = (to, count);
        }
    }
    Ok(seen)
}

/// Returns the number of items up to each chunk size. `classes` contains the number of items of each chunk size, and
/// `bin_items` is the number of items in all bins. Returns nothing if the numbers differ by more than 2 %.
fn class_ends(classes: &BTreeMap<usize, u64>, bin_items: u64) -> BTreeMap<usize, u64> {
    /// The classes are ignored if the numbers differ by more than a 50th.
    const DIFFERENCE_DIVISOR: u64 = 50;
    let sum = classes.values().fold(0u64, |sum, &items| sum.saturating_add(items));
    if sum.abs_diff(bin_items) > bin_items / DIFFERENCE_DIVISOR {
        return BTreeMap::new();
    }
    let mut up_to = 0;
    let ends = classes.iter().map(|(&size, &items)| {
        up_to = items.saturating_add(up_to);
        (size, up_to)
    });
    ends.filter(|(size, _)| size.is_multiple_of(STEP_BYTES)).collect()
}

/// Adds items whose sizes are above `from` and up to `to`, spread evenly over the steps of 8 bytes.
fn spread_evenly(
    seen: &mut SizesSeen,
    from: usize,
    to: usize,
    items: u64,
) -> Result<(), LimitExceeded> {
    let steps = (to - from).div_ceil(STEP_BYTES) as u64;
    let up_to = |step: u64| (u128::from(items) * u128::from(step) / u128::from(steps)) as u64;
    for step in 0..steps {
        let middle = from + step as usize * STEP_BYTES + STEP_BYTES / 2;
        seen.add(middle, up_to(step + 1) - up_to(step))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{STEP_BYTES, spread};
    use slabwise_base::Random;
    use std::collections::BTreeMap;

    #[test]
    fn the_items_of_a_bin_are_spread_evenly() {
        let seen = spread(&BTreeMap::from([(128, 10)]), &BTreeMap::new());
        let bins: Vec<_> = seen.iter().flat_map(|seen| seen.bins()).collect();
        assert_eq!(bins, [(100, 2), (108, 3), (116, 2), (124, 3)]);
    }

    #[test]
    fn the_items_of_a_class_are_on_their_side_of_its_chunk_size() {
        // All items in the bin from 97 to 128 bytes are larger than 120, because the class of 120-byte chunks is empty.
        let classes = BTreeMap::from([(96, 5), (120, 0), (152, 10)]);
        let seen = spread(&BTreeMap::from([(96, 5), (128, 10)]), &classes);
        let seen = seen.unwrap_or_default();
        assert_eq!(seen.bins().filter(|&(size, _)| size > 96).collect::<Vec<_>>(), [(124, 10)]);
    }

    #[test]
    fn classes_with_another_number_of_items_are_ignored() {
        let bins = BTreeMap::from([(128, 100)]);
        let seen = spread(&bins, &BTreeMap::from([(120, 90), (152, 0)]));
        assert_eq!(seen, spread(&bins, &BTreeMap::new()));
    }

    #[test]
    fn every_item_stays_in_its_bin_and_its_class() {
        const SEEDS: u64 = 300;
        for seed in 0..SEEDS {
            let mut random = Random::new(seed);
            let chunk_sizes: Vec<usize> = {
                let mut sizes: Vec<usize> =
                    (0..6).map(|_| 8 + random.below(60) as usize * 8).collect();
                sizes.push(512);
                sizes.sort_unstable();
                sizes.dedup();
                sizes
            };
            let mut bins = BTreeMap::new();
            let empty_classes = chunk_sizes.iter().map(|&chunk_size| (chunk_size, 0));
            let mut classes: BTreeMap<usize, u64> = empty_classes.collect();
            for _ in 0..random.below(500) {
                let size = 1 + random.below(512) as usize;
                *bins.entry(size.next_multiple_of(32)).or_default() += 1;
                let class = chunk_sizes.partition_point(|&chunk| chunk < size);
                *classes.entry(chunk_sizes[class]).or_default() += 1;
            }
            let seen = spread(&bins, &classes).unwrap_or_default();
            let (mut bins_found, mut classes_found) = (BTreeMap::new(), BTreeMap::new());
            for (size, items) in seen.bins() {
                assert_eq!(size % STEP_BYTES, STEP_BYTES / 2, "seed {seed}");
                *bins_found.entry(size.next_multiple_of(32)).or_default() += items;
                let class = chunk_sizes.partition_point(|&chunk| chunk < size);
                *classes_found.entry(chunk_sizes[class]).or_default() += items;
            }
            assert_eq!(bins_found, bins, "seed {seed}");
            classes.retain(|_, items| *items > 0);
            assert_eq!(classes_found, classes, "seed {seed}");
        }
    }
}
