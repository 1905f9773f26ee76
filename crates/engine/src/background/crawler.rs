//! The crawler visits every item in bounded steps. It removes expired and flushed items and reports all others to its
//! caller. It also limits the age of each item that it reports, so that the work clock can wrap.
//!
//! The crawler walks over pages, not over queues. So it puts no marker into any queue, and a crawl that its caller
//! abandons needs no cleanup. An item that moves to another page during the crawl may be visited twice or not at all.

use crate::class::CHAINED;
use crate::mem::{Entry, Item, Pin, ReadsMeta};
use crate::space::{AGE_MAX, AccessKind, Space, WorkClock};
use slabwise_base::{ClassId, Expiry, Now, PageId, Seconds, WorkTime};

/// The largest number of chunks that a crawl visits before it releases the lock of their class.
const CHUNKS_PER_LOCK: u32 = 64;

/// A crawl in progress: the selected classes and the next chunk to visit.
#[derive(Clone, Debug)]
pub struct Crawler {
    /// One entry per class number: true if the crawl visits the items of this class.
    is_selected: [bool; ClassId::NUMBERS],
    /// The page with the next chunk to visit.
    page: PageId,
    /// The slot of the next chunk to visit on `page`.
    slot: u32,
}

/// The data of one item that a crawl reports.
#[derive(Clone, Copy, Debug)]
pub struct CrawledItem<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The length of the item's value, in bytes.
    pub value_len: usize,
    /// The item's client flags.
    pub client_flags: u32,
    /// The time at which the item expires.
    pub expiry: Expiry,
    time: WorkTime,
    /// The clock that converts `time` to seconds.
    clock: &'a WorkClock,
    /// The item's CAS value.
    pub cas: u64,
    /// True if a get has hit the item since it was stored.
    pub fetched: bool,
    /// The class in which statistics show the item: its own class, or the largest if the item is chained.
    pub class: ClassId,
    /// The size of the item in bytes, as statistics count it: header, key and value.
    pub size_bytes: u64,
}

impl CrawledItem<'_> {
    /// Returns the second of the item's last access: exactly if that was less than four hours ago, and otherwise as an
    /// estimate.
    pub fn last_access(&self) -> Seconds {
        self.clock.second_of(self.time)
    }
}

/// The result of one step of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlStep {
    /// Some pages are not visited yet, so the caller runs another step.
    More,
    /// Every page was visited, so the crawl is complete.
    Done,
}

impl Crawler {
    /// Returns a new crawl that visits all items.
    pub fn of_all_classes() -> Crawler {
        Crawler { is_selected: [true; ClassId::NUMBERS], page: PageId(0), slot: 0 }
    }

    /// Returns a new crawl that visits the items of these classes, beginning at the first page.
    pub fn new(classes: impl IntoIterator<Item = ClassId>) -> Crawler {
        let mut is_selected = [false; ClassId::NUMBERS];
        for class in classes {
            is_selected[class.index()] = true;
        }
        Crawler { is_selected, page: PageId(0), slot: 0 }
    }

