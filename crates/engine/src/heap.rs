//! The allocation of chunks: the choice of a class by size, the pages and free chunks of a class under its lock, and
//! the pool of pages that no class owns, under the pool's lock.
//!
//! A class gives up a page in two ways. From a *draining* page no chunks are allocated, and it leaves the class when
//! none of its chunks is in use. Under the published movers a page stays in service, and the mover *withdraws* its
//! free chunks one by one until it holds all.
//!
//! Invariants: `used + free == pages * chunks_per_page` over owned and draining pages; an owned page is on the list
//! of partial pages exactly if it has a free chunk, a draining one never.

use crate::layout::{CHUNK_ALIGN_BYTES, ChunkAddress, ClassTable};
use crate::mem::{ClassToken, Memory, OwnedChunk, Page, PageState, Restore, UnusedPage};
use slabwise_base::{ClassId, PageId};
// loom would explore every stale value of every cell. In its models the class table does not change.
use Ordering::{Acquire, Relaxed, Release};
#[cfg(not(loom))]
use slabwise_base::sync::{AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(loom)]
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

/// A class and its chunk size when the table was read. The table may change at any time, so an allocation compares
/// the choice with the class again, under the class's lock (`class.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub id: ClassId,
    pub chunk_size_bytes: usize,
}

const ID_BITS: u32 = 8;
const _: () = assert!(ClassId::NUMBERS <= 1 << ID_BITS);
const _: () = assert!((16 << 20) / CHUNK_ALIGN_BYTES < 1 << (u32::BITS - ID_BITS));

impl Choice {
    fn pack(self) -> u32 {
        ((self.chunk_size_bytes / CHUNK_ALIGN_BYTES) as u32) << ID_BITS | u32::from(self.id.0)
    }

    fn unpack(bits: u32) -> Choice {
        let chunk_size_bytes = (bits >> ID_BITS) as usize * CHUNK_ALIGN_BYTES;
        Choice { id: ClassId(bits as u8), chunk_size_bytes }
    }
}

#[derive(Debug)]
struct Copy {
    count: AtomicUsize,
    /// Ascending by size; entries from `count` on are unused.
    classes: [AtomicU32; ClassId::COUNT_MAX],
}

impl Copy {
    fn new() -> Copy {
        let classes = std::array::from_fn(|_| AtomicU32::new(0));
        Copy { count: AtomicUsize::new(0), classes }
    }

    fn write(&self, table: &ClassTable) {
        for (cell, (id, chunk_size_bytes)) in self.classes.iter().zip(table.classes()) {
            cell.store(Choice { id, chunk_size_bytes }.pack(), Relaxed);
        }
        self.count.store(table.count(), Relaxed);
    }
}

/// The current class table for stores. Reads need no lock and touch only cache lines that no other operation writes.
///
/// ```text
///   version 6 --> [64: class 0] [96: class 1] [512: class 2]            <-- readers are here
///                 [64: class 0] [128: class 3] [512: class 2]           <-- the next change writes here,
///                                                                           then sets the version to 7
/// ```
///
/// The last bit of the version selects the active copy; a change writes the other one. A reader that sees the same
/// version before and after has read one consistent table. Readers never wait for a writer.
#[derive(Debug)]
#[repr(align(128))]
pub struct SizeMap {
    version: AtomicUsize,
    copies: [Copy; 2],
}

impl SizeMap {
    pub fn new(table: &ClassTable) -> SizeMap {
        let map = SizeMap { version: AtomicUsize::new(0), copies: [Copy::new(), Copy::new()] };
        map.copies[0].write(table);
        map
    }

    /// Activates another table. The caller holds the table's lock, so there is one writer.
    pub fn set(&self, table: &ClassTable) {
        let version = self.version.load(Relaxed);
        // A reader that sees a value of this write also sees the version of the last change, and so that it reads
        // the inactive copy.
        fence(Release);
        self.copies[(version + 1) % 2].write(table);
        self.version.store(version + 1, Release);
    }

