//! `eviction=gd_wheel`: evicts the item with the lowest rank, which is L + cost, by hierarchical cost wheels.
//!
//! Source: C. Li and A. L. Cox, "GD-Wheel: A Cost-Aware Replacement Policy for Key-Value Stores" (EuroSys
//! 2015), section 3. L is the rank of the last victim; each hit recomputes its item's rank.
//!
//! ```text
//!   rank   ...| slot on wheel 2 | slot on wheel 1 | slot on wheel 0 |
//!
//!   wheel 0 (COLD)   ranks that share all but the last part with L:      a queue for each rank
//!   wheel 1 (WARM)   others that share the first part:                   a queue for N0 ranks
//!   wheel 2 (HOT)    all others, up to one revolution ahead:             a queue for N0 * N1 ranks
//! ```
//!
//! When L enters the range of a slot, the slot's items migrate to the wheel below: each item at most once per
//! wheel, so the work is O(1) amortised. Migration is exact: an item keeps its rank, so victims come in the order
//! of a heap, and items of equal rank in the order in which they got it. If many items migrate, the class's
//! lock is released in between.
//!
//! Invariants: an item's slot follows from its wheel and its rank; an item that shares a wheel's part with L is on
//! that wheel or below, except items still to migrate; no rank is below L, or one revolution above it.

use super::lanes::{Lane, Place};
use super::order::{Entry, Hit, Info, Move, Order, Victim, View};
use super::ranking::{Inflation, cost_units};
use crate::mem::{QueueKind, Queued};
use slabwise_base::Ticks;

/// The queues that represent the wheels, the finest first.
const WHEELS: [QueueKind; 3] = [QueueKind::Cold, QueueKind::Warm, QueueKind::Hot];

/// The most items that migrate in one hold of the class's lock.
const MIGRATIONS_MAX: usize = 64;

/// The options of `gd_wheel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GdWheelConfig {
    /// The number of slots of each wheel, the finest first, each a power of two; 1: the wheel is unused. Costs
    /// beyond the range of the wheels, less one slot of the coarsest, count as that limit.
    pub wheel_sizes: [u16; 3],
}

impl Default for GdWheelConfig {
    fn default() -> GdWheelConfig {
        GdWheelConfig { wheel_sizes: [256, 256, 1] }
    }
}

#[derive(Clone, Copy, Debug)]
struct Wheels {
    /// The number of a rank's bits that the finer wheels resolve.
    shifts: [u32; 3],
    sizes: [u16; 3],
}

impl Wheels {
    fn of(config: &GdWheelConfig) -> Wheels {
        let sizes = config.wheel_sizes;
        let bits = sizes.map(|size| size.max(1).ilog2());
        Wheels { shifts: [0, bits[0], bits[0] + bits[1]], sizes: sizes.map(|size| size.max(1)) }
    }

    /// The highest cost that is not clamped.
    fn cost_max(&self) -> u64 {
        let top = self.top();
        u64::from(self.sizes[top] - 1) << self.shifts[top]
    }

    fn top(&self) -> usize {
        self.sizes.iter().rposition(|&size| size > 1).unwrap_or(0)
    }

    fn place(&self, wheel: usize, rank: u32) -> Lane {
        Lane(((rank >> self.shifts[wheel]) & (u32::from(self.sizes[wheel]) - 1)) as u16)
    }

    /// The slot of an item of this rank on the wheel of this queue.
    fn lane_of(&self, queue: QueueKind, rank: u32) -> Lane {
        let wheel = WHEELS.iter().position(|&wheel| wheel == queue).unwrap_or(0);
        self.place(wheel, rank)
    }

    /// The queue of the wheel on which an item of this rank belongs.
    fn queue_for(&self, rank: u32, inflation: u32) -> QueueKind {
        let top = self.top();
        // The finest wheel on which both are in the same revolution.
        let shares = |wheel: &usize| {
            *wheel == top || rank >> self.shifts[wheel + 1] == inflation >> self.shifts[wheel + 1]
        };
        WHEELS[(0..=top).find(shares).unwrap_or(top)]
    }
}

#[derive(Debug)]
pub struct GdWheel {
    wheels: Wheels,
    inflation: Inflation,
}

impl GdWheel {
    pub fn new(config: &GdWheelConfig) -> GdWheel {
        GdWheel { wheels: Wheels::of(config), inflation: Inflation::default() }
    }

    /// The rank that an item of this cost gets now.
    fn rank_of(&self, cost: u64) -> u32 {
        self.inflation.rank_of(cost.min(self.wheels.cost_max()))
    }

