//! The choice of the page, and the evictions of the kind `warm` before it carries items.
//!
//! ```text
//!   choose    the page with the fewest items to carry, as a sample of each page shows
//!   cold      evict the cold items of the page itself: those that have expired, and those of which the class's order expects
//!             hardly more hits than of the items that it evicts (`Order::is_cold`). They are visited in the order of the
//!             memory and need no other chunk. This takes a fifth of the time of a victim elsewhere and a carried item
//!   victims   evict the next victims of the class, then change to the emptiest of the pages that have lost items
//! ```
//!
//! Both steps end when the class has a page's worth of free chunks, those on the page included. In a class whose items
//! were stored at about the same time as their neighbours, such as one that the traffic has left, most items of the chosen
//! page are cold.

use super::batch::{self, BATCH_CHUNKS_MAX};
use crate::class::{ClassState, ClassStatus};
use crate::mem::{OwnedChunk, PageState};
use crate::mover::job::{Candidate, Choice, Pass};
use crate::space::{DetachedVictim, Space};

/// The number of slots that a sample of a page compares.
const SLOTS_SAMPLED: u32 = 4;

/// The number of slots whose visit takes as long as one eviction.
const VISITS_PER_EVICTION: usize = 16;

/// The estimated work and loss of a move of a page, in the order in which pages are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Estimate {
    /// The number of items that must be carried.
    carried: u32,
    /// The number of items that are evicted although they have not expired.
    lost: u32,
}

/// Returns a function that estimates the move of a page, from a sample of its slots. If the class evicts nothing ahead, all
/// items of the page must be carried.
pub fn estimate(choice: &Choice<'_>) -> impl Fn(&Candidate<'_>) -> Estimate {
    let (space, victim, now) = (choice.space, choice.victim, choice.now);
    let evicts_cold = missing_chunks(space, &mut space.class(victim).lock(), 0) > 0;
    move |candidate| {
        let used = candidate.page.used();
        if !evicts_cold {
            return Estimate { carried: used, lost: 0 };
        }
        let class = space.class(victim).lock();
        let (token, fresh) = (&class.pages.token, candidate.page.fresh());
        let sampled = SLOTS_SAMPLED.min(fresh);
        let (mut items, mut cold, mut expired) = (0, 0, 0);
        let slots = (0..sampled).map(|number| token.slot(candidate.id, number * (fresh / sampled)));
        for item in slots.filter_map(|slot| token.queued_in(slot)) {
            let is_invalid = space.invalid_reason(item, now).is_some();
            items += 1;
            expired += u32::from(is_invalid);
            cold += u32::from(is_invalid || class.is_cold(item, space.work.now()));
        }
        let share = |count: u32| used * count / items.max(1);
        Estimate { carried: used - share(cold), lost: share(cold - expired) }
    }
}

/// Evicts the cold items of the page until the class has a page's worth of free chunks, or the budget is used up. Returns
/// the used part of the budget.
pub fn evict_cold(pass: &mut Pass<'_>, budget_chunks: usize) -> usize {
    let mut spent = 0;
    while pass.job.cold_slot < pass.job.slot_end && spent < budget_chunks {
        let missing = lock_and_count_missing(pass).min(pass.job.evict_ahead_max as usize);
        if missing == 0 {
            pass.job.cold_slot = pass.job.slot_end;
            break;
        }
        let victims = detach_cold(pass, missing.min(budget_chunks - spent));
        let evicted = victims.len();
        let chunks = batch::finish_evictions(pass, victims);
        free_chunks(pass, evicted, chunks);
        pass.job.evict_ahead_max -= evicted as u32;
        spent += evicted;
        if evicted < BATCH_CHUNKS_MAX / VISITS_PER_EVICTION {
            let visits = BATCH_CHUNKS_MAX / VISITS_PER_EVICTION - evicted;
            pass.counters.visits += visits as u64;
            spent += visits;
        }
    }
    spent.min(budget_chunks)
}

/// Visits the next slots of the page, at most a batch, and detaches up to `count_max` cold items.
fn detach_cold(pass: &mut Pass<'_>, count_max: usize) -> Vec<DetachedVictim> {
    let (space, job, now) = (pass.space, &mut *pass.job, pass.now);
    let mut class = space.class(job.request.victim).lock();
    let len = (BATCH_CHUNKS_MAX as u32).min(job.slot_end - job.cold_slot);
    // Prefetches the slots.
    let _ = class.pages.token.run(job.page, job.cold_slot, len);
    let end = job.cold_slot + len;
    let mut victims = Vec::with_capacity(count_max.min(len as usize));
    while job.cold_slot < end && victims.len() < count_max {
        let slot = class.pages.token.slot(job.page, job.cold_slot);
        victims.extend(space.detach_if_cold(&mut class, slot, now));
        job.cold_slot += 1;
    }
    victims
}

/// Evicts the next victims of the class until it has a page's worth of free chunks, or the budget is used up. Then changes
/// to the emptiest of the pages that have lost items. Returns the number of evicted items.
pub fn evict_victims(pass: &mut Pass<'_>, budget_chunks: usize) -> usize {
    let mut evicted = 0;
    while pass.job.evict_ahead_max > 0 && evicted < budget_chunks {
        let count_max = (pass.job.evict_ahead_max as usize).min(budget_chunks - evicted);
        let missing = lock_and_count_missing(pass);
        let (count, chunks) = batch::evict(pass, missing.min(count_max).min(BATCH_CHUNKS_MAX));
        free_chunks(pass, count, chunks);
        pass.job.evict_ahead_max -= count as u32;
        evicted += count;
        if count == 0 || pass.job.evict_ahead_max == 0 {
            pass.job.evict_ahead_max = 0;
            change_to_emptiest_page(pass);
        }
    }
    evicted
}

/// Returns the number of chunks that the victim lacks to have a page's worth of free chunks.
fn lock_and_count_missing(pass: &Pass<'_>) -> usize {
    let mut class = pass.space.class(pass.job.request.victim).lock();
    missing_chunks(pass.space, &mut class, pass.job.reserved.len())
}

/// Returns the number of chunks that a class lacks to have a page's worth of free chunks, of which the mover has reserved
/// some. If it lacks some, recalls its spare chunks first. Returns 0 if the mover evicts only chunk by chunk: the class is
/// retired, or its chunks hold parts of chained items, or the page pool has a page.
fn missing_chunks(space: &Space, class: &mut ClassState, reserved: usize) -> usize {
    let evicts_by_chunk = class.id() == space.largest
        || class.status() == ClassStatus::Retired
        || space.unqueued_count(class) > 0;
    if evicts_by_chunk || !space.config.eviction_enabled || space.lock_pool().has_page() {
        return 0;
    }
    let wanted = class.pages.token.chunks_per_page() as usize;
    let missing =
        |class: &ClassState| wanted.saturating_sub(class.pages.free_count() as usize + reserved);
    if missing(class) > 0 {
        space.recall_into(class, |_| true);
    }
    missing(class)
}

/// Frees the chunks of evicted items, and counts these items.
fn free_chunks(pass: &mut Pass<'_>, evicted: usize, chunks: Vec<OwnedChunk>) {
    if evicted == 0 {
        return;
    }
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
    pass.counters.evicted += evicted as u64;
    pass.record_progress();
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
