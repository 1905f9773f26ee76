//! Takes over those parts of a cache that are not in its arena from another process: the entries of pages, the lists and
//! the tables. The old process reads them as plain numbers, and the new one makes them again, in this order:
//!
//! ```text
//!   old process                       new process, which has mapped the arena
//!   PageImage::of        --numbers--> Takeover::page    gives a page to its class, with its free chunks
//!   List::image          --numbers--> Takeover::list    a queue; its links are in the arena
//!   LockedTables::counts --numbers--> LockedTables::resume   the buckets of all tables
//!   LockedTables::bytes  ---bytes---'
//!                                     Takeover::allow_writes
//!                                     Takeover::unpin, Takeover::reclaim   what the old process has held
//! ```
//!
//! A precondition of these functions for safe code is not checked, as with [`Arena::of_file`](super::Arena::of_file): the
//! numbers and the buckets describe the mapped arena. They come from a process of the same user whose program has the same
//! layout, and since that process has read them, no thread has changed them or the arena. What is checked here finds
//! numbers that were mixed up or cut off: every address is in a page that was used, and no number is beyond its limit.

use super::buckets::{bytes_of_all, bytes_of_all_mut, has_no_address_above};
use super::chunk::{OwnedChunk, UnusedPage};
use super::class_token::ClassToken;
use super::list::{List, ListImage};
use super::mapping::MappingError;
use super::memory::{Memory, Page, PageState};
use super::restore::{Broken, ensure};
use super::state::Kind;
use super::stripe::StripeGuard;
use super::table::TableCounts;
use crate::layout::{CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, ChunkAddress};
use slabwise_base::{ClassId, PageId};
use std::io;
use std::sync::Arc;

/// The entry of a page that a class owns and that is not draining, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageImage {
    pub owner: ClassId,
    /// The number of chunks in use.
    pub used: u32,
    /// The first slot of the free list.
    pub free_head: Option<u32>,
    /// The first slot that was not allocated since the class got the page.
    pub fresh: u32,
    /// The number of pages that the class had taken before this one.
    pub taken_as: u64,
}

impl PageImage {
    /// Returns the entry of a page. `None`: no class owns the page, or it is draining. The caller prevents changes.
    pub fn of(page: &Page) -> Option<PageImage> {
        let owner = page.owner().filter(|_| page.state() == PageState::Owned)?;
        let (used, free_head, fresh) = (page.used(), page.free_head(), page.fresh());
        Some(PageImage { owner, used, free_head, fresh, taken_as: page.taken_as() })
    }
}

/// The tables of all stripes of an index. All stripes are locked.
pub struct LockedTables<'g, 'i>(&'g mut [StripeGuard<'i>]);

