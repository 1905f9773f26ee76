//! The miss ratio with more or less memory, and what a lower miss ratio is worth in memory.

use crate::estimate::Estimate;
use crate::model::{Model, Models, PAGES_MIN};
use crate::observation::{ClassSeen, Observation, WhatIf};
use serde::Serialize;

/// The factors on the present memory for which the miss ratio is predicted.
const FACTORS: [f64; 13] = [0.5, 0.625, 0.75, 0.875, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0];
/// A point counts as measured if the classes of this share of the gets were measured this far.
const MEASURED_SHARE_MIN: f64 = 0.9;

/// The miss ratio by memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryGain {
    /// The points in ascending order of the memory.
    pub points: Vec<MemoryPoint>,
}

/// The miss ratio with another memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryPoint {
    /// The memory divided by the present memory.
    pub factor: f64,
    /// The memory limit in bytes.
    pub memory_bytes: u64,
    /// The miss ratio if each class has its present share of the memory.
    pub miss_ratio: Estimate,
    /// The miss ratio with the best division of the pages. `None` for less than the present memory, because it depends on
    /// the pages that each class gets before the memory is full; and for a slabwise, which divides its pages itself.
    pub miss_ratio_best_division: Option<Estimate>,
    /// False if the observation was too short for this memory. Then the miss ratio is a continuation of the curve.
    pub is_measured: bool,
}

/// The memory that would have the same effect as a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Worth {
    /// The additional memory in bytes.
    pub memory_bytes: u64,
    /// True if the gain is worth more than this: the curve ends here.
    pub is_more: bool,
}

impl MemoryGain {
    /// Computes the curve of an observed server.
    pub fn of(observation: &Observation, models: &Models) -> MemoryGain {
        let limit_bytes = observation.memory_limit_bytes as f64;
        let memory = |factor: f64| (limit_bytes * factor) as u64;
        // Memory that is not used changes no misses.
        let of_used = |factor: f64| match observation.is_memory_full {
            true => factor,
            false => (factor * limit_bytes / page_bytes(observation)).min(1.0),
        };
        let pages: u64 = models.all.pages().iter().sum();
        let best = |factor: f64| {
            let best_pages = (pages as f64 * of_used(factor)).round() as u64;
            let best = models.all.best_division(best_pages, PAGES_MIN);
            models.estimate(|model| model.miss_ratio(&best))
        };
        let of_curves = |factor: f64| MemoryPoint {
            factor,
            memory_bytes: memory(factor),
            miss_ratio: scaled(models, of_used(factor)),
            miss_ratio_best_division: (factor >= 1.0).then(|| best(factor)),
            is_measured: models.all.measured_share(of_used(factor)) >= MEASURED_SHARE_MIN,
        };
        let of_server = |point: &WhatIf| {
            let factor = point.memory_percent as f64 / 100.0;
            MemoryPoint {
                factor,
                memory_bytes: memory(factor),
                miss_ratio: point.miss_ratio,
                miss_ratio_best_division: None,
                is_measured: true,
            }
        };
        let points = match observation.what_if.as_slice() {
            [] => FACTORS.map(of_curves).to_vec(),
            predicted => predicted.iter().map(of_server).collect(),
        };
        MemoryGain { points }
    }

    /// Returns the present memory in bytes.
    fn present_bytes(&self) -> u64 {
        let present = self.points.iter().find(|point| point.factor == 1.0);
        present.map_or(0, |point| point.memory_bytes)
    }

    /// Returns the miss ratio with this memory: linear between the points, and level outside of them.
    pub fn at(&self, memory_bytes: u64) -> Option<Estimate> {
        let next = self.points.partition_point(|point| point.memory_bytes < memory_bytes);
        let (below, above) =
            (next.checked_sub(1).and_then(|at| self.points.get(at)), self.points.get(next));
        let (Some(below), Some(above)) = (below, above) else {
            return above.or(below).map(|point| point.miss_ratio);
        };
        let span = (above.memory_bytes - below.memory_bytes) as f64;
        let part = (memory_bytes - below.memory_bytes) as f64 / span;
        let between = |of: fn(&Estimate) -> f64| {
            let (below, above) = (of(&below.miss_ratio), of(&above.miss_ratio));
            below + (above - below) * part
        };
        Some(Estimate {
            value: between(|it| it.value),
            low: between(|it| it.low),
            high: between(|it| it.high),
        })
    }