    /// Visits up to `budget_chunks` chunks. Removes expired and flushed items, and calls `visit` with every other item.
    /// The step holds a lock while it calls `visit`, so `visit` must be short and must not call the engine.
    pub(crate) fn step(
        &mut self,
        space: &Space,
        budget_chunks: usize,
        now: Now,
        visit: &mut dyn FnMut(CrawledItem<'_>),
    ) -> CrawlStep {
        space.observe_time(now);
        let frontier = space.lock_pool().frontier;
        let mut budget = budget_chunks;
        while self.page.0 < frontier {
            if budget == 0 {
                return CrawlStep::More;
            }
            let count_max = budget.min(CHUNKS_PER_LOCK as usize) as u32;
            let visited = self.visit_chunks(space, count_max, now, visit);
            // A skipped page uses up one chunk of the budget, so that a step over many skipped pages also ends.
            budget = budget.saturating_sub((visited as usize).max(1));
        }
        CrawlStep::Done
    }

    /// Visits up to `count_max` chunks of the current page. Returns the number of chunks visited.
    fn visit_chunks(
        &mut self,
        space: &Space,
        count_max: u32,
        now: Now,
        visit: &mut dyn FnMut(CrawledItem<'_>),
    ) -> u32 {
        let page = space.memory.page(self.page);
        // A chained item is reported in the largest class, but its head may be on a page of any class.
        let is_chained_selected = self.is_selected[space.largest.index()];
        let may_hold = |class: &ClassId| self.is_selected[class.index()] || is_chained_selected;
        let Some(class) = page.owner().filter(may_hold) else {
            self.go_to_next_page();
            return 0;
        };
        let mut state = space.class(class).lock();
        if page.owner() != Some(class) {
            // The page moved to another class before the lock was taken. The caller calls this function again.
            return 0;
        }
        let end = page.fresh().min(self.slot + count_max);
        let mut pinned = Vec::new();
        for slot in self.slot..end {
            let address = space.memory.chunk_at(self.page, slot, state.chunk_size_bytes());
            let token = &state.pages.token;
            // An item that is in no queue is skipped: another thread may free its chunk without this lock.
            let Some(item) = token.state_of(address).filter(|item| item.queued()) else { continue };
            let queue_class = if item.chained() { CHAINED } else { class };
            if !self.is_selected[space.stats_class(queue_class).index()] {
                continue;
            }
            match token.queued(address) {
                Some(item) if space.invalid_reason(item, now).is_none() => {
                    visit(crawled_item(space, item));
                }
                // An expired or flushed item is removed after this lock is released. A chained item is queued in
                // another class, whose lock is not held here, so it is reported later, under its stripe's lock.
                _ => pinned.extend(token.pin_at(address)),
            }
            state.counters.crawler_items_checked += 1;
        }
        let (visited, is_page_done) = (end.saturating_sub(self.slot), end == page.fresh());
        drop(state);
        let ended =
            pinned.into_iter().map(|pin| u64::from(remove_or_visit(space, pin, now, visit)));
        let ended: u64 = ended.sum();
        if ended > 0 {
            space.class(class).lock().counters.crawler_reclaimed += ended;
        }
        self.slot = end;
        if is_page_done {
            self.go_to_next_page();
        }
        visited
    }

    fn go_to_next_page(&mut self) {
        (self.page, self.slot) = (PageId(self.page.0 + 1), 0);
    }
}

fn crawled_item<'t, R: ReadsMeta>(space: &'t Space, item: Item<'t, R>) -> CrawledItem<'t> {
    let (now, time) = (space.work.now(), item.time());
    if time.age_at(now) > AGE_MAX {
        item.replace_time(time, WorkTime(now.0.wrapping_sub(AGE_MAX)));
    }
    CrawledItem {
        key: item.key(),
        value_len: item.value_len(),
        client_flags: item.client_flags(),
        expiry: item.expiry(),
        time: item.time(),
        clock: &space.work,
        cas: item.cas(),
        fetched: item.state().fetched(),
        class: space.stats_class(item.queue_class()),
        size_bytes: item.counted_size_bytes(),
    }
}

/// Removes a pinned item if it has expired or was flushed, and otherwise calls `visit` with the item. Drops the pin.
/// Returns true if the item was removed.
fn remove_or_visit(
    space: &Space,
    pin: Pin,
    now: Now,
    visit: &mut dyn FnMut(CrawledItem<'_>),
) -> bool {
    let hash = space.hash_of(pin.item(&space.memory));
    let mut ended = false;
    if let Ok(entry) = Entry::find_address(space.index.lock(hash), hash, pin.address()) {
        ended = space.invalid_reason(entry.item(), now).is_some();
        if ended {
            let class = entry.item().queue_class();
            let (stripe, removed) = entry.remove();
            space.unlink(removed);
            space.report_access(hash, AccessKind::Delete, Some(class));
            drop(stripe);
        } else {
            visit(crawled_item(space, entry.item()));
        }
    }
    space.unpin(pin);
    ended
}
