//! Which class gives a page, and which of its pages.

use super::job::{Candidate, Job, Order, Start};
use super::kinds;
use crate::class::{CHAINED, Class, Standing};
use crate::config::MoverKind;
use crate::counters::MoverCounters;
use crate::mem::PageState;
use crate::space::Space;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Now, PageId};
use std::sync::atomic::Ordering::{AcqRel, Release};

/// Attempts to take the page that was found: it may have changed hands meanwhile.
const BEGIN_TRIES: usize = 3;

/// The class whose coldest item was used longest ago, of those that can give a page to `receiver`;
/// one with a page's worth of free chunks before all others. Without eviction, only such a one.
pub fn oldest_class(space: &Space, receiver: Option<ClassId>, now: Now) -> Option<ClassId> {
    // Most of what chained items take is in the largest chunks, so their age counts there.
    let largest = space.largest;
    let chained_age = space.class(CHAINED).lock().oldest_tail_age(now.ticks);
    let ranked = space.classes.iter().filter_map(|class| {
        let state = class.lock();
        let id = state.id();
        let has_spare = state.pages.free_count() >= u64::from(state.pages.chunks_per_page());
        let own_age = state.oldest_tail_age(now.ticks);
        let age = own_age.max(chained_age.filter(|_| id == largest));
        // A retired class gives all its pages in the end.
        let retired = state.standing() == Standing::Retired;
        let rank = (has_spare, retired, age.unwrap_or(0), state.page_count());
        let can_give = Some(id) != receiver
            && state.page_count() > 0
            && (has_spare || space.config.eviction_enabled);
        can_give.then_some((rank, id))
    });
    ranked.max().map(|(_, id)| id)
}

/// The retired class whose coldest item is the coldest, if one owns pages. A class whose page could not be
/// emptied comes after the others.
pub fn retired_class(space: &Space, gave_up_on: Option<ClassId>, now: Now) -> Option<ClassId> {
    if !space.retiring.swap(false, AcqRel) {
        return None;
    }
    let ranked = |class: &Class| {
        let state = class.lock();
        let (id, age) = (state.id(), state.oldest_tail_age(now.ticks));
        let retired = state.standing() == Standing::Retired;
        retired.then_some((gave_up_on != Some(id), age, id))
    };
    let (.., victim) = space.classes.iter().filter_map(ranked).max()?;
    space.retiring.store(true, Release);
    Some(victim)
}

/// Begins to empty a page of the victim; of a retired one always by `warm`. The search begins at the page
/// of this number, the cursor, and moves it behind the page that is chosen.
pub fn begin(
    space: &Space,
    mut order: Order,
    cursor: &mut u32,
    counters: &MoverCounters,
    now: Now,
) -> Option<Job> {
    let victim = order.victim;
    if space.class(victim).lock().standing() == Standing::Retired {
        order.kind = kinds::of(MoverKind::WARM);
    }
    for _ in 0..BEGIN_TRIES {
        let page = page_to_empty(space, &order, *cursor)?;
        *cursor = page.0 + 1;
        let gets = space.gets_ever();
        let mut state = space.class(victim).lock();
        // A first page granted beyond the limit stays, or the class would be granted another.
        let keeps_one =
            space.config.first_page_beyond_limit && state.standing() == Standing::Present;
        if keeps_one && state.page_count() < 2 {
            return None;
        }
        let entry = space.memory.page(page);
        if entry.owner() == Some(victim) && entry.state() == PageState::Owned {
            order.kind.begin(&mut state, page);
            let (rescued, evicted) = (counters.carried(), counters.evicted);
            let start = Start { nanos: None, gets, chunks: entry.used(), rescued, evicted };
            return Some(Job::new(order, page, &state, entry.fresh(), start, now));
        }
    }
    None
}

/// The page of the victim that the kind chooses. No lock is held over the scan: what it reads are hints.
fn page_to_empty(space: &Space, order: &Order, cursor: u32) -> Option<PageId> {
    let frontier = lock(&space.pool).frontier();
    let first = cursor.min(frontier);
    let mut owned = (first..frontier).chain(0..first).map(PageId).filter_map(|id| {
        let page = space.memory.page(id);
        let is_owned = page.owner() == Some(order.victim) && page.state() == PageState::Owned;
        is_owned.then_some(Candidate { id, page, is_last_choice: id.0 + 1 == cursor })
    });
    order.kind.choose(&mut owned)
}
