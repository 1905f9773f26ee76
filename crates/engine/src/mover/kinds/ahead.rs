//! The evictions before a move of the kind `warm` carries items.
//!
//! ```text
//!   choose    the page with the fewest items to carry, as a sample of each page shows
//!   cold      evict the cold items of the page itself: those that have expired, and those that are as cold as the usual
//!             victims of the class. They are visited in the order of the memory and need no other chunk, so this is
//!             several times as fast as a search for a victim elsewhere and a carried item
//!   victims   evict the next victims of the class, then change to the emptiest of the pages that have lost items
//! ```
//!
//! Both steps end when the class has a page's worth of free chunks, those on the page included. In a class whose items
//! were stored at about the same time as their neighbours, such as one that the traffic has left, most items of the chosen
//! page are cold.

use crate::class::{ClassState, ClassStatus};
use crate::mem::{OwnedChunk, PageState, Pin};
use crate::mover::job::{Candidate, Choice, Pass};
use crate::space::DetachedVictim;

/// The largest number of chunks in a batch.
pub const BATCH_CHUNKS_MAX: usize = 32;

/// The number of slots that a sample of a page compares.
const SLOTS_SAMPLED: u32 = 4;

/// The number of visits of chunks that take as long as one eviction.
const VISITS_PER_EVICTION: usize = 16;

/// Returns a function that estimates the number of items of a page that are not cold, from a sample of its slots.
pub fn items_to_carry(choice: &Choice<'_>) -> impl Fn(&Candidate<'_>) -> u32 {
    let (space, victim, now) = (choice.space, choice.victim, choice.now);
    let cold_rank = space.class(victim).lock().cold_rank(space.work.now());
    move |candidate| {
        let class = space.class(victim).lock();
        let token = &class.pages.token;
        let spread = (token.chunks_per_page() / SLOTS_SAMPLED).max(1);
        let runs: [_; SLOTS_SAMPLED as usize] =
            std::array::from_fn(|number| token.run(candidate.id, number as u32 * spread, 1));
        let (mut items, mut cold) = (0, 0);
        for run in runs {
            token.for_each_queued(run, |_, item| {
                items += 1;
                let is_cold = space.invalid_reason(item, now).is_some()
                    || class.is_cold(item, cold_rank, space.work.now());
                cold += u32::from(is_cold);
            });
        }
        candidate.page.used() * (items - cold) / items.max(1)
    }
}

/// Evicts the cold items of the page until the class has a page's worth of free chunks, or the budget is used up. Returns
/// the used part of the budget.
pub fn evict_cold(pass: &mut Pass<'_>, budget_chunks: usize) -> usize {
    let mut spent = 0;
    while pass.job.cold_slot < pass.job.slot_end && spent < budget_chunks {
        let evictions_max = missing_chunks(pass).min(pass.job.evict_ahead_max as usize);
        if evictions_max == 0 {
            pass.job.cold_slot = pass.job.slot_end;
            break;
        }
        let victims = detach_cold(pass, evictions_max.min(BATCH_CHUNKS_MAX));
        let evicted = victims.len();
        let chunks = finish_evictions(pass, victims);
        free_chunks(pass, evicted, chunks);
        pass.job.evict_ahead_max -= evicted as u32;
        spent += evicted + BATCH_CHUNKS_MAX / VISITS_PER_EVICTION;
    }
    spent
}

/// Detaches the cold items of the next `count` slots of the page.
fn detach_cold(pass: &mut Pass<'_>, count: usize) -> Vec<DetachedVictim> {
    let (space, job, now) = (pass.space, &mut *pass.job, pass.now);
    let count = (count as u32).min(job.slot_end - job.cold_slot);
    let mut class = space.class(job.request.victim).lock();
    if job.cold_slot == 0 {
        job.cold_rank = class.cold_rank(space.work.now());
    }
    let cold_rank = job.cold_rank;
    let run = class.pages.token.run(job.page, job.cold_slot, count);
    job.cold_slot += count;
    let mut slots = Vec::with_capacity(count as usize);
    class.pages.token.for_each_queued(run, |slot, _| slots.push(slot));
    slots
        .into_iter()
        .filter_map(|slot| space.detach_cold(&mut class, slot, cold_rank, now))
        .collect()
}

/// Evicts the next victims of the class until it has a page's worth of free chunks, or the budget is used up. Then changes
/// to the emptiest of the pages that have lost items. Returns the number of evicted items.
pub fn evict_victims(pass: &mut Pass<'_>, budget_chunks: usize) -> usize {
    let mut evicted = 0;
    while pass.job.evict_ahead_max > 0 && evicted < budget_chunks {
        let count_max = (pass.job.evict_ahead_max as usize).min(budget_chunks - evicted);
        let count = evict_and_free(pass, missing_chunks(pass).min(count_max).min(BATCH_CHUNKS_MAX));
        pass.job.evict_ahead_max -= count as u32;
        evicted += count;
        if count == 0 || pass.job.evict_ahead_max == 0 {
            pass.job.evict_ahead_max = 0;
            change_to_emptiest_page(pass);
        }
    }
    evicted
}

