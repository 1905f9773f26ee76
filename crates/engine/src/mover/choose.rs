//! Which class gives a page, and which of its pages; and shrinking to a lowered memory limit.

use super::{Job, Mover, MoverStep};
use crate::class::CHAINED;
use crate::config::MoverKind;
use crate::engine::Engine;
use crate::page_table::PageState;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Now, PageId};

/// Pages compared to find the one that costs least to empty.
const PAGES_COMPARED_MAX: usize = 64;

/// Attempts to take the page that was found: it may have changed hands meanwhile.
const BEGIN_TRIES: usize = 3;

impl Engine {
    /// While more memory is held than the limit allows: releases a free page, or starts to free one.
    pub(super) fn shrink(&self, mover: &mut Mover, now: Now) -> MoverStep {
        let released = lock(&self.pool).take_for_release();
        if let Some(page) = released {
            self.memory.arena.release(&page, self.memory.page_size_bytes());
            lock(&self.pool).put_released(page);
            return MoverStep::Working;
        }
        let over = lock(&self.pool).headroom() < 0 && !self.config.first_page_beyond_limit;
        if !over || mover.rests(now) {
            return MoverStep::Idle;
        }
        if let Some(victim) = self.oldest_class(None, now) {
            mover.job = self.begin(victim, None, now, &mut mover.page_cursor);
        }
        if mover.is_running() { MoverStep::Working } else { MoverStep::Idle }
    }

    /// The class whose coldest item was used longest ago, of those that can give a page to `receiver`;
    /// one with a page's worth of free chunks before all others. Without eviction, only such a one.
    pub(super) fn oldest_class(&self, receiver: Option<ClassId>, now: Now) -> Option<ClassId> {
        // Most of what chained items take is in the largest chunks, so their age counts there.
        let largest = self.config.classes.largest();
        let chained_age = self.class(CHAINED).lock().oldest_tail_age(&self.memory, now.ticks);
        let candidates = self.config.classes.ids().filter(|&id| Some(id) != receiver);
        let ranked = candidates.filter_map(|id| {
            let state = self.class(id).lock();
            let has_spare = state.free_count() >= u64::from(state.chunks_per_page());
            let own_age = state.oldest_tail_age(&self.memory, now.ticks);
            let age = own_age.max(chained_age.filter(|_| id == largest));
            let rank = (has_spare, age.unwrap_or(0), state.page_count());
            let can_give = state.page_count() > 0 && (has_spare || self.config.eviction_enabled);
            can_give.then_some((rank, id))
        });
        ranked.max().map(|(_, id)| id)
    }

    /// Takes a page of the victim out of service.
    pub(super) fn begin(
        &self,
        victim: ClassId,
        receiver: Option<ClassId>,
        now: Now,
        cursor: &mut u32,
    ) -> Option<Job> {
        for _ in 0..BEGIN_TRIES {
            let page = self.page_to_empty(victim, *cursor)?;
            *cursor = page.0 + 1;
            let mut state = self.class(victim).lock();
            // A first page granted beyond the limit stays, or the class would be granted another.
            if self.config.first_page_beyond_limit && state.page_count() < 2 {
                return None;
            }
            let entry = self.memory.pages.page(page);
            if entry.owner() == Some(victim) && entry.state() == PageState::Owned {
                state.begin_drain(&self.memory, page);
                let slot_end = entry.fresh();
                return Some(Job::new(page, victim, receiver, &state, slot_end, now));
            }
        }
        None
    }

    /// The page that gives least away: of those compared, the one with the fewest chunks in use; under
    /// `Base` the one that the class has had longest. The one behind the cursor only if there is no other.
    /// No lock is held over the scan: what it reads are hints.
    fn page_to_empty(&self, class: ClassId, cursor: u32) -> Option<PageId> {
        let frontier = lock(&self.pool).frontier();
        let pages = &self.memory.pages;
        let first = cursor.min(frontier);
        let owned = (first..frontier).chain(0..first).map(PageId).filter(|&id| {
            pages.page(id).owner() == Some(class) && pages.page(id).state() == PageState::Owned
        });
        let is_last = |id: PageId| id.0 + 1 == cursor;
        match self.config.mover {
            MoverKind::Warm => owned
                .take(PAGES_COMPARED_MAX)
                .min_by_key(|&id| (is_last(id), pages.page(id).used())),
            MoverKind::Base => owned.min_by_key(|&id| (is_last(id), pages.page(id).taken_as())),
        }
    }
}