    /// The slot of a wheel that L is in.
    fn current(&self, wheel: usize) -> Place {
        Place { lane: self.wheels.place(wheel, self.inflation.level), queue: WHEELS[wheel] }
    }

    fn place_of(&self, rank: u32) -> Place {
        let queue = self.wheels.queue_for(rank, self.inflation.level);
        Place { lane: self.wheels.lane_of(queue, rank), queue }
    }

    /// The next occupied slot of a wheel, from L on; on the coarsest wheel the search wraps around.
    fn next_place(&self, view: &View<'_>, wheel: usize) -> Option<Place> {
        let Place { lane, queue } = self.current(wheel);
        let occupied = view.lanes.occupied(queue);
        let ahead = occupied.first_from(lane);
        let is_top = wheel == self.wheels.top();
        let next = if is_top { ahead.or_else(|| occupied.first_from(Lane::FIRST)) } else { ahead };
        next.map(|lane| Place { lane, queue })
    }

    /// The next migration of an item whose slot L has entered, the coarsest wheel first.
    fn due_migration(&self, view: &View<'_>) -> Option<Move> {
        (1..=self.wheels.top()).rev().find_map(|wheel| {
            let from = self.current(wheel);
            let rank = view.tail(from)?.rank();
            let shift = self.wheels.shifts[wheel];
            let is_due = rank >> shift == self.inflation.level >> shift;
            is_due.then(|| Move { from, to: self.place_of(rank), is_counted: false })
        })
    }

    /// Raises L to a slot of a wheel. Returns false if it is there already.
    fn enter_place(&mut self, wheel: usize, lane: Lane) -> bool {
        let (shift, size) = (self.wheels.shifts[wheel], u32::from(self.wheels.sizes[wheel]));
        let level = self.inflation.level;
        let ahead = u32::from(lane.0).wrapping_sub(level >> shift) & (size - 1);
        self.inflation.raise(((level >> shift).wrapping_add(ahead)) << shift);
        self.inflation.level != level
    }
}

impl Order for GdWheel {
    const INFO: Info = Info {
        uses_costs: true,
        stores_rank: true,
        acts_on_hits: true,
        ..Info::new("gd_wheel", "GD-Wheel (Li and Cox 2015)")
    };

    #[inline]
    fn lane_of(&self, item: Queued<'_>) -> Lane {
        self.wheels.lane_of(item.state().queue(), item.rank())
    }

    #[inline]
    fn enter(&mut self, _view: &View<'_>, item: Queued<'_>, _queue: QueueKind) -> Entry {
        let rank = self.rank_of(cost_units(item.cost()));
        Entry { place: self.place_of(rank), rank: Some(rank), displaced: None }
    }

    #[inline]
    fn hit(&mut self, view: &View<'_>, item: Queued<'_>) -> Hit {
        let entry = self.enter(view, item, QueueKind::Hot);
        if entry.rank == Some(item.rank()) { Hit::Stay } else { Hit::Enter(entry, false) }
    }

    /// About the lowest rank: pending migrations are not made.
    fn coldest(&self, view: &View<'_>, _now: Ticks) -> Option<Place> {
        (0..=self.wheels.top()).find_map(|wheel| self.next_place(view, wheel))
    }

    fn victim(&mut self, view: &View<'_>, moves: usize, _now: Ticks) -> Victim {
        loop {
            if let Some(migration) = self.due_migration(view) {
                let may_move = moves < MIGRATIONS_MAX;
                return if may_move { Victim::Move(migration) } else { Victim::Continue };
            }
            if let Some(lowest) = self.next_place(view, 0) {
                return Victim::Evict(lowest);
            }
            // The finest wheel is empty: L rises to the next occupied slot of the finest occupied wheel.
            let mut coarser = 1..=self.wheels.top();
            let next = coarser.find_map(|wheel| Some((wheel, self.next_place(view, wheel)?)));
            let Some((wheel, place)) = next else { return Victim::Nothing };
            if !self.enter_place(wheel, place.lane) {
                // The invariants exclude this rank; an item that has it nevertheless is evicted first.
                return Victim::Evict(place);
            }
        }
    }

    fn note_evicted(&mut self, _view: &View<'_>, item: Queued<'_>, _now: Ticks) {
        self.inflation.note_evicted(item.rank());
    }

    fn forget(&mut self) {
        self.inflation = Inflation::default();
    }

    fn saved(&self) -> [u32; 3] {
        self.inflation.saved_with(0)
    }

    fn restore(&mut self, saved: [u32; 3]) {
        let _: u32 = self.inflation.restore(saved);
    }

    fn lanes_name(&self) -> String {
        let [first, second, third] = self.wheels.sizes;
        format!("{}:{first}x{second}x{third}", Self::INFO.name)
    }
}