/// Returns the number of chunks that the class lacks to have a page's worth of free chunks. If it lacks some, recalls
/// its spare chunks first. Returns 0 if the mover evicts only chunk by chunk: the class is retired, or its chunks hold
/// parts of chained items, or the page pool has a page.
fn missing_chunks(pass: &Pass<'_>) -> usize {
    let (space, id) = (pass.space, pass.job.request.victim);
    let mut class = space.class(id).lock();
    let evicts_by_chunk = id == space.largest
        || class.status() == ClassStatus::Retired
        || space.unqueued_count(&class) > 0;
    if evicts_by_chunk || !space.config.eviction_enabled || space.lock_pool().has_page() {
        return 0;
    }
    let wanted = class.pages.token.chunks_per_page() as usize;
    let missing = |class: &ClassState| {
        wanted.saturating_sub(class.pages.free_count() as usize + pass.job.reserved.len())
    };
    if missing(&class) > 0 {
        space.recall_into(&mut class, |_| true);
    }
    missing(&class)
}

/// Evicts up to `count` items of the class and frees their chunks. Returns the number of evicted items.
fn evict_and_free(pass: &mut Pass<'_>, count: usize) -> usize {
    let (evicted, chunks) = evict(pass, count);
    free_chunks(pass, evicted, chunks);
    evicted
}

/// Frees the chunks of evicted items, and counts these items.
fn free_chunks(pass: &mut Pass<'_>, evicted: usize, chunks: Vec<OwnedChunk>) {
    let space = pass.space;
    let mut class = space.class(pass.job.request.victim).lock();
    for chunk in chunks {
        let page = space.memory.page_of(chunk.address());
        if pass.job.evicted_from.last() != Some(&page) {
            pass.job.evicted_from.push(page);
        }
        class.pages.give(chunk);
    }
    drop(class);
    if evicted > 0 {
        pass.counters.evicted += evicted as u64;
        pass.record_progress();
    }
}

/// Evicts up to `count` items of the class. Returns the number of evicted items, and those of their chunks that the
/// caller owns now.
pub fn evict(pass: &Pass<'_>, count: usize) -> (usize, Vec<OwnedChunk>) {
    let victims = pass.space.detach_victims(pass.job.request.victim, count, pass.now);
    (victims.len(), finish_evictions(pass, victims))
}

/// Removes detached victims from the index. Returns those of their chunks that the caller owns now.
fn finish_evictions(pass: &Pass<'_>, victims: Vec<DetachedVictim>) -> Vec<OwnedChunk> {
    let (space, class) = (pass.space, pass.job.request.victim);
    let hashes = prefetch_entries(pass, victims.iter().map(|victim| &victim.pin));
    hashes.iter().for_each(|&hash| space.prefetch_ghosts(hash));
    let both = victims.into_iter().zip(hashes);
    let chunks = both.filter_map(|(victim, hash)| space.finish_eviction(victim, hash, class));
    chunks.collect()
}

/// Moves another page of the class instead, if a page that has lost items is emptier than the present one.
fn change_to_emptiest_page(pass: &mut Pass<'_>) {
    let memory = &pass.space.memory;
    let evicted_from = std::mem::take(&mut pass.job.evicted_from);
    let Some(emptiest) = evicted_from.into_iter().min_by_key(|&id| memory.page(id).used()) else {
        return;
    };
    let mut class = pass.space.class(pass.job.request.victim).lock();
    let page = memory.page(emptiest);
    let is_owned = page.owner() == Some(class.id()) && page.state() == PageState::Owned;
    if is_owned && page.used() < memory.page(pass.job.page).used() {
        class.pages.abort_drain(pass.job.page);
        class.pages.begin_drain(emptiest);
        (pass.job.page, pass.job.slot, pass.job.slot_end) = (emptiest, 0, page.fresh());
    }
}

/// Prefetches the index entries of pinned items. Returns the hashes of their keys, in the same order.
pub fn prefetch_entries<'p>(pass: &Pass<'_>, pins: impl Iterator<Item = &'p Pin>) -> Vec<u64> {
    let space = pass.space;
    let hash = |pin: &Pin| space.hash_of(pin.item(&space.memory));
    let hashes: Vec<u64> = pins.map(hash).collect();
    hashes.iter().for_each(|&hash| space.index.prefetch(hash));
    hashes.iter().for_each(|&hash| space.index.prefetch_bucket(hash));
    hashes
}
