//! `eviction=cost_bands`: a cost-aware segmented LRU. Each band of costs is a segmented LRU of its own. The victim is
//! the coldest item of one band: the band whose coldest item has the lowest worth.
//!
//! The worth of the coldest item of a band is cost * p / A:
//!
//! - p is the share of the items that a hit had marked as active when they left the tail of the band's cold queue.
//!   Recent items count more than older ones.
//! - A is the time since the last use of the coldest item, estimated from the mean time of the last use of the items
//!   that the band evicted.
//!
//! So p / A estimates how often such an item is used per tick. If p is the same in all bands, this is GreedyDual's
//! rule: an unused item of cost 400 is evicted at 20 times the age of an unused item of cost 20. But if expensive items
//! are rarely used, their p is low, and they are evicted earlier. Items store no rank.
//!
//! A is a mean over many evictions, because the ages of single tails vary widely: the cold queue holds young items from
//! hot and old items from warm. If the costs of a class differ widely, the first hit already marks an item as active,
//! because an expensive item stays long and may be used only once in that time. Otherwise the first hit marks no item
//! as active, as in memcached, so that items that are used once stay out of WARM.
//!
//! An octave is the range from a cost to twice that cost, and a band is half an octave wide. So the highest cost of a
//! band is at most 1.5 times the lowest, and a search for a victim compares few bands. The bands are those of CAMP (S.
//! Ghandeharizadeh and others, Middleware 2014), but each band is a segmented LRU instead of an LRU queue, and ages
//! take the place of inflation. The quotient p / A is the hit density of LHD (N. Beckmann and others, NSDI 2018),
//! computed only for the tail.
//!
//! An item of unknown cost counts as an item with the mean of the known costs of its class.
//!
//! Invariant: if all items of a class are in one lane, for example because no cost is known, every decision is that of
//! `eviction=segmented`.

use super::lanes::{Lane, Lanes, Place};
use super::order::{Info, Order, Victim, View, coldest_in, first_lane};
use crate::mem::{QueueKind, Queued};
use slabwise_base::{Cost, WorkTime};

/// The number of the lane of items of cost zero. Items of unknown cost are in lane 0.
const ZERO_COST: u16 = 1;

/// Returns the band of items of this cost.
#[inline]
fn band_of(cost: Option<Cost>) -> Lane {
    match cost.map(Cost::units) {
        None => Lane::FIRST,
        Some(0) => Lane(ZERO_COST),
        Some(units) => {
            let octave = units.ilog2();
            let upper_half = octave > 0 && (units >> (octave - 1)) & 1 == 1;
            Lane(ZERO_COST + 1 + 2 * octave as u16 + u16::from(upper_half))
        }
    }
}

/// The least distance between the lowest and the highest band in use at which costs count as widely different. Costs in
/// bands at this distance differ by a factor of four to eight.
const WIDE_DISTANCE_MIN: u16 = 5;

/// True if the known costs of the items of a class differ widely.
fn costs_differ_widely(lanes: &Lanes) -> bool {
    // This function runs at every eviction, and most classes use one lane only.
    if !lanes.has_several() {
        return false;
    }
    let known = lanes.next_from(Lane(ZERO_COST)).zip(lanes.last());
    known.is_some_and(|(least, highest)| is_wide(least, highest))
}

/// True if the costs of these two bands differ widely. Cost zero differs widely from any other cost.
fn is_wide(least: Lane, highest: Lane) -> bool {
    highest.0 >= least.0 + WIDE_DISTANCE_MIN || (least.0 == ZERO_COST && highest > least)
}

/// The eviction order of one class.
#[derive(Debug, Default)]
pub struct CostBands {
    bands: Bands,
}

impl CostBands {
    pub fn new() -> CostBands {
        CostBands::default()
    }

    /// Returns the lane of the next victim.
    #[inline]
    fn lane_to_evict(&self, view: &View<'_>, now: WorkTime) -> Lane {
        if view.lanes.has_several() {
            self.lane_of_lowest_worth(view, now)
        } else {
            first_lane(view)
        }
    }

    /// Returns the lane whose coldest item has the lowest worth.
    fn lane_of_lowest_worth(&self, view: &View<'_>, now: WorkTime) -> Lane {
        let candidate = |lane| Some((lane, self.candidate(view, lane, now)?));
        let mut candidates = view.lanes.all().filter_map(candidate);
        let Some(mut best) = candidates.next() else { return Lane::FIRST };
        for other in candidates {
            if other.1.is_evicted_before(&best.1) {
                best = other;
            }
        }
        best.0
    }

    /// Returns the estimated worth and age of the coldest item of a lane. The lane holds an item.
    fn candidate(&self, view: &View<'_>, lane: Lane, now: WorkTime) -> Option<Candidate> {
        let band = self.bands.band(lane);
        // The means over recent evictions take the place of the item's own data, because reading the item would cause a
        // miss in the CPU's cache.
        let (cost, age) = match band.evicted {
            Some(mean) => (mean.cost_units, mean.age(now)),
            None => {
                let item = view.tail(coldest_in(view, lane)?)?;
                (cost_of(view, item), f64::from(item.time().age_at(now)))
            }
        };
        // The divisor is at least one unit, so that of several items used at this time the cheapest is evicted.
        Some(Candidate { worth: cost * band.used_share() / (age + 1.0), age })
    }
}

