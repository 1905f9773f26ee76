//! The crawler: a bounded walk over every item, to end those that have expired and to show the rest.
//!
//! It walks pages, not queues, so it needs no place in any list: a crawl that is left half-way costs
//! nothing. An item that moves to another page meanwhile may be met twice or not at all.

use crate::class::CHAINED;
use crate::mem::{Entry, Item, Pin, ReadsMeta};
use crate::space::{AccessKind, Space};
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Expiry, Now, PageId, Ticks};

/// Chunks looked at under one holding of a class's lock.
const CHUNKS_A_LOCK: u32 = 64;

/// A crawl under way.
#[derive(Clone, Debug)]
pub struct Crawler {
    wanted: [bool; ClassId::NUMBERS],
    page: PageId,
    slot: u32,
}

/// An item as a crawl shows it.
#[derive(Clone, Copy, Debug)]
pub struct CrawledItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Bytes of the value.
    pub value_len: usize,
    /// The client's opaque number.
    pub client_flags: u32,
    /// When it ends.
    pub expiry: Expiry,
    /// When it was last accessed.
    pub last_access: Ticks,
    /// The CAS value.
    pub cas: u64,
    /// Whether it was ever hit.
    pub fetched: bool,
    /// The class it is in.
    pub class: ClassId,
    /// Counted bytes: header, key and value.
    pub size_bytes: u64,
}

/// Where a crawl stands after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlStep {
    /// There is more to see.
    More,
    /// Every page was seen.
    Done,
}

impl Crawler {
    /// A crawl over the items of these classes.
    pub fn new(classes: impl IntoIterator<Item = ClassId>) -> Crawler {
        let mut wanted = [false; ClassId::NUMBERS];
        for class in classes {
            wanted[class.index()] = true;
        }
        Crawler { wanted, page: PageId(0), slot: 0 }
    }

    /// Looks at up to `budget_chunks` chunks. Ended items are removed; `visit` sees each live one, under
    /// its class's lock: it must be short and call no operation.
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
            let looked = self.look(space, budget.min(CHUNKS_A_LOCK as usize) as u32, now, visit);
            // A page of no interest costs one look, so that a step stays bounded.
            budget = budget.saturating_sub((looked as usize).max(1));
        }
        CrawlStep::Done
    }

    /// Looks at the next chunks of the present page; returns how many.
    fn look(
        &mut self,
        space: &Space,
        count_max: u32,
        now: Now,
        visit: &mut dyn FnMut(CrawledItem<'_>),
    ) -> u32 {
        let page = space.memory.page(self.page);
        // Heads of chained items lie on pages of any class.
        let chained_wanted = self.wanted[space.largest.index()];
        let of_interest = |class: &ClassId| self.wanted[class.index()] || chained_wanted;
        let Some(class) = page.owner().filter(of_interest) else {
            self.next_page();
            return 0;
        };
        let mut state = space.class(class).lock();
        if page.owner() != Some(class) {
            // It changed hands before the lock: look again.
            return 0;
        }
        let end = page.fresh().min(self.slot + count_max);
        let mut pinned = Vec::new();
        for slot in self.slot..end {
            let address = space.memory.chunk_at(self.page, slot, state.chunk_size_bytes());
            let token = &state.pages.token;
            // An item that is not queued is on its way out: its chunk may change hands without this lock.
            let Some(item) = token.state_of(address).filter(|item| item.queued()) else { continue };
            let queue_class = if item.chained() { CHAINED } else { class };
            if !self.wanted[space.shown_class(queue_class).index()] {
                continue;
            }
            match token.queued(address) {
                Some(item) if space.death_of(item, now).is_none() => {
                    visit(show_crawled(space, item));
                }
                // A chained item is queued in another class, so this lock holds nothing of it still.
                _ => pinned.extend(token.pin_at(address)),
            }
            state.counters.crawler_items_checked += 1;
        }
        let (looked, whole) = (end.saturating_sub(self.slot), end == page.fresh());
        drop(state);
        let ended = pinned.into_iter().map(|pin| u64::from(settle_pinned(space, pin, now, visit)));
        let ended: u64 = ended.sum();
        if ended > 0 {
            space.class(class).lock().counters.crawler_reclaimed += ended;
        }
        self.slot = end;
        if whole {
            self.next_page();
        }
        looked
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
        class: space.shown_class(item.queue_class()),
        size_bytes: item.counted_size_bytes(),
    }
}

/// Removes an item that the caller has pinned if it has ended, else shows it; drops the pin. True:
/// it was removed.
fn settle_pinned(
    space: &Space,
    pin: Pin,
    now: Now,
    visit: &mut dyn FnMut(CrawledItem<'_>),
) -> bool {
    let hash = space.hash_of(pin.item(&space.memory));
    let mut ended = false;
    if let Ok(entry) = Entry::find_address(space.index.lock(hash), hash, pin.address()) {
        ended = space.death_of(entry.item(), now).is_some();
        if ended {
            let class = entry.item().queue_class();
            let (stripe, removed) = entry.remove();
            space.unlink(removed);
            space.show_access(hash, AccessKind::Delete, Some(class));
            drop(stripe);
        } else {
            visit(show_crawled(space, entry.item()));
        }
    }
    space.unpin(pin);
    ended
}
