//! The gain of other chunk sizes: bytes of chunks that their items do not use.
//!
//! The sizes are those of the items that were seen in the traffic. The items of popular keys are seen more often than they
//! are stored, so the sizes of each class are weighted by the items that the server counts in the class. The band of the
//! gain contains the results with and without this weight.

use super::memory::{MemoryGain, Worth, scaled};
use crate::chunk_sizes::advice::{Advice, Choice, advise};
use crate::chunk_sizes::sizes_seen::{LimitExceeded, SizesSeen, Source};
use crate::estimate::Estimate;
use crate::model::Models;
use crate::observation::Observation;
use serde::Serialize;

/// The smallest number of items from which chunk sizes are computed.
const ITEMS_MIN: u64 = 1_000;
/// The factor on the weights of sizes. Weights are whole numbers, and a rounded weight must be precise.
const WEIGHT_FACTOR: f64 = 64.0;
/// The quantile of the normal distribution that a value exceeds in one of twenty cases.
const NORMAL_QUANTILE: f64 = 1.645;

/// The gain of other chunk sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChunkSizesGain {
    /// The saved bytes, as a share of the memory of all pages.
    pub saved_share: Estimate,
    /// The saved bytes.
    pub saved_bytes: Estimate,
    /// The miss ratio with the saved bytes as additional memory of all classes.
    pub miss_ratio: Estimate,
    /// The number of items whose sizes were seen.
    pub items_seen: u64,
    /// The value of the option `-o slab_sizes=`.
    pub slab_sizes: String,
    /// The memory that would save as many misses with the present chunk sizes.
    pub worth: Worth,
}

impl ChunkSizesGain {
    /// Computes the gain. The error is a sentence about the server.
    pub fn of(
        observation: &Observation,
        models: &Models,
        memory: &MemoryGain,
    ) -> Result<ChunkSizesGain, String> {
        let seen = seen(observation, |_| 1.0).map_err(too_many)?;
        if seen.item_count() < ITEMS_MIN {
            return Err(format!(
                "{} item sizes were seen, fewer than {ITEMS_MIN}: no chunk sizes are recommended",
                seen.item_count()
            ));
        }
        let items_seen = seen.item_count();
        let weights = ClassWeights::of(observation, &seen);
        let weighted = self::seen(observation, |size| weights.of_size(size)).map_err(too_many)?;
        let (plain, advice) = (advice(observation, seen)?, advice(observation, weighted)?);
        let saved_share = band(saved_share(&plain), saved_share(&advice), items_seen);
        let bytes: u64 = observation.classes.iter().map(|it| page_bytes(observation, it)).sum();
        let miss_ratio = with_saved(models, saved_share);
        Ok(ChunkSizesGain {
            saved_share,
            saved_bytes: saved_share.times(bytes as f64),
            miss_ratio,
            items_seen,
            slab_sizes: advice.slab_sizes,
            worth: memory.worth(miss_ratio.value),
        })
    }
}

/// Returns the miss ratio if all classes have this share of the memory in addition.
fn with_saved(models: &Models, saved: Estimate) -> Estimate {
    let at = |share: f64| scaled(models, 1.0 / (1.0 - share.clamp(0.0, 0.9)));
    let ratio = at(saved.value);
    let (low, high) = (ratio.low.min(at(saved.high).value), ratio.high.max(at(saved.low).value));
    Estimate { value: ratio.value, low, high }
}

fn page_bytes(observation: &Observation, class: &crate::observation::ClassSeen) -> u64 {
    class.counters.shown.pages * observation.state.cache.page_size_bytes() as u64
}

fn too_many(_: LimitExceeded) -> String {
    "the sizes of the items are implausible: no chunk sizes are recommended".to_owned()
}

/// Returns the sizes that were seen, each with a weight.
fn seen(
    observation: &Observation,
    weight: impl Fn(usize) -> f64,
) -> Result<SizesSeen, LimitExceeded> {
    let mut seen = SizesSeen::default();
    for bin in observation.item_sizes.bins() {
        // Sizes that the server does not store are those of refused values.
        if bin.size_bytes <= observation.state.cache.item_size_bytes_max {
            seen.add(bin.size_bytes, (bin.items as f64 * weight(bin.size_bytes)).round() as u64)?;
        }
    }
    Ok(seen)
}

fn advice(observation: &Observation, seen: SizesSeen) -> Result<Advice, String> {
    let source = Source {
        text: String::new(),
        version: None,
        seen,
        current: observation.state.table.clone(),
    };
    let choice = Choice::Exact { listed_count_max: None };
    advise(source, &observation.state.cache, choice).map_err(|error| error.to_string())
}

/// Returns the bytes that the recommended table saves, as a share of the memory that the items use now.
fn saved_share(advice: &Advice) -> f64 {
    let used = advice.bytes + advice.current.lost;
    (advice.saved_bytes as f64 / used.max(1) as f64).max(0.0)
}

/// Returns the share with a band that contains both shares, and the error of a sample of this number of items.
fn band(plain: f64, weighted: f64, items: u64) -> Estimate {
    let by_chance = NORMAL_QUANTILE / (items.max(1) as f64).sqrt();
    Estimate {
        value: weighted,
        low: plain.min(weighted) * (1.0 - by_chance),
        high: plain.max(weighted) * (1.0 + by_chance),
    }
}

/// The items that the server counts in each class, divided by those that were seen.
struct ClassWeights {
    /// The chunk size of each class in bytes, ascending, and its weight.
    weights: Vec<(usize, f64)>,
}

impl ClassWeights {
    fn of(observation: &Observation, seen: &SizesSeen) -> ClassWeights {
        let counted = observation.state.items_of_chunk_size();
        let mut weights: Vec<(usize, f64)> =
            counted.iter().map(|(&size, &items)| (size, items as f64)).collect();
        let mut seen_of_class = vec![0u64; weights.len()];
        for (size, items) in seen.bins() {
            // The class of the largest chunks has the items that are larger than its chunks, too.
            let class = weights.partition_point(|&(chunk, _)| chunk < size);
            if let Some(sum) = seen_of_class.get_mut(class.min(weights.len().saturating_sub(1))) {
                *sum += items;
            }
        }
        for ((_, weight), seen) in weights.iter_mut().zip(seen_of_class) {
            *weight = if seen > 0 { *weight / seen as f64 } else { 1.0 };
        }
        ClassWeights { weights }
    }

    fn of_size(&self, size: usize) -> f64 {
        let class = self.weights.partition_point(|&(chunk, _)| chunk < size);
        let weight = self.weights.get(class).or(self.weights.last());
        weight.map_or(1.0, |&(_, weight)| weight) * WEIGHT_FACTOR
    }
}

#[cfg(test)]
mod tests {
    use super::band;

    #[test]
    fn the_band_contains_both_shares() {
        let found = band(0.06, 0.08, 10_000);
        assert_eq!(found.value, 0.08);
        assert!(found.low < 0.06 && 0.058 < found.low, "{found:?}");
        assert!(found.high > 0.08 && found.high < 0.082, "{found:?}");
    }
}
