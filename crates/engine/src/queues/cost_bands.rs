//! `eviction=cost_bands`: a segmented LRU for each band of costs; the band gives up an item whose coldest is
//! worth least.
//!
//! An item is worth keeping in proportion to its cost and to how soon it is used again. How soon those are that
//! go next in a band, the band tells: a share p of the items that came to its tail lately had been used since
//! they were queued, and those that left had gone unused for an age A; so p / A is about how often such items
//! are used. That band gives up an item where cost * p / A is least. While all bands have the same p, that is
//! the rule of GreedyDual: an item of cost 400 stays 20 times as long unused as one of cost 20. But what costs
//! much and is never used again goes soon. It takes no priority in items.
//!
//! A is smoothed over the items that left: a cold queue holds items from hot, young ones, and from warm, old
//! ones, and one tail says little. What stays long for its cost is to be known by a single use; so where there
//! are several bands every hit makes an item active, the first too.
//!
//! Bands of half an octave keep the search short: within one, costs differ by at most a half, and order is
//! that of use. Bands are those of CAMP (S. Ghandeharizadeh and others, Middleware 2014), with segmented LRUs
//! in the place of its LRU queues and ages in the place of its inflation; p / A is a hit density (N. Beckmann
//! and others, LHD, NSDI 2018) of the tail only.
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
        let worth = cost as f64 * class.bands().uses_a_tick(lane, age_ticks, now);
        Candidate { worth, age_ticks }
    }

    fn goes_before(&self, other: &Candidate) -> bool {
        let order = self.worth.total_cmp(&other.worth);
        order.then(other.age_ticks.cmp(&self.age_ticks)).is_lt()
    }
}

/// What is known of each band of a class, under its lock.
#[derive(Debug, Default)]
pub struct Bands {
    bands: Vec<Band>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Band {
    /// Items at its tail that had been used since they were queued, lately.
    used: u32,
    /// Others.
    unused: u32,
    /// When those that left were last used, smoothed, in ticks; `None` before the first left.
    last_use_ticks: Option<f64>,
}

/// Looks at a band's tail after which older ones count half.
const LOOKS_MAX: u32 = 1 << 10;
/// As many looks of each outcome count before the first.
const LOOKS_BEFORE: u32 = 16;
/// The weight of the item that left last in the last use of those that left.
const LAST_USE_WEIGHT: f64 = 0.05;

impl Bands {
    /// Notes what a look at the tail of a lane found.
    pub fn note_look(&mut self, lane: Lane, is_used: bool) {
        let band = self.band_mut(lane);
        *(if is_used { &mut band.used } else { &mut band.unused }) += 1;
        if band.used + band.unused >= LOOKS_MAX {
            (band.used, band.unused) = (band.used / 2, band.unused / 2);
        }
    }

    /// Notes that an item of this age leaves a lane.
    pub fn note_evicted(&mut self, lane: Lane, age_ticks: u32, now: Ticks) {
        let used_at = f64::from(now.0) - f64::from(age_ticks);
        let last_use = &mut self.band_mut(lane).last_use_ticks;
        *last_use =
            Some(last_use.map_or(used_at, |last| last + (used_at - last) * LAST_USE_WEIGHT));
    }

    /// How often an item that goes next in a lane is used in a tick: p / A. `age_ticks` is that of the lane's
    /// coldest, where none has left yet.
    fn uses_a_tick(&self, lane: Lane, age_ticks: u32, now: Ticks) -> f64 {
        let band = self.bands.get(usize::from(lane.0)).copied().unwrap_or_default();
        let used = f64::from(band.used + LOOKS_BEFORE);
        let share = used / (used + f64::from(band.unused + LOOKS_BEFORE));
        let age = band.last_use_ticks.map_or(f64::from(age_ticks), |last| f64::from(now.0) - last);
        // At least a tick, so that among items used just now the least cost goes.
        share / (age.max(0.0) + 1.0)
    }

    fn band_mut(&mut self, lane: Lane) -> &mut Band {
        let at = usize::from(lane.0);
        if at >= self.bands.len() {
            self.bands.resize(at + 1, Band::default());
        }
        &mut self.bands[at]
    }
}

#[cfg(test)]
mod tests {
    use super::{Bands, Candidate, Lane, band_of};
    use slabwise_base::{Cost, Ticks};

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
    fn how_often_items_are_used_follows_from_looks_and_ages() {
        let (mut bands, lane, now) = (Bands::default(), Lane(3), Ticks(1_000));
        assert_eq!(bands.uses_a_tick(lane, 99, now), 0.5 / 100.0);
        (0..10_000).for_each(|look| bands.note_look(lane, look % 10 == 0));
        let seldom = bands.uses_a_tick(lane, 99, now) * 100.0;
        assert!((seldom - 0.1).abs() < 0.03, "{seldom}");
        (0..10_000).for_each(|_| bands.note_look(lane, true));
        bands.note_evicted(lane, 199, now);
        let often = bands.uses_a_tick(lane, 99, now) * 200.0;
        assert!((0.97..1.0).contains(&often), "{often}");
        (0..1_000).for_each(|_| bands.note_evicted(lane, 49, now));
        let sooner = bands.uses_a_tick(lane, 99, now) * 50.0;
        assert!((0.97..1.0).contains(&sooner), "{sooner}");
    }
}
