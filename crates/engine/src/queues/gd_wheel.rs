//! `eviction=gd_wheel`: what ranks lowest leaves, an item's rank being L + cost, kept in hierarchical wheels.
//!
//! Source: C. Li and A. L. Cox, "GD-Wheel: A Cost-Aware Replacement Policy for Key-Value Stores" (EuroSys
//! 2015), section 3. L is the rank of what was evicted last; an item is ranked anew at each hit.
//!
//! ```text
//!   rank   ...| place on wheel 2 | place on wheel 1 | place on wheel 0 |
//!
//!   wheel 0 (COLD)   ranks that share all but the last part with L:      a queue for each rank
//!   wheel 1 (WARM)   others that share the first part:                   a queue for N0 ranks
//!   wheel 2 (HOT)    all others, up to a whole turn ahead:               a queue for N0 * N1 ranks
//! ```
//!
//! When L enters what one place of a wheel stands for, its items migrate to the wheel below: each at most once
//! a wheel, so the work is O(1) amortised. Migration is exact: an item keeps its whole rank, so that what
//! leaves is what a heap would give, items of one rank in the order in which they came to it. It goes on
//! over several holds of the class's lock where there are many.
//!
//! Laws: an item's place follows from its wheel and its rank; an item that shares a wheel's part with L is on
//! that wheel or below, but for those still to migrate; nothing ranks below L, or a whole turn above it.

use super::Lane;
use super::victim::VictimStep;
use crate::class::ClassState;
use crate::config::RankingConfig;
use crate::mem::{ChunkAddress, QueueKind, ReadProof};
use crate::memory::Memory;

/// The queues that stand for the wheels, the finest first.
const WHEELS: [QueueKind; 3] = [QueueKind::Cold, QueueKind::Warm, QueueKind::Hot];

/// Items that migrate in one hold of the class's lock.
const MIGRATIONS_MAX: usize = 64;

/// The wheels of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Wheels {
    /// Bits of a rank that the wheels below one tell apart.
    shifts: [u32; 3],
    sizes: [u16; 3],
}

impl Wheels {
    /// Of sizes that are powers of two.
    pub fn of(config: &RankingConfig) -> Wheels {
        let sizes = config.wheel_sizes;
        let bits = sizes.map(|size| size.max(1).ilog2());
        Wheels { shifts: [0, bits[0], bits[0] + bits[1]], sizes: sizes.map(|size| size.max(1)) }
    }

    /// The highest cost that ranks as itself.
    pub fn cost_max(&self) -> u64 {
        let top = self.top();
        u64::from(self.sizes[top] - 1) << self.shifts[top]
    }

    /// The coarsest wheel that there is.
    fn top(&self) -> usize {
        self.sizes.iter().rposition(|&size| size > 1).unwrap_or(0)
    }

    /// The place of a rank on a wheel.
    fn place(&self, wheel: usize, rank: u32) -> Lane {
        Lane(((rank >> self.shifts[wheel]) & (u32::from(self.sizes[wheel]) - 1)) as u16)
    }

    /// The place of an item of this rank on the wheel that a queue stands for.
    pub fn lane_of(&self, queue: QueueKind, rank: u32) -> Lane {
        let wheel = WHEELS.iter().position(|&wheel| wheel == queue).unwrap_or(0);
        self.place(wheel, rank)
    }

    /// The wheel that an item of this rank belongs on.
    pub fn queue_for(&self, rank: u32, inflation: u32) -> QueueKind {
        let top = self.top();
        // The finest of which both are within one turn.
        let shares = |wheel: &usize| {
            *wheel == top || rank >> self.shifts[wheel + 1] == inflation >> self.shifts[wheel + 1]
        };
        WHEELS[(0..=top).find(shares).unwrap_or(top)]
    }
}

