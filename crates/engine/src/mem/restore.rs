//! Taking over what another process left in the arena, chunk by chunk.
//!
//! ```text
//!   adopt         a page is its class's; all its chunks count as in use, and none can be had
//!   item          a linked item is checked against its chunk, and its bodies against it
//!     Entry::enter_restored       its table leads to it; it is in no queue yet, and nobody can pin it
//!   list          a queue is followed from its tail, over items that were entered, once each
//!   finish_page   what is no item and no body of one is free
//! ```
//!
//! No length or address from the arena is used before it was compared with the page that it leads to.

use super::chunk::UnusedPage;
use super::class_token::ClassToken;
use super::item::{FIRST_BODY_SIZE_BYTES, InHand, Item, Linked, Queued, body_address, word};
use super::list::List;
use super::memory::{Memory, Page};
use super::state::{Kind, QueueKind, State};
use super::stripe::{Entry, StripeGuard};
use crate::layout::{CHAINED, ChunkAddress, HEADER_SIZE_BYTES};
use slabwise_base::{ClassId, KEY_SIZE_BYTES_MAX, PageId};
use std::sync::Arc;

/// An invariant that what lies in the arena breaks, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The invariant.
    pub invariant: &'static str,
    /// The chunk.
    pub address: ChunkAddress,
}

/// The pages that are being taken over.
#[derive(Debug)]
pub struct Restore {
    memory: Arc<Memory>,
    /// By their numbers; `None` for pages that are not being taken over.
    pages: Vec<Option<Adopted>>,
    /// Whether a step failed, or panicked: nothing goes on from there.
    is_broken: bool,
}

/// A page as it was adopted, and which of its chunks were found to be in use.
#[derive(Debug)]
struct Adopted {
    class: ClassId,
    chunk_size_bytes: usize,
    chunk_count: u32,
    /// A bit a chunk.
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

    /// Whether a page has not changed hands since.
    fn is_still(&self, page: &Page) -> bool {
        page.owner() == Some(self.class) && page.chunk_size_bytes() == self.chunk_size_bytes
    }
}

/// An item that was checked, to be entered in its table.
#[must_use = "an item that is not entered is lost"]
#[derive(Debug)]
pub struct RestoredItem {
    address: ChunkAddress,
    memory: u32,
}

impl RestoredItem {
    pub fn item<'n>(&'n self, restore: &'n Restore) -> Item<'n, InHand> {
        assert_eq!(self.memory, restore.memory.number, "an item is of the memory being restored");
        // SAFETY: it was checked, and nobody else knows of it.
        unsafe { Item::new(&restore.memory, self.address) }
    }
}

impl<'i> Entry<'i> {
    /// Lets a stripe lead to an item that was taken over, under a key that leads to nothing.
    pub fn enter_restored(
        guard: StripeGuard<'i>,
        hash: u64,
        item: RestoredItem,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> Entry<'i> {
        let memory = guard.memory();
        assert_eq!(item.memory, memory.number, "an item enters a table of its memory");
        // SAFETY: the item was checked; this is the one right to it, and ends here.
        unsafe { Entry::enter(guard, hash, item.address, hash_of) }
    }
}

pub fn ensure(invariant: &'static str, address: ChunkAddress, holds: bool) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { invariant, address }) }
}

impl Restore {
    /// Begins with a memory of which no page was handed out.
    pub fn new(memory: &Arc<Memory>) -> Restore {
        Restore { memory: Arc::clone(memory), pages: Vec::new(), is_broken: false }
    }

