//! The allocation of chunks. [`SizeMap`] returns the class for the size of an item. [`Pages`] holds the pages and the
//! free chunks of one class, under the lock of the class.
//!
//! The mover empties a page in one of two ways before the page leaves its class:
//!
//! - Most kinds of mover mark the page as *draining*: the class allocates no chunks from it. The mover releases the
//!   page when none of its chunks is in use.
//! - `page_mover=base` and `page_mover=fast` *withdraw* the page's chunks: the mover allocates each free chunk of the
//!   page, until it owns all chunks. Meanwhile the class can still allocate the other chunks of the page.
//!
//! Invariants: `used_count + free_count == page_count * chunks_per_page`; all three counts include draining pages. An
//! owned page is on the list of partial pages exactly if it has a free chunk. A draining page is never on this list.

use crate::layout::{CHUNK_ALIGN_BYTES, ChunkAddress, ClassTable};
use crate::mem::{
    Broken, ClassToken, OwnedChunk, Page, PageImage, PageState, Restore, Takeover, UnusedPage,
};
use slabwise_base::{ClassId, PageId};
// Under loom, the size map uses the standard library's atomics. With its own atomics, loom would explore each older
// value of each cell. This is not needed, because the class table does not change in loom's models.
use Ordering::{Acquire, Relaxed, Release};
#[cfg(not(loom))]
use slabwise_base::sync::{AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(loom)]
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

/// The class that [`SizeMap::class_for`] chose for a size, and its chunk size at that moment. The class table may
/// change at any time. So an allocation that takes a chunk from the class locks the class and compares the choice with
/// the class again (`ClassState::accepts`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassChoice {
    pub id: ClassId,
    pub chunk_size_bytes: usize,
}

/// The number of bits for the class in a packed [`ClassChoice`].
const ID_BITS: u32 = 8;
const _: () = assert!(ClassId::NUMBERS <= 1 << ID_BITS, "a packed class number has 8 bits");
const _: () = assert!(
    (16 << 20) / CHUNK_ALIGN_BYTES < 1 << (u32::BITS - ID_BITS),
    "a packed chunk size of 16 MiB has 24 bits"
);

impl ClassChoice {
    /// Returns the choice in 32 bits: the class number in the lower 8 bits, and the chunk size in units of 8 bytes in
    /// the upper 24 bits.
    fn pack(self) -> u32 {
        ((self.chunk_size_bytes / CHUNK_ALIGN_BYTES) as u32) << ID_BITS | u32::from(self.id.0)
    }

    /// Returns the choice that [`ClassChoice::pack`] has packed.
    fn unpack(bits: u32) -> ClassChoice {
        let chunk_size_bytes = (bits >> ID_BITS) as usize * CHUNK_ALIGN_BYTES;
        ClassChoice { id: ClassId(bits as u8), chunk_size_bytes }
    }
}

/// A copy of the class table.
#[derive(Debug)]
struct TableCopy {
    /// The number of classes.
    count: AtomicUsize,
    /// The packed [`ClassChoice`] of each class, in ascending order of the chunk sizes. The entries from `count` on are
    /// unused.
    classes: [AtomicU32; ClassId::COUNT_MAX],
}

impl TableCopy {
    fn new() -> TableCopy {
        let classes = std::array::from_fn(|_| AtomicU32::new(0));
        TableCopy { count: AtomicUsize::new(0), classes }
    }

    fn write(&self, table: &ClassTable) {
        for (cell, (id, chunk_size_bytes)) in self.classes.iter().zip(table.classes()) {
            cell.store(ClassChoice { id, chunk_size_bytes }.pack(), Relaxed);
        }
        self.count.store(table.count(), Relaxed);
    }
}

/// The current class table in a form that stores can read without a lock. Only changes of the class table write the
/// cache lines that stores read here.
///
/// ```text
///   version 6 --> copy 0:  [64: class 0] [96: class 1]  [512: class 2]    readers read this copy
///                 copy 1:  [64: class 0] [128: class 3] [512: class 2]    the next change writes this copy,
///                                                                         then sets the version to 7
/// ```
///
/// The last bit of the version selects the copy that is active. A change writes the inactive copy and then increments
/// the version. A reader reads the version, the active copy, and the version again. If both versions are equal, the
/// reader has read a consistent table; otherwise it repeats the read.
#[derive(Debug)]
#[repr(align(128))]
pub struct SizeMap {
    /// The number of changes since the start.
    version: AtomicUsize,
    copies: [TableCopy; 2],
}

impl SizeMap {
    pub fn new(table: &ClassTable) -> SizeMap {
        let map =
            SizeMap { version: AtomicUsize::new(0), copies: [TableCopy::new(), TableCopy::new()] };
        map.copies[0].write(table);
        map
    }

