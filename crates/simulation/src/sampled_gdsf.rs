//! GDSF whose priorities are reconstructed and not stored, and whose victims are sampled.
//!
//! ```text
//!   item: count of requests, tick of the last request       ranking: L at each tick
//!   priority = L at the tick of the last request + count / size
//! ```
//!
//! GDSF keeps all items ordered by priority, which a hit changes. Here a hit changes only the count and the tick in the
//! item. `L` is the mean of the priorities of the last victims, because a sample sometimes has no item of low priority.
//!
//! Source: L. Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy", HP Labs
//! report 98-69, 1998.

use super::pool::Item;
use super::sampled::{Ranking, Stamp};
use slabwise_base::Uses;

/// The weight of a new victim in the mean of the priorities.
const VICTIM_WEIGHT: f64 = 0.02;

#[derive(Debug)]
pub struct SampledGdsf {
    /// `L` at each tick so far. It never decreases. A server keeps only the last ticks.
    inflations: Vec<f64>,
    /// Mean of the priorities of the last victims. `None` before the first victim.
    mean_priority: Option<f64>,
}

impl SampledGdsf {
    pub fn new() -> SampledGdsf {
        SampledGdsf { inflations: vec![0.0], mean_priority: None }
    }
}

impl Ranking for SampledGdsf {
    fn rank(&self, item: &Item<Stamp>, _now: u32) -> f64 {
        let gain = f64::from(item.state.uses.count()) / f64::from(item.size_bytes.max(1));
        self.inflations[item.state.tick as usize] + gain
    }

    fn requested(&mut self, _key: u32, _uses: Uses, now: u32) {
        let inflation = self.inflations.last().copied().unwrap_or_default();
        self.inflations.resize(now as usize + 1, inflation);
    }

    fn evicted(&mut self, rank: f64) {
        let mean = self.mean_priority.unwrap_or(rank);
        let mean = mean + (rank - mean) * VICTIM_WEIGHT;
        self.mean_priority = Some(mean);
        if let Some(inflation) = self.inflations.last_mut() {
            *inflation = inflation.max(mean);
        }
    }

    fn deleted(&mut self, _key: u32) {}
}

#[cfg(test)]
mod tests {
    use super::SampledGdsf;
    use crate::pool::Item;
    use crate::sampled::{Ranking, Stamp};
    use slabwise_base::Uses;

    #[test]
    fn the_priority_is_l_at_the_last_request_plus_count_by_size() {
        let mut gdsf = SampledGdsf::new();
        gdsf.requested(0, Uses::FIRST, 0);
        let twice = Uses::FIRST.counted(0);
        let item = |uses, tick| Item { key: 0, size_bytes: 50, state: Stamp { uses, tick } };
        assert_eq!(gdsf.rank(&item(twice, 0), 0), 0.04, "L is 0, and 2 / 50 is 0.04");
        gdsf.evicted(0.01);
        gdsf.requested(1, Uses::FIRST, 3);
        gdsf.evicted(0.06);
        // L is 0.01 until tick 2. At tick 3 it is 0.01 + 0.02 * 0.05.
        let ranks = [0, 2, 3].map(|tick| gdsf.rank(&item(Uses::FIRST, tick), 3));
        let errors = [0.03, 0.03, 0.031].iter().zip(ranks).map(|(rank, found)| rank - found);
        assert!(errors.into_iter().all(|error: f64| error.abs() < 1e-9), "{ranks:?}");
        gdsf.evicted(0.0);
        assert_eq!(gdsf.rank(&item(Uses::FIRST, 3), 3), ranks[2], "L never decreases");
    }
}
