//! `eviction=greedydual_size`: evicts the item with the lowest rank, which is L + cost / size.
//!
//! Source: P. Cao and S. Irani, "Cost-Aware WWW Proxy Caching Algorithms" (USITS 1997), section 4. L is the
//! rank of the last victim; each hit recomputes its item's rank.
//!
//! Items with the same ratio of cost to size enter in the order of their ranks, so one queue keeps them sorted.
//! There is a lane for each ratio, rounded to a sixteenth as in CAMP (Middleware 2014). The victim is the tail
//! with the lowest rank; the ranks of all tails are stored side by side.
//!
//! Invariant: with rounded ratios, the victim has the lowest rank.

use super::lanes::{Lane, Place};
use super::order::{Entry, Hit, Info, Order, View};
use super::ranking::{Inflation, cost_units};
use crate::mem::{QueueKind, Queued};
use slabwise_base::Ticks;

const QUEUE: QueueKind = QueueKind::Cold;

/// The fixed-point ratio of one unit of cost per byte; smaller ratios than 1 count as 0.
const RATIO_ONE: u64 = 1 << 16;
const RATIO_MAX: u64 = 1 << 29;
/// Lanes per octave.
const STEPS: u64 = 16;

fn lane_of_ratio(cost: u64, size_bytes: u64) -> Lane {
    let ratio = (cost * RATIO_ONE / size_bytes.max(1)).min(RATIO_MAX);
    if ratio < STEPS {
        return Lane(ratio as u16);
    }
    let shift = ratio.ilog2() - STEPS.ilog2();
    Lane((u64::from(shift) * STEPS + (ratio >> shift)) as u16)
}

fn ratio_of(lane: Lane) -> u64 {
    let code = u64::from(lane.0);
    match code / STEPS {
        0 => code,
        octave => (STEPS + code % STEPS) << (octave - 1),
    }
}

/// The order of one class.
#[derive(Debug, Default)]
pub struct GreedyDualSize {
    inflation: Inflation,
    /// The rank of each lane's tail.
    tail_ranks: Vec<u32>,
}

impl GreedyDualSize {
    pub fn new() -> GreedyDualSize {
        GreedyDualSize::default()
    }

    /// The difference between the ranks of a lane's tail and the last victim.
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

    fn coldest(&self, view: &View<'_>, _now: Ticks) -> Option<Place> {
        let lanes = view.lanes.occupied(QUEUE).iter();
        let lane = lanes.min_by_key(|&lane| self.tail_distance(lane))?;
        Some(Place { lane, queue: QUEUE })
    }

    fn note_evicted(&mut self, _view: &View<'_>, item: Queued<'_>, _now: Ticks) {
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
    fn lanes_round_ratios_down_by_at_most_a_sixteenth() {
        for (cost, size_bytes) in [(0, 100), (1, 300), (20, 300), (450, 64), (u32::MAX as u64, 64)]
        {
            let exact = (cost * super::RATIO_ONE / size_bytes).min(super::RATIO_MAX);
            let rounded = ratio_of(lane_of_ratio(cost, size_bytes));
            assert!(rounded <= exact && (exact - rounded) * 16 <= exact, "{exact} as {rounded}");
        }
        for lane in (0..400).map(Lane) {
            assert_eq!(lane_of_ratio(ratio_of(lane), super::RATIO_ONE), lane);
        }
    }
}
