//! Restores the items that another process left in the arena.
//!
//! ```text
//!   adopt         gives a page to its class; all its chunks count as in use, and none can be allocated
//!   item          checks a linked item against its chunk, and its bodies against the item
//!     Entry::enter_restored       inserts it into its table; it is in no queue yet and cannot be pinned
//!   list          follows a queue from its tail over items that were entered, each once
//!   finish_page   frees the chunks that hold neither an item nor a body of one
//! ```
//!
//! Every length and address from the arena is checked against the bounds of its page before it is used.

use super::chunk::UnusedPage;
use super::class_token::ClassToken;
use super::item::{Exclusive, FIRST_BODY_SIZE_BYTES, Item, Linked, Queued, body_address, word};
use super::list::List;
use super::memory::{Memory, Page};
use super::state::{Kind, QueueKind, State};
use super::stripe::{Entry, StripeGuard};
use crate::layout::{CHAINED, ChunkAddress, HEADER_SIZE_BYTES};
use slabwise_base::{ClassId, KEY_SIZE_BYTES_MAX, PageId};
use std::sync::Arc;

/// An invariant that the bytes of the arena break, and the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    pub invariant: &'static str,
    pub address: ChunkAddress,
}

/// A restore in progress.
#[derive(Debug)]
pub struct Restore {
    memory: Arc<Memory>,
    /// By page id; `None` for pages that are not being restored.
    pages: Vec<Option<Adopted>>,
    /// True if a step failed or panicked; there are no further steps.
    is_broken: bool,
}

/// A page as it was adopted, and the chunks that were found to be in use.
#[derive(Debug)]
struct Adopted {
    class: ClassId,
    chunk_size_bytes: usize,
    chunk_count: u32,
    /// One bit per chunk.
    in_use: Vec<u64>,
}

impl Adopted {
    fn place_of(slot: u32) -> (usize, u64) {
        ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
    }

    fn is_in_use(&self, slot: u32) -> bool {
        let (word, bit) = Adopted::place_of(slot);
        self.in_use[word] & bit != 0
    }

    fn set_in_use(&mut self, slot: u32) {
        let (word, bit) = Adopted::place_of(slot);
        self.in_use[word] |= bit;
    }

    /// True if the page still has its class and its chunk size.
    fn is_still(&self, page: &Page) -> bool {
        page.owner() == Some(self.class) && page.chunk_size_bytes() == self.chunk_size_bytes
    }
}

/// A checked item, to be inserted into its table.
#[must_use = "an item that is not inserted is lost"]
#[derive(Debug)]
pub struct RestoredItem {
    address: ChunkAddress,
    memory: u32,
}

impl RestoredItem {
    pub fn item<'n>(&'n self, restore: &'n Restore) -> Item<'n, Exclusive> {
        assert_eq!(self.memory, restore.memory.number, "an item belongs to the restored memory");
        // SAFETY: it was checked, and nobody else has its address.
        unsafe { Item::new(&restore.memory, self.address) }
    }
}

impl<'i> Entry<'i> {
    /// Inserts a restored item, whose key must not be in the table.
    pub fn enter_restored(
        guard: StripeGuard<'i>,
        hash: u64,
        item: RestoredItem,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> Entry<'i> {
        let memory = guard.memory();
        assert_eq!(item.memory, memory.number, "an item enters a table of its memory");
        // SAFETY: the item was checked; only this value has access to it, and it ends here.
        unsafe { Entry::enter(guard, hash, item.address, hash_of) }
    }
}

pub fn ensure(invariant: &'static str, address: ChunkAddress, holds: bool) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { invariant, address }) }
}

impl Restore {
    /// Begins the restore of a memory of which no page was handed out.
    pub fn new(memory: &Arc<Memory>) -> Restore {
        Restore { memory: Arc::clone(memory), pages: Vec::new(), is_broken: false }
    }

    /// Gives a page to its class.
    pub fn adopt(&mut self, class: &mut ClassToken, page: UnusedPage) -> PageId {
        page.check(&self.memory);
        let id = class.adopt(page);
        let chunk_count = class.chunks_per_page();
        // All chunks count as in use, and none as handed out, so none can be allocated or freed meanwhile.
        class.own(id).set_used(chunk_count);
        if self.pages.len() <= id.index() {
            self.pages.resize_with(id.index() + 1, || None);
        }
        self.pages[id.index()] = Some(Adopted {
            class: class.class(),
            chunk_size_bytes: class.chunk_size_bytes(),
            chunk_count,
            in_use: vec![0; chunk_count.div_ceil(u64::BITS) as usize],
        });
        id
    }

