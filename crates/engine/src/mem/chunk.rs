//! Chunks and pages that one holder alone may write: from the free list to publication, and back.
//!
//! ```text
//!   ClassToken::take --> OwnedChunk --NewItem::begin--> NewItem --Entry::insert, replace--> item of a table
//!        ^                   |                            |                                   |
//!        '------ give -------'<-------- into_chunks ------'          ended, nobody pins it    |
//!                            ^--------------- Remains::into_chunk <---------------------------'
//! ```

use super::arena::Header;
use super::memory::Memory;
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES};
use slabwise_base::{ClassId, PageId};

/// The sole right to a chunk's bytes, from its allocation until it is published or freed.
#[must_use = "an owned chunk must be published or given back, or it is lost"]
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedChunk {
    address: ChunkAddress,
    /// The chunk's size in bytes above, the class that owns its page in the last byte.
    size_and_class: u32,
    memory: u32,
}

const CLASS_BITS: u32 = 8;

impl OwnedChunk {
    /// The chunk at `address`.
    ///
    /// # Safety
    ///
    /// A chunk of this size starts at `address` of this memory, in a page of `class`. Nobody else has a right
    /// to it: it has left the free chunks of its page, or its last holder has let go of it.
    #[inline]
    pub(super) unsafe fn new(
        memory: &Memory,
        address: ChunkAddress,
        size_bytes: usize,
        class: ClassId,
    ) -> OwnedChunk {
        // A chunk has at most 16 MiB, and its size is a multiple of 8.
        let size_and_class = (size_bytes as u32 / 8) << CLASS_BITS | u32::from(class.0);
        OwnedChunk { address, size_and_class, memory: memory.number() }
    }

    /// Where it is.
    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    /// Bytes of it, its header included.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        (self.size_and_class >> CLASS_BITS) as usize * 8
    }

    /// The class that owns its page.
    #[inline]
    pub fn class(&self) -> ClassId {
        ClassId(self.size_and_class as u8)
    }

    /// Refuses another memory than its own.
    #[inline]
    pub(super) fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number(), "a chunk is used with the memory that it is of");
    }

    /// Its header.
    #[inline]
    pub(super) fn header<'c>(&'c self, memory: &'c Memory) -> Header<'c> {
        self.check(memory);
        // SAFETY: a chunk of this memory starts here.
        unsafe { memory.arena.header_of(self.address) }
    }

    /// Its bytes from `start` on.
    #[inline]
    pub(super) fn write<'c>(
        &'c mut self,
        memory: &'c Memory,
        start: usize,
        len: usize,
    ) -> &'c mut [u8] {
        self.check(memory);
        let size_bytes = self.size_bytes();
        let in_bounds = (HEADER_SIZE_BYTES..=size_bytes).contains(&start);
        assert!(in_bounds && len <= size_bytes - start, "a write stays within its chunk");
        // SAFETY: 1. within the chunk, behind its header. 2. The chunk is its owner's alone, and this borrows
        // the owner's right.
        unsafe { memory.arena.write(self.address, start, len) }
    }

    /// Its bytes from `start` on, to read.
    #[inline]
    pub(super) fn read<'c>(&'c self, memory: &'c Memory, start: usize, len: usize) -> &'c [u8] {
        self.check(memory);
        let size_bytes = self.size_bytes();
        let in_bounds = (HEADER_SIZE_BYTES..=size_bytes).contains(&start);
        assert!(in_bounds && len <= size_bytes - start, "a read stays within its chunk");
        // SAFETY: 1. within the chunk, behind its header. 2. Nobody writes: the owner's right is borrowed.
        unsafe { memory.arena.read(self.address, start, len) }
    }
}

/// A page that belongs to no class: nothing on it is in use.
#[must_use = "a page taken from the pool must be given back"]
#[derive(Debug, PartialEq, Eq)]
pub struct UnusedPage {
    page: PageId,
    memory: u32,
}

impl UnusedPage {
    /// The right to give a page to a class.
    ///
    /// # Safety
    ///
    /// No class owns the page, and nobody else has this right.
    pub(super) unsafe fn new(memory: &Memory, page: PageId) -> UnusedPage {
        UnusedPage { page, memory: memory.number() }
    }

    /// Which page it is.
    pub fn id(&self) -> PageId {
        self.page
    }

    /// Refuses another memory than its own.
    pub(super) fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number(), "a page is used with the memory that it is of");
    }
}

impl Memory {
    /// The next page that was never handed out; `None`: the arena ends here.
    pub fn next_new_page(&self) -> Option<UnusedPage> {
        let page = self.take_new_page()?;
        // SAFETY: each number is handed out once, and nobody had a right to this page before.
        Some(unsafe { UnusedPage::new(self, page) })
    }

    /// Gives an unused page's memory back to the system.
    pub fn release(&self, page: &UnusedPage) {
        page.check(self);
        // SAFETY: no class owns the page, so no chunk of it is in use.
        unsafe { self.arena.release_page(page.id(), self.page_size_bytes()) }
    }
}