/// Looks for the item that ranks lowest; `Further` while items are still to migrate.
pub fn lowest(class: &mut ClassState, memory: &Memory) -> VictimStep {
    let wheels = Wheels::of(&class.ranking().config);
    let top = wheels.top();
    let mut migrations_left = MIGRATIONS_MAX;
    loop {
        let inflation = class.ranking().inflation();
        // What L has entered migrates first, from the coarsest wheel down.
        let pending = (1..=top).rev().find(|&wheel| {
            let here = class.lanes().queue(wheels.place(wheel, inflation), WHEELS[wheel]);
            here.tail().is_some_and(|tail| {
                let rank = memory.rank(tail, ReadProof::under_class(class));
                rank >> wheels.shifts[wheel] == inflation >> wheels.shifts[wheel]
            })
        });
        if let Some(wheel) = pending {
            if migrations_left == 0 {
                return VictimStep::Further;
            }
            migrations_left -= 1;
            migrate(class, memory, &wheels, wheel);
            continue;
        }
        let next = next_place(class, &wheels, 0, inflation);
        if let Some(lane) = next {
            let tail = class.lanes().queue(lane, WHEELS[0]).tail();
            return tail.map_or(VictimStep::Nothing, VictimStep::Found);
        }
        // The finest wheels are empty: L enters the next place that is not, on the finest that has one.
        let entered = (1..=top).find_map(|wheel| {
            let lane = next_place(class, &wheels, wheel, inflation)?;
            Some((wheel, lane))
        });
        let Some((wheel, lane)) = entered else { return VictimStep::Nothing };
        let (shift, size) = (wheels.shifts[wheel], u32::from(wheels.sizes[wheel]));
        let ahead = u32::from(lane.0).wrapping_sub(inflation >> shift) & (size - 1);
        let start = ((inflation >> shift).wrapping_add(ahead)) << shift;
        class.ranking_mut().raise_inflation(start);
        if class.ranking().inflation() == inflation {
            // Nothing ranks so by the laws: then it goes first.
            let tail = class.lanes().queue(lane, WHEELS[wheel]).tail();
            return tail.map_or(VictimStep::Nothing, VictimStep::Found);
        }
    }
}

/// The next place of a wheel from L on that holds an item; the coarsest turns on.
fn next_place(class: &ClassState, wheels: &Wheels, wheel: usize, inflation: u32) -> Option<Lane> {
    let occupied = class.lanes().occupied(WHEELS[wheel]);
    let here = wheels.place(wheel, inflation);
    let ahead = occupied.first_from(here);
    if wheel == wheels.top() { ahead.or_else(|| occupied.first_from(Lane::FIRST)) } else { ahead }
}

/// Moves the item that came first to the place that L has entered to the wheel where it belongs.
fn migrate(class: &mut ClassState, memory: &Memory, wheels: &Wheels, wheel: usize) {
    let inflation = class.ranking().inflation();
    let here = wheels.place(wheel, inflation);
    let Some(address) = class.lanes().queue(here, WHEELS[wheel]).tail() else { return };
    let rank = memory.rank(address, ReadProof::under_class(class));
    let queue = wheels.queue_for(rank, inflation);
    class.move_to(memory, address, (wheels.lane_of(queue, rank), queue));
}

/// The item that ranks about lowest, without a migration.
pub fn nearest(class: &ClassState) -> Option<ChunkAddress> {
    let wheels = Wheels::of(&class.ranking().config);
    let inflation = class.ranking().inflation();
    (0..=wheels.top()).find_map(|wheel| {
        let lane = next_place(class, &wheels, wheel, inflation)?;
        class.lanes().queue(lane, WHEELS[wheel]).tail()
    })
}

/// Where an item of this rank goes.
pub fn place_of(class: &ClassState, rank: u32) -> (Lane, QueueKind) {
    let wheels = Wheels::of(&class.ranking().config);
    let queue = wheels.queue_for(rank, class.ranking().inflation());
    (wheels.lane_of(queue, rank), queue)
}

/// What an item of this cost is worth.
pub fn worth_of(class: &ClassState, cost: u64) -> u64 {
    cost.min(Wheels::of(&class.ranking().config).cost_max())
}

/// The lane of an item of a class.
pub fn lane_of(class: &ClassState, memory: &Memory, address: ChunkAddress) -> Lane {
    let wheels = Wheels::of(&class.ranking().config);
    let queue = memory.header(address).state().load().queue();
    wheels.lane_of(queue, memory.rank(address, ReadProof::under_class(class)))
}