    /// Runs a step. Panics if an earlier step failed.
    fn step<T>(
        &mut self,
        step: impl FnOnce(&mut Restore) -> Result<T, Broken>,
    ) -> Result<T, Broken> {
        self.check_whole();
        // Set before the step, because it may panic.
        self.is_broken = true;
        let done = step(self)?;
        self.is_broken = false;
        Ok(done)
    }

    fn check_whole(&self) {
        assert!(!self.is_broken, "a restore ends at the first broken invariant");
    }

    fn check_memory(&self, class: &ClassToken) {
        let is_same = std::ptr::eq(class.memory(), &*self.memory);
        assert!(is_same, "a class restores chunks of its own memory");
    }

    /// The page and the slot of the chunk at `address`; `None` if no chunk of a page being restored starts there.
    fn chunk(&self, address: ChunkAddress) -> Option<(&Adopted, u32)> {
        let id = self.memory.page_of(address);
        let page = self.pages.get(id.index())?.as_ref()?;
        let slot = self.memory.slot_at(address, page.chunk_size_bytes)?;
        (slot < page.chunk_count && page.is_still(self.memory.page(id))).then_some((page, slot))
    }

    /// The state of a chunk of a page being restored.
    pub fn state(&self, address: ChunkAddress) -> Result<State, Broken> {
        ensure("chains and queues link chunks", address, self.chunk(address).is_some())?;
        // SAFETY: a chunk starts here.
        let state = unsafe { self.memory.arena.header_of(address) }.state().load();
        ensure("a chunk is free, an item or a body", address, state.is_sound())?;
        Ok(state)
    }

    fn note_in_use(&mut self, address: ChunkAddress) -> Result<usize, Broken> {
        let (page, slot) = self.chunk(address).expect("a chunk starts here");
        ensure("a chunk belongs to one item", address, !page.is_in_use(slot))?;
        let size_bytes = page.chunk_size_bytes;
        let page = &mut self.pages[self.memory.page_of(address).index()];
        page.as_mut().expect("it was just found").set_in_use(slot);
        Ok(size_bytes)
    }

    /// Checks the item at an address; `None` if there is no linked item. Pins of the last process are dropped.
    pub fn item(&mut self, address: ChunkAddress) -> Result<Option<RestoredItem>, Broken> {
        self.step(|restore| restore.check_item(address))
    }

    fn check_item(&mut self, address: ChunkAddress) -> Result<Option<RestoredItem>, Broken> {
        let state = self.state(address)?;
        if state.kind() != Kind::Item || !state.linked() {
            return Ok(None);
        }
        let size_bytes = self.note_in_use(address)?;
        // SAFETY: a chunk starts here.
        let header = unsafe { self.memory.arena.header_of(address) };
        let len = header.len();
        ensure("a linked item is queued", address, state.queued())?;
        let has_key = (1..=KEY_SIZE_BYTES_MAX).contains(&state.key_len());
        ensure("a key has 1 to 250 bytes", address, has_key)?;
        let fits = state.layout().value() + len <= size_bytes;
        ensure("an item fits its chunk", address, fits)?;
        if state.chained() {
            self.check_chain(address, state, len)?;
        }
        // SAFETY: as above.
        unsafe { self.memory.arena.header_of(address) }.state().store(state.restored());
        Ok(Some(RestoredItem { address, memory: self.memory.number }))
    }

    /// Checks that an item's chain links bodies of this item that add up to its value. It ends, because each chunk is
    /// visited once.
    fn check_chain(
        &mut self,
        head: ChunkAddress,
        state: State,
        len_in_head: usize,
    ) -> Result<(), Broken> {
        let at = state.layout().chain();
        // SAFETY: within the chunk, as was just checked, whose address nobody else has.
        let chain = unsafe { self.memory.arena.read(head, at, 4 + FIRST_BODY_SIZE_BYTES) };
        let (value_len, mut next) = (word(&chain[..4]) as usize, body_address(&chain[4..]));
        ensure("a chained item has a body", head, len_in_head == 0 && next.is_some())?;
        let mut len = 0;
        while let Some(body) = next {
            let is_body = self.state(body)?.kind() == Kind::Body;
            ensure("a chain links bodies", body, is_body)?;
            let size_bytes = self.note_in_use(body)?;
            // SAFETY: a chunk starts here.
            let header = unsafe { self.memory.arena.header_of(body) };
            ensure("a body links to its item", body, header.prev() == Some(head))?;
            let fits = (1..=size_bytes - HEADER_SIZE_BYTES).contains(&header.len());
            ensure("a body's part fits its chunk", body, fits)?;
            len += header.len();
            next = header.next();
        }
        ensure("the parts add up to the value", head, len == value_len)
    }

