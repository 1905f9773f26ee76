//! `eviction=gd_wheel`: evicts the item with the lowest rank, and finds this item by hierarchical cost wheels. The rank
//! of an item is L + cost.
//!
//! Source: C. Li and A. L. Cox, "GD-Wheel: A Cost-Aware Replacement Policy for Key-Value Stores" (EuroSys
//! 2015), section 3. The inflation L is the rank of the last victim. A hit recomputes the rank of its item.
//!
//! A wheel is a ring of slots, and a slot is a queue of items. The bits of a rank have three parts. Each part is the
//! number of a slot on one wheel. Wheel k has N_k slots.
//!
//! ```text
//!   rank   ...| slot on wheel 2 | slot on wheel 1 | slot on wheel 0 |
//!
//!   wheel 0 (COLD)   ranks that differ from L only in the part of wheel 0:   one rank per slot
//!   wheel 1 (WARM)   ranks that differ from L also in the part of wheel 1:   N_0 ranks per slot
//!   wheel 2 (HOT)    all other ranks, up to one revolution ahead of L:       N_0 * N_1 ranks per slot
//! ```
//!
//! When L enters the range of a slot, the items of this slot migrate to finer wheels. An item migrates at most once per
//! wheel, so the work per item is O(1). A migrating item keeps its rank. So the victims have the same order as if a
//! heap sorted all items, and items of equal rank are evicted in the order in which they got this rank. If many items
//! migrate, the class's lock is released between groups of them.
//!
//! Invariants:
//!
//! - The slot of an item follows from its wheel and its rank.
//! - If the rank of an item differs from L only in the parts of wheels finer than wheel k, the item is on one of these
//!   finer wheels, unless its migration from wheel k is due (k > 0).
//! - Every rank is at or above L, and less than one revolution of the coarsest wheel above L.

use super::lanes::{Lane, Place};
use super::order::{Entry, Hit, Info, Move, Order, Victim, View};
use super::ranking::{Inflation, cost_units};
use crate::mem::{QueueKind, Queued};
use slabwise_base::WorkTime;

/// The queues that represent the wheels, from the finest wheel to the coarsest.
const WHEELS: [QueueKind; 3] = [QueueKind::Cold, QueueKind::Warm, QueueKind::Hot];

/// The largest number of items that migrate before the class's lock is released.
const MIGRATIONS_MAX: usize = 64;

/// The options of the eviction kind `gd_wheel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GdWheelConfig {
    /// The number of slots of each wheel, from the finest wheel to the coarsest. Each number is a power of two; 1 means
    /// that the wheel is unused. The highest cost is the number of ranks in all slots but one of the coarsest wheel;
    /// higher costs count as this cost.
    pub wheel_sizes: [u16; 3],
}

impl Default for GdWheelConfig {
    fn default() -> GdWheelConfig {
        GdWheelConfig { wheel_sizes: [256, 256, 1] }
    }
}

/// The sizes of the wheels, from the finest wheel to the coarsest.
#[derive(Clone, Copy, Debug)]
struct Wheels {
    /// For each wheel, the number of low bits of a rank that select slots on the finer wheels.
    shifts: [u32; 3],
    /// The number of slots of each wheel.
    sizes: [u16; 3],
}

impl Wheels {
    fn of(config: &GdWheelConfig) -> Wheels {
        let sizes = config.wheel_sizes;
        let bits = sizes.map(|size| size.max(1).ilog2());
        Wheels { shifts: [0, bits[0], bits[0] + bits[1]], sizes: sizes.map(|size| size.max(1)) }
    }

    /// Returns the highest cost that is distinguished; higher costs count as this cost.
    fn cost_max(&self) -> u64 {
        let coarsest = self.coarsest();
        u64::from(self.sizes[coarsest] - 1) << self.shifts[coarsest]
    }

    /// Returns the number of the coarsest wheel in use.
    fn coarsest(&self) -> usize {
        self.sizes.iter().rposition(|&size| size > 1).unwrap_or(0)
    }

    /// Returns the slot of this rank on a wheel.
    fn slot(&self, wheel: usize, rank: u32) -> Lane {
        Lane(((rank >> self.shifts[wheel]) & (u32::from(self.sizes[wheel]) - 1)) as u16)
    }

    /// Returns the slot of this rank on the wheel that the queue represents.
    fn lane_of(&self, queue: QueueKind, rank: u32) -> Lane {
        let wheel = WHEELS.iter().position(|&wheel| wheel == queue).unwrap_or(0);
        self.slot(wheel, rank)
    }

