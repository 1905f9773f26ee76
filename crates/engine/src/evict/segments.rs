//! The moves between memcached's hot, warm, cold and temp queues of a lane.
//!
//! Source of the rules: memcached's doc/new_lru.txt.
//!
//! ```text
//!              over its share or too old                      no free chunk
//!   new ---> HOT ------------------------------> COLD ----------------------> out
//!             | active                          ^    | active
//!             v         over its share, too old |    v
//!            WARM <----(active: to the head)----'   WARM
//!
//!   short TTL ---> TEMP ---> expiry only
//! ```
//!
//! A hit only sets bits in the item (fetched, then active). A look at a tail that finds an active item moves it
//! to WARM, which clears the bit. Each insertion demotes at most as much as it added, so the shares hold without
//! a background thread; the maintainer enforces ages.
//!
//! In exact order there is one queue, COLD: a hit moves its item to the head, and what is still in the others
//! moves to COLD.

use super::decision::{Entry, Hit, Move, Victim};
use super::lanes::{Lane, Place};
use super::view::{Item, View};
use crate::mem::QueueKind;
use slabwise_base::{Seconds, Ticks};

/// Looks of one search for a victim; active items are spared in the first half only.
const LOOKS_MAX: usize = 64;

/// The limits of the segmented LRU, with memcached's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LruConfig {
    /// The share of a class's bytes that the hot queue may hold, in percent.
    pub hot_percent: u32,
    /// The share of a class's bytes that the warm queue may hold, in percent.
    pub warm_percent: u32,
    /// A hot item older than this factor of the cold tail's age goes to cold.
    pub hot_age_factor: f64,
    /// A warm item older than this factor of the cold tail's age goes to cold.
    pub warm_age_factor: f64,
    /// Items that live at most this long go to the temp queue, which only expiry empties.
    pub temporary_ttl: Option<Seconds>,
}

impl Default for LruConfig {
    fn default() -> LruConfig {
        LruConfig {
            hot_percent: 20,
            warm_percent: 40,
            hot_age_factor: 0.2,
            warm_age_factor: 2.0,
            temporary_ttl: None,
        }
    }
}

/// The rules in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segments {
    /// Shares and ages.
    pub limits: LruConfig,
    /// Whether there is one queue in exact order of use.
    pub is_exact: bool,
}

impl Segments {
    /// The queue for a new item.
    #[inline]
    pub fn queue_for_new(&self, is_short_lived: bool) -> QueueKind {
        match (self.is_exact, is_short_lived) {
            (true, _) => QueueKind::Cold,
            (false, true) => QueueKind::Temp,
            (false, false) => QueueKind::Hot,
        }
    }

    /// What a hit does to an item of this lane.
    #[inline]
    pub fn hit(&self, lane: Lane) -> Hit {
        if !self.is_exact {
            return Hit::Stay;
        }
        let place = Place { lane, queue: QueueKind::Cold };
        Hit::Enter(Entry { place, rank: None, displaced: None }, false)
    }

    /// The queue that the last item of a queue moves to. The maintainer, which has the time, also asks about
    /// COLD: an active item there would stand for an age that it does not have.
    #[inline(always)]
    pub fn balance<V: View>(
        &self,
        view: &V,
        place: Place,
        now: Option<Ticks>,
    ) -> Option<QueueKind> {
        let tail = view.tail(place)?;
        if place.queue == QueueKind::Cold {
            return (tail.state().active() && !self.is_exact).then_some(QueueKind::Warm);
        }
        let leaves = self.is_over_share(view, place)
            || now.is_some_and(|now| self.is_too_old(view, place, tail, now))
            || self.is_exact;
        let is_spared = tail.state().active() && !self.is_exact;
        leaves.then_some(if is_spared { QueueKind::Warm } else { QueueKind::Cold })
    }

    #[inline(always)]
    fn is_over_share<V: View>(&self, view: &V, Place { lane, queue }: Place) -> bool {
        let percent = match queue {
            QueueKind::Hot => self.limits.hot_percent,
            _ => self.limits.warm_percent,
        };
        let bytes = |queue| view.lanes().queue(Place { lane, queue }).bytes();
        let total: u64 =
            [QueueKind::Hot, QueueKind::Warm, QueueKind::Cold].map(bytes).into_iter().sum();
        bytes(queue) * 100 > total * u64::from(percent)
    }

    fn is_too_old<V: View>(&self, view: &V, place: Place, tail: V::Item, now: Ticks) -> bool {
        let factor = match place.queue {
            QueueKind::Hot => self.limits.hot_age_factor,
            _ => self.limits.warm_age_factor,
        };
        let cold = view.tail(Place { queue: QueueKind::Cold, ..place });
        let cold_age = cold.map_or(0, |cold| cold.age_ticks(now));
        f64::from(tail.age_ticks(now)) > f64::from(cold_age) * factor
    }

    /// The next step of a search in a lane after `moves` moves: active items leave COLD, and an empty COLD is
    /// refilled from HOT, WARM and at last TEMP.
    #[inline(always)]
    pub fn victim<V: View>(&self, view: &V, lane: Lane, moves: usize) -> Victim {
        if moves >= LOOKS_MAX {
            return Victim::Nothing;
        }
        let cold = Place { lane, queue: QueueKind::Cold };
        let Some(tail) = view.tail(cold) else { return refill(view, lane, moves) };
        let state = tail.state();
        if state.pins() > 0 {
            return Victim::Nothing;
        }
        let is_spared = view.lanes().queue(cold).count() > 1 && moves + 1 < LOOKS_MAX / 2;
        if state.active() && is_spared && !self.is_exact {
            return Victim::Move(Move::within(lane, QueueKind::Cold, QueueKind::Warm));
        }
        Victim::Evict(cold)
    }
}

/// Moves an item to an empty COLD, or out of its way to WARM.
fn refill<V: View>(view: &V, lane: Lane, moves: usize) -> Victim {
    let others = [QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];
    let tails = others.map(|queue| Some((queue, view.tail(Place { lane, queue })?)));
    let Some((queue, tail)) = tails.into_iter().flatten().next() else { return Victim::Nothing };
    let earned = tail.state().active() && queue == QueueKind::Hot;
    let is_rescued = earned && moves < LOOKS_MAX / 2;
    let target = if is_rescued { QueueKind::Warm } else { QueueKind::Cold };
    Victim::Move(Move::within(lane, queue, target))
}