    /// Follows a queue of a class from its tail. It ends, because each item is visited once. `visit` checks an item and
    /// returns its counted bytes.
    pub fn list(
        &mut self,
        class: &mut ClassToken,
        (tail, queue): (Option<ChunkAddress>, QueueKind),
        mut visit: impl FnMut(Queued<'_>) -> Result<u64, Broken>,
    ) -> Result<List, Broken> {
        self.check_memory(class);
        self.step(|restore| {
            let (mut head, mut at) = (None, tail);
            let (mut count, mut bytes) = (0, 0);
            restore.check_queued(class, queue, tail, None)?;
            while let Some(address) = at {
                // SAFETY: a chunk starts here, as was checked.
                let header = unsafe { restore.memory.arena.header_of(address) };
                // Before the state becomes queued, because the links of a queued item are trusted.
                restore.check_queued(class, queue, header.prev(), at)?;
                header.state().store(header.state().load().requeued(queue));
                // SAFETY: it is in a queue of this class, whose token is borrowed exclusively.
                bytes += visit(unsafe { Item::new(&restore.memory, address) })?;
                count += 1;
                head = at;
                at = header.prev();
            }
            // SAFETY: the items were checked to be linked so, each is of this class and in no other list.
            Ok(unsafe { List::linked(class, (head, tail), count, bytes) })
        })
    }

    /// Checks the next item of a queue, which is linked from the queue's tail or from its neighbour `toward_tail`.
    fn check_queued(
        &self,
        class: &ClassToken,
        queue: QueueKind,
        at: Option<ChunkAddress>,
        toward_tail: Option<ChunkAddress>,
    ) -> Result<(), Broken> {
        let Some(address) = at else { return Ok(()) };
        let chunk = self.chunk(address);
        ensure("a queue links chunks", address, chunk.is_some())?;
        let was_checked = chunk.is_some_and(|(page, slot)| page.is_in_use(slot));
        // SAFETY: a chunk starts here.
        let header = unsafe { self.memory.arena.header_of(address) };
        let state = header.state().load();
        let is_expected =
            was_checked && state.kind() == Kind::Item && state.restored_queue() == Some(queue);
        ensure("an item is in the queue of its state", address, is_expected)?;
        let here = self.memory.queue_class(address, state.chained()) == class.class();
        ensure("an item is queued in its class", address, here)?;
        ensure("a queue's links lead both ways", address, header.next() == toward_tail)
    }

    /// Frees the chunks of a page that hold neither an item nor a body of one. Returns the number of chunks in use.
    pub fn finish_page(&mut self, class: &mut ClassToken, id: PageId) -> u32 {
        assert!(class.class() != CHAINED, "the class of chained items has no pages");
        self.check_memory(class);
        self.check_whole();
        let adopted = self.pages.get_mut(id.index()).and_then(Option::take);
        let adopted = adopted.expect("a page is restored once");
        let (count, entry) = (adopted.chunk_count, class.own(id));
        let is_untouched = adopted.is_still(entry)
            && (entry.used(), entry.fresh(), entry.free_head()) == (count, 0, None);
        assert!(is_untouched, "an adopted page is unchanged until it is finished");
        let fresh =
            (0..count).rev().find(|&slot| adopted.is_in_use(slot)).map_or(0, |slot| slot + 1);
        let used = adopted.in_use.iter().map(|word| word.count_ones()).sum();
        entry.set_used(used);
        entry.set_fresh(fresh);
        // Backwards, so that the lowest slots are handed out first. Those after the last one in use are fresh.
        for slot in (0..count).rev().filter(|&slot| !adopted.is_in_use(slot)) {
            // SAFETY: no item was found in it, and the list was empty.
            unsafe { class.blank(id, slot, slot < fresh) };
        }
        used
    }
}