    /// Returns the queue that represents the wheel of an item of this rank.
    fn queue_for(&self, rank: u32, inflation: u32) -> QueueKind {
        let coarsest = self.coarsest();
        // The item is on the finest wheel on which its rank and L are in the same revolution.
        let shares = |wheel: &usize| {
            *wheel == coarsest
                || rank >> self.shifts[wheel + 1] == inflation >> self.shifts[wheel + 1]
        };
        WHEELS[(0..=coarsest).find(shares).unwrap_or(coarsest)]
    }
}

/// The eviction order of one class.
#[derive(Debug)]
pub struct GdWheel {
    wheels: Wheels,
    inflation: Inflation,
}

impl GdWheel {
    pub fn new(config: &GdWheelConfig) -> GdWheel {
        GdWheel { wheels: Wheels::of(config), inflation: Inflation::default() }
    }

    /// Returns the rank of an item of this cost that is stored or hit now.
    fn rank_of(&self, cost: u64) -> u32 {
        self.inflation.rank_of(cost.min(self.wheels.cost_max()))
    }

    /// Returns the slot of L on a wheel.
    fn slot_of_inflation(&self, wheel: usize) -> Place {
        Place { lane: self.wheels.slot(wheel, self.inflation.level), queue: WHEELS[wheel] }
    }

    fn place_of(&self, rank: u32) -> Place {
        let queue = self.wheels.queue_for(rank, self.inflation.level);
        Place { lane: self.wheels.lane_of(queue, rank), queue }
    }

    /// Returns the first occupied slot of a wheel at or after the slot of L. On the coarsest wheel the search continues
    /// at slot 0 after the last slot.
    fn next_occupied(&self, view: &View<'_>, wheel: usize) -> Option<Place> {
        let Place { lane, queue } = self.slot_of_inflation(wheel);
        let occupied = view.lanes.occupied(queue);
        let ahead = occupied.first_from(lane);
        let is_coarsest = wheel == self.wheels.coarsest();
        let next =
            if is_coarsest { ahead.or_else(|| occupied.first_from(Lane::FIRST)) } else { ahead };
        next.map(|lane| Place { lane, queue })
    }

    /// Returns the next migration that is due: L has entered the slot of an item. Searches the coarsest wheel first.
    fn due_migration(&self, view: &View<'_>) -> Option<Move> {
        (1..=self.wheels.coarsest()).rev().find_map(|wheel| {
            let from = self.slot_of_inflation(wheel);
            let rank = view.tail(from)?.rank();
            let shift = self.wheels.shifts[wheel];
            let is_due = rank >> shift == self.inflation.level >> shift;
            is_due.then(|| Move { from, to: self.place_of(rank), is_counted: false })
        })
    }

    /// Raises L to the first rank of a slot of a wheel. Returns false if L is in this slot already.
    fn raise_to_slot(&mut self, wheel: usize, lane: Lane) -> bool {
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

    /// Returns a slot with about the lowest rank. The result is not exact, because this function does not make the due
    /// migrations.
    fn coldest(&self, view: &View<'_>, _now: WorkTime) -> Option<Place> {
        (0..=self.wheels.coarsest()).find_map(|wheel| self.next_occupied(view, wheel))
    }

    fn victim(&mut self, view: &View<'_>, moves: usize, _now: WorkTime) -> Victim {
        loop {
            if let Some(migration) = self.due_migration(view) {
                let may_move = moves < MIGRATIONS_MAX;
                return if may_move { Victim::Move(migration) } else { Victim::Continue };
            }
            if let Some(lowest) = self.next_occupied(view, 0) {
                return Victim::Evict(lowest);
            }
            // Wheel 0 is empty. So L rises to the next occupied slot of the finest of the coarser wheels that hold
            // items.
            let mut coarser = 1..=self.wheels.coarsest();
            let next = coarser.find_map(|wheel| Some((wheel, self.next_occupied(view, wheel)?)));
            let Some((wheel, place)) = next else { return Victim::Nothing };
            if !self.raise_to_slot(wheel, place.lane) {
                // L is in this slot already, but no migration is due. The invariants exclude this case. A restart with
                // a forged file could cause it; then the item at the slot's tail is evicted, so that the search ends.
                return Victim::Evict(place);
            }
        }
    }

    fn note_evicted(&mut self, _view: &View<'_>, item: Queued<'_>, _now: WorkTime) {
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
