//! `eviction=greedydual_size`: what ranks lowest leaves, an item's rank being L + cost / size.
//!
//! Source: P. Cao and S. Irani, "Cost-Aware WWW Proxy Caching Algorithms" (USITS 1997), section 4. L is the
//! rank of what was evicted last; an item is ranked anew at each hit.
//!
//! Items of one ratio of cost to size come in the order of their ranks, so they need but a queue: a lane for
//! each ratio, rounded to a sixteenth. What leaves is at the tail of one of them, and the tails' ranks
//! lie side by side. (That is the idea of CAMP, Middleware 2014, which rounds likewise.)
//!
//! Invariant: among the ranks of rounded ratios the victim's is the least.

use super::lanes::{Lane, Place};
use super::order::{Entry, Hit, Info, Order, View};
use super::ranking::{Inflation, cost_units};
use crate::mem::{QueueKind, Queued};
use slabwise_base::Ticks;

const QUEUE: QueueKind = QueueKind::Cold;

/// A ratio of one unit a byte. Below one of these a ratio ranks as none.
const RATIO_ONE: u64 = 1 << 16;
const RATIO_MAX: u64 = 1 << 29;
/// Lanes an octave.
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

/// The lanes of one class.
#[derive(Debug, Default)]
pub struct GreedyDualSize {
    inflation: Inflation,
    /// The rank of each lane's tail.
    tail_ranks: Vec<u32>,
}

impl GreedyDualSize {
    /// A class that has evicted nothing yet.
    pub fn new() -> GreedyDualSize {
        GreedyDualSize::default()
    }

    /// How far a lane's tail ranks above the last victim.
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
        ..Info::new("greedydual_size", "as published")
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
    fn a_ratio_is_rounded_down_by_less_than_a_sixteenth() {
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