    /// Activates another table. The caller holds the lock of the class table, so no other thread calls this function at
    /// the same time.
    pub fn set(&self, table: &ClassTable) {
        let version = self.version.load(Relaxed);
        // A slow reader that began before the last change may still read the copy that this call writes. If the reader
        // has read a value that this call writes, the fence ensures that the reader then reads at least the version of
        // the last change. So the reader finds that the version has changed, and repeats the read.
        fence(Release);
        self.copies[(version + 1) % 2].write(table);
        self.version.store(version + 1, Release);
    }

    /// Returns the class with the smallest chunks of at least `size_bytes`, or `None` if even the largest chunks are
    /// smaller.
    #[inline]
    pub fn class_for(&self, size_bytes: usize) -> Option<ClassChoice> {
        loop {
            let version = self.version.load(Acquire);
            let copy = &self.copies[version % 2];
            let classes = &copy.classes[..copy.count.load(Relaxed)];
            let is_too_small = |cell: &AtomicU32| {
                ClassChoice::unpack(cell.load(Relaxed)).chunk_size_bytes < size_bytes
            };
            let found = classes.get(classes.partition_point(is_too_small));
            let choice = found.map(|cell| ClassChoice::unpack(cell.load(Relaxed)));
            fence(Acquire);
            if self.version.load(Relaxed) == version {
                return choice;
            }
        }
    }
}

/// The pages of one class and their free chunks.
#[derive(Debug)]
pub struct Pages {
    /// The access token of the class. The lists of the class use the token, too. But only `Pages` may allocate and free
    /// chunks, or adopt and release pages, with the token.
    pub token: ClassToken,
    /// The number of pages that the class has taken since the start of the process.
    taken_count: u64,
    /// The number of chunks in use, those on draining pages included.
    used_count: u64,
    /// The first page in the list of partial pages: the pages with a free chunk from which chunks are allocated.
    partial: Option<PageId>,
}

impl Pages {
    /// Returns the pages of a class that owns none.
    pub fn new(token: ClassToken) -> Pages {
        Pages { token, taken_count: 0, used_count: 0, partial: None }
    }

    /// Returns the number of chunks in use, those on draining pages included.
    pub fn used_count(&self) -> u64 {
        self.used_count
    }

    /// Returns the number of chunks of all pages, those of draining pages included.
    pub fn chunk_count(&self) -> u64 {
        u64::from(self.token.page_count()) * u64::from(self.token.chunks_per_page())
    }

    /// Returns the number of chunks that are not in use, those on draining pages included.
    pub fn free_count(&self) -> u64 {
        self.chunk_count() - self.used_count
    }

    /// Returns the first page in the list of partial pages.
    pub fn partial(&self) -> Option<PageId> {
        self.partial
    }

    /// Makes the class the owner of an unused page. Returns the page's id.
    pub fn adopt(&mut self, page: UnusedPage) -> PageId {
        let id = self.token.adopt(page);
        self.assign_age(id);
        self.push_partial(id);
        id
    }

    /// Records how many pages the class had taken before this page, so that the pages of a class can be ordered by age.
    fn assign_age(&mut self, id: PageId) {
        self.token.own(id).set_taken_as(self.taken_count);
        self.taken_count += 1;
    }

    /// Begins to restore a page that the class owned before the restart.
    pub fn begin_restore(&mut self, restore: &mut Restore, page: UnusedPage) {
        let id = restore.adopt(&mut self.token, page);
        self.assign_age(id);
    }

    /// Ends the restore of a page. The chunks that hold neither a restored item nor a body of such an item become
    /// free.
    pub fn finish_restore(&mut self, restore: &mut Restore, id: PageId) {
        let used = restore.finish_page(&mut self.token, id);
        self.used_count += u64::from(used);
        if used < self.token.chunks_per_page() {
            self.push_partial(id);
        }
    }

    /// Allocates a chunk of the first partial page: the first chunk on the page's free list, which usually was freed
    /// last. If this list is empty, allocates a chunk that was not allocated since the class got the page. Returns
    /// `None` if there is no partial page.
    #[inline]
    pub fn take(&mut self) -> Option<OwnedChunk> {
        let page = self.partial?;
        self.take_from_page(page)
    }

    /// Allocates a chunk of a partial page other than `page`. Returns `None` if there is no other partial page.
    pub fn take_beside(&mut self, page: PageId) -> Option<OwnedChunk> {
        let mut candidate = self.partial?;
        if candidate == page {
            candidate = self.token.own(page).next()?;
        }
        self.take_from_page(candidate)
    }

    #[inline]
    fn take_from_page(&mut self, id: PageId) -> Option<OwnedChunk> {
        let chunk = self.token.take(id)?;
        self.count_allocated(id);
        Some(chunk)
    }