    /// Returns the additional memory with which the present division would have this miss ratio. The curve is used only
    /// as far as it was measured.
    pub fn worth(&self, miss_ratio: f64) -> Worth {
        let present = self.present_bytes();
        let from = |bytes: u64| bytes.saturating_sub(present);
        let larger = self.points.iter().filter(|point| point.factor >= 1.0);
        let measured: Vec<_> = larger.take_while(|it| it.factor == 1.0 || it.is_measured).collect();
        for two in measured.windows(2) {
            let (a, b) = (two[0].miss_ratio.value, two[1].miss_ratio.value);
            if miss_ratio >= a {
                return Worth { memory_bytes: from(two[0].memory_bytes), is_more: false };
            }
            if miss_ratio >= b {
                let part = (a - miss_ratio) / (a - b);
                let bytes = (two[1].memory_bytes - two[0].memory_bytes) as f64 * part;
                let memory_bytes = from(two[0].memory_bytes + bytes as u64);
                return Worth { memory_bytes, is_more: false };
            }
        }
        let Some(last) = measured.last() else { return Worth { memory_bytes: 0, is_more: false } };
        let is_more = miss_ratio < last.miss_ratio.value;
        Worth { memory_bytes: from(last.memory_bytes), is_more }
    }
}

/// Returns the memory of all pages in bytes; at least 1.
fn page_bytes(observation: &Observation) -> f64 {
    let page = |class: &ClassSeen| {
        let shown = &class.counters.shown;
        shown.pages as f64 * (shown.chunk_size_bytes * shown.chunks_per_page) as f64
    };
    observation.classes.iter().map(page).sum::<f64>().max(1.0)
}

/// Returns the miss ratio if each class has this many times its present memory. The present miss ratio was counted, so it
/// has no error.
pub fn scaled(models: &Models, factor: f64) -> Estimate {
    match factor == 1.0 {
        true => Estimate::exact(models.all.miss_ratio_scaled(1.0)),
        false => models.estimate(|model: &Model| model.miss_ratio_scaled(factor)),
    }
}

#[cfg(test)]
mod tests {
    use super::{MemoryGain, MemoryPoint, Worth};
    use crate::estimate::Estimate;
    use crate::model::Models;
    use crate::testing::{Class, observation};

    fn curve(measured_up_to: f64) -> MemoryGain {
        let point = |factor: f64| MemoryPoint {
            factor,
            memory_bytes: (1000.0 * factor) as u64,
            miss_ratio: Estimate::exact(0.4 / factor),
            miss_ratio_best_division: None,
            is_measured: factor <= measured_up_to,
        };
        MemoryGain { points: [0.5, 1.0, 2.0, 4.0].map(point).to_vec() }
    }

    #[test]
    fn a_miss_ratio_is_worth_the_memory_with_which_the_curve_has_it() {
        let worth = |ratio| curve(4.0).worth(ratio);
        let exact = |memory_bytes| Worth { memory_bytes, is_more: false };
        assert_eq!(worth(0.4), exact(0));
        assert_eq!(worth(0.6), exact(0), "more misses are worth nothing");
        assert_eq!(worth(0.3), exact(500));
        assert_eq!(worth(0.2), exact(1000));
        assert_eq!(worth(0.05), Worth { memory_bytes: 3000, is_more: true });
    }

    #[test]
    fn memory_that_is_not_used_changes_no_misses() {
        let curve = &[(0, 10_000.0), (16, 4_000.0), (32, 0.0)];
        let class = Class { chunk_size_bytes: 1_024, pages: 16, evicted: 0, curve };
        let mut server = observation("server", &[class]);
        server.memory_limit_bytes *= 4;
        server.is_memory_full = false;
        let gain = MemoryGain::of(&server, &Models::new(&server));
        let at = |factor: f64| {
            let point = gain.points.iter().find(|point| point.factor == factor);
            point.expect("the curve has the point").miss_ratio.value
        };
        assert_eq!([at(0.5), at(1.0), at(4.0)], [server.miss_ratio(); 3]);
        server.memory_limit_bytes /= 4;
        let full = MemoryGain::of(&server, &Models::new(&server));
        assert!(full.points[0].miss_ratio.value > server.miss_ratio());
    }

    #[test]
    fn the_curve_is_linear_between_its_points() {
        let at = |bytes| curve(4.0).at(bytes).map(|it| (it.value * 1e6).round() as u64);
        assert_eq!([400, 1000, 1500, 9000].map(at), [800_000, 400_000, 300_000, 100_000].map(Some));
        assert_eq!(MemoryGain { points: vec![] }.at(1), None);
    }

    #[test]
    fn the_curve_is_used_as_far_as_it_was_measured() {
        assert_eq!(curve(2.0).worth(0.1), Worth { memory_bytes: 1000, is_more: true });
        assert_eq!(curve(0.5).worth(0.1), Worth { memory_bytes: 0, is_more: true });
    }
}
