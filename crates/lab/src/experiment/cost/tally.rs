//! The result of a run of a variant: totals of the measured requests, and the response times that follow from them.

use super::population::CostResponseSetup;
use crate::vtime::Access;
use serde::{Deserialize, Serialize};
use slabwise_base::Cost;

/// Totals of the measured requests. Costs are in units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of gets.
    pub requests: u64,
    /// Number of gets that missed.
    pub misses: u64,
    /// Sum of the costs of the keys of all gets.
    pub units_requested: u64,
    /// Sum of the costs of the keys of all misses.
    pub units_missed: u64,
    /// Number of misses of the keys of each cost; the index is the cost.
    pub misses_by_units: Vec<u64>,
    /// Number of pages that moved since the start of the run.
    pub pages_moved: u64,
    /// True if the memory was full at the end of the run.
    pub is_full: bool,
    /// Growth of the inflation of the first class, in units, while evictions replaced all of its items once. 0 if the
    /// eviction kind has no inflation, or if nothing was evicted.
    pub inflation_per_replacement: f64,
    /// The measured processor times of operations. `None` if the setting measures none.
    pub times: Option<OperationTimes>,
}

/// Mean processor times of operations, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationTimes {
    /// Time of a get of a requested key, hit or miss.
    pub get_nanos: f64,
    /// Time of a set of a key that has no item.
    pub set_nanos: f64,
}

impl Tally {
    pub fn hit_percent(&self) -> f64 {
        (1.0 - self.misses as f64 / self.requests.max(1) as f64) * 100.0
    }

    /// Returns the cost of all misses divided by the number of requests.
    pub fn units_per_request(&self) -> f64 {
        self.units_missed as f64 / self.requests.max(1) as f64
    }

    /// Returns the cost of all misses, in percent of the cost of all requests.
    pub fn recomputed_percent(&self) -> f64 {
        self.units_missed as f64 / self.units_requested.max(1) as f64 * 100.0
    }

    /// Returns the mean response time of a request in microseconds.
    pub fn response_us(&self, response: &CostResponseSetup) -> f64 {
        let hits = (self.requests - self.misses) as f64;
        let us = hits * response.hit_us + self.units_missed as f64 * response.miss_us_per_unit;
        us / self.requests.max(1) as f64
    }

    /// Returns the response time in microseconds that `percent` % of all requests do not exceed.
    pub fn response_percentile_us(&self, response: &CostResponseSetup, percent: f64) -> f64 {
        let misses = self.misses_by_units.iter().enumerate();
        let misses =
            misses.map(|(units, &count)| (units as f64 * response.miss_us_per_unit, count));
        let hits = (response.hit_us, self.requests - self.misses);
        let mut times: Vec<(f64, u64)> = misses.chain([hits]).filter(|time| time.1 > 0).collect();
        times.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let wanted = (self.requests as f64 * percent / 100.0).ceil() as u64;
        let mut counted = 0;
        let reaches = |&&(_, count): &&(f64, u64)| {
            counted += count;
            counted >= wanted
        };
        times.iter().find(reaches).map_or(0.0, |&(us, _)| us)
    }

    /// Adds a get of a key with this cost.
    pub fn count(&mut self, access: Access, cost: Cost) {
        let units = u64::from(cost.units());
        self.requests += 1;
        self.units_requested += units;
        if access == Access::Miss {
            self.misses += 1;
            self.units_missed += units;
            let at = units as usize;
            if at >= self.misses_by_units.len() {
                self.misses_by_units.resize(at + 1, 0);
            }
            self.misses_by_units[at] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use crate::experiment::cost::population::CostResponseSetup;
    use crate::vtime::Access;
    use slabwise_base::Cost;

    const RESPONSE: CostResponseSetup = CostResponseSetup { hit_us: 222.0, miss_us_per_unit: 44.4 };

    fn tally(hits: u64, missed_units: &[u32]) -> Tally {
        let mut tally = Tally::default();
        (0..hits).for_each(|_| tally.count(Access::Hit, Cost::from_units(10)));
        let missed = missed_units.iter().map(|&units| Cost::from_units(units));
        missed.for_each(|cost| tally.count(Access::Miss, cost));
        tally
    }

    /// In the thesis (section 5.5.1), a miss of a key with the lowest cost, 10 units, takes twice as long as a hit.
    #[test]
    fn response_times_are_those_of_the_thesis() {
        let [hit, miss] = [tally(1, &[]), tally(0, &[10])].map(|it| it.response_us(&RESPONSE));
        assert_eq!([hit, miss], [222.0, 444.0]);
    }

    #[test]
    fn percentiles_are_response_times_of_requests() {
        let tally = tally(95, &[10, 450, 30, 100, 20]);
        let us = |percent| tally.response_percentile_us(&RESPONSE, percent);
        let found = [95.0, 96.0, 98.0, 99.0, 100.0].map(us);
        assert_eq!(
            found,
            [0.0, 10.0, 30.0, 100.0, 450.0].map(|units: f64| 222f64.max(units * 44.4))
        );
    }
}
