//! Restores the items that an earlier process wrote to the memory file. The caller makes these steps in this order:
//!
//! ```text
//!   Restore::adopt          Gives a page to its class. All chunks of the page count as in use; none can be allocated.
//!   Restore::item           Checks that an item fits into its chunk and that its bodies belong to the item.
//!   Entry::enter_restored   Inserts the item into its table. The item is in no queue yet and cannot be pinned.
//!   Restore::list           Follows the links of a queue from its tail, and puts each item into the queue.
//!   Restore::finish_page    Frees the chunks of a page that hold neither an item nor a body of an item.
//! ```
//!
//! Each step checks a length or an address from the memory file (the file of `-e`) against the bounds of the page
//! before it uses the length or the address.

use super::arena::Header;
use super::chunk::UnusedPage;
use super::class_token::ClassToken;
use super::item::{Exclusive, FIRST_BODY_SIZE_BYTES, Item, Linked, Queued, body_address, word};
use super::list::List;
use super::mapping::MappingError;
use super::memory::{Memory, Page};
use super::state::{Kind, QueueKind, State};
use super::stripe::{Entry, StripeGuard};
use crate::layout::{CHAINED, ChunkAddress, HEADER_SIZE_BYTES};
use slabwise_base::{ClassId, KEY_SIZE_BYTES_MAX, PageId};
use std::sync::Arc;

/// The error of a restore: the bytes of the memory file break an invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The broken invariant, as a sentence that should be true.
    pub invariant: &'static str,
    /// The address of the chunk at which the invariant was checked.
    pub address: ChunkAddress,
}

/// Where a restore records that it has checked an item, and put it into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marks {
    /// In the states of the items. A checked item is in no queue until its queue is restored, also for code outside of the
    /// restore.
    InStates,
    /// In the restore, which writes nothing until [`Restore::allow_writes`], because the earlier process may still need
    /// the memory.
    Beside,
}

/// A restore in progress.
#[derive(Debug)]
pub struct Restore {
    memory: Arc<Memory>,
    marks: Marks,
    /// With [`Marks::Beside`]: the items that have pins of the earlier process.
    pinned: Vec<ChunkAddress>,
    /// One entry per page, in the order of page numbers: `None` if the page is not being restored.
    pages: Vec<Option<AdoptedPage>>,
    /// True if a step failed or panicked. Then every further step panics.
    is_broken: bool,
}

/// A page that is being restored: its owner and chunk size when it was adopted, and the chunks that hold an item or a
/// body.
#[derive(Debug)]
struct AdoptedPage {
    class: ClassId,
    chunk_size_bytes: usize,
    /// The number of chunks of the page.
    chunk_count: u32,
    /// 1 if [`Restore::item`] has found an item or a body in the chunk.
    in_use: SlotBits,
    /// With [`Marks::Beside`]: 1 if [`Restore::list`] has put the item in the chunk into a queue.
    queued: SlotBits,
}

/// One bit per slot of a page, 64 slots per word.
#[derive(Debug, Default)]
struct SlotBits(Vec<u64>);

impl SlotBits {
    fn new(chunk_count: u32) -> SlotBits {
        SlotBits(vec![0; chunk_count.div_ceil(u64::BITS) as usize])
    }

    fn is_set(&self, slot: u32) -> bool {
        self.0[(slot / u64::BITS) as usize] & 1 << (slot % u64::BITS) != 0
    }

    fn set(&mut self, slot: u32) {
        self.0[(slot / u64::BITS) as usize] |= 1 << (slot % u64::BITS);
    }

    /// Returns the number of bits that are set.
    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

impl AdoptedPage {
    /// Returns true if the page still has the owner and the chunk size with which it was adopted.
    fn is_unchanged(&self, page: &Page) -> bool {
        page.owner() == Some(self.class) && page.chunk_size_bytes() == self.chunk_size_bytes
    }
}

/// An item that [`Restore::item`] has checked, and that is not in a table yet.
#[must_use = "a restored item is lost unless it is inserted into a table"]
#[derive(Debug)]
pub struct RestoredItem {
    address: ChunkAddress,
    /// The number of the memory.
    memory: u32,
}

impl RestoredItem {
    /// Returns an [`Item`] to read the item.
    pub fn item<'n>(&'n self, restore: &'n Restore) -> Item<'n, Exclusive> {
        assert_eq!(self.memory, restore.memory.number, "the item belongs to the restored memory");
        // SAFETY: `Restore::item` has checked the item. Only this `RestoredItem` has access to the item, and the `Item`
        // borrows the `RestoredItem`.
        unsafe { Item::new(&restore.memory, self.address) }
    }
}

impl<'i> Entry<'i> {
    /// Inserts a restored item, whose key must not be in the table. `hash_of` must return the hash of any item of the
    /// table.
    pub fn enter_restored(
        guard: StripeGuard<'i>,
        hash: u64,
        item: RestoredItem,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> Entry<'i> {
        let memory = guard.memory();
        assert_eq!(item.memory, memory.number, "an item enters a table of its own memory");
        // SAFETY: `Restore::item` has checked the item, which is in no table. Only the `RestoredItem` had access to the
        // item, and the `RestoredItem` ends here.
        unsafe { Entry::enter(guard, hash, item.address, hash_of) }
    }
}

/// Returns an error with the invariant and the address unless `holds` is true.
pub fn ensure(invariant: &'static str, address: ChunkAddress, holds: bool) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { invariant, address }) }
}

impl Restore {
    /// Begins the restore of a memory. No page of this memory was handed out before.
    pub fn new(memory: &Arc<Memory>) -> Restore {
        Restore::with(memory, Marks::InStates)
    }

