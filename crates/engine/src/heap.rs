//! Where the chunk of an item comes from: the class that holds its size; the class's pages and their free chunks,
//! under its lock; and the pages that no class owns, under the pool's.
//!
//! A class parts with a page in two ways. A page that *drains* hands out nothing, whatever is freed on it, and is
//! handed on when nothing on it is in use. A page of the published movers stays in service, and they take its free
//! chunks out of use one by one (they *cut* them), until they hold all.
//!
//! Invariants: `used + free == pages * chunks_per_page` over owned and draining pages; an owned page is on the list
//! of partial pages exactly if it has a free chunk, a draining one never.

use crate::layout::{CHUNK_ALIGN_BYTES, ChunkAddress, ClassTable};
use crate::mem::{ClassToken, Memory, OwnedChunk, Page, PageState, Restore, UnusedPage};
use slabwise_base::{ClassId, PageId};
// loom would try every stale value of every cell; for it a table does not change.
use Ordering::{Acquire, Relaxed, Release};
#[cfg(not(loom))]
use slabwise_base::sync::{AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(loom)]
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

/// A class, as it was when the table was read. It is a choice, not a right: a change may come the moment after. Who
/// takes a chunk compares it with the class once more, under the class's lock (`class.rs`).
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
    /// Ascending by size; those behind `count` mean nothing.
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

/// The present class table for stores: read without a lock, and without a line that anybody writes but for a change
/// of the table.
///
/// ```text
///   version 6 --> [64: class 0] [96: class 1] [512: class 2]            <-- readers are here
///                 [64: class 0] [128: class 3] [512: class 2]           <-- the next change writes here,
///                                                                           then sets the version to 7
/// ```
///
/// Two copies take turns; the version's last bit says which is in force. A reader that finds the same version before
/// and after has read one table, whole; nobody ever waits for a writer.
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

    /// Puts another table in force. One thread at a time: the caller holds the table's lock.
    pub fn set(&self, table: &ClassTable) {
        let version = self.version.load(Relaxed);
        // A reader that sees what is written now sees the version that the last change set, too, and so
        // that it reads a copy which is out of force.
        fence(Release);
        self.copies[(version + 1) % 2].write(table);
        self.version.store(version + 1, Release);
    }

    /// The class with the least chunks that hold `size_bytes`; `None` if no chunk does.
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
    /// Also what the class's queues are changed with. Its pages and chunks are taken and given here.
    pub token: ClassToken,
    /// Pages that it ever took.
    taken_count: u64,
    /// Chunks in use, those on draining pages included.
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

    /// Numbers a page in the order in which they came.
    fn number(&mut self, id: PageId) {
        self.token.own(id).set_taken_as(self.taken_count);
        self.taken_count += 1;
    }

    /// Begins to take over a page that it owned in an earlier life.
    pub fn begin_restore(&mut self, restore: &mut Restore, page: UnusedPage) {
        let id = restore.adopt(&mut self.token, page);
        self.number(id);
    }

    /// Frees what was not taken over on such a page.
    pub fn finish_restore(&mut self, restore: &mut Restore, id: PageId) {
        let used = restore.finish_page(&mut self.token, id);
        self.used_count += u64::from(used);
        if used < self.token.chunks_per_page() {
            self.push_partial(id);
        }
    }

    /// Takes a free chunk: the one freed last on the page touched last, else one never used.
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

    /// Takes this free chunk, wherever it is on its page's list; quick where it is near the head.
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

    /// Gives a chunk back to its page; a draining page keeps it out of use.
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

    /// Takes a page out of service: from here on it hands out nothing.
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

    pub fn part_with_cut(&mut self, id: PageId, chunks: Vec<OwnedChunk>) -> UnusedPage {
        self.used_count -= chunks.len() as u64;
        // Of its list nothing is taken any more.
        chunks.into_iter().for_each(|chunk| self.token.give(chunk));
        self.part_with(id)
    }

    /// Parts with a draining page that is empty.
    pub fn part_with(&mut self, id: PageId) -> UnusedPage {
        self.token.part_with(id)
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
    /// Pages returned by classes, their memory still taken.
    free: Vec<UnusedPage>,
    /// Pages whose memory went back to the system.
    released: Vec<UnusedPage>,
    /// Pages ever handed out: the next new one has this number.
    pub frontier: u32,
    /// Pages that hold memory: free, owned or draining.
    pub allocated: u32,
    /// How many may hold memory.
    pub limit: u32,
    /// Of these, how many memory outside the arena takes the place of.
    pub charged: u32,
}

impl Pool {
    /// An empty pool under a limit of `limit` pages.
    pub fn new(limit: u32) -> Pool {
        let (free, released) = (Vec::new(), Vec::new());
        Pool { free, released, frontier: 0, allocated: 0, limit, charged: 0 }
    }

    /// A pool whose first `frontier` pages were handed out, and these `returned` since.
    pub fn resumed(limit: u32, frontier: u32, returned: Vec<UnusedPage>) -> Pool {
        let allocated = frontier - returned.len() as u32;
        Pool { free: Vec::new(), released: returned, frontier, allocated, limit, charged: 0 }
    }

    /// Pages that hold memory and belong to no class.
    pub fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    /// Pages that the limit allows beyond those that hold memory; below 0 after a lowered limit.
    pub fn headroom(&self) -> i64 {
        i64::from(self.limit_for_items()) - i64::from(self.allocated)
    }

    /// Pages that items may take: the limit less what is charged, but at least half of it.
    pub fn limit_for_items(&self) -> u32 {
        self.limit - self.charged.min(self.limit / 2)
    }

    /// A page for a class: a free one, or new memory while the limit allows it; the first page of a
    /// class may go `beyond_limit`. `None` at the limit, and where the arena ends.
    pub fn take(&mut self, memory: &Memory, beyond_limit: bool) -> Option<UnusedPage> {
        // Above a lowered limit, even a free page is not handed out: it is to be released.
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

    /// While more memory is held than the limit allows: a free page whose memory must be released,
    /// which [`Pool::put_released`] ends.
    pub fn take_for_release(&mut self) -> Option<UnusedPage> {
        if self.headroom() < 0 { self.free.pop() } else { None }
    }

    /// Takes a page back whose memory went to the system.
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
    fn it_answers_as_the_table_that_was_set_last() {
        let tables = [table(&[64, 96, 512], &[0, 1, 2]), table(&[72, 512], &[1, 2])];
        let map = SizeMap::new(&tables[0]);
        for turn in 0..4 {
            let table = &tables[turn % 2];
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
    fn a_reader_sees_one_table_while_they_change() {
        // In the one, sizes up to 100 are in class 0; in the other, which has more classes, in class 9.
        let tables =
            [table(&[104, 512], &[0, 2]), table(&[56, 64, 72, 104, 512], &[5, 6, 7, 9, 2])];
        let map = SizeMap::new(&tables[0]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..20_000).for_each(|turn| map.set(&tables[turn % 2]));
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