/// Returns the cost of an item in units. An unknown cost counts as the mean of the known costs of the class.
fn cost_of(view: &View<'_>, item: Queued<'_>) -> f64 {
    item.cost().map_or_else(|| view.costs.mean() as f64, |cost| f64::from(cost.units()))
}

impl Order for CostBands {
    const INFO: Info = Info {
        is_segmented: true,
        uses_costs: true,
        can_switch: true,
        evicts_in_batches: true,
        ..Info::new("cost_bands", "cost-aware segmented LRU")
    };

    #[inline]
    fn lane_of(&self, item: Queued<'_>) -> Lane {
        band_of(item.cost())
    }

    #[inline]
    fn balance(
        &mut self,
        view: &View<'_>,
        place: Place,
        now: Option<WorkTime>,
    ) -> Option<QueueKind> {
        let target = view.segments.balance(view, place, now)?;
        if place.queue == QueueKind::Cold {
            self.bands.note_tail_check(place.lane, true);
        }
        Some(target)
    }

    fn coldest(&self, view: &View<'_>, now: WorkTime) -> Option<Place> {
        coldest_in(view, self.lane_to_evict(view, now))
    }

    #[inline]
    fn victim(&mut self, view: &View<'_>, moves: usize, now: WorkTime) -> Victim {
        let lane = self.lane_to_evict(view, now);
        let step = view.segments.victim(view, lane, moves);
        match step {
            Victim::Move(step) if step.from.queue == QueueKind::Cold => {
                self.bands.note_tail_check(lane, true);
            }
            Victim::Evict(place) => {
                let is_used = view.tail(place).is_some_and(|tail| tail.state().active());
                self.bands.note_tail_check(lane, is_used);
            }
            _ => {}
        }
        step
    }

    fn note_evicted(&mut self, view: &View<'_>, item: Queued<'_>, now: WorkTime) {
        let (lane, cost) = (self.lane_of(item), cost_of(view, item));
        self.bands.note_evicted(lane, item.time().age_at(now), cost, now);
    }

    #[inline]
    fn costs_differ_widely(&self, view: &View<'_>) -> bool {
        costs_differ_widely(view.lanes)
    }

    fn forget(&mut self) {
        self.bands = Bands::default();
    }

    fn lanes_name(&self) -> String {
        Self::INFO.name.to_owned()
    }
}

/// The coldest item of a lane, as a candidate for eviction.
struct Candidate {
    /// The cost, in units, that keeping the item for one unit of the work clock is expected to save.
    worth: f64,
    /// The time since the last use of the item, in units of the work clock.
    age: f64,
}

impl Candidate {
    /// True if this item is evicted before the other: its worth is lower, or it is older and the worths are equal.
    fn is_evicted_before(&self, other: &Candidate) -> bool {
        let order = self.worth.total_cmp(&other.worth);
        order.then(other.age.total_cmp(&self.age)).is_lt()
    }
}

/// The statistics of all bands of a class.
#[derive(Debug, Default)]
struct Bands {
    /// One entry per lane, indexed by the lane's number. Lanes beyond the end were never used.
    bands: Vec<Band>,
}

/// The statistics of one band.
#[derive(Clone, Copy, Debug, Default)]
struct Band {
    /// The number of items that were active when they left the tail of the band's cold queue. Halved when the sum of
    /// both counts reaches [`CHECKS_MAX`].
    used: u32,
    /// The number of items that were not active when they left the tail of the band's cold queue. Halved together with
    /// `used`.
    unused: u32,
    /// Means over the items that were evicted from the band; `None` before the first eviction.
    evicted: Option<EvictedMean>,
}

/// Exponentially weighted means over the items that were evicted from a band.
#[derive(Clone, Copy, Debug)]
struct EvictedMean {
    /// The mean of the times since the last use of the items at the time `at`, in units of the work clock. It grows
    /// with the clock, because the items that remain become older, too.
    age_at: f64,
    /// The time of the last eviction.
    at: WorkTime,
    /// The mean cost of the items, in units.
    cost_units: f64,
}

impl EvictedMean {
    /// Returns the mean time since the last use of the items.
    fn age(&self, now: WorkTime) -> f64 {
        self.age_at + f64::from(self.at.age_at(now))
    }
}

/// The sum of a band's counts `used` and `unused` at which both are halved.
const CHECKS_MAX: u32 = 1 << 10;
/// The number that is added to both counts, `used` and `unused`, to compute p. So p is near one half while the counts
/// are low.
const CHECKS_PRIOR: u32 = 16;
/// The weight of the last evicted item in the means.
const LAST_WEIGHT: f64 = 0.05;

impl Bands {
    /// Counts an item that leaves the tail of the lane's cold queue. `is_used` is true if the item is marked as active.
    fn note_tail_check(&mut self, lane: Lane, is_used: bool) {
        let band = self.band_mut(lane);
        *(if is_used { &mut band.used } else { &mut band.unused }) += 1;
        if band.used + band.unused >= CHECKS_MAX {
            (band.used, band.unused) = (band.used / 2, band.unused / 2);
        }
    }

