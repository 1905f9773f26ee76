//! The numbers of items by size, and their estimation from the bins of `stats sizes`.
//!
//! A size is that of a whole item in memcached: header, CAS value, key, flags, value and line break. It is `size=` of a
//! metadump, and the number of bytes that a chunk must have.
//!
//! Invariants: no size is 0 or has 0 items. The items have at most [`BYTES_MAX`] bytes, and their number is at most
//! [`ITEMS_MAX`], so no sum overflows, including sums over their chunks.
//!
//! `stats sizes` has bins of 32 bytes, but chunk sizes are multiples of 8. The number of items in each class also gives
//! the number of items up to each chunk size. Both are points of the cumulative distribution:
//!
//! ```text
//!   items                 .----o  all
//!   up to             .--'
//!   a size      o----*            o  end of a bin     *  a chunk size inside a bin
//!           .--'
//!      o---'                      between two points the distribution is uniform over steps of 8 bytes
//!      64      96   104       128
//! ```

use std::collections::BTreeMap;

/// The maximum number of bytes of all items, 1 EiB.
pub const BYTES_MAX: u64 = 1 << 60;

/// The maximum number of items. If each is in a chunk of 16 MiB, the largest page, their bytes fit into 63 bits.
pub const ITEMS_MAX: u64 = 1 << 38;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizesSeen {
    items: BTreeMap<usize, u64>,
    item_count: u64,
    bytes: u64,
}

/// The input of the advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The description of the input in the report.
    pub text: String,
    pub version: Option<String>,
    pub seen: SizesSeen,
    /// The current class table.
    pub current: Vec<usize>,
}

/// There are more items than [`ITEMS_MAX`], or more bytes than [`BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

impl SizesSeen {
    /// Adds items of one size. Ignores items of size 0.
    pub fn add(&mut self, size_bytes: usize, items: u64) -> Result<(), TooMuch> {
        if size_bytes == 0 || items == 0 {
            return Ok(());
        }
        let added = items.checked_mul(size_bytes as u64).ok_or(TooMuch)?;
        let bytes = self.bytes.checked_add(added).filter(|&bytes| bytes <= BYTES_MAX);
        let item_count = self.item_count.checked_add(items).filter(|&count| count <= ITEMS_MAX);
        self.bytes = bytes.ok_or(TooMuch)?;
        self.item_count = item_count.ok_or(TooMuch)?;
        *self.items.entry(size_bytes).or_default() += items;
        Ok(())
    }

    pub fn bins(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        self.items.iter().map(|(&size_bytes, &items)| (size_bytes, items))
    }

    pub fn item_count(&self) -> u64 {
        self.item_count
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The width of a bin of `stats sizes`.
pub const BIN_BYTES: usize = 32;
/// Chunk sizes of memcached and slabwise are multiples of this.
pub const STEP_BYTES: usize = 8;

/// Estimates the sizes of the items in bins. `bins` has the number of items by the upper end of the bin, a multiple of
/// [`BIN_BYTES`]. `classes` has the known numbers of items by chunk size; they are ignored if their sum differs too much
/// from that of the bins.
///
/// All items of a step get the size of its middle, so the estimated loss is correct on average. The class of the largest
/// chunks also has chained items, but its end is limited by that of its bin.
pub fn spread(
    bins: &BTreeMap<usize, u64>,
    classes: &BTreeMap<usize, u64>,
) -> Result<SizesSeen, TooMuch> {
    let all = bins.values().try_fold(0u64, |sum, &items| sum.checked_add(items));
    let all = all.ok_or(TooMuch)?;
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

/// Returns the number of items up to each chunk size; empty if the number of items in the classes differs too much from
/// that in the bins.
fn class_ends(classes: &BTreeMap<usize, u64>, all: u64) -> BTreeMap<usize, u64> {
    const DIFFERENCE_DIVISOR: u64 = 50;
    let sum = classes.values().fold(0u64, |sum, &items| sum.saturating_add(items));
    if sum.abs_diff(all) > all / DIFFERENCE_DIVISOR {
        return BTreeMap::new();
    }
    let mut up_to = 0;
    let ends = classes.iter().map(|(&size, &items)| {
        up_to = items.saturating_add(up_to);
        (size, up_to)
    });
    ends.filter(|(size, _)| size.is_multiple_of(STEP_BYTES)).collect()
}

/// Adds items with sizes above `from` and up to `to`, uniformly over the steps.
fn spread_evenly(seen: &mut SizesSeen, from: usize, to: usize, items: u64) -> Result<(), TooMuch> {
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
    fn the_items_of_a_bin_are_spread_uniformly() {
        let seen = spread(&BTreeMap::from([(128, 10)]), &BTreeMap::new());
        let bins: Vec<_> = seen.iter().flat_map(|seen| seen.bins()).collect();
        assert_eq!(bins, [(100, 2), (108, 3), (116, 2), (124, 3)]);
    }

    #[test]
    fn classes_determine_the_side_of_a_chunk_size() {
        // All items of the bin (96, 128] are above 120, because the class of 120 is empty.
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
            let none = chunk_sizes.iter().map(|&chunk_size| (chunk_size, 0));
            let mut classes: BTreeMap<usize, u64> = none.collect();
            for _ in 0..random.below(500) {
                let size = 1 + random.below(512) as usize;
                *bins.entry(size.next_multiple_of(32)).or_default() += 1;
                let place = chunk_sizes.partition_point(|&chunk| chunk < size);
                *classes.entry(chunk_sizes[place]).or_default() += 1;
            }
            let seen = spread(&bins, &classes).unwrap_or_default();
            let (mut bins_back, mut classes_back) = (BTreeMap::new(), BTreeMap::new());
            for (size, items) in seen.bins() {
                assert_eq!(size % STEP_BYTES, STEP_BYTES / 2, "seed {seed}");
                *bins_back.entry(size.next_multiple_of(32)).or_default() += items;
                let place = chunk_sizes.partition_point(|&chunk| chunk < size);
                *classes_back.entry(chunk_sizes[place]).or_default() += items;
            }
            assert_eq!(bins_back, bins, "seed {seed}");
            classes.retain(|_, items| *items > 0);
            assert_eq!(classes_back, classes, "seed {seed}");
        }
    }
}
