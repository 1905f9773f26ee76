//! The size of a memory file: the pages that have blocks, at the start and after a change of the memory limit.
//!
//! ```text
//!   FILE   | page | page | hole | page | hole | ... | end, then generation number and mark
//!          '---- the arena, as long as the file; the process reserves more address space ----'
//!
//!   start              as many pages get blocks as the limit needs, first those of items; all others become holes; what is
//!                      behind the last page with blocks is cut off
//!   a higher limit     holes get blocks, and then the file becomes longer, before the limit changes (`Pool::begin_growth`)
//!   a lower limit      Space::release_page, which the mover calls, frees the blocks of one page at a time
//! ```
//!
//! The size of the file is independent of `-m`: a start with another `-m` keeps the items, and a limit that was changed in
//! between does not matter. After a start with a lower `-m`, the mover empties pages as after a lower limit.
//!
//! The caller of [`set_limit`] waits until the file system has allocated the blocks, a part of 64 MiB after the other. No
//! lock of the cache is held meanwhile, except the resize lock, for which only other changes of the limit wait. If the file
//! system is full, the blocks of this call are freed again, and the old limit stays.

use super::file::MemoryFile;
use super::meta::Saved;
use super::outcome::RestartError;
use crate::config::EngineConfig;
use crate::mem::UnusedPage;
use crate::pool::{Blocks, Growth, Pool};
use crate::space::Space;
use slabwise_base::PageId;
use slabwise_base::sync::lock;
use std::ops::Range;

/// The error of a change of the memory limit. The old limit stays.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The limit is above the size of the address space that was reserved at the start.
    #[error(
        "a limit of {bytes} bytes is beyond the {bytes_max} bytes of address space reserved at the start: \
         restart with a larger -m"
    )]
    TooLarge {
        /// The requested memory limit, in bytes.
        bytes: u64,
        /// The largest possible memory limit, in bytes.
        bytes_max: u64,
    },
    /// The memory file cannot become as large as this limit needs.
    #[error("a limit of {bytes} bytes is not possible: {error}")]
    File {
        /// The requested memory limit, in bytes.
        bytes: u64,
        /// The reason.
        error: RestartError,
    },
}

/// Changes the memory limit. `file` is the memory file that holds the arena, if any. A higher limit first gets the blocks that
/// it needs in the file.
pub fn set_limit(space: &Space, file: Option<&MemoryFile>, bytes: u64) -> Result<(), LimitError> {
    let _resize = lock(&space.resize);
    let beyond_limit = file.map_or(0, |_| space.config.pages_beyond_limit());
    let bytes_max = space.memory.size_bytes() as u64
        - u64::from(beyond_limit) * space.config.page_size_bytes as u64;
    if bytes > bytes_max {
        return Err(LimitError::TooLarge { bytes, bytes_max });
    }
    let pages = space.config.pages_within(bytes);
    if let Some(file) = file {
        grow(space, file, pages).map_err(|error| LimitError::File { bytes, error })?;
    }
    space.lock_pool().limit = pages;
    space.work.set_memory(bytes);
    Ok(())
}

/// Allocates the blocks that a limit of this number of pages needs. The caller holds the resize lock.
fn grow(space: &Space, file: &MemoryFile, limit: u32) -> Result<(), RestartError> {
    let growth = space.lock_pool().begin_growth(limit);
    let Some(growth) = growth else { return Ok(()) };
    let (holes, sizes) = parts(&growth, space.config.page_size_bytes as u64);
    file.grow(&holes, sizes)?;
    space.lock_pool().end_growth(growth);
    Ok(())
}

/// Returns the holes that a growth fills, and the size of the arena before and afterwards, in bytes of the file.
fn parts(growth: &Growth, page_size_bytes: u64) -> (Vec<Range<u64>>, Range<u64>) {
    let bytes = |pages: Range<u32>| in_bytes(&pages, page_size_bytes);
    let holes = runs(&growth.holes).map(bytes).collect();
    let [before, after] = growth.ends;
    (holes, bytes(before..after))
}

/// Returns the runs of consecutive pages among pages in ascending order.
fn runs(pages: &[PageId]) -> impl Iterator<Item = Range<u32>> {
    let runs = pages.chunk_by(|a, b| a.0 + 1 == b.0);
    runs.map(|run| run[0].0..run[0].0 + run.len() as u32)
}

fn in_bytes(pages: &Range<u32>, page_size_bytes: u64) -> Range<u64> {
    u64::from(pages.start) * page_size_bytes..u64::from(pages.end) * page_size_bytes
}

/// Returns the blocks of a new memory file of this size, in which every page has blocks.
pub(super) fn all_blocks(config: &EngineConfig, file: &MemoryFile, size_bytes: u64) -> Blocks {
    Blocks {
        end: (size_bytes / config.page_size_bytes as u64) as u32,
        beyond_limit: config.pages_beyond_limit(),
        holes: Vec::new(),
        can_free: file.can_free(),
    }
}

