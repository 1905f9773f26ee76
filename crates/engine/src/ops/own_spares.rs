//! The spare chunks of one handle (`space/spares.rs`). Only the thread that uses the handle calls these functions.

use crate::class::{ClassState, TABLE_NUMBERS};
use crate::heap::ClassChoice;
use crate::mem::{OwnedChunk, PageState, SPARES_MAX, SpareSlots, UnlinkedChunks};
use crate::space::Space;
use slabwise_base::ClassId;
use std::cell::Cell;

/// The spare chunks of one handle.
pub struct OwnSpares<'e> {
    space: &'e Space,
    /// The slots of the handle, and their index. `None`: the handle has no spare chunks.
    holder: Option<(&'e SpareSlots, usize)>,
    /// For each class, the number of slots that may be full. Other threads may have emptied some of these slots. All
    /// further slots are empty.
    lens: [Cell<u8>; TABLE_NUMBERS],
}

impl<'e> OwnSpares<'e> {
    /// Returns the spare chunks of a new handle.
    pub fn new(space: &'e Space) -> OwnSpares<'e> {
        let holder = space.spares.assign().map(|index| (&space.spares.holders()[index], index));
        OwnSpares { space, holder, lens: std::array::from_fn(|_| Cell::new(0)) }
    }

    /// Takes a spare chunk of a class: the one that became spare last. The chunk has the chunk size of the choice, but
    /// the class may have been retired since.
    #[inline]
    pub fn take(&self, choice: ClassChoice) -> Option<OwnedChunk> {
        let chunk = self.pop(choice.id)?;
        // The class owns the page of the chunk, so the number has not changed its chunk size since the chunk became
        // spare. But the choice may be older. Only in this case, a chunk moves from a slot to a free list without a
        // lock during the whole move.
        if chunk.size_bytes() != choice.chunk_size_bytes {
            self.space.give_free(chunk);
            return None;
        }
        Some(chunk)
    }

    #[inline]
    fn pop(&self, class: ClassId) -> Option<OwnedChunk> {
        let ((slots, _), len) = (self.holder?, &self.lens[class.index()]);
        while len.get() > 0 {
            len.set(len.get() - 1);
            let taken = slots.take(class, usize::from(len.get()));
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// True if the handle may have no more spare chunks of this class.
    #[inline]
    fn is_full(&self, class: ClassId) -> bool {
        usize::from(self.lens[class.index()].get()) >= self.space.spares.count_max(class)
    }

    /// Makes a chunk spare. Returns the chunk as the error if the handle may have no more spare chunks of this class,
    /// or if the page of the chunk drains.
    #[inline]
    fn push(&self, chunk: OwnedChunk) -> Result<(), OwnedChunk> {
        let Some((slots, _)) = self.holder else { return Err(chunk) };
        let (class, memory) = (chunk.class(), &self.space.memory);
        let page = memory.page(memory.page_of(chunk.address()));
        if self.is_full(class) || page.state() != PageState::Owned {
            return Err(chunk);
        }
        let len = &self.lens[class.index()];
        slots.put(usize::from(len.get()), chunk)?;
        len.set(len.get() + 1);
        Ok(())
    }

    /// Frees a chunk. The chunk becomes spare if possible. If the handle already has the largest number of spare chunks
    /// of the class, half of them return to the class together with the chunk.
    #[inline]
    pub fn free(&self, chunk: OwnedChunk) {
        if let Err(chunk) = self.push(chunk) {
            if self.is_full(chunk.class()) {
                self.return_with(chunk);
            } else {
                self.space.give_free(chunk);
            }
        }
    }

    /// Returns a chunk and half of the spare chunks of its class to the class.
    fn return_with(&self, chunk: OwnedChunk) {
        let class = chunk.class();
        let mut state = self.space.class(class).lock();
        state.pages.give(chunk);
        let half = self.lens[class.index()].get().div_ceil(2);
        (0..half).filter_map(|_| self.pop(class)).for_each(|spare| state.pages.give(spare));
    }

    /// Frees the chunks of an unlinked item.
    #[inline(always)]
    pub fn free_unlinked(&self, remains: Option<UnlinkedChunks>) {
        if let Some(remains) = remains {
            self.free(self.space.free_bodies(remains));
        }
    }

    /// Returns the number of chunks that the handle takes under one lock of this class, if it takes more than one. The
    /// caller holds this lock.
    pub fn batch_len(&self, class: ClassId) -> usize {
        self.holder.map_or(0, |_| self.space.spares.count_max(class))
    }

    /// Takes further free chunks of a locked class, of which the caller has just taken the first of a batch.
    #[inline]
    pub fn fill(&self, class: &mut ClassState) {
        let count = self.batch_len(class.id()).saturating_sub(1);
        if count > 0 {
            self.take_further(class, count);
        }
    }

    fn take_further(&self, class: &mut ClassState, count: usize) {
        let mut taken = [const { None }; SPARES_MAX];
        taken[..count].iter_mut().for_each(|slot| *slot = class.pages.take());
        // The chunk that the class would allocate next becomes spare last, and is then allocated next.
        for chunk in taken.into_iter().rev().flatten() {
            if let Err(chunk) = self.push(chunk) {
                class.pages.give(chunk);
            }
        }
    }
}

impl Drop for OwnSpares<'_> {
    fn drop(&mut self) {
        let Some((_, index)) = self.holder else { return };
        // A thread that panics may have locked the class. Other threads can still recall its spare chunks.
        if std::thread::panicking() {
            return;
        }
        for class in (0..TABLE_NUMBERS as u8).map(ClassId) {
            if self.lens[class.index()].get() > 0 {
                let mut state = self.space.class(class).lock();
                std::iter::from_fn(|| self.pop(class)).for_each(|spare| state.pages.give(spare));
            }
        }
        self.space.spares.release(index);
    }
}
