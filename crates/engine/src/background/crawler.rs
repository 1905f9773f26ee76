//! The crawler: visits every item in bounded steps, removes those that have expired and reports the rest.
//!
//! It walks pages, not queues, so it needs no marker in any list, and an abandoned crawl needs no cleanup. An item that
//! moves to another page meanwhile may be visited twice or not at all.

use crate::class::CHAINED;
use crate::mem::{Entry, Item, Pin, ReadsMeta};
use crate::space::{AccessKind, Space};
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Expiry, Now, PageId, Ticks};

/// The most chunks that are visited while a class's lock is held.
const CHUNKS_PER_LOCK: u32 = 64;

/// A crawl in progress.
#[derive(Clone, Debug)]
pub struct Crawler {
    is_selected: [bool; ClassId::NUMBERS],
    page: PageId,
    slot: u32,
}

/// An item as a crawl reports it.
#[derive(Clone, Copy, Debug)]
pub struct CrawledItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The length of the value.
    pub value_len: usize,
    /// The client flags.
    pub client_flags: u32,
    /// When the item expires.
    pub expiry: Expiry,
    /// When the item was last accessed.
    pub last_access: Ticks,
    /// The CAS value.
    pub cas: u64,
    /// True if the item was ever hit.
    pub fetched: bool,
    /// The class of the item.
    pub class: ClassId,
    /// The counted size: header, key and value.
    pub size_bytes: u64,
}

/// The result of a step of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlStep {
    /// There are pages left.
    More,
    /// Every page was visited.
    Done,
}

impl Crawler {
    /// Returns a crawl over the items of these classes.
    pub fn new(classes: impl IntoIterator<Item = ClassId>) -> Crawler {
        let mut is_selected = [false; ClassId::NUMBERS];
        for class in classes {
            is_selected[class.index()] = true;
        }
        Crawler { is_selected, page: PageId(0), slot: 0 }
    }

    /// Visits up to `budget_chunks` chunks. Expired and flushed items are removed. `visit` is called for each live item
    /// under a lock: it must be short and must not call the engine.
    pub(crate) fn step(
        &mut self,
        space: &Space,
        budget_chunks: usize,
        now: Now,
        visit: &mut dyn FnMut(CrawledItem<'_>),
    ) -> CrawlStep {
        space.flush.settle(now);
        let frontier = lock(&space.pool).frontier;
        let mut budget = budget_chunks;
        while self.page.0 < frontier {
            if budget == 0 {
                return CrawlStep::More;
            }
            let count_max = budget.min(CHUNKS_PER_LOCK as usize) as u32;
            let visited = self.visit_chunks(space, count_max, now, visit);
            // A skipped page costs one chunk, so that a step stays bounded.
            budget = budget.saturating_sub((visited as usize).max(1));
        }
        CrawlStep::Done
    }

    /// Visits the next chunks of the current page; returns their number.
    fn visit_chunks(
        &mut self,
        space: &Space,
        count_max: u32,
        now: Now,
        visit: &mut dyn FnMut(CrawledItem<'_>),
    ) -> u32 {
        let page = space.memory.page(self.page);
        // Heads of chained items, which are reported in the largest class, may be on any page.
        let is_chained_selected = self.is_selected[space.largest.index()];
        let may_hold = |class: &ClassId| self.is_selected[class.index()] || is_chained_selected;
        let Some(class) = page.owner().filter(may_hold) else {
            self.next_page();
            return 0;
        };
        let mut state = space.class(class).lock();
        if page.owner() != Some(class) {
            // The page changed its class before the lock was taken: try again.
            return 0;
        }
        let end = page.fresh().min(self.slot + count_max);
        let mut pinned = Vec::new();
        for slot in self.slot..end {
            let address = space.memory.chunk_at(self.page, slot, state.chunk_size_bytes());
            let token = &state.pages.token;
            // An item that is not queued is being removed: its chunk may be freed without this lock.
            let Some(item) = token.state_of(address).filter(|item| item.queued()) else { continue };
            let queue_class = if item.chained() { CHAINED } else { class };
            if !self.is_selected[space.stats_class(queue_class).index()] {
                continue;
            }
            match token.queued(address) {
                Some(item) if space.end_reason(item, now).is_none() => {
                    visit(show_crawled(space, item));
                }
                // A chained item is queued in another class, so this lock does not protect it.
                _ => pinned.extend(token.pin_at(address)),
            }
            state.counters.crawler_items_checked += 1;
        }
        let (visited, is_page_done) = (end.saturating_sub(self.slot), end == page.fresh());
        drop(state);
        let ended = pinned.into_iter().map(|pin| u64::from(settle_pinned(space, pin, now, visit)));
        let ended: u64 = ended.sum();
        if ended > 0 {
            space.class(class).lock().counters.crawler_reclaimed += ended;
        }
        self.slot = end;
        if is_page_done {
            self.next_page();
        }
        visited
    }

    fn next_page(&mut self) {
        (self.page, self.slot) = (PageId(self.page.0 + 1), 0);
    }
}

fn show_crawled<'t, R: ReadsMeta>(space: &Space, item: Item<'t, R>) -> CrawledItem<'t> {
    CrawledItem {
        key: item.key(),
        value_len: item.value_len(),
        client_flags: item.client_flags(),
        expiry: item.expiry(),
        last_access: item.time(),
        cas: item.cas(),
        fetched: item.state().fetched(),
        class: space.stats_class(item.queue_class()),
        size_bytes: item.counted_size_bytes(),
    }
}

/// Removes a pinned item if it has expired or was flushed, or else reports it. Drops the pin. Returns true if it was
/// removed.
fn settle_pinned(
    space: &Space,
    pin: Pin,
    now: Now,
    visit: &mut dyn FnMut(CrawledItem<'_>),
) -> bool {
    let hash = space.hash_of(pin.item(&space.memory));
    let mut ended = false;
    if let Ok(entry) = Entry::find_address(space.index.lock(hash), hash, pin.address()) {
        ended = space.end_reason(entry.item(), now).is_some();
        if ended {
            let class = entry.item().queue_class();
            let (stripe, removed) = entry.remove();
            space.unlink(removed);
            space.report_access(hash, AccessKind::Delete, Some(class));
            drop(stripe);
        } else {
            visit(show_crawled(space, entry.item()));
        }
    }
    space.unpin(pin);
    ended
}