    /// Begins a restore that only reads the memory, until [`Restore::allow_writes`].
    ///
    /// Until all queues are restored, the caller must neither remove an item from a table nor change a queue: the links
    /// of an item are checked only when its queue is restored, and its state does not show this. As with
    /// [`Arena::of_file`](super::Arena::of_file), this precondition of `mem` for safe code is not checked. The cache of
    /// the items is private to the restore until then.
    pub fn read_only(memory: &Arc<Memory>) -> Restore {
        Restore::with(memory, Marks::Beside)
    }

    fn with(memory: &Arc<Memory>, marks: Marks) -> Restore {
        let memory = Arc::clone(memory);
        Restore { memory, marks, pinned: Vec::new(), pages: Vec::new(), is_broken: false }
    }

    /// Allows writes to the memory, and removes the pins of the earlier process. The caller finishes the pages afterwards.
    pub fn allow_writes(&mut self) -> Result<(), MappingError> {
        self.check_unbroken();
        if self.marks == Marks::InStates {
            return Ok(());
        }
        self.memory.arena.allow_writes()?;
        for address in self.pinned.drain(..) {
            // SAFETY: `check_item` has checked that a chunk with an item starts at the address.
            let state = unsafe { self.memory.arena.header_of(address) }.state();
            state.store(state.load().unpinned());
        }
        Ok(())
    }

    /// Gives a page to its class and begins to restore the page.
    pub fn adopt(&mut self, class: &mut ClassToken, page: UnusedPage) -> PageId {
        page.check(&self.memory);
        let id = class.adopt(page);
        let chunk_count = class.chunks_per_page();
        // All chunks of the page count as in use, so none can be allocated. All count as fresh, so the class finds no
        // chunk at any address of the page.
        class.own(id).set_used(chunk_count);
        if self.pages.len() <= id.index() {
            self.pages.resize_with(id.index() + 1, || None);
        }
        self.pages[id.index()] = Some(AdoptedPage {
            class: class.class(),
            chunk_size_bytes: class.chunk_size_bytes(),
            chunk_count,
            in_use: SlotBits::new(chunk_count),
            queued: match self.marks {
                Marks::InStates => SlotBits::default(),
                Marks::Beside => SlotBits::new(chunk_count),
            },
        });
        id
    }

    /// Runs a step of the restore. Panics if an earlier step failed or panicked.
    fn step<T>(
        &mut self,
        step: impl FnOnce(&mut Restore) -> Result<T, Broken>,
    ) -> Result<T, Broken> {
        self.check_unbroken();
        // The mark is set during the step, so that it stays set if the step panics.
        self.is_broken = true;
        let output = step(self)?;
        self.is_broken = false;
        Ok(output)
    }

    /// Panics if an earlier step failed or panicked.
    fn check_unbroken(&self) {
        assert!(!self.is_broken, "no step of a restore follows a step that failed");
    }

    /// Panics if the class belongs to another memory than the one being restored.
    fn check_memory(&self, class: &ClassToken) {
        let is_same = std::ptr::eq(class.memory(), &*self.memory);
        assert!(is_same, "the class belongs to the restored memory");
    }

    /// Returns the page and the slot of the chunk at `address`, or `None` if no chunk of a page that is being restored
    /// starts there.
    fn chunk(&self, address: ChunkAddress) -> Option<(&AdoptedPage, u32)> {
        let id = self.memory.page_of(address);
        let page = self.pages.get(id.index())?.as_ref()?;
        let slot = self.memory.slot_at(address, page.chunk_size_bytes)?;
        (slot < page.chunk_count && page.is_unchanged(self.memory.page(id))).then_some((page, slot))
    }

