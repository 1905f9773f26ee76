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
use super::memory::Memory;
use super::state::{Kind, QueueKind, State};
use super::stripe::{Entry, StripeGuard};
use crate::layout::{CHAINED, ChunkAddress, HEADER_SIZE_BYTES};
use slabwise_base::{KEY_SIZE_BYTES_MAX, PageId};
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
    /// By page, which of its chunks were found to be in use; empty for pages that are not being taken over.
    in_use: Vec<Vec<bool>>,
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

    /// The queue that it is to be met in.
    pub fn queue(&self, restore: &Restore) -> QueueKind {
        let state = self.item(restore).state();
        state.restored_queue().expect("its state says so until it is met there")
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
        Restore { memory: Arc::clone(memory), in_use: Vec::new() }
    }

    /// Takes over a page of a class.
    pub fn adopt(&mut self, class: &mut ClassToken, page: UnusedPage) -> PageId {
        page.check(&self.memory);
        let id = class.adopt(page);
        let count = class.chunks_per_page();
        // All count as in use, and none as ever handed out: nothing can be had of the page but here.
        class.own(id).set_used(count);
        if self.in_use.len() <= id.index() {
            self.in_use.resize_with(id.index() + 1, Vec::new);
        }
        self.in_use[id.index()] = vec![false; count as usize];
        id
    }

    /// The size of the chunk of a page being taken over, and its place among those noted; `None`: no such chunk
    /// starts here.
    fn chunk(&self, address: ChunkAddress) -> Option<(usize, (usize, usize))> {
        let page = self.memory.page_of(address).index();
        let count = self.in_use.get(page).filter(|slots| !slots.is_empty())?.len();
        let size_bytes = self.memory.page_entry(address).chunk_size_bytes();
        let slot = self.memory.slot_at(address, size_bytes)? as usize;
        (slot < count).then_some((size_bytes, (page, slot)))
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
        let (size_bytes, (page, slot)) = self.chunk(address).expect("a chunk starts here");
        let was_noted = std::mem::replace(&mut self.in_use[page][slot], true);
        ensure("a chunk is of one item", address, !was_noted)?;
        Ok(size_bytes)
    }

    /// The item at an address; `None`: there is no linked one. It has no pins: they were those of the last process.
    pub fn item(&mut self, address: ChunkAddress) -> Result<Option<RestoredItem>, Broken> {
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
        &self,
        class: &mut ClassToken,
        (tail, queue): (Option<ChunkAddress>, QueueKind),
        mut visit: impl FnMut(Queued<'_>) -> Result<u64, Broken>,
    ) -> Result<List, Broken> {
        let (mut head, mut at) = (None, tail);
        let (mut count, mut bytes) = (0, 0);
        while let Some(address) = at {
            ensure("a queue leads over chunks", address, self.chunk(address).is_some())?;
            // SAFETY: a chunk starts here.
            let header = unsafe { self.memory.arena.header_of(address) };
            let state = header.state().load();
            let is_to_be_met = state.kind() == Kind::Item && state.restored_queue() == Some(queue);
            ensure("an item is in the queue that it names", address, is_to_be_met)?;
            let here = self.memory.queue_class(address, state.chained()) == class.class();
            ensure("an item is queued in its class", address, here)?;
            ensure("a queue's links lead both ways", address, header.next() == head)?;
            header.state().store(state.requeued(queue));
            // SAFETY: it is in a queue of this class, whose token is borrowed exclusively.
            bytes += visit(unsafe { Item::new(&self.memory, address) })?;
            count += 1;
            head = Some(address);
            at = header.prev();
        }
        // SAFETY: the items were seen to be linked so, each is of this class and in no other list.
        Ok(unsafe { List::linked(class, (head, tail), count, bytes) })
    }

    /// Frees what is no item and no body of one on a page.
    pub fn finish_page(&mut self, class: &mut ClassToken, id: PageId) -> u32 {
        assert!(class.class() != CHAINED, "no page is of the class of chained items");
        let in_use = self.in_use.get_mut(id.index()).map(std::mem::take).unwrap_or_default();
        assert!(!in_use.is_empty(), "a page is taken over once");
        let fresh = in_use.iter().rposition(|&used| used).map_or(0, |last| last + 1);
        let used = in_use.iter().filter(|&&used| used).count();
        let entry = class.own(id);
        entry.set_used(used as u32);
        entry.set_fresh(fresh as u32);
        entry.set_free_head(None);
        // Backwards, so that the lowest slots are handed out first; those behind the last one in use are fresh.
        for slot in (0..in_use.len()).rev().filter(|&slot| !in_use[slot]) {
            // SAFETY: no item was found in it, and the list was emptied.
            unsafe { class.blank(id, slot as u32, slot < fresh) };
        }
        used as u32
    }
}