    /// Takes over a page of a class.
    pub fn adopt(&mut self, class: &mut ClassToken, page: UnusedPage) -> PageId {
        page.check(&self.memory);
        let id = class.adopt(page);
        let chunk_count = class.chunks_per_page();
        // All count as in use, and none as ever handed out: nothing can be had of the page but here.
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

    /// Does a step. After one that failed there is no other.
    fn step<T>(
        &mut self,
        step: impl FnOnce(&mut Restore) -> Result<T, Broken>,
    ) -> Result<T, Broken> {
        self.check_whole();
        // Until it has succeeded: it may panic.
        self.is_broken = true;
        let done = step(self)?;
        self.is_broken = false;
        Ok(done)
    }

    fn check_whole(&self) {
        assert!(!self.is_broken, "nothing more is taken over after what was broken");
    }

    fn check_memory(&self, class: &ClassToken) {
        let is_same = std::ptr::eq(class.memory(), &*self.memory);
        assert!(is_same, "a class takes over what is of its own memory");
    }

    /// The page being taken over that a chunk lies in, and the chunk's slot; `None`: no such chunk starts here.
    fn chunk(&self, address: ChunkAddress) -> Option<(&Adopted, u32)> {
        let id = self.memory.page_of(address);
        let page = self.pages.get(id.index())?.as_ref()?;
        let slot = self.memory.slot_at(address, page.chunk_size_bytes)?;
        (slot < page.chunk_count && page.is_still(self.memory.page(id))).then_some((page, slot))
    }

    /// The state of a chunk of a page being taken over.
    pub fn state(&self, address: ChunkAddress) -> Result<State, Broken> {
        ensure("chains and queues lead over chunks", address, self.chunk(address).is_some())?;
        // SAFETY: a chunk starts here.
        let state = unsafe { self.memory.arena.header_of(address) }.state().load();
        ensure("a chunk is free, an item or a body", address, state.is_sound())?;
        Ok(state)
    }

    fn note_in_use(&mut self, address: ChunkAddress) -> Result<usize, Broken> {
        let (page, slot) = self.chunk(address).expect("a chunk starts here");
        ensure("a chunk is of one item", address, !page.is_in_use(slot))?;
        let size_bytes = page.chunk_size_bytes;
        let page = &mut self.pages[self.memory.page_of(address).index()];
        page.as_mut().expect("it was just found").set_in_use(slot);
        Ok(size_bytes)
    }

    /// The item at an address; `None`: there is no linked one. It has no pins: they were those of the last process.
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

    /// An item's chain leads over bodies of its own, which hold its value and no more. It ends: none is met twice.
    fn check_chain(
        &mut self,
        head: ChunkAddress,
        state: State,
        len_in_head: usize,
    ) -> Result<(), Broken> {
        let at = state.layout().chain();
        // SAFETY: within the chunk, as was just checked, which nobody else knows of.
        let chain = unsafe { self.memory.arena.read(head, at, 4 + FIRST_BODY_SIZE_BYTES) };
        let (value_len, mut next) = (word(&chain[..4]) as usize, body_address(&chain[4..]));
        ensure("a chained item has a body", head, len_in_head == 0 && next.is_some())?;
        let mut len = 0;
        while let Some(body) = next {
            let is_body = self.state(body)?.kind() == Kind::Body;
            ensure("a chain leads over bodies", body, is_body)?;
            let size_bytes = self.note_in_use(body)?;
            // SAFETY: a chunk starts here.
            let header = unsafe { self.memory.arena.header_of(body) };
            ensure("a body knows its item", body, header.prev() == Some(head))?;
            let fits = (1..=size_bytes - HEADER_SIZE_BYTES).contains(&header.len());
            ensure("a body's part fits its chunk", body, fits)?;
            len += header.len();
            next = header.next();
        }
        ensure("the parts make the value", head, len == value_len)
    }

    /// Follows a queue of a class from its tail. It ends: none is met twice. `visit` sees every item that was met,
    /// and counts its bytes; it may object.
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
                // Before it counts as queued, so that a link of a queued item never leads astray.
                restore.check_queued(class, queue, header.prev(), at)?;
                header.state().store(header.state().load().requeued(queue));
                // SAFETY: it is in a queue of this class, whose token is borrowed exclusively.
                bytes += visit(unsafe { Item::new(&restore.memory, address) })?;
                count += 1;
                head = at;
                at = header.prev();
            }
            // SAFETY: the items were seen to be linked so, each is of this class and in no other list.
            Ok(unsafe { List::linked(class, (head, tail), count, bytes) })
        })
    }

    /// Checks what a queue leads to, from its tail or from the item `behind`.
    fn check_queued(
        &self,
        class: &ClassToken,
        queue: QueueKind,
        at: Option<ChunkAddress>,
        behind: Option<ChunkAddress>,
    ) -> Result<(), Broken> {
        let Some(address) = at else { return Ok(()) };
        let chunk = self.chunk(address);
        ensure("a queue leads over chunks", address, chunk.is_some())?;
        let was_checked = chunk.is_some_and(|(page, slot)| page.is_in_use(slot));
        // SAFETY: a chunk starts here.
        let header = unsafe { self.memory.arena.header_of(address) };
        let state = header.state().load();
        let is_to_be_met =
            was_checked && state.kind() == Kind::Item && state.restored_queue() == Some(queue);
        ensure("an item is in the queue that it names", address, is_to_be_met)?;
        let here = self.memory.queue_class(address, state.chained()) == class.class();
        ensure("an item is queued in its class", address, here)?;
        ensure("a queue's links lead both ways", address, header.next() == behind)
    }

    /// Frees what is no item and no body of one on a page.
    pub fn finish_page(&mut self, class: &mut ClassToken, id: PageId) -> u32 {
        assert!(class.class() != CHAINED, "no page is of the class of chained items");
        self.check_memory(class);
        self.check_whole();
        let adopted = self.pages.get_mut(id.index()).and_then(Option::take);
        let adopted = adopted.expect("a page is taken over once");
        let (count, entry) = (adopted.chunk_count, class.own(id));
        let is_untouched = adopted.is_still(entry)
            && (entry.used(), entry.fresh(), entry.free_head()) == (count, 0, None);
        assert!(is_untouched, "a page is as it was adopted until it is finished");
        let fresh =
            (0..count).rev().find(|&slot| adopted.is_in_use(slot)).map_or(0, |slot| slot + 1);
        let used = adopted.in_use.iter().map(|word| word.count_ones()).sum();
        entry.set_used(used);
        entry.set_fresh(fresh);
        // Backwards, so that the lowest slots are handed out first; those behind the last one in use are fresh.
        for slot in (0..count).rev().filter(|&slot| !adopted.is_in_use(slot)) {
            // SAFETY: no item was found in it, and the list was empty.
            unsafe { class.blank(id, slot, slot < fresh) };
        }
        used
    }
}
