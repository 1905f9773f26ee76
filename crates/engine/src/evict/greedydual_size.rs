//! `eviction=greedydual_size`: evicts the item with the lowest rank. The rank of an item is L + cost / size.
//!
//! Source: P. Cao and S. Irani, "Cost-Aware WWW Proxy Caching Algorithms" (USITS 1997), section 4. The
//! inflation L is the rank of the last victim. A hit recomputes the rank of its item.
//!
//! L never falls. So items with the same ratio of cost to size get ranks in ascending order, and a queue of such items
//! is sorted by rank. There is one lane per ratio. Each ratio is rounded down by at most a sixteenth of itself, as in
//! CAMP (Middleware 2014). The victim is the tail with the lowest rank among the tails of all lanes. The ranks of the
//! tails are copied into one array, so that a search reads few cache lines.
//!
//! Invariant: no item of the class has a lower rank than the victim, if the ranks are computed from rounded ratios.

use super::lanes::{Lane, Place};
use super::order::{Entry, Hit, Info, Order, View};
use super::ranking::{Inflation, cost_units};
use crate::mem::{QueueKind, Queued};
use slabwise_base::WorkTime;

/// The only queue that this kind uses in a lane.
const QUEUE: QueueKind = QueueKind::Cold;

/// The fixed-point number for a ratio of one unit of cost per byte. Ratios are rounded down to multiples of 1 /
/// `RATIO_ONE`.
const RATIO_ONE: u64 = 1 << 16;
/// The highest fixed-point ratio; higher ratios count as this one.
const RATIO_MAX: u64 = 1 << 29;
/// The number of lanes per octave, which is the range from a ratio to twice that ratio.
const LANES_PER_OCTAVE: u64 = 16;

/// Returns the lane of items of this cost and size.
fn lane_of_ratio(cost: u64, size_bytes: u64) -> Lane {
    let ratio = (cost * RATIO_ONE / size_bytes.max(1)).min(RATIO_MAX);
    if ratio < LANES_PER_OCTAVE {
        return Lane(ratio as u16);
    }
    let shift = ratio.ilog2() - LANES_PER_OCTAVE.ilog2();
    Lane((u64::from(shift) * LANES_PER_OCTAVE + (ratio >> shift)) as u16)
}

/// Returns the lowest fixed-point ratio in a lane, which all its items count as.
fn ratio_of(lane: Lane) -> u64 {
    let code = u64::from(lane.0);
    match code / LANES_PER_OCTAVE {
        0 => code,
        octave => (LANES_PER_OCTAVE + code % LANES_PER_OCTAVE) << (octave - 1),
    }
}

/// The eviction order of one class.
#[derive(Debug, Default)]
pub struct GreedyDualSize {
    inflation: Inflation,
    /// One entry per lane: the rank of the lane's tail. Valid only while the lane holds an item.
    tail_ranks: Vec<u32>,
}

impl GreedyDualSize {
    pub fn new() -> GreedyDualSize {
        GreedyDualSize::default()
    }

    /// Returns the rank of a lane's tail minus the rank of the last victim.
    fn tail_distance(&self, lane: Lane) -> i32 {
        self.tail_ranks[usize::from(lane.0)].wrapping_sub(self.inflation.level) as i32
    }

    fn entry(&self, lane: Lane) -> Entry {
        let rank = self.inflation.rank_of(ratio_of(lane));
        Entry { place: Place { lane, queue: QUEUE }, rank: Some(rank), displaced: None }
    }
}

impl Order for GreedyDualSize {
    const INFO: Info = Info {
        uses_costs: true,
        stores_rank: true,
        acts_on_hits: true,
        ..Info::new("greedydual_size", "GreedyDual-Size (Cao and Irani 1997)")
    };

    #[inline]
    fn lane_of(&self, item: Queued<'_>) -> Lane {
        lane_of_ratio(cost_units(item.cost()), item.counted_size_bytes())
    }

    #[inline]
    fn enter(&mut self, _view: &View<'_>, item: Queued<'_>, _queue: QueueKind) -> Entry {
        self.entry(self.lane_of(item))
    }

    #[inline]
    fn hit(&mut self, _view: &View<'_>, item: Queued<'_>) -> Hit {
        let entry = self.entry(self.lane_of(item));
        if entry.rank == Some(item.rank()) { Hit::Stay } else { Hit::Enter(entry, false) }
    }

    fn coldest(&self, view: &View<'_>, _now: WorkTime) -> Option<Place> {
        let lanes = view.lanes.occupied(QUEUE).iter();
        let lane = lanes.min_by_key(|&lane| self.tail_distance(lane))?;
        Some(Place { lane, queue: QUEUE })
    }

    fn note_evicted(&mut self, _view: &View<'_>, item: Queued<'_>, _now: WorkTime) {
        self.inflation.note_evicted(item.rank());
    }

    #[inline]
    fn note_tail(&mut self, view: &View<'_>, lane: Lane) {
        let Some(tail) = view.tail(Place { lane, queue: QUEUE }) else { return };
        let at = usize::from(lane.0);
        if at >= self.tail_ranks.len() {
            self.tail_ranks.resize(at + 1, 0);
        }
        self.tail_ranks[at] = tail.rank();
    }

    fn forget(&mut self) {
        *self = GreedyDualSize::default();
    }

    fn saved(&self) -> [u32; 3] {
        self.inflation.saved_with(0)
    }

    fn restore(&mut self, saved: [u32; 3]) {
        let _: u32 = self.inflation.restore(saved);
    }

    fn lanes_name(&self) -> String {
        Self::INFO.name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Lane, lane_of_ratio, ratio_of};

    #[test]
    fn a_lane_rounds_its_ratios_down_by_at_most_a_sixteenth() {
        for (cost, size_bytes) in [(0, 100), (1, 300), (20, 300), (450, 64), (u32::MAX as u64, 64)]
        {
            let exact = (cost * super::RATIO_ONE / size_bytes).min(super::RATIO_MAX);
            let rounded = ratio_of(lane_of_ratio(cost, size_bytes));
            assert!(
                rounded <= exact && (exact - rounded) * 16 <= exact,
                "ratio {exact} is rounded to {rounded}"
            );
        }
        for lane in (0..400).map(Lane) {
            assert_eq!(lane_of_ratio(ratio_of(lane), super::RATIO_ONE), lane);
        }
    }
}
