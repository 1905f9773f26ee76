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
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The lane of items that cost nothing; those of unknown cost are in the first.
const WORTHLESS: u16 = 1;

/// Lanes that there may be.
const BANDS_MAX: usize = 66;

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
        let used_a_tick = class.bands().share(lane) / (f64::from(age_ticks) + 1.0);
        Candidate { worth: cost as f64 * used_a_tick, age_ticks }
    }

    fn goes_before(&self, other: &Candidate) -> bool {
        let order = self.worth.total_cmp(&other.worth);
        order.then(other.age_ticks.cmp(&self.age_ticks)).is_lt()
    }
}

/// What is known of each band of a class: how old its items are when they leave, and how many are used again at
/// such an age. Hits are noted without the class's lock, all else under it.
#[derive(Debug)]
pub struct Bands {
    bands: Box<[Band]>,
}

#[derive(Debug, Default)]
struct Band {
    /// The age at which items left lately; 0 before the first did.
    age_ticks: AtomicU32,
    /// Hits of items of at least half that age.
    late_hits: AtomicU32,
    /// Items that left.
    evicted: AtomicU32,
}

/// Late hits and evictions of a band after which older ones count half.
const NOTED_MAX: u32 = 1 << 10;
/// As many evictions, and as many late hits, count before the first.
const NOTED_BEFORE: u32 = 16;
/// An eviction moves the age of a band by such a part of the difference.
const AGE_PART: u32 = 8;

impl Default for Bands {
    fn default() -> Bands {
        Bands { bands: (0..BANDS_MAX).map(|_| Band::default()).collect() }
    }
}

impl Bands {
    /// Notes a hit of an item that had been unused for this long.
    #[inline]
    pub fn note_hit(&self, cost: Cost, age_ticks: u32) {
        let band = self.band(band_of(Some(cost)));
        if age_ticks > band.age_ticks.load(Relaxed) / 2 && band.evicted.load(Relaxed) > 0 {
            band.late_hits.fetch_add(1, Relaxed);
        }
    }

    /// Notes that an item of this age leaves a lane.
    pub fn note_evicted(&self, lane: Lane, age_ticks: u32) {
        let band = self.band(lane);
        let before = band.age_ticks.load(Relaxed);
        let known = band.evicted.fetch_add(1, Relaxed) > 0;
        let moved = before.saturating_sub(before / AGE_PART) + age_ticks / AGE_PART;
        band.age_ticks.store(if known { moved } else { age_ticks }, Relaxed);
        if band.evicted.load(Relaxed) + band.late_hits.load(Relaxed) > NOTED_MAX {
            for count in [&band.evicted, &band.late_hits] {
                count.store(count.load(Relaxed).div_ceil(2), Relaxed);
            }
        }
    }

    /// Whether an item at the tail of a lane has been used so lately that it is not the coldest.
    pub fn is_used_lately(&self, lane: Lane, age_ticks: u32) -> bool {
        age_ticks < self.band(lane).age_ticks.load(Relaxed) / 2
    }

    /// The share of a lane's items that are used again once they are half as old as those that leave.
    fn share(&self, lane: Lane) -> f64 {
        let band = self.band(lane);
        let late = f64::from(band.late_hits.load(Relaxed) + NOTED_BEFORE);
        late / (late + f64::from(band.evicted.load(Relaxed) + NOTED_BEFORE))
    }

    fn band(&self, lane: Lane) -> &Band {
        &self.bands[usize::from(lane.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::{Bands, Candidate, band_of};
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
    fn the_share_of_items_used_again_is_that_of_late_hits() {
        let (bands, lane, cost) =
            (Bands::default(), band_of(Some(Cost::from_units(20))), Cost::from_units(20));
        assert_eq!(bands.share(lane), 0.5);
        bands.note_evicted(lane, 100);
        for turn in 0..10_000 {
            bands.note_hit(cost, if turn % 10 == 0 { 90 } else { 40 });
            bands.note_evicted(lane, 100);
        }
        assert!((bands.share(lane) - 0.1).abs() < 0.03, "{}", bands.share(lane));
        assert!(bands.is_used_lately(lane, 40) && !bands.is_used_lately(lane, 60));
        (0..1_000).for_each(|_| bands.note_hit(cost, 60));
        assert!(bands.share(lane) > 0.5, "{}", bands.share(lane));
    }
}