    /// Returns the state of the chunk at `address`. Fails if no chunk of a page that is being restored starts there, or
    /// if its state word is invalid.
    pub fn state(&self, address: ChunkAddress) -> Result<State, Broken> {
        ensure("a chunk starts at each linked address", address, self.chunk(address).is_some())?;
        // SAFETY: the line above has checked that a chunk starts at the address.
        let state = unsafe { self.memory.arena.header_of(address) }.state().load();
        ensure("the state of a chunk is free, an item or a body", address, state.is_valid())?;
        Ok(state)
    }

    /// Marks the chunk at `address`, which must be in a page that is being restored, as in use. Returns the size of the
    /// chunk. Fails if the chunk is already marked.
    fn mark_in_use(&mut self, address: ChunkAddress) -> Result<usize, Broken> {
        let (page, slot) = self.chunk(address).expect("a chunk starts at the address");
        ensure("a chunk belongs to one item only", address, !page.in_use.is_set(slot))?;
        let size_bytes = page.chunk_size_bytes;
        let page = &mut self.pages[self.memory.page_of(address).index()];
        page.as_mut().expect("the page is being restored").in_use.set(slot);
        Ok(size_bytes)
    }

    /// Checks the item at `address` and its bodies. Returns `None` if the chunk holds no linked item. The pins that the
    /// item had in the earlier process are removed.
    pub fn item(&mut self, address: ChunkAddress) -> Result<Option<RestoredItem>, Broken> {
        self.step(|restore| restore.check_item(address))
    }

    fn check_item(&mut self, address: ChunkAddress) -> Result<Option<RestoredItem>, Broken> {
        let state = self.state(address)?;
        if state.kind() != Kind::Item || !state.linked() {
            return Ok(None);
        }
        let size_bytes = self.mark_in_use(address)?;
        // SAFETY: `state` has checked that a chunk starts at the address.
        let header = unsafe { self.memory.arena.header_of(address) };
        let len = header.len();
        ensure("a linked item is in a queue", address, state.queued())?;
        let has_key = (1..=KEY_SIZE_BYTES_MAX).contains(&state.key_len());
        ensure("a key has 1 to 250 bytes", address, has_key)?;
        let fits = state.layout().value() + len <= size_bytes;
        ensure("an item fits into its chunk", address, fits)?;
        if state.chained() {
            self.check_chain(address, state, len)?;
        }
        match self.marks {
            Marks::InStates => {
                // SAFETY: `state` has checked that a chunk starts at the address.
                let header = unsafe { self.memory.arena.header_of(address) };
                header.state().store(state.restored());
            }
            Marks::Beside if state != state.unpinned() => self.pinned.push(address),
            Marks::Beside => {}
        }
        Ok(Some(RestoredItem { address, memory: self.memory.number }))
    }

    /// Checks that the chain of an item links only bodies of this item, and that their parts add up to the value. A
    /// chain that forms a circle fails, because no chunk can be marked as in use twice.
    fn check_chain(
        &mut self,
        head: ChunkAddress,
        state: State,
        len_in_head: usize,
    ) -> Result<(), Broken> {
        let at = state.layout().chain();
        // SAFETY: the caller has checked that the chain field is within the chunk, and no other thread has access to
        // the chunk.
        let chain = unsafe { self.memory.arena.read(head, at, 4 + FIRST_BODY_SIZE_BYTES) };
        let (value_len, mut next) = (word(&chain[..4]) as usize, body_address(&chain[4..]));
        let has_body = len_in_head == 0 && next.is_some();
        ensure("a chained item has its value in bodies", head, has_body)?;
        let mut len = 0;
        while let Some(body) = next {
            let is_body = self.state(body)?.kind() == Kind::Body;
            ensure("a chunk of a chain is a body", body, is_body)?;
            let size_bytes = self.mark_in_use(body)?;
            // SAFETY: `state` has checked that a chunk starts at the address.
            let header = unsafe { self.memory.arena.header_of(body) };
            let is_own = header.prev() == Some(head);
            ensure("a body links to its item's first chunk", body, is_own)?;
            let fits = (1..=size_bytes - HEADER_SIZE_BYTES).contains(&header.len());
            ensure("the part of the value in a body fits into its chunk", body, fits)?;
            len += header.len();
            next = header.next();
        }
        let is_whole = len == value_len;
        ensure("the lengths of the parts add up to the length of the value", head, is_whole)
    }

