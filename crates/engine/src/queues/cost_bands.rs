//! `eviction=cost_bands`: a segmented LRU for each band of costs; the band gives up an item whose coldest is
//! worth least.
//!
//! An item is worth keeping in proportion to its cost and to how soon it is used again. How soon those are that
//! go next in a band, the band tells: a share p of the items that came to its tail lately had been used since
//! they turned cold, and the others have gone unused for an age A; so p / A is about how often such items are
//! used. That band gives up an item where cost * p / A is least. While all bands have the same p, that is the
//! rule of GreedyDual: an item of cost 400 stays 20 times as long unused as one of cost 20. But what costs much
//! and is never used again goes soon. It takes no priority in items and no work at hits.
//!
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
        Some((lane, Candidate::new(class, memory, (lane, address), now)))
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
    /// What a tick of its stay saves, in units of cost.
    worth: f64,
    age_ticks: u32,
}

impl Candidate {
    fn new(
        class: &ClassState,
        memory: &Memory,
        (lane, address): (Lane, ChunkAddress),
        now: Ticks,
    ) -> Candidate {
        let cost = memory.cost(address, ReadProof::under_class(class));
        let cost = cost.map_or(class.cost_mean(), |cost| u64::from(cost.units()));
        let age_ticks = memory.header(address).time().age_at(now);
        // At least a tick, so that among items used just now the least cost goes.
        let used_a_tick = class.reuse().share(lane) / (f64::from(age_ticks) + 1.0);
        Candidate { worth: cost as f64 * used_a_tick, age_ticks }
    }

    fn goes_before(&self, other: &Candidate) -> bool {
        let order = self.worth.total_cmp(&other.worth);
        order.then(other.age_ticks.cmp(&self.age_ticks)).is_lt()
    }
}

/// How many of the items that came to the tails of bands had been used since they turned cold.
#[derive(Debug, Default)]
pub struct Reuse {
    bands: Vec<Looks>,
}

/// What looks at a band's tail found lately.
#[derive(Clone, Copy, Debug, Default)]
struct Looks {
    used: u32,
    unused: u32,
}

/// Looks after which older ones count half.
const LOOKS_MAX: u32 = 1 << 10;
/// As many looks as these, half of which found an item used, count before the first.
const LOOKS_BEFORE: u32 = 32;

impl Reuse {
    /// Notes what a look at the tail of a lane found.
    #[inline]
    pub fn note(&mut self, lane: Lane, is_used: bool) {
        let at = usize::from(lane.0);
        if at >= self.bands.len() {
            self.bands.resize(at + 1, Looks::default());
        }
        let looks = &mut self.bands[at];
        *(if is_used { &mut looks.used } else { &mut looks.unused }) += 1;
        if looks.used + looks.unused >= LOOKS_MAX {
            *looks = Looks { used: looks.used / 2, unused: looks.unused / 2 };
        }
    }

    /// The share of a lane's items that are used again after they turned cold.
    fn share(&self, lane: Lane) -> f64 {
        let looks = self.bands.get(usize::from(lane.0)).copied().unwrap_or_default();
        let all = looks.used + looks.unused + LOOKS_BEFORE;
        f64::from(looks.used + LOOKS_BEFORE / 2) / f64::from(all)
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidate, Lane, Reuse, band_of};
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
    fn what_is_worth_least_goes_first_and_among_equals_the_older() {
        let candidate = |worth, age_ticks| Candidate { worth, age_ticks };
        assert!(candidate(1.0, 5).goes_before(&candidate(2.0, 9)));
        assert!(!candidate(2.0, 9).goes_before(&candidate(1.0, 5)));
        assert!(candidate(0.0, 6).goes_before(&candidate(0.0, 5)));
    }

    #[test]
    fn the_share_of_items_used_again_is_that_of_the_last_looks() {
        let (mut reuse, lane) = (Reuse::default(), Lane(3));
        assert_eq!(reuse.share(lane), 0.5);
        (0..10_000).for_each(|look| reuse.note(lane, look % 10 == 0));
        assert!((reuse.share(lane) - 0.1).abs() < 0.03, "{}", reuse.share(lane));
        (0..10_000).for_each(|_| reuse.note(lane, true));
        assert!(reuse.share(lane) > 0.97, "{}", reuse.share(lane));
        assert_eq!(reuse.share(Lane(2)), 0.5);
    }
}