    /// The class with the smallest chunks that hold `size_bytes`; `None` if the largest do not.
    #[inline]
    pub fn class_for(&self, size_bytes: usize) -> Option<Choice> {
        loop {
            let version = self.version.load(Acquire);
            let copy = &self.copies[version % 2];
            let classes = &copy.classes[..copy.count.load(Relaxed)];
            let is_less =
                |cell: &AtomicU32| Choice::unpack(cell.load(Relaxed)).chunk_size_bytes < size_bytes;
            let found = classes.get(classes.partition_point(is_less));
            let choice = found.map(|cell| Choice::unpack(cell.load(Relaxed)));
            fence(Acquire);
            if self.version.load(Relaxed) == version {
                return choice;
            }
        }
    }
}

#[derive(Debug)]
pub struct Pages {
    /// Queues of the class use it, too. Only `Pages` may take and give pages and chunks with it.
    pub token: ClassToken,
    /// The pages taken since the start.
    taken_count: u64,
    used_count: u64,
    /// The first page with a free chunk.
    partial: Option<PageId>,
}

impl Pages {
    pub fn new(token: ClassToken) -> Pages {
        Pages { token, taken_count: 0, used_count: 0, partial: None }
    }

    /// Chunks in use, those on draining pages included.
    pub fn used_count(&self) -> u64 {
        self.used_count
    }

    /// Chunks not in use, those on draining pages included.
    pub fn free_count(&self) -> u64 {
        u64::from(self.token.page_count()) * u64::from(self.token.chunks_per_page())
            - self.used_count
    }

    /// The head of the list of pages with a free chunk.
    pub fn partial(&self) -> Option<PageId> {
        self.partial
    }

    pub fn adopt(&mut self, page: UnusedPage) -> PageId {
        let id = self.token.adopt(page);
        self.number(id);
        self.push_partial(id);
        id
    }

    /// Gives a new page the next number, so that the pages of a class are ordered by age.
    fn number(&mut self, id: PageId) {
        self.token.own(id).set_taken_as(self.taken_count);
        self.taken_count += 1;
    }

    /// Begins to restore a page that the class owned before the restart.
    pub fn begin_restore(&mut self, restore: &mut Restore, page: UnusedPage) {
        let id = restore.adopt(&mut self.token, page);
        self.number(id);
    }

    /// Ends the restore of a page: chunks without restored contents are free.
    pub fn finish_restore(&mut self, restore: &mut Restore, id: PageId) {
        let used = restore.finish_page(&mut self.token, id);
        self.used_count += u64::from(used);
        if used < self.token.chunks_per_page() {
            self.push_partial(id);
        }
    }

    /// Takes a free chunk of the first partial page: the one freed last, or else a fresh one.
    #[inline]
    pub fn take(&mut self) -> Option<OwnedChunk> {
        let page = self.partial?;
        self.take_on(page)
    }

    pub fn take_beside(&mut self, page: PageId) -> Option<OwnedChunk> {
        let mut candidate = self.partial?;
        if candidate == page {
            candidate = self.token.own(page).next()?;
        }
        self.take_on(candidate)
    }

    #[inline]
    fn take_on(&mut self, id: PageId) -> Option<OwnedChunk> {
        let chunk = self.token.take(id)?;
        self.count_taken(id);
        Some(chunk)
    }

    /// Takes the free chunk at `address`. The search starts at the head of its page's free list.
    pub fn take_at(&mut self, address: ChunkAddress) -> OwnedChunk {
        let chunk = self.token.take_at(address);
        self.count_taken(self.token.memory().page_of(address));
        chunk
    }

    #[inline]
    fn count_taken(&mut self, id: PageId) {
        self.used_count += 1;
        let page = self.token.own(id);
        if page.used() == self.token.chunks_per_page() {
            self.remove_partial(id);
        }
    }

    /// Frees a chunk. On a draining page it is not allocated again.
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

    /// Stops allocation from a page.
    pub fn begin_drain(&mut self, id: PageId) {
        if self.has_free(self.token.own(id)) {
            self.remove_partial(id);
        }
        self.token.set_draining(id, true);
    }

    /// Puts a draining page back into service.
    pub fn abort_drain(&mut self, id: PageId) {
        self.token.set_draining(id, false);
        if self.has_free(self.token.own(id)) {
            self.push_partial(id);
        }
    }

    fn has_free(&self, page: &Page) -> bool {
        page.used() < self.token.chunks_per_page()
    }

    pub fn release_page_with(&mut self, id: PageId, chunks: Vec<OwnedChunk>) -> UnusedPage {
        self.used_count -= chunks.len() as u64;
        chunks.into_iter().for_each(|chunk| self.token.give(chunk));
        self.release_page(id)
    }

