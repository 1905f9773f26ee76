//! `eviction=cost_bands`: a segmented LRU for each band of costs; the band gives up an item whose coldest has
//! gone unused longest for what it costs.
//!
//! An item is worth keeping in proportion to how soon it is used again and to its cost, and it is the likelier
//! used again the less time has passed since its last use. So of two items that go next in their bands the one
//! leaves whose age is greater as a multiple of its cost: an item of cost 400 stays 20 times as long unused as
//! one of cost 20, as under GreedyDual, without a priority stored in items and without work at hits.
//! Bands of half an octave keep the search short: within one, costs differ by at most a half, and order is
//! that of use. Bands are those of CAMP (S. Ghandeharizadeh and others, Middleware 2014), with segmented LRUs
//! in the place of its LRU queues and ages in the place of its inflation.
//!
//! An item of unknown cost counts as the mean of those of its class that are known.
//!
//! Law: where no costs are known, or all of one band, every decision is that of `eviction=segmented`.

use super::{Lane, coldest_in};
use crate::class::ClassState;
use crate::mem::{ChunkAddress, ReadProof};
use crate::memory::Memory;
use slabwise_base::{Cost, Ticks};

/// The lane of items that cost nothing; those of unknown cost are in the first.
const WORTHLESS: u16 = 1;

/// The band of a cost.
#[inline]
pub fn band_of(cost: Option<Cost>) -> Lane {
    match cost.map(Cost::units) {
        None => Lane::FIRST,
        Some(0) => Lane(WORTHLESS),
        Some(units) => {
            let octave = units.ilog2();
            let upper_half = octave > 0 && (units >> (octave - 1)) & 1 == 1;
            Lane(WORTHLESS + 1 + 2 * octave as u16 + u16::from(upper_half))
        }
    }
}

/// The lane whose coldest item goes next.
pub fn lane_to_evict(class: &ClassState, memory: &Memory, now: Ticks) -> Lane {
    let mut candidates = class.lanes().all().filter_map(|lane| {
        let address = coldest_in(class, lane)?;
        Some((lane, Candidate::new(class, memory, address, now)))
    });
    let Some(mut best) = candidates.next() else { return Lane::FIRST };
    for other in candidates {
        if other.1.goes_before(&best.1) {
            best = other;
        }
    }
    best.0
}

/// The coldest item of a lane.
struct Candidate {
    /// At least 1, so that among items used just now the least cost goes.
    age_ticks: u64,
    /// Units.
    cost: u64,
}

impl Candidate {
    fn new(class: &ClassState, memory: &Memory, address: ChunkAddress, now: Ticks) -> Candidate {
        let cost = memory.cost(address, ReadProof::under_class(class));
        Candidate {
            age_ticks: u64::from(memory.header(address).time().age_at(now)) + 1,
            cost: cost.map_or(class.cost_mean(), |cost| u64::from(cost.units())),
        }
    }

    fn goes_before(&self, other: &Candidate) -> bool {
        // Neither product overflows: both factors are below 2^33, and ages below 2^31 by far.
        let (own, others) = (self.age_ticks * other.cost, other.age_ticks * self.cost);
        (own, self.age_ticks) > (others, other.age_ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidate, band_of};
    use slabwise_base::Cost;

    #[test]
    fn bands_are_half_octaves() {
        let band = |units| band_of(Some(Cost::from_units(units))).0;
        assert_eq!(band_of(None).0, 0);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8].map(band), [1, 2, 4, 5, 6, 6, 7, 7, 8]);
        assert_eq!(band(u32::MAX), 65);
        assert!(band(400) == band(450) && band(350) < band(400));
    }

    #[test]
    fn the_age_that_is_greatest_for_its_cost_goes_first() {
        let candidate = |age_ticks, cost| Candidate { age_ticks, cost };
        assert!(candidate(10, 20).goes_before(&candidate(199, 400)));
        assert!(!candidate(10, 20).goes_before(&candidate(201, 400)));
        assert!(candidate(1, 0).goes_before(&candidate(1_000, 1)));
        assert!(candidate(2, 0).goes_before(&candidate(1, 0)), "among equals the older");
    }
}
