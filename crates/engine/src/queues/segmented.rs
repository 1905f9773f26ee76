//! `eviction=segmented`: memcached's hot, warm, cold and temp queues.
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

/// How many tails one search for a victim looks at before it takes what it finds.
const VICTIM_LOOKS_MAX: usize = 64;

/// Looks at the tails of HOT and WARM once each; moves what is over its share or, by `times`, too old.
/// With `times` COLD's tail, too: an active item there would stand for an age that it does not have.
pub fn balance(class: &mut ClassState, memory: &Memory, times: QueueTimes) -> Demotion {
    let cold = match times {
        Some(_) => lift_active_cold(class, memory),
        None => Demotion::Settled,
    };
    let hot = balance_queue(class, memory, QueueKind::Hot, times);
    let warm = balance_queue(class, memory, QueueKind::Warm, times);
    if [cold, hot, warm].contains(&Demotion::Moved) { Demotion::Moved } else { Demotion::Settled }
}

fn lift_active_cold(class: &mut ClassState, memory: &Memory) -> Demotion {
    let Some(tail) = class.queue(QueueKind::Cold).tail() else { return Demotion::Settled };
    let active = memory.header(tail).state().load().active();
    if !active || class.eviction() != EvictionKind::Segmented {
        return Demotion::Settled;
    }
    class.requeue(memory, tail, QueueKind::Warm);
    Demotion::Moved
}

fn balance_queue(
    class: &mut ClassState,
    memory: &Memory,
    queue: QueueKind,
    times: QueueTimes,
) -> Demotion {
    let Some(tail) = class.queue(queue).tail() else { return Demotion::Settled };
    let lru = class.lru();
    let (percent, age_factor) = match queue {
        QueueKind::Hot => (lru.hot_percent, lru.hot_age_factor),
        _ => (lru.warm_percent, lru.warm_age_factor),
    };
    let total: u64 = [QueueKind::Hot, QueueKind::Warm, QueueKind::Cold]
        .iter()
        .map(|&kind| class.queue(kind).bytes())
        .sum();
    let over_share = class.queue(queue).bytes() * 100 > total * u64::from(percent);
    let flat = class.eviction() == EvictionKind::Lru;
    let too_old = times.is_some_and(|now| {
        let cold_age = class.queue(QueueKind::Cold).tail().map(|cold| age(memory, cold, now));
        let age_max = f64::from(cold_age.unwrap_or(0)) * age_factor;
        f64::from(age(memory, tail, now)) > age_max
    });
    if !(over_share || too_old || flat) {
        return Demotion::Settled;
    }
    let active = memory.header(tail).state().load().active();
    let target = if active && !flat { QueueKind::Warm } else { QueueKind::Cold };
    class.requeue(memory, tail, target);
    // The next insertion will look at the next tail and write its neighbour.
    if let Some(next) = class.queue(queue).tail() {
        memory.prefetch_neighbours(next);
    }
    Demotion::Moved
}

fn age(memory: &Memory, address: ChunkAddress, now: Ticks) -> u32 {
    memory.header(address).time().age_at(now)
}

/// The item to evict: the coldest that nobody pins, still queued. Active items found on the way go
/// back to WARM; an empty COLD is refilled from HOT and WARM. `None`: nothing can be evicted.
pub fn next_victim(class: &mut ClassState, memory: &Memory) -> Option<ChunkAddress> {
    for look in 0..VICTIM_LOOKS_MAX {
        let Some(tail) = class.queue(QueueKind::Cold).tail() else {
            let source = [QueueKind::Hot, QueueKind::Warm]
                .into_iter()
                .find(|&kind| class.queue(kind).tail().is_some())
                .unwrap_or(QueueKind::Temp);
            let tail = class.queue(source).tail()?;
            let active = memory.header(tail).state().load().active();
            let rescued = active && source == QueueKind::Hot && look < VICTIM_LOOKS_MAX / 2;
            let target = if rescued { QueueKind::Warm } else { QueueKind::Cold };
            class.requeue(memory, tail, target);
            continue;
        };
        let state = memory.header(tail).state().load();
        let spare = class.queue(QueueKind::Cold).count() > 1 && look + 1 < VICTIM_LOOKS_MAX / 2;
        if state.pins() > 0 {
            class.counters.tail_pinned += 1;
            break;
        }
        if state.active() && spare && class.eviction() == EvictionKind::Segmented {
            class.requeue(memory, tail, QueueKind::Warm);
            continue;
        }
        return Some(tail);
    }
    unpinned(class, memory)
}

/// Walks the queues from their cold ends for an item that nobody pins.
fn unpinned(class: &ClassState, memory: &Memory) -> Option<ChunkAddress> {
    let order = [QueueKind::Cold, QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];
    let free = |&address: &ChunkAddress| memory.header(address).state().load().pins() == 0;
    order
        .into_iter()
        .find_map(|kind| class.queue(kind).iter_from_tail(memory).take(VICTIM_LOOKS_MAX).find(free))
}