    /// Allocates the chunk at `address`, which must be on the free list of its page. Searches the list from its head.
    pub fn take_at(&mut self, address: ChunkAddress) -> OwnedChunk {
        let chunk = self.token.take_at(address);
        self.count_allocated(self.token.memory().page_of(address));
        chunk
    }

    /// Counts a chunk that was allocated from a page. Removes the page from the list of partial pages if it has no more
    /// free chunk.
    #[inline]
    fn count_allocated(&mut self, id: PageId) {
        self.used_count += 1;
        let page = self.token.own(id);
        if page.used() == self.token.chunks_per_page() {
            self.remove_partial(id);
        }
    }

    /// Frees a chunk. If its page is draining, the chunk is not allocated again.
    #[inline]
    pub fn give(&mut self, chunk: OwnedChunk) {
        let id = self.token.memory().page_of(chunk.address());
        self.token.give(chunk);
        self.used_count -= 1;
        let page = self.token.own(id);
        if page.used() + 1 == self.token.chunks_per_page() && page.state() == PageState::Owned {
            self.push_partial(id);
        }
    }

    /// Marks a page as draining, so that no more chunks are allocated from it.
    pub fn begin_drain(&mut self, id: PageId) {
        if self.has_free(self.token.own(id)) {
            self.remove_partial(id);
        }
        self.token.set_draining(id, true);
    }

    /// Marks a draining page as owned again, so that chunks are allocated from it.
    pub fn abort_drain(&mut self, id: PageId) {
        self.token.set_draining(id, false);
        if self.has_free(self.token.own(id)) {
            self.push_partial(id);
        }
    }

    fn has_free(&self, page: &Page) -> bool {
        page.used() < self.token.chunks_per_page()
    }

    /// Frees `chunks`, which must be all chunks of the page, and releases the page.
    pub fn release_page_with(&mut self, id: PageId, chunks: Vec<OwnedChunk>) -> UnusedPage {
        self.used_count -= chunks.len() as u64;
        chunks.into_iter().for_each(|chunk| self.token.give(chunk));
        self.release_page(id)
    }

    /// Releases a draining page. Panics if a chunk of the page is in use.
    pub fn release_page(&mut self, id: PageId) -> UnusedPage {
        self.token.release_page(id)
    }

    /// Makes the class the owner of a page that it owned in another process, with the chunks in use there.
    pub fn resume(
        &mut self,
        takeover: &mut Takeover,
        page: UnusedPage,
        image: PageImage,
    ) -> Result<(), Broken> {
        let id = takeover.page(&mut self.token, page, image)?;
        self.used_count += u64::from(image.used);
        self.taken_count = self.taken_count.max(image.taken_as.saturating_add(1));
        if self.has_free(self.token.own(id)) {
            self.push_partial(id);
        }
        Ok(())
    }

    fn push_partial(&mut self, id: PageId) {
        self.token.memory().push_partial(&mut self.partial, id);
    }

    fn remove_partial(&mut self, id: PageId) {
        self.token.memory().remove_partial(&mut self.partial, id);
    }
}

#[cfg(test)]
mod tests {
    use super::SizeMap;
    use crate::layout::ClassTable;
    use slabwise_base::ClassId;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    fn table(sizes: &[usize], ids: &[u8]) -> ClassTable {
        let table = ClassTable::explicit(sizes, 4096).expect("the class table is valid");
        table.renumbered(ids.iter().copied().map(ClassId).collect())
    }

    #[test]
    fn the_size_map_returns_the_classes_of_the_table_that_was_set_last() {
        let tables = [table(&[64, 96, 512], &[0, 1, 2]), table(&[72, 512], &[1, 2])];
        let map = SizeMap::new(&tables[0]);
        for round in 0..4 {
            let table = &tables[round % 2];
            map.set(table);
            for size in 0..600 {
                let choice = map.class_for(size);
                assert_eq!(choice.map(|choice| choice.id), table.class_for(size));
                if let Some(choice) = choice {
                    assert_eq!(choice.chunk_size_bytes, table.chunk_size_bytes(choice.id));
                }
            }
        }
    }

    #[test]
    fn a_reader_during_changes_reads_one_consistent_table() {
        // The class for 100 bytes is 0 in the first table and 9 in the second table.
        let tables =
            [table(&[104, 512], &[0, 2]), table(&[56, 64, 72, 104, 512], &[5, 6, 7, 9, 2])];
        let map = SizeMap::new(&tables[0]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..20_000).for_each(|round| map.set(&tables[round % 2]));
                done.store(true, Relaxed);
            });
            while !done.load(Relaxed) {
                let choice = map.class_for(100).expect("both tables have a class for 100 bytes");
                assert_eq!(choice.chunk_size_bytes, 104, "{choice:?} is a class of a table");
                assert!([0, 9].contains(&choice.id.0), "{choice:?} is a class of a table");
            }
        });
    }
}
