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
//! ones, and one tail says little. What stays long for its cost is to be known by a single use; so where bands
//! are far apart every hit makes an item active, the first too. Where they are near, all stay about as long, and
//! what was used once is better kept out, as in one band.
//!
//! Bands of half an octave keep the search short: within one, costs differ by at most a half, and order is
//! that of use. Bands are those of CAMP (S. Ghandeharizadeh and others, Middleware 2014), with segmented LRUs
//! in the place of its LRU queues and ages in the place of its inflation; p / A is a hit density (N. Beckmann
//! and others, LHD, NSDI 2018) of the tail only.
//!
//! An item of unknown cost counts as the mean of those of its class that are known.
//!
//! Invariant: where no costs are known, or all of one band, every decision is that of `eviction=segmented`.

use super::lanes::{Lane, Lanes, Place};
use super::order::{Info, Order, Victim, View, coldest_in, first_lane};
use crate::mem::{QueueKind, Queued};
use slabwise_base::{Cost, Ticks};

/// The lane of items that cost nothing; those of unknown cost are in the first.
const WORTHLESS: u16 = 1;

#[inline]
fn band_of(cost: Option<Cost>) -> Lane {
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

/// Between the least and the highest band in use, from which on bands are far apart: costs differ four- to
/// eightfold then.
const APART_MIN: u16 = 5;

/// Whether the known costs of a class are far apart.
fn are_apart(lanes: &Lanes) -> bool {
    // Every eviction asks, and mostly there is one lane.
    if !lanes.are_many() {
        return false;
    }
    let known = lanes.next_from(Lane(WORTHLESS)).zip(lanes.last());
    known.is_some_and(|(least, highest)| are_far(least, highest))
}

/// From nothing to anything is far.
fn are_far(least: Lane, highest: Lane) -> bool {
    highest.0 >= least.0 + APART_MIN || (least.0 == WORTHLESS && highest > least)
}

/// The segmented LRUs of one class.
#[derive(Debug, Default)]
pub struct CostBands {
    bands: Bands,
}

impl CostBands {
    pub fn new() -> CostBands {
        CostBands::default()
    }

    /// The lane that gives up an item next.
    #[inline]
    fn lane_to_evict(&self, view: &View<'_>, now: Ticks) -> Lane {
        if view.lanes.are_many() { self.cheapest_lane(view, now) } else { first_lane(view) }
    }

    fn cheapest_lane(&self, view: &View<'_>, now: Ticks) -> Lane {
        let candidate = |lane| Some((lane, self.candidate(view, lane, now)?));
        let mut candidates = view.lanes.all().filter_map(candidate);
        let Some(mut best) = candidates.next() else { return Lane::FIRST };
        for other in candidates {
            if other.1.goes_before(&best.1) {
                best = other;
            }
        }
        best.0
    }

    /// The coldest item of a lane; `None`: the lane is empty.
    fn candidate(&self, view: &View<'_>, lane: Lane, now: Ticks) -> Option<Candidate> {
        let band = self.bands.band(lane);
        // What left last tells enough, and no item is touched.
        let (cost, age_ticks) = match band.left {
            Some(left) => (left.cost, (f64::from(now.0) - left.last_use_ticks).max(0.0)),
            None => {
                let item = view.tail(coldest_in(view, lane)?)?;
                (cost_of(view, item), f64::from(item.time().age_at(now)))
            }
        };
        // At least a tick, so that among items used just now the least cost goes.
        Some(Candidate { worth: cost * band.reuse() / (age_ticks + 1.0), age_ticks })
    }
}

/// What an item costs, in units; an unknown cost counts as the mean of the others.
fn cost_of(view: &View<'_>, item: Queued<'_>) -> f64 {
    item.cost().map_or_else(|| view.costs.mean() as f64, |cost| f64::from(cost.units()))
}

impl Order for CostBands {
    const INFO: Info = Info {
        is_segmented: true,
        uses_costs: true,
        can_switch: true,
        ..Info::new(
            "cost_bands",
            "what was unused longest for its cost, which without costs is memcached's segmented LRU",
        )
    };

    #[inline]
    fn lane_of(&self, item: Queued<'_>) -> Lane {
        band_of(item.cost())
    }

    #[inline]
    fn balance(&mut self, view: &View<'_>, place: Place, now: Option<Ticks>) -> Option<QueueKind> {
        let target = view.segments.balance(view, place, now)?;
        if place.queue == QueueKind::Cold {
            self.bands.note_look(place.lane, true);
        }
        Some(target)
    }

    fn coldest(&self, view: &View<'_>, now: Ticks) -> Option<Place> {
        coldest_in(view, self.lane_to_evict(view, now))
    }

    #[inline]
    fn victim(&mut self, view: &View<'_>, moves: usize, now: Ticks) -> Victim {
        let lane = self.lane_to_evict(view, now);
        let step = view.segments.victim(view, lane, moves);
        match step {
            Victim::Move(step) if step.from.queue == QueueKind::Cold => {
                self.bands.note_look(lane, true);
            }
            Victim::Evict(place) => {
                let is_used = view.tail(place).is_some_and(|tail| tail.state().active());
                self.bands.note_look(lane, is_used);
            }
            _ => {}
        }
        step
    }

    fn note_evicted(&mut self, view: &View<'_>, item: Queued<'_>, now: Ticks) {
        let (lane, cost) = (self.lane_of(item), cost_of(view, item));
        self.bands.note_evicted(lane, item.time().age_at(now), cost, now);
    }

    #[inline]
    fn costs_are_apart(&self, view: &View<'_>) -> bool {
        are_apart(view.lanes)
    }

    fn forget(&mut self) {
        self.bands = Bands::default();
    }

    fn lanes_name(&self) -> String {
        Self::INFO.name.to_owned()
    }
}

/// The coldest item of a lane.
struct Candidate {
    /// What a tick of its stay saves, in units of cost.
    worth: f64,
    age_ticks: f64,
}

impl Candidate {
    fn goes_before(&self, other: &Candidate) -> bool {
        let order = self.worth.total_cmp(&other.worth);
        order.then(other.age_ticks.total_cmp(&self.age_ticks)).is_lt()
    }
}

/// What is known of each band of a class.
#[derive(Debug, Default)]
struct Bands {
    bands: Vec<Band>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Band {
    /// Items at its tail that had been used since they were queued, lately.
    used: u32,
    /// Others.
    unused: u32,
    /// What is known of items that left; `None` before the first did.
    left: Option<Left>,
}

/// Items that left a band, the last counting most.
#[derive(Clone, Copy, Debug)]
struct Left {
    last_use_ticks: f64,
    /// In units.
    cost: f64,
}

/// Looks at a band's tail after which older ones count half.
const LOOKS_MAX: u32 = 1 << 10;
/// As many looks of each outcome count before the first.
const LOOKS_BEFORE: u32 = 16;
const LAST_WEIGHT: f64 = 0.05;

impl Bands {
    /// Notes what a look at the tail of a lane found.
    fn note_look(&mut self, lane: Lane, is_used: bool) {
        let band = self.band_mut(lane);
        *(if is_used { &mut band.used } else { &mut band.unused }) += 1;
        if band.used + band.unused >= LOOKS_MAX {
            (band.used, band.unused) = (band.used / 2, band.unused / 2);
        }
    }

    /// Notes that an item of this age and cost leaves a lane.
    fn note_evicted(&mut self, lane: Lane, age_ticks: u32, cost: f64, now: Ticks) {
        let last_use_ticks = f64::from(now.0) - f64::from(age_ticks);
        let left = &mut self.band_mut(lane).left;
        let before = left.unwrap_or(Left { last_use_ticks, cost });
        let towards = |before: f64, last: f64| before + (last - before) * LAST_WEIGHT;
        *left = Some(Left {
            last_use_ticks: towards(before.last_use_ticks, last_use_ticks),
            cost: towards(before.cost, cost),
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
    /// The share of items that had been used again: p.
    fn reuse(&self) -> f64 {
        let used = f64::from(self.used + LOOKS_BEFORE);
        used / (used + f64::from(self.unused + LOOKS_BEFORE))
    }
}

#[cfg(test)]
mod tests {
    use super::{Bands, Candidate, Lane, are_far, band_of};
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
    fn bands_are_far_where_costs_differ_about_fourfold() {
        let far = |least, highest| {
            let [least, highest] =
                [least, highest].map(|units| band_of(Some(Cost::from_units(units))));
            are_far(least, highest)
        };
        for (least, highest) in [(10, 60), (100, 600), (1, 8), (0, 1), (0, 400)] {
            assert!(far(least, highest), "{least} and {highest}");
        }
        for (least, highest) in [(10, 30), (120, 180), (350, 450), (100, 350), (0, 0), (7, 7)] {
            assert!(!far(least, highest), "{least} and {highest}");
        }
    }

    #[test]
    fn what_is_worth_least_goes_first_and_among_equals_the_older() {
        let candidate = |worth, age_ticks| Candidate { worth, age_ticks };
        assert!(candidate(1.0, 5.0).goes_before(&candidate(2.0, 9.0)));
        assert!(!candidate(2.0, 9.0).goes_before(&candidate(1.0, 5.0)));
        assert!(candidate(0.0, 6.0).goes_before(&candidate(0.0, 5.0)));
    }

    #[test]
    fn reuse_follows_from_looks_and_what_left_from_the_last_of_it() {
        let (mut bands, lane, now) = (Bands::default(), Lane(3), Ticks(1_000));
        assert_eq!(bands.band(lane).reuse(), 0.5);
        (0..10_000).for_each(|look| bands.note_look(lane, look % 10 == 0));
        assert!((bands.band(lane).reuse() - 0.1).abs() < 0.03, "{:?}", bands.band(lane));
        (0..10_000).for_each(|_| bands.note_look(lane, true));
        assert!(bands.band(lane).reuse() > 0.97, "{:?}", bands.band(lane));
        assert!(bands.band(lane).left.is_none());
        bands.note_evicted(lane, 200, 10.0, now);
        let left = bands.band(lane).left.expect("one left");
        assert_eq!((left.last_use_ticks, left.cost), (800.0, 10.0));
        (0..1_000).for_each(|_| bands.note_evicted(lane, 50, 14.0, now));
        let left = bands.band(lane).left.expect("many left");
        assert!((left.last_use_ticks - 950.0).abs() < 0.1 && (left.cost - 14.0).abs() < 0.1);
    }
}
