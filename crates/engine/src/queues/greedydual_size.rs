//! `eviction=greedydual_size`: what ranks lowest leaves, an item's rank being L + cost / size.
//!
//! Source: P. Cao and S. Irani, "Cost-Aware WWW Proxy Caching Algorithms" (USITS 1997), section 4. L is the
//! rank of what was evicted last; an item is ranked anew at each hit.
//!
//! Items of one ratio of cost to size come in the order of their ranks, so they need but a queue: a lane for
//! each ratio, rounded to a sixteenth. What leaves is at the tail of one of them, and the tails' ranks
//! lie side by side. (That is the idea of CAMP, Middleware 2014, which rounds likewise.)
//!
//! Law: among the ranks of rounded ratios the victim's is the least.

use super::Lane;
use crate::class::ClassState;
use crate::mem::{ChunkAddress, QueueKind};

/// The one queue of a lane.
pub const QUEUE: QueueKind = QueueKind::Cold;

/// A ratio of one unit a byte. Below one of these a ratio ranks as none.
const RATIO_ONE: u64 = 1 << 16;
const RATIO_MAX: u64 = 1 << 29;
/// Lanes an octave.
const STEPS: u64 = 16;

/// The lane of the ratio of a cost to a size.
pub fn lane_of(cost: u64, size_bytes: u64) -> Lane {
    let ratio = (cost * RATIO_ONE / size_bytes.max(1)).min(RATIO_MAX);
    if ratio < STEPS {
        return Lane(ratio as u16);
    }
    let shift = ratio.ilog2() - STEPS.ilog2();
    Lane((u64::from(shift) * STEPS + (ratio >> shift)) as u16)
}

/// The ratio that a lane stands for.
pub fn ratio_of(lane: Lane) -> u64 {
    let code = u64::from(lane.0);
    match code / STEPS {
        0 => code,
        octave => (STEPS + code % STEPS) << (octave - 1),
    }
}

/// The item that ranks lowest.
pub fn lowest(class: &ClassState) -> Option<ChunkAddress> {
    let lanes = class.lanes().occupied(QUEUE).iter();
    let lowest = lanes.min_by_key(|&lane| class.ranking().tail_distance(lane))?;
    class.lanes().queue(lowest, QUEUE).tail()
}

#[cfg(test)]
mod tests {
    use super::{Lane, lane_of, ratio_of};

    #[test]
    fn a_ratio_is_rounded_down_by_less_than_a_sixteenth() {
        for (cost, size_bytes) in [(0, 100), (1, 300), (20, 300), (450, 64), (u32::MAX as u64, 64)]
        {
            let exact = (cost * super::RATIO_ONE / size_bytes).min(super::RATIO_MAX);
            let rounded = ratio_of(lane_of(cost, size_bytes));
            assert!(rounded <= exact && (exact - rounded) * 16 <= exact, "{exact} as {rounded}");
        }
        for lane in (0..400).map(Lane) {
            assert_eq!(lane_of(ratio_of(lane), super::RATIO_ONE), lane);
        }
    }
}
