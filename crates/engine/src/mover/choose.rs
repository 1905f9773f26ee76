//! Which class gives a page, and which of its pages; and what moves without being asked for.

use super::{Job, Mover, MoverStep, Order, Start};
use crate::class::{CHAINED, Standing};
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
    /// While more memory is held than the limit allows: releases a free page, or starts to free one. Before
    /// that, pages of retired classes are freed.
    pub(super) fn begin_unasked(&self, mover: &mut Mover, now: Now) -> MoverStep {
        let released = lock(&self.pool).take_for_release();
        if let Some(page) = released {
            self.memory.arena.release(&page, self.memory.page_size_bytes());
            lock(&self.pool).put_released(page);
            return MoverStep::Working;
        }
        if mover.rests(now) {
            return MoverStep::Idle;
        }
        mover.job = self.begin_retired(mover, now);
        if mover.is_running() {
            return MoverStep::Working;
        }
        let over = lock(&self.pool).headroom() < 0 && !self.config.first_page_beyond_limit;
        if !over {
            return MoverStep::Idle;
        }
        if let Some(victim) = self.oldest_class(None, now) {
            let reason = "more memory is held than the limit allows";
            let order = Order { victim, receiver: None, reason, kind: self.config.mover };
            mover.job = self.begin(order, mover, now);
        }
        if mover.is_running() { MoverStep::Working } else { MoverStep::Idle }
    }

    /// The class whose coldest item was used longest ago, of those that can give a page to `receiver`;
    /// one with a page's worth of free chunks before all others. Without eviction, only such a one.
    pub(super) fn oldest_class(&self, receiver: Option<ClassId>, now: Now) -> Option<ClassId> {
        // Most of what chained items take is in the largest chunks, so their age counts there.
        let largest = self.largest;
        let chained_age = self.class(CHAINED).lock().oldest_tail_age(&self.memory, now.ticks);
        let ranked = self.classes.iter().filter_map(|class| {
            let state = class.lock();
            let id = state.id();
            let has_spare = state.free_count() >= u64::from(state.chunks_per_page());
            let own_age = state.oldest_tail_age(&self.memory, now.ticks);
            let age = own_age.max(chained_age.filter(|_| id == largest));
            // A retired class gives all its pages in the end.
            let retired = state.standing() == Standing::Retired;
            let rank = (has_spare, retired, age.unwrap_or(0), state.page_count());
            let can_give = Some(id) != receiver
                && state.page_count() > 0
                && (has_spare || self.config.eviction_enabled);
            can_give.then_some((rank, id))
        });
        ranked.max().map(|(_, id)| id)
    }

    /// Begins to empty a page of the victim; of a retired one, whatever the kind, as it does for all of them.
    pub(super) fn begin(&self, mut order: Order, mover: &mut Mover, now: Now) -> Option<Job> {
        let victim = order.victim;
        if self.is_retired(victim) {
            order.kind = MoverKind::Warm;
        }
        for _ in 0..BEGIN_TRIES {
            let page = self.page_to_empty(order, mover.page_cursor)?;
            mover.page_cursor = page.0 + 1;
            let gets = self.gets_ever();
            let mut state = self.class(victim).lock();
            // A first page granted beyond the limit stays, or the class would be granted another.
            let keeps_one =
                self.config.first_page_beyond_limit && state.standing() == Standing::Present;
            if keeps_one && state.page_count() < 2 {
                return None;
            }
            let entry = self.memory.pages.page(page);
            if entry.owner() == Some(victim) && entry.state() == PageState::Owned {
                match order.kind {
                    MoverKind::Warm | MoverKind::Stock => state.begin_drain(&self.memory, page),
                    MoverKind::Base | MoverKind::Fast => state.list_in_order(&self.memory, page),
                }
                let (rescued, evicted) = (mover.counters.carried(), mover.counters.evicted);
                let start = Start { nanos: None, gets, chunks: entry.used(), rescued, evicted };
                return Some(Job::new(order, page, &state, entry.fresh(), start, now));
            }
        }
        None
    }

    /// The page that gives least away: of those compared, the one with the fewest chunks in use; under
    /// `stock` the one that the class has had longest; under the published kinds, the next. The one behind
    /// the cursor only if there is no other. No lock is held over the scan: what it reads are hints.
    fn page_to_empty(&self, order: Order, cursor: u32) -> Option<PageId> {
        let frontier = lock(&self.pool).frontier();
        let pages = &self.memory.pages;
        let first = cursor.min(frontier);
        let mut owned = (first..frontier).chain(0..first).map(PageId).filter(|&id| {
            let page = pages.page(id);
            page.owner() == Some(order.victim) && page.state() == PageState::Owned
        });
        let is_last = |id: PageId| id.0 + 1 == cursor;
        match order.kind {
            MoverKind::Warm => owned
                .take(PAGES_COMPARED_MAX)
                .min_by_key(|&id| (is_last(id), pages.page(id).used())),
            MoverKind::Stock => owned.min_by_key(|&id| (is_last(id), pages.page(id).taken_as())),
            MoverKind::Base | MoverKind::Fast => owned.next(),
        }
    }
}
