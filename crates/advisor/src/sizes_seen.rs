//! How many items there are of which size, and from the bars of `stats sizes` to sizes.
//!
//! Sizes are memcached's: header, CAS value, key, flags, value and line end; what `size=` of a dump says, and what chunks
//! have to hold. Invariants: no size is 0, none has 0 items, all items together have at most [`BYTES_MAX`] bytes and are
//! at most [`ITEMS_MAX`]: so no sum overflows, not that of their chunks either.
//!
//! `stats sizes` says how many items lie in each step of 32 bytes; chunk sizes go by 8. Known besides is how many items
//! each class holds, so how many are not above each chunk size. Both are points of one curve:
//!
//! ```text
//!   items                 .----o  all
//!   up to             .--'
//!   a size      o----*            o  a bar's end     *  a chunk size, within a bar
//!           .--'
//!      o---'                      between two points: as many items in each step of 8 bytes
//!      64      96   104       128
//! ```

use std::collections::BTreeMap;

/// The most bytes that all items may have together: 1 EiB, more than any server holds.
pub const BYTES_MAX: u64 = 1 << 60;

/// The most items: each in a chunk of 16 MiB, the largest page, they have a sum that 63 bits hold.
pub const ITEMS_MAX: u64 = 1 << 38;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizesSeen {
    items: BTreeMap<usize, u64>,
    item_count: u64,
    bytes: u64,
}

/// What advice is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub text: String,
    pub version: Option<String>,
    pub seen: SizesSeen,
    pub present: Vec<usize>,
}

/// The items are more than [`ITEMS_MAX`], or their bytes more than [`BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

impl SizesSeen {
    /// Adds items of one size; items of size 0 have no bytes, and are nobody's.
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

    pub fn bars(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        self.items.iter().map(|(&size_bytes, &items)| (size_bytes, items))
    }

    pub fn item_count(&self) -> u64 {
        self.item_count
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

pub const BAR_WIDTH_BYTES: usize = 32;
/// Chunk sizes of memcached and of slabwise are multiples of it.
pub const STEP_BYTES: usize = 8;

/// The sizes within bars. `bars`: items by the bar's upper end, a multiple of [`BAR_WIDTH_BYTES`]. `classes`:
/// items by chunk size, as far as known; where their number is not near that of the bars, they say nothing.
///
/// The sizes of a step are given as its middle, so that what is lost behind them is right in the mean. (The class of
/// the largest chunks holds chained items, too: its end is at most the bar's that it is in, and does no harm.)
pub fn spread(
    bars: &BTreeMap<usize, u64>,
    classes: &BTreeMap<usize, u64>,
) -> Result<SizesSeen, TooMuch> {
    let all = bars.values().try_fold(0u64, |sum, &items| sum.checked_add(items));
    let all = all.ok_or(TooMuch)?;
    let ends = class_ends(classes, all);
    let mut seen = SizesSeen::default();
    let mut before = 0;
    for (&bar_end, &items) in bars {
        let start = bar_end.saturating_sub(BAR_WIDTH_BYTES);
        let (mut from, mut from_count) = (start, before);
        before += items;
        let within = ends.range(start + 1..bar_end).map(|(&size, &count)| (size, count));
        for (to, count) in within.chain([(bar_end, before)]) {
            let count = count.clamp(from_count, before);
            spread_evenly(&mut seen, from, to, count - from_count)?;
            (from, from_count) = (to, count);
        }
    }
    Ok(seen)
}

/// How many items are not above each chunk size; nothing where the classes do not hold what the bars do.
fn class_ends(classes: &BTreeMap<usize, u64>, all: u64) -> BTreeMap<usize, u64> {
    const APART_MAX: u64 = 50;
    let sum = classes.values().fold(0u64, |sum, &items| sum.saturating_add(items));
    if sum.abs_diff(all) > all / APART_MAX {
        return BTreeMap::new();
    }
    let mut up_to = 0;
    let ends = classes.iter().map(|(&size, &items)| {
        up_to = items.saturating_add(up_to);
        (size, up_to)
    });
    ends.filter(|(size, _)| size.is_multiple_of(STEP_BYTES)).collect()
}

/// Adds items of sizes above `from` up to `to`, as many in each step.
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
    fn a_bar_alone_is_spread_evenly() {
        let seen = spread(&BTreeMap::from([(128, 10)]), &BTreeMap::new());
        let bars: Vec<_> = seen.iter().flat_map(|seen| seen.bars()).collect();
        assert_eq!(bars, [(100, 2), (108, 3), (116, 2), (124, 3)]);
    }

    #[test]
    fn classes_tell_on_which_side_of_a_chunk_size_items_are() {
        // All of the bar (96, 128] are above 120, as the class of 120 holds nothing of it.
        let classes = BTreeMap::from([(96, 5), (120, 0), (152, 10)]);
        let seen = spread(&BTreeMap::from([(96, 5), (128, 10)]), &classes);
        let seen = seen.unwrap_or_default();
        assert_eq!(seen.bars().filter(|&(size, _)| size > 96).collect::<Vec<_>>(), [(124, 10)]);
    }

    #[test]
    fn classes_of_another_number_of_items_say_nothing() {
        let bars = BTreeMap::from([(128, 100)]);
        let seen = spread(&bars, &BTreeMap::from([(120, 90), (152, 0)]));
        assert_eq!(seen, spread(&bars, &BTreeMap::new()));
    }

    #[test]
    fn every_item_stays_in_its_bar_and_its_class() {
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
            let mut bars = BTreeMap::new();
            let none = chunk_sizes.iter().map(|&chunk_size| (chunk_size, 0));
            let mut classes: BTreeMap<usize, u64> = none.collect();
            for _ in 0..random.below(500) {
                let size = 1 + random.below(512) as usize;
                *bars.entry(size.next_multiple_of(32)).or_default() += 1;
                let place = chunk_sizes.partition_point(|&chunk| chunk < size);
                *classes.entry(chunk_sizes[place]).or_default() += 1;
            }
            let seen = spread(&bars, &classes).unwrap_or_default();
            let (mut bars_back, mut classes_back) = (BTreeMap::new(), BTreeMap::new());
            for (size, items) in seen.bars() {
                assert_eq!(size % STEP_BYTES, STEP_BYTES / 2, "seed {seed}");
                *bars_back.entry(size.next_multiple_of(32)).or_default() += items;
                let place = chunk_sizes.partition_point(|&chunk| chunk < size);
                *classes_back.entry(chunk_sizes[place]).or_default() += items;
            }
            assert_eq!(bars_back, bars, "seed {seed}");
            classes.retain(|_, items| *items > 0);
            assert_eq!(classes_back, classes, "seed {seed}");
        }
    }
}