impl<'g, 'i> LockedTables<'g, 'i> {
    /// `guards` must have every stripe of the index, in order.
    pub fn new(guards: &'g mut [StripeGuard<'i>]) -> LockedTables<'g, 'i> {
        LockedTables(guards)
    }

    /// Returns the numbers of each table that are not in its buckets.
    pub fn counts(&self) -> Vec<TableCounts> {
        self.0.iter().map(|stripe| stripe.table().counts()).collect()
    }

    /// Calls `visit` with the bytes of the buckets, and of the overflow buckets, of all tables. Every table has the largest
    /// number of buckets of a table here. The buckets beyond its own number are empty.
    pub fn visit_bytes(&self, mut visit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        (0..2).try_for_each(|kind| {
            let all: Vec<_> = self.0.iter().map(|it| it.table().buckets()[kind]).collect();
            visit(bytes_of_all(&all))
        })
    }

    /// Makes the tables of another process, whose arena is mapped. `fill` writes the bytes that
    /// [`LockedTables::visit_bytes`] has returned there. The tables must be empty. After an error, they must not be used.
    pub fn resume(
        &mut self,
        takeover: &Takeover,
        counts: &[TableCounts],
        mut fill: impl FnMut(&mut [u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, Broken> {
        let at = ChunkAddress::from_offset(0);
        ensure("each stripe has a table", at, counts.len() == self.0.len())?;
        for (kind, of) in
            [|it: &TableCounts| it.home, |it: &TableCounts| it.overflow].into_iter().enumerate()
        {
            let count_max = counts.iter().map(of).max().unwrap_or(0);
            let capacity = self.0.first().map_or(0, |it| it.table().buckets()[kind].capacity());
            ensure("a table has at most the largest number of buckets", at, count_max <= capacity)?;
            let mut all: Vec<_> = self
                .0
                .iter_mut()
                .map(|it| it.table_mut().buckets_mut())
                .map(|pair| {
                    let [home, overflow] = pair;
                    if kind == 0 { home } else { overflow }
                })
                .collect();
            let bytes = bytes_of_all_mut(&mut all, count_max);
            if let Err(error) = fill(bytes) {
                return Ok(Err(error));
            }
            takeover.check_entries(bytes)?;
        }
        for (stripe, counts) in self.0.iter_mut().zip(counts) {
            let is_possible = counts.home > 0
                && counts.free_head <= counts.overflow
                && counts.free <= counts.overflow;
            ensure("the counts of a table are consistent", at, is_possible)?;
            stripe.table_mut().set_counts(*counts);
        }
        Ok(Ok(()))
    }
}

/// A takeover in progress.
#[derive(Debug)]
pub struct Takeover {
    memory: Arc<Memory>,
    /// One entry per page that the other process had handed out: true if a class owns the page.
    is_owned: Vec<bool>,
}

impl Takeover {
    /// Begins the takeover of a memory, of which the other process had handed out `page_count` pages. No page of this memory
    /// was handed out before.
    pub fn new(memory: &Arc<Memory>, page_count: usize) -> Takeover {
        assert!(page_count <= memory.page_count(), "the arena has the pages of the other process");
        Takeover { memory: Arc::clone(memory), is_owned: vec![false; page_count] }
    }

    /// Gives a page to the class that owned it in the other process. Returns the page's id.
    pub fn page(
        &mut self,
        class: &mut ClassToken,
        page: UnusedPage,
        image: PageImage,
    ) -> Result<PageId, Broken> {
        page.check(&self.memory);
        self.check_memory(class);
        let at = self.memory.chunk_at(page.id(), 0, CHUNK_SIZE_BYTES_MIN);
        let count = class.chunks_per_page();
        let fits = image.used <= image.fresh && image.fresh <= count;
        let has_list = image.free_head.is_none_or(|slot| slot < image.fresh);
        ensure("the counts of a page are within its number of chunks", at, fits && has_list)?;
        ensure("a page belongs to its class", at, image.owner == class.class())?;
        let id = class.adopt(page);
        let entry = class.own(id);
        entry.set_used(image.used);
        entry.set_fresh(image.fresh);
        entry.set_free_head(image.free_head);
        entry.set_taken_as(image.taken_as);
        self.is_owned[id.index()] = true;
        Ok(id)
    }

    /// Returns a queue of a class.
    pub fn list(&self, class: &ClassToken, image: ListImage) -> Result<List, Broken> {
        self.check_memory(class);
        let ends = [image.head, image.tail];
        for address in ends.into_iter().flatten() {
            self.address(ChunkAddress::to_bits(Some(address)))?;
            // SAFETY: the precondition of this file: the address is that of an item of the arena.
            let state = unsafe { self.memory.arena.header_of(address) }.state().load();
            let is_item = state.kind() == Kind::Item && state.queued();
            ensure("the ends of a queue are queued items", address, is_item)?;
        }
        let is_empty = image.count == 0;
        let at = ChunkAddress::from_offset(0);
        ensure(
            "a queue has two ends unless it is empty",
            at,
            ends.map(|it| it.is_none()) == [is_empty; 2],
        )?;
        // SAFETY: the precondition of this file: the other process had this list.
        Ok(unsafe { List::linked(class, (image.head, image.tail), image.count, image.bytes) })
    }

    /// Returns an error unless every address in these buckets is in a page that was used. So a lookup begins to
    /// read within the arena. An exact check of 10 million entries would take longer than all other work of a takeover.
    fn check_entries(&self, buckets: &[u8]) -> Result<(), Broken> {
        let used_bytes = self.is_owned.len() * self.memory.page_size_bytes();
        let last = used_bytes.saturating_sub(CHUNK_SIZE_BYTES_MIN) / CHUNK_ALIGN_BYTES;
        let holds = has_no_address_above(buckets, last as u64 + 1);
        let at = ChunkAddress::from_offset(0);
        ensure("an address in a table is in a page that was used", at, holds)
    }

    /// Returns true if a chunk of the smallest size fits at this address into a page that a class owns.
    #[inline]
    fn is_possible(&self, bits: u64) -> bool {
        let offset = bits.wrapping_sub(1).wrapping_mul(CHUNK_ALIGN_BYTES as u64);
        let page_size_bytes = self.memory.page_size_bytes() as u64;
        let fits = offset & (page_size_bytes - 1) <= page_size_bytes - CHUNK_SIZE_BYTES_MIN as u64;
        let page = (offset >> page_size_bytes.trailing_zeros()) as usize;
        fits & self.is_owned.get(page).is_some_and(|&is_owned| is_owned)
    }

    /// Returns the address that these bits represent. Fails if no chunk of a page that a class owns can start there.
    pub fn address(&self, bits: u64) -> Result<ChunkAddress, Broken> {
        let address = ChunkAddress::from_bits(bits).filter(|_| self.is_possible(bits));
        address.ok_or(Broken {
            invariant: "an address is that of a chunk in a page of a class",
            address: ChunkAddress::from_offset(0),
        })
    }

    /// Panics if the class belongs to another memory.
    fn check_memory(&self, class: &ClassToken) {
        let is_same = std::ptr::eq(class.memory(), &*self.memory);
        assert!(is_same, "the class belongs to the memory that is taken over");
    }

    /// Allows writes to the arena: from now on this process may change it.
    pub fn allow_writes(&self) -> Result<(), MappingError> {
        self.memory.arena.allow_writes()
    }

    /// Removes all pins of the item at `address`, which were those of the other process. Ignores other addresses.
    pub fn unpin(&self, class: &mut ClassToken, address: ChunkAddress) {
        if class.state_of(address).is_some_and(|state| state.kind() == Kind::Item && state.linked())
        {
            // SAFETY: `state_of` has found a chunk of this class at the address.
            let state = unsafe { self.memory.arena.header_of(address) }.state();
            state.store(state.load().unpinned());
        }
    }

    /// Returns the chunk at `address`, which only a thread of the other process had access to. Returns `None` if no chunk
    /// in use of this class starts there, or if it holds a linked item.
    pub fn reclaim(&self, class: &mut ClassToken, address: ChunkAddress) -> Option<OwnedChunk> {
        let state = class.state_of(address)?;
        (state.kind() != Kind::Free && !state.linked()).then(|| {
            // SAFETY: a chunk in use of this class starts at the address. The precondition of this file: only the other
            // process had access to the chunk, and it does not use it any more.
            unsafe { OwnedChunk::reclaim(&self.memory, address) }
        })
    }
}