    /// Gives up an empty draining page.
    pub fn release_page(&mut self, id: PageId) -> UnusedPage {
        self.token.release_page(id)
    }

    fn push_partial(&mut self, id: PageId) {
        self.token.memory().push_partial(&mut self.partial, id);
    }

    fn remove_partial(&mut self, id: PageId) {
        self.token.memory().remove_partial(&mut self.partial, id);
    }
}

/// The pages that no class owns, under one lock.
#[derive(Debug)]
pub struct Pool {
    /// Pages returned by classes, which still hold memory.
    free: Vec<UnusedPage>,
    /// Pages whose memory was returned to the system.
    released: Vec<UnusedPage>,
    /// The number of pages ever handed out, and the id of the next new page.
    pub frontier: u32,
    /// The number of pages that hold memory: free, owned or draining.
    pub allocated: u32,
    /// The most pages that may hold memory.
    pub limit: u32,
    /// The part of the limit that memory outside the arena uses.
    pub charged: u32,
}

impl Pool {
    /// An empty pool under a limit of `limit` pages.
    pub fn new(limit: u32) -> Pool {
        let (free, released) = (Vec::new(), Vec::new());
        Pool { free, released, frontier: 0, allocated: 0, limit, charged: 0 }
    }

    /// The pool of a restored cache: `frontier` pages were handed out, and `returned` belong to no class.
    pub fn resumed(limit: u32, frontier: u32, returned: Vec<UnusedPage>) -> Pool {
        let allocated = frontier - returned.len() as u32;
        Pool { free: Vec::new(), released: returned, frontier, allocated, limit, charged: 0 }
    }

    /// The number of pages that hold memory and belong to no class.
    pub fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    /// The number of further pages that may hold memory; negative after the limit was lowered.
    pub fn headroom(&self) -> i64 {
        i64::from(self.limit_for_items()) - i64::from(self.allocated)
    }

    /// The most pages for items: the limit less `charged`, but at least half the limit.
    pub fn limit_for_items(&self) -> u32 {
        self.limit - self.charged.min(self.limit / 2)
    }

    /// Takes a free page, or a new one below the limit; the first page of a class may go `beyond_limit`. `None` at
    /// the limit and at the end of the arena.
    pub fn take(&mut self, memory: &Memory, beyond_limit: bool) -> Option<UnusedPage> {
        // After the limit was lowered, free pages are released first.
        if self.headroom() < 0 && !beyond_limit {
            return None;
        }
        if let Some(page) = self.free.pop() {
            return Some(page);
        }
        if self.headroom() <= 0 && !beyond_limit {
            return None;
        }
        let page = match self.released.pop() {
            Some(page) => page,
            None => {
                let page = memory.next_new_page()?;
                self.frontier += 1;
                page
            }
        };
        self.allocated += 1;
        Some(page)
    }

    pub fn put(&mut self, page: UnusedPage) {
        self.free.push(page);
    }

    /// Takes a free page to release its memory, while more pages hold memory than the limit allows. The caller
    /// returns it by [`Pool::put_released`].
    pub fn take_for_release(&mut self) -> Option<UnusedPage> {
        if self.headroom() < 0 { self.free.pop() } else { None }
    }

    /// Returns a page whose memory was released.
    pub fn put_released(&mut self, page: UnusedPage) {
        self.allocated -= 1;
        self.released.push(page);
    }
}

#[cfg(test)]
mod tests {
    use super::SizeMap;
    use crate::layout::ClassTable;
    use slabwise_base::ClassId;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    fn table(sizes: &[usize], ids: &[u8]) -> ClassTable {
        let table = ClassTable::explicit(sizes, 4096).expect("a valid table");
        table.renumbered(ids.iter().copied().map(ClassId).collect())
    }

    #[test]
    fn the_size_map_equals_the_table_set_last() {
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
    fn a_reader_sees_one_table_during_changes() {
        // Size 100 belongs to class 0 in the first table and to class 9 in the second, which has more classes.
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
                let choice = map.class_for(100).expect("both tables hold it");
                assert_eq!(choice.chunk_size_bytes, 104, "{choice:?} is of neither table");
                assert!([0, 9].contains(&choice.id.0), "{choice:?} is of neither table");
            }
        });
    }
}