    /// Adds an evicted item of this age and cost to the means of the lane.
    fn note_evicted(&mut self, lane: Lane, age: u32, cost_units: f64, now: WorkTime) {
        let age = f64::from(age);
        let evicted = &mut self.band_mut(lane).evicted;
        let before = evicted.unwrap_or(EvictedMean { age_at: age, at: now, cost_units });
        let towards = |before: f64, last: f64| before + (last - before) * LAST_WEIGHT;
        *evicted = Some(EvictedMean {
            age_at: towards(before.age(now), age),
            at: now,
            cost_units: towards(before.cost_units, cost_units),
        });
    }

    fn band(&self, lane: Lane) -> Band {
        self.bands.get(usize::from(lane.0)).copied().unwrap_or_default()
    }

    fn band_mut(&mut self, lane: Lane) -> &mut Band {
        let at = usize::from(lane.0);
        if at >= self.bands.len() {
            self.bands.resize(at + 1, Band::default());
        }
        &mut self.bands[at]
    }
}

impl Band {
    /// Returns the share p of the items that were active when they left the tail of the band's cold queue.
    fn used_share(&self) -> f64 {
        let used = f64::from(self.used + CHECKS_PRIOR);
        used / (used + f64::from(self.unused + CHECKS_PRIOR))
    }
}

#[cfg(test)]
mod tests {
    use super::{Bands, Candidate, Lane, band_of, is_wide};
    use slabwise_base::{Cost, WorkTime};

    #[test]
    fn a_band_is_half_an_octave_wide() {
        let band = |units| band_of(Some(Cost::from_units(units))).0;
        assert_eq!(band_of(None).0, 0);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8].map(band), [1, 2, 4, 5, 6, 6, 7, 7, 8]);
        assert_eq!(band(u32::MAX), 65);
        assert!(band(400) == band(450) && band(350) < band(400));
    }

    #[test]
    fn costs_that_differ_by_a_factor_of_about_four_differ_widely() {
        let wide = |least, highest| {
            let [least, highest] =
                [least, highest].map(|units| band_of(Some(Cost::from_units(units))));
            is_wide(least, highest)
        };
        for (least, highest) in [(10, 60), (100, 600), (1, 8), (0, 1), (0, 400)] {
            assert!(wide(least, highest), "costs {least} and {highest}");
        }
        for (least, highest) in [(10, 30), (120, 180), (350, 450), (100, 350), (0, 0), (7, 7)] {
            assert!(!wide(least, highest), "costs {least} and {highest}");
        }
    }

    #[test]
    fn the_lowest_worth_is_evicted_first_and_among_equal_worths_the_oldest_item() {
        let candidate = |worth, age| Candidate { worth, age };
        assert!(candidate(1.0, 5.0).is_evicted_before(&candidate(2.0, 9.0)));
        assert!(!candidate(2.0, 9.0).is_evicted_before(&candidate(1.0, 5.0)));
        assert!(candidate(0.0, 6.0).is_evicted_before(&candidate(0.0, 5.0)));
    }

    #[test]
    fn ages_of_a_band_are_correct_when_times_wrap_to_0() {
        let (mut bands, lane) = (Bands::default(), Lane(3));
        bands.note_evicted(lane, 200, 10.0, WorkTime(u32::MAX - 99));
        let age = |bands: &Bands, now| bands.band(lane).evicted.map(|mean| mean.age(WorkTime(now)));
        assert_eq!(age(&bands, 100), Some(400.0));
        bands.note_evicted(lane, 400, 10.0, WorkTime(100));
        assert_eq!(age(&bands, 150), Some(450.0));
    }

    #[test]
    fn the_statistics_of_a_band_follow_recent_checks_and_evictions() {
        let (mut bands, lane, now) = (Bands::default(), Lane(3), WorkTime(1_000));
        assert_eq!(bands.band(lane).used_share(), 0.5);
        (0..10_000).for_each(|check| bands.note_tail_check(lane, check % 10 == 0));
        assert!((bands.band(lane).used_share() - 0.1).abs() < 0.03, "{:?}", bands.band(lane));
        (0..10_000).for_each(|_| bands.note_tail_check(lane, true));
        assert!(bands.band(lane).used_share() > 0.97, "{:?}", bands.band(lane));
        assert!(bands.band(lane).evicted.is_none());
        bands.note_evicted(lane, 200, 10.0, now);
        let mean = bands.band(lane).evicted.expect("an item was evicted");
        assert_eq!((mean.age(now), mean.cost_units), (200.0, 10.0));
        assert_eq!(mean.age(WorkTime(1_300)), 500.0, "the remaining items become older");
        (0..1_000).for_each(|_| bands.note_evicted(lane, 50, 14.0, now));
        let mean = bands.band(lane).evicted.expect("items were evicted");
        assert!((mean.age(now) - 50.0).abs() < 0.1 && (mean.cost_units - 14.0).abs() < 0.1);
    }
}