/// The pages of a saved memory file that will have blocks after a start, and those that will be holes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The number of pages that the file will have.
    pub end: u32,
    /// The pages of items.
    owned: Vec<Range<u32>>,
    /// Further pages that will have blocks, also beyond the present end of the file.
    spare: Vec<Range<u32>>,
    /// The pages without blocks.
    pub holes: Vec<Range<u32>>,
    /// True if the file was saved with holes.
    has_holes: bool,
    page_size_bytes: u64,
    memory_limit_bytes: u64,
}

impl Layout {
    /// Returns the layout for a start with this configuration.
    pub fn of(saved: &Saved, config: &EngineConfig) -> Layout {
        let needed = config.pages_within(config.memory_limit_bytes) + config.pages_beyond_limit();
        let page_size_bytes = config.page_size_bytes as u64;
        let end = (saved.arena_size_bytes / page_size_bytes) as u32;
        let mut missing = needed.saturating_sub(saved.owners.iter().flatten().count() as u32);
        let is_owned = |page: u32| matches!(saved.owners.get(page as usize), Some(Some(_)));
        let (owned, spare, holes) = Default::default();
        let mut layout = Layout {
            end: 0,
            owned,
            spare,
            holes,
            has_holes: !saved.holes.is_empty(),
            page_size_bytes,
            memory_limit_bytes: config.memory_limit_bytes,
        };
        for page in 0..end {
            let runs = if is_owned(page) {
                &mut layout.owned
            } else if missing > 0 {
                missing -= 1;
                &mut layout.spare
            } else {
                &mut layout.holes
            };
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        if missing > 0 {
            layout.spare.push(end..end + missing);
        }
        let with_blocks = layout.owned.last().into_iter().chain(layout.spare.last());
        layout.end = with_blocks.map(|run| run.end).max().unwrap_or(0);
        layout.holes.retain(|hole| hole.end <= layout.end);
        layout
    }

    /// Allocates the blocks, before anything else in the file changes.
    pub fn allocate(&self, file: &MemoryFile) -> Result<(), RestartError> {
        let bytes = |pages: &Range<u32>| in_bytes(pages, self.page_size_bytes);
        let kept: Vec<_> = self.owned.iter().map(bytes).collect();
        let unused: Vec<_> = self.spare.iter().map(bytes).collect();
        file.allocate_saved(&kept, &unused, self.has_holes)
    }

    /// Gives the file its new length, frees the blocks of the holes, and changes the saved state accordingly. The generation
    /// number was erased.
    pub fn apply(&self, file: &MemoryFile, saved: &mut Saved) -> Result<(), RestartError> {
        let size_bytes = u64::from(self.end) * self.page_size_bytes;
        if size_bytes > saved.arena_size_bytes {
            file.lengthen(saved.arena_size_bytes..size_bytes)?;
        } else {
            file.resize(size_bytes)?;
        }
        self.holes.iter().for_each(|hole| file.free(&in_bytes(hole, self.page_size_bytes)));
        saved.arena_size_bytes = size_bytes;
        saved.memory_limit_bytes = self.memory_limit_bytes;
        saved.owners.truncate(self.end as usize);
        saved.holes.clone_from(&self.holes);
        Ok(())
    }
}

/// The state of the pool that is saved.
#[derive(Debug)]
pub(super) struct SavedPool {
    memory_limit_bytes: u64,
    /// The number of pages that were ever used.
    frontier: u32,
    /// The pages without blocks, in ascending order.
    holes: Vec<Range<u32>>,
}

impl SavedPool {
    pub fn of(saved: &Saved) -> SavedPool {
        SavedPool {
            memory_limit_bytes: saved.memory_limit_bytes,
            frontier: saved.owners.len() as u32,
            holes: saved.holes.clone(),
        }
    }

    /// Makes the pool of a cache. `free` and `unowned` are the pages that no class owns: those that hold memory, and the
    /// others.
    pub fn restore(self, space: &Space, free: Vec<UnusedPage>, unowned: Vec<UnusedPage>) {
        let is_hole = |page: &UnusedPage| {
            let next = self.holes.partition_point(|hole| hole.end <= page.id().0);
            self.holes.get(next).is_some_and(|hole| hole.contains(&page.id().0))
        };
        let limit = space.config.pages_within(self.memory_limit_bytes);
        let mut pool = space.lock_pool();
        let blocks = pool.take_blocks();
        let (holes, released) =
            unowned.into_iter().partition(|page| blocks.is_some() && is_hole(page));
        let blocks = blocks.map(|blocks| Blocks { holes, ..blocks });
        *pool = Pool::resumed(limit, self.frontier, blocks, free, released);
        drop(pool);
        space.work.set_memory(self.memory_limit_bytes);
    }
}

/// Returns the holes of a pool as ranges of page numbers, in ascending order.
pub(super) fn holes_of(pool: &Pool) -> Vec<Range<u32>> {
    let holes = pool.blocks().map_or(&[][..], |blocks| &blocks.holes);
    let mut pages: Vec<PageId> = holes.iter().map(UnusedPage::id).collect();
    pages.sort_unstable();
    runs(&pages).collect()
}
