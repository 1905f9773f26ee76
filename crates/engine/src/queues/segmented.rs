//! `eviction=segmented`: the moves between memcached's hot, warm, cold and temp queues. Which item leaves
//! is the matter of `victim.rs`.
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
//! A hit only sets bits in the item (fetched, then active). Whoever meets an active item at a tail
//! moves it to WARM and clears the bit. Each insertion demotes at most as much as it added, so the
//! shares hold without a background thread; the maintainer enforces ages and gathers the expired.

use super::Lane;
use crate::class::ClassState;
use crate::config::EvictionKind;
use crate::mem::{ChunkAddress, QueueKind};
use crate::memory::Memory;
use slabwise_base::Ticks;

/// What one look at a tail did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demotion {
    /// An item changed its place.
    Moved,
    /// The tail may stay, or there is none.
    Settled,
}

/// The clock, where ages count too; `None` looks at shares only.
pub type QueueTimes = Option<Ticks>;

/// The same in every lane.
pub fn balance_all(class: &mut ClassState, memory: &Memory, times: QueueTimes) -> Demotion {
    if !class.eviction().balances() {
        return Demotion::Settled;
    }
    let (mut from, mut outcome) = (Lane::FIRST, Demotion::Settled);
    while let Some(lane) = class.lanes().next_from(from) {
        if balance(class, memory, lane, times) == Demotion::Moved {
            outcome = Demotion::Moved;
        }
        from = Lane(lane.0 + 1);
    }
    outcome
}

/// Looks at the tails of a lane's HOT and WARM once each; moves what is over its share of the lane or, by
/// `times`, too old. With `times` COLD's tail, too: an active item there would stand for an age that it does
/// not have.
pub fn balance(class: &mut ClassState, memory: &Memory, lane: Lane, times: QueueTimes) -> Demotion {
    let cold = match times {
        Some(_) => lift_active_cold(class, memory, lane),
        None => Demotion::Settled,
    };
    let hot = balance_queue(class, memory, (lane, QueueKind::Hot), times);
    let warm = balance_queue(class, memory, (lane, QueueKind::Warm), times);
    if [cold, hot, warm].contains(&Demotion::Moved) { Demotion::Moved } else { Demotion::Settled }
}

fn lift_active_cold(class: &mut ClassState, memory: &Memory, lane: Lane) -> Demotion {
    let Some(tail) = class.lanes().queue(lane, QueueKind::Cold).tail() else {
        return Demotion::Settled;
    };
    let active = memory.header(tail).state().load().active();
    if !active || class.eviction() == EvictionKind::Lru {
        return Demotion::Settled;
    }
    class.bands_mut().note_look(lane, true);
    class.requeue(memory, tail, QueueKind::Warm);
    Demotion::Moved
}

fn balance_queue(
    class: &mut ClassState,
    memory: &Memory,
    (lane, queue): (Lane, QueueKind),
    times: QueueTimes,
) -> Demotion {
    let Some(tail) = class.lanes().queue(lane, queue).tail() else { return Demotion::Settled };
    let lru = class.lru();
    let (percent, age_factor) = match queue {
        QueueKind::Hot => (lru.hot_percent, lru.hot_age_factor),
        _ => (lru.warm_percent, lru.warm_age_factor),
    };
    let total: u64 = [QueueKind::Hot, QueueKind::Warm, QueueKind::Cold]
        .iter()
        .map(|&kind| class.lanes().queue(lane, kind).bytes())
        .sum();
    let over_share = class.lanes().queue(lane, queue).bytes() * 100 > total * u64::from(percent);
    let flat = class.eviction() == EvictionKind::Lru;
    let too_old = times.is_some_and(|now| {
        let cold = class.lanes().queue(lane, QueueKind::Cold).tail();
        let cold_age = cold.map(|cold| age(memory, cold, now));
        let age_max = f64::from(cold_age.unwrap_or(0)) * age_factor;
        f64::from(age(memory, tail, now)) > age_max
    });
    if !(over_share || too_old || flat) {
        return Demotion::Settled;
    }
    let active = memory.header(tail).state().load().active();
    let target = if active && !flat { QueueKind::Warm } else { QueueKind::Cold };
    class.requeue(memory, tail, target);
    Demotion::Moved
}

fn age(memory: &Memory, address: ChunkAddress, now: Ticks) -> u32 {
    memory.header(address).time().age_at(now)
}