    /// Restores a queue of a class: follows its links from the item at `tail`, and puts each item into the queue. Calls
    /// `visit` with each item. `visit` can check the item, and returns the item's size as the caller counts it. Links
    /// that form a circle fail, because this function rejects an item that is already in the queue.
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
            let memory = Arc::clone(&restore.memory);
            while let Some(address) = at {
                // SAFETY: `check_queued` has checked that a chunk starts at the address.
                let header = unsafe { memory.arena.header_of(address) };
                // The neighbour is checked before the item's state becomes queued, because other code relies on the
                // links of an item whose state is queued.
                restore.check_queued(class, queue, header.prev(), at)?;
                restore.mark_queued(address, header, queue);
                // SAFETY: the item is in a queue of this class, whose token is borrowed exclusively.
                bytes += visit(unsafe { Item::new(&restore.memory, address) })?;
                count += 1;
                head = at;
                at = header.prev();
            }
            // SAFETY: `check_queued` has checked the links and the class of each item. Each item became queued here, so
            // it is in no other list.
            Ok(unsafe { List::linked(class, (head, tail), count, bytes) })
        })
    }

    /// Records that an item, which [`Restore::check_queued`] has checked, is in its queue.
    fn mark_queued(&mut self, address: ChunkAddress, header: Header<'_>, queue: QueueKind) {
        match self.marks {
            Marks::InStates => header.state().store(header.state().load().requeued(queue)),
            Marks::Beside => {
                let (_, slot) = self.chunk(address).expect("a chunk starts at the address");
                let page = self.pages[self.memory.page_of(address).index()].as_mut();
                page.expect("the page is being restored").queued.set(slot);
            }
        }
    }

    /// Checks the item at `at`, before it is put into a queue of the class. `toward_tail` is its neighbour toward the
    /// queue's tail, or `None` if the item itself is at the tail. If `at` is `None`, there is nothing to check.
    fn check_queued(
        &self,
        class: &ClassToken,
        queue: QueueKind,
        at: Option<ChunkAddress>,
        toward_tail: Option<ChunkAddress>,
    ) -> Result<(), Broken> {
        let Some(address) = at else { return Ok(()) };
        let chunk = self.chunk(address);
        ensure("a queue links only chunks", address, chunk.is_some())?;
        let was_checked = chunk.is_some_and(|(page, slot)| page.in_use.is_set(slot));
        // SAFETY: the lines above have checked that a chunk starts at the address.
        let header = unsafe { self.memory.arena.header_of(address) };
        let state = header.state().load();
        let is_in_this_queue = match self.marks {
            Marks::InStates => state.restored_queue() == Some(queue),
            Marks::Beside => {
                let is_new = chunk.is_some_and(|(page, slot)| !page.queued.is_set(slot));
                is_new && state == state.requeued(queue).with_pins_of(state)
            }
        };
        let is_expected = was_checked && state.kind() == Kind::Item && is_in_this_queue;
        ensure("a queue links only items whose state names this queue", address, is_expected)?;
        let here = self.memory.queue_class(address, state.chained()) == class.class();
        ensure("an item is in a queue of its own class", address, here)?;
        let is_linked_back = header.next() == toward_tail;
        ensure("two neighbours in a queue link to each other", address, is_linked_back)
    }

    /// Ends the restore of a page: frees the chunks in which [`Restore::item`] has found neither an item nor a body.
    /// Returns the number of chunks in use.
    pub fn finish_page(&mut self, class: &mut ClassToken, id: PageId) -> u32 {
        assert!(class.class() != CHAINED, "the class of chained items has no pages");
        self.check_memory(class);
        self.check_unbroken();
        let adopted = self.pages.get_mut(id.index()).and_then(Option::take);
        let adopted = adopted.expect("the page was adopted and is not finished yet");
        let (count, entry) = (adopted.chunk_count, class.own(id));
        let is_untouched = adopted.is_unchanged(entry)
            && (entry.used(), entry.fresh(), entry.free_head()) == (count, 0, None);
        assert!(is_untouched, "an adopted page does not change until it is finished");
        let fresh =
            (0..count).rev().find(|&slot| adopted.in_use.is_set(slot)).map_or(0, |slot| slot + 1);
        let used = adopted.in_use.count();
        entry.set_used(used);
        entry.set_fresh(fresh);
        // A freed chunk is put at the head of the free list. The loop runs backwards, so that the lowest slot is
        // allocated first. The slots after the last chunk in use are fresh and not on the free list.
        for slot in (0..count).rev().filter(|&slot| !adopted.in_use.is_set(slot)) {
            // SAFETY: the chunk holds neither an item that `Restore::item` has checked nor a body of such an item. The
            // free list was empty before the loop.
            unsafe { class.mark_free(id, slot, slot < fresh) };
        }
        used
    }
}
