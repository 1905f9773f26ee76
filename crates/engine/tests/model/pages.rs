//! Random evictions of whole pages, plans of page moves, divisions of queues, and records of the accesses to pages, as page policies request
//! them.

use crate::driver::Driver;
use slabwise_base::{ClassId, Now, PageId};
use slabwise_engine::{PlannedMove, QueueSplit, ReassignError};

impl Driver<'_> {
    /// Requests the eviction of a page, sometimes of a page that no class owns, or for a class that does not exist.
    /// Checks that the request was accepted, or refused for a good reason.
    pub(crate) fn evict_page(&mut self, now: Now) {
        let owned = self.engine.owned_pages();
        let known = self.engine.class_ids();
        let unknown = (0..).map(ClassId).find(|id| !known.contains(id));
        let page = owned.get(self.random.below(owned.len() as u64 + 1) as usize).map(|it| it.id);
        let page = page.unwrap_or(PageId(self.random.below(8) as u32));
        let receiver = known.get(self.random.below(known.len() as u64 + 1) as usize).copied();
        let receiver = receiver.or(unknown).expect("a class number is free");
        let is_moving = self.engine.chunks_of_moving_page().is_some();
        let outcome = self.engine.evict_page(page, receiver, "test", now);
        self.log_line(format!("evict_page({page:?}, {receiver:?}) -> {outcome:?}"));
        let owner = owned.iter().find(|it| it.id == page).map(|it| it.class);
        let pages_of_owner = owned.iter().filter(|it| Some(it.class) == owner).count();
        // With pages beyond the limit, each class keeps its last page.
        let is_last = self.scenario.config.first_page_beyond_limit && pages_of_owner == 1;
        let is_present = self.engine.class_table().has(receiver);
        let expected = match outcome {
            Ok(()) => owner.is_some() && is_present && !is_moving,
            Err(ReassignError::BadClass) => !is_present,
            Err(ReassignError::Running) => is_moving,
            Err(ReassignError::NoMovablePage) => owner.is_none() || is_last,
            Err(ReassignError::SameClass) => false,
        };
        assert!(expected, "invariant OUTCOME: evict_page answered {outcome:?}");
    }

    /// Plans some moves, among them impossible ones, and sets how much stores help with them. Checks that moves begin
    /// only for a good reason.
    pub(crate) fn plan_moves(&mut self) {
        let known = self.engine.class_ids();
        let mut draw = || known[self.random.below(known.len() as u64) as usize];
        let mut moves = Vec::new();
        for _ in 0..4 {
            let (victim, receiver) = (draw(), Some(draw()));
            moves.push(PlannedMove { victim, page: None, receiver, reason: "test" });
        }
        moves.truncate(self.random.below(5) as usize);
        if let Some(last) = moves.last_mut().filter(|_| self.random.below(4) == 0) {
            last.receiver = None;
        }
        let help_chunks = [0.0, 0.5, 2.0, 40.0][self.random.below(4) as usize];
        self.engine.set_help_chunks(help_chunks);
        self.log_line(format!("plan_moves({moves:?}), {help_chunks} chunks per store"));
        self.engine.plan_moves(moves);
        for (planned, outcome) in self.engine.take_begun_moves() {
            let PlannedMove { victim, receiver, .. } = planned;
            let expected = match outcome {
                Ok(()) => receiver != Some(victim),
                Err(ReassignError::SameClass) => receiver == Some(victim),
                // The class table and the pages may have changed since.
                Err(ReassignError::BadClass | ReassignError::NoMovablePage) => true,
                Err(ReassignError::Running) => false,
            };
            assert!(expected, "invariant OUTCOME: the move {planned:?} ended with {outcome:?}");
        }
    }

    /// Divides the queues of some classes, or joins the two queues of each of them.
    pub(crate) fn divide_queues(&mut self) {
        let classes = self.some_classes();
        let mut share = || [0.0, 0.1, 0.5, 1.0][self.random.below(4) as usize];
        let split = QueueSplit { left_key_share: share(), left_item_share: share() };
        classes.iter().for_each(|&class| self.engine.divide_queue(class, split));
        self.log_line(format!("divide_queue({classes:?}, {split:?})"));
    }

    /// Starts or stops to record the accesses to pages. Checks that all pages count as accessed at the start.
    pub(crate) fn note_pages(&mut self, now: Now) {
        self.notes_pages = self.random.below(2) == 0;
        self.engine.note_page_accesses(self.notes_pages, now);
        self.log_line(format!("note_page_accesses({})", self.notes_pages));
        if self.notes_pages {
            let pages = self.engine.owned_pages();
            assert!(
                pages.iter().all(|page| page.accessed_at == Some(now.ticks)),
                "invariant PAGES: when records start, all pages count as accessed now: {pages:?}"
            );
        }
    }

    /// Checks that an access to an item was recorded at a page, if accesses to pages are recorded.
    pub(crate) fn check_page_access(&self, now: Now) {
        // The page of the item may be the page that is moving, which the engine does not return.
        if self.notes_pages && self.engine.chunks_of_moving_page().is_none() {
            let mut pages = self.engine.owned_pages().into_iter();
            assert!(
                pages.any(|page| page.accessed_at == Some(now.ticks)),
                "invariant PAGES: no page has the time of the hit"
            );
        }
    }
}
