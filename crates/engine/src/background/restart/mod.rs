//! Warm restart: a process whose arena is in a file starts with the items of the process that used the file before.
//!
//! ```text
//!   FILE        the arena, page by page; the generation number (8 bytes) follows it, and then a mark
//!   FILE.meta   text: settings, generation number ("seal"), clock, CAS counter, flush, the current class table, the
//!               retired classes, the class of each page, the tail of each queue, the state of each class's eviction
//!               order; a checksum
//!
//!   close:  write the generation number, then FILE.meta
//!   open:   read and remove FILE.meta, erase the generation number, rebuild all other data by walking the arena
//! ```
//!
//! The arena contains the items with their CAS values, times, states and queue links. A link is the offset of a chunk
//! from the start of the arena, so the arena may be mapped at any address. The index, the free lists and the counters
//! are rebuilt. Only the chunks of linked items count as used. So if the stop interrupted an upload or a page move, the
//! chunks of this upload or move are free after the restart.
//!
//! The rebuild walks over the arena in three passes. Each pass relies on the checks of the previous pass.
//!
//! 1. For every slot of every page: checks a linked item against its chunk, and the bodies of a chained item against
//!    the item. Adds the item to the index, and removes the pins of the last process from its state.
//! 2. For every queue, from its tail to its head: checks that the queue links all items whose states name this queue,
//!    and each of them once.
//! 3. For every page: frees the chunks that hold neither a linked item nor a body of such an item.
//!
//! The module `mem` checks the bytes of the arena by themselves. This module compares them with the text of FILE.meta
//! and with the eviction order.
//!
//! Invariants:
//!
//! - ONE-LIFE: `FILE.meta` exists only while no process uses FILE. A starting process removes FILE.meta from the disk
//!   and erases the generation number before the first byte of the arena changes. A saved arena and its FILE.meta share
//!   a generation number that no other pair has. So the items in the arena are not restored after a crash, and not with
//!   a copy of an older FILE.meta.
//! - ALL-OR-NOTHING: every header, chain and queue is untrusted input, and is checked before its links are followed. If
//!   one of them is broken, another program has written to FILE, so all values in it are suspect, and the cache
//!   starts empty. A restart may lose items, but a restarted cache must not return wrong values.
//! - ONE-PROCESS: a process holds a lock on FILE as long as it uses FILE.
//!
//! Size: FILE has as many pages as the memory limit of the process needed, and a process with another limit changes it
//! (`resize.rs`). Only pages for which the file system has blocks are used (`pool.rs`).
//!
//! Time: the clock of the new process shows the time that the clock of the old process would show now
//! ([`Warm::elapsed`]). So the stored expiries and access times stay valid without conversion.
//!
//! The server calls this module before it creates the first handle and after it drops the last one. The caller passes
//! the time in; this module reads no clock.

mod file;
pub mod handover;
mod image;
mod meta;
mod outcome;
mod resize;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::class::{CLASS_NUMBERS, ClassStatus};
use crate::config::EngineConfig;
use crate::evict::Place;
use crate::layout::ChunkAddress;
use crate::mem::{
    Arena, Broken, FileAccess, Kind, MappingError, QueueKind, Restore, RestoredItem, UnusedPage,
    ensure,
};
use crate::ops::Cache;
use crate::space::Space;
use file::META_SUFFIX;
use meta::Saved;
use resize::{Layout, SavedPool, all_blocks, holes_of};
use slabwise_base::{ClassId, KeyHasher, PageId};
use std::path::Path;
use std::time::Duration;

pub use file::MemoryFile;
pub use outcome::{ColdReason, Progress, RestartError, Start, Stop, Warm};
pub use resize::{LimitError, set_limit};

/// Opens a cache on the memory file at `path`, and creates the file if it does not exist. If the last process closed
/// its cache by [`close`], and no [`ColdReason`] applies, the new cache holds the items of that process. Otherwise the
/// new cache is empty. `unix_time` is the time of the machine's clock, since 1970.
pub fn open(
    config: EngineConfig,
    path: &Path,
    unix_time: Duration,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Cache, MemoryFile, Start), RestartError> {
    let file = MemoryFile::open(path)?;
    let saved = read_saved(&file, &config, unix_time)?;
    if matches!(saved, Err(ColdReason::NothingSaved)) {
        file.check_origin()?;
    }
    file.restrict_access()?;
    let layout = saved.as_ref().ok().map(|saved| Layout::of(saved, &config));
    if let Some(layout) = &layout {
        // If the file system is full, the start fails before it destroys the saved state.
        layout.allocate(&file)?;
    }
    file.remove_meta()?;
    let generation = match &saved {
        Ok(saved) => file.take_generation(saved.arena_size_bytes)?,
        Err(_) => None,
    };
    let reason = match (saved, layout) {
        (Ok(mut saved), Some(layout)) if generation == Some(saved.generation) => {
            let elapsed = saved.stop.elapsed + (unix_time - saved.stop.unix_time);
            layout.apply(&file, &mut saved)?;
            let cache = create_on(config.clone(), &file, saved.arena_size_bytes, progress)?;
            let restore = Restore::new(&cache.space.memory);
            let rebuilt = rebuild(&cache, &saved, restore, progress);
            match rebuilt.map(|rebuilt| rebuilt.finish(&cache.space)) {
                Ok(finished) => {
                    let items = finished?;
                    return Ok((cache, file, Start::Warm(Warm { items, elapsed })));
                }
                Err(damage) => damage,
            }
        }
        (Ok(_), _) => ColdReason::OtherArena,
        (Err(reason), _) => reason,
    };
    let size_bytes = config.arena_size_bytes();
    file.reset(size_bytes)?;
    let cache = create_on(config, &file, size_bytes, progress)?;
    Ok((cache, file, Start::Cold(reason)))
}

/// Returns lines with the settings with which the cache in the memory file at `path` was saved, and others. `None`: nothing was
/// saved.
pub fn saved_layout(path: &Path) -> Option<String> {
    let mut meta = path.as_os_str().to_owned();
    meta.push(META_SUFFIX);
    // Any error is reported by `open`.
    std::fs::read_to_string(meta).ok()
}

/// Saves a cache to its memory file, so that the next [`open`] can restore its items. After an error, the next [`open`]
/// returns an empty cache.
pub fn close(cache: &Cache, file: &MemoryFile, stop: Stop) -> Result<(), RestartError> {
    let saved = collect_saved(cache, stop);
    file.save(saved.arena_size_bytes, saved.generation)?;
    file.write_meta(&meta::compose(&cache.space.config, &saved))
}

/// Creates an empty cache whose arena is the mapped memory file, in which all pages of the arena have blocks.
fn create_on(
    config: EngineConfig,
    file: &MemoryFile,
    size_bytes: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Cache, RestartError> {
    let arena = map(&config, file, size_bytes, FileAccess::Writable)?;
    progress(Progress::Mapped(arena.addresses()));
    let blocks = all_blocks(&config, file, size_bytes);
    let cache = Cache::new(config, arena)?;
    cache.space.lock_pool().count_blocks(blocks);
    Ok(cache)
}

/// Maps a memory file with `size_bytes` bytes of pages. Reserves more address space, so that the file can become longer, if
/// the system allows this.
fn map(
    config: &EngineConfig,
    file: &MemoryFile,
    size_bytes: u64,
    access: FileAccess,
) -> Result<Arena, MappingError> {
    let map = |mapped_bytes: u64| {
        let sizes = (mapped_bytes as usize, size_bytes);
        Arena::of_file(file.descriptor(), sizes, config.huge_pages, access)
    };
    map(config.roomy_arena_size_bytes().max(size_bytes)).or_else(|error| match error {
        MappingError::NoSpace { .. } => map(config.arena_size_bytes().max(size_bytes)),
        error => Err(error),
    })
}

/// Finds the items in the arena of a new cache, and builds the index and the queues. Returns the rest of the work, or the
/// reason why the items cannot be used.
fn rebuild(
    cache: &Cache,
    saved: &Saved,
    restore: Restore,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rebuilt, ColdReason> {
    let space = &cache.space;
    space.flush.restore(saved.flush);
    space.work.restore(&saved.work);
    space.index.presize(saved.index_buckets.min(items_max(space, saved)));
    space.restore_classes(saved.table.clone(), &saved.retired);
    let mut rebuild =
        Rebuild { space, restore, batch: Vec::new(), items_on_pages: 0, items_in_queues: 0 };
    let unused = rebuild.adopt_pages(saved);
    let owned = |(index, owner): (usize, &Option<ClassId>)| Some((PageId(index as u32), (*owner)?));
    let pages = || saved.owners.iter().enumerate().filter_map(owned);
    for (page, class) in pages() {
        rebuild.batch_items(page, class)?;
        progress(Progress::Checked { pages_done: page.index() + 1, pages: saved.owners.len() });
    }
    rebuild.index_batch()?;
    rebuild.restore_queues(saved)?;
    let all_queued = rebuild.items_on_pages == rebuild.items_in_queues;
    ensure("every item is in a queue", ChunkAddress::from_offset(0), all_queued)?;
    Ok(Rebuilt {
        restore: rebuild.restore,
        unused,
        pages_owned: pages().collect(),
        pool: SavedPool::of(saved),
        retired: saved.retired.clone(),
        items: rebuild.items_on_pages,
    })
}

/// A cache whose items have been found, and whose arena has not been changed except for the marks of a
/// [`Restore::new`].
#[derive(Debug)]
struct Rebuilt {
    restore: Restore,
    /// The pages that no class owns.
    unused: Vec<UnusedPage>,
    pages_owned: Vec<(PageId, ClassId)>,
    pool: SavedPool,
    retired: Vec<(ClassId, usize)>,
    items: u64,
}

impl Rebuilt {
    /// Frees the chunks without items, after which the cache can be used. Returns the number of items.
    fn finish(mut self, space: &Space) -> Result<u64, MappingError> {
        self.restore.allow_writes()?;
        for (page, class) in self.pages_owned {
            space.class(class).lock().pages.finish_restore(&mut self.restore, page);
        }
        self.pool.restore(space, Vec::new(), self.unused);
        space.retire_restored(&self.retired);
        space.charge_tables();
        Ok(self.items)
    }
}

/// Returns the largest number of items that the arena can hold, as a limit for the saved number of index buckets.
fn items_max(space: &Space, saved: &Saved) -> u64 {
    let classes = saved.table.classes().chain(saved.retired.iter().copied());
    let chunk_size_bytes = classes.map(|(_, size)| size as u64).min();
    saved.owners.len() as u64 * space.config.page_size_bytes as u64
        / chunk_size_bytes.expect("a class table has at least one class")
}

/// Collects the state that the .meta file saves because it is not in the arena. Also marks the chunks that were never
/// used as free in the arena, so that the next process does not read stale bytes there.
fn collect_saved(cache: &Cache, stop: Stop) -> Saved {
    let space = &cache.space;
    let page_size_bytes = space.config.page_size_bytes as u64;
    let pool = space.lock_pool();
    let (frontier, limit, holes) = (pool.frontier, pool.limit, holes_of(&pool));
    let end = pool.blocks().map(|blocks| u64::from(blocks.end) * page_size_bytes);
    drop(pool);
    let pages = || (0..frontier).map(PageId);
    let mut tails = vec![meta::Tails::new(); CLASS_NUMBERS];
    let mut rankings = vec![[0; 3]; CLASS_NUMBERS];
    let mut retired = Vec::new();
    for class in space.queueing_classes() {
        let mut state = class.lock();
        let tail = |lane, queue| state.lanes.queue(Place { lane, queue }).tail_address();
        let of_lane = |lane| QueueKind::ALL.map(|queue| tail(lane, queue));
        tails[state.id().index()] = state.lanes.all().map(|lane| (lane, of_lane(lane))).collect();
        rankings[state.id().index()] = state.saved_order();
        if state.status() == ClassStatus::Retired {
            retired.push((state.id(), state.chunk_size_bytes()));
        }
        if state.pages.token.page_count() == 0 {
            continue;
        }
        let owner = Some(state.id());
        let own = |id: &PageId| space.memory.page(*id).owner() == owner;
        pages().filter(own).for_each(|id| state.pages.token.blank_fresh(id));
    }
    let nanos = (stop.unix_time.as_nanos() as u64).to_le_bytes();
    Saved {
        memory_limit_bytes: u64::from(limit) * page_size_bytes,
        arena_size_bytes: end.unwrap_or(space.memory.size_bytes() as u64),
        generation: KeyHasher::new(space.config.hash_seed).hash(&nanos),
        stop,
        flush: space.flush.saved(),
        work: space.work.saved(),
        index_buckets: space.index.bucket_count(),
        table: space.class_table(),
        retired,
        owners: pages().map(|id| space.memory.page(id).owner()).collect(),
        holes,
        tails,
        rankings,
    }
}

/// Reads the saved state from the .meta file. The inner error is the reason why the cache must start empty.
fn read_saved(
    file: &MemoryFile,
    config: &EngineConfig,
    unix_time: Duration,
) -> Result<Result<Saved, ColdReason>, RestartError> {
    let Some(text) = file.read_meta()? else { return Ok(Err(ColdReason::NothingSaved)) };
    let size_bytes = file.arena_size_bytes(config.page_size_bytes)?;
    match meta::parse(&text, config, size_bytes) {
        None => Err(RestartError::MalformedMeta(file.meta_path())),
        Some(Ok(saved)) if saved.stop.unix_time > unix_time => Ok(Err(ColdReason::ClockBack)),
        Some(saved) => Ok(saved),
    }
}

/// The number of items that are sorted by hash and added to the index together. So a stripe is locked once for many
/// items, and consecutive items use buckets that are close together in memory.
const BATCH_ITEMS: usize = 1 << 20;

/// The state of a rebuild.
struct Rebuild<'e> {
    space: &'e Space,
    restore: Restore,
    /// The hashes of items, and the items, that were checked but are not in the index yet.
    batch: Vec<(u64, RestoredItem)>,
    /// The number of linked items found on pages so far.
    items_on_pages: u64,
    /// The number of items found in queues so far.
    items_in_queues: u64,
}

impl Rebuild<'_> {
    /// Assigns each page to the class that owned it before the restart. Returns the pages that no class owned.
    fn adopt_pages(&mut self, saved: &Saved) -> Vec<UnusedPage> {
        let mut unused = Vec::new();
        for owner in &saved.owners {
            let page = self
                .space
                .memory
                .next_new_page()
                .expect("the arena has all pages of the .meta file");
            match owner {
                Some(class) => {
                    let mut class = self.space.class(*class).lock();
                    class.begin_restore(&mut self.restore, page);
                }
                None => unused.push(page),
            }
        }
        unused
    }

    /// Checks every linked item on a page and adds it to the batch. Adds a full batch to the index.
    fn batch_items(&mut self, page: PageId, class: ClassId) -> Result<(), ColdReason> {
        let (space, class) = (self.space, self.space.class(class).lock());
        let (size_bytes, count) = (class.chunk_size_bytes(), class.pages.token.chunks_per_page());
        drop(class);
        for slot in 0..count {
            let address = space.memory.chunk_at(page, slot, size_bytes);
            if self.restore.state(address)?.kind() != Kind::Item {
                continue;
            }
            let Some(item) = self.restore.item(address)? else { continue };
            let has_rank = item.item(&self.restore).state().fields().rank;
            let is_expected = has_rank == space.ranks_items;
            ensure("an item has a rank exactly if items are ranked", address, is_expected)?;
            self.items_on_pages += 1;
            self.batch.push((space.hash_of(item.item(&self.restore)), item));
            if self.batch.len() == BATCH_ITEMS {
                self.index_batch()?;
            }
        }
        Ok(())
    }

    /// Adds the items of the batch to the index, and empties the batch.
    fn index_batch(&mut self) -> Result<(), ColdReason> {
        let (space, restore) = (self.space, &self.restore);
        let index = &space.index;
        self.batch.sort_unstable_by_key(|&(hash, _)| hash);
        let mut waiting = self.batch.drain(..).peekable();
        while let Some(&(first, _)) = waiting.peek() {
            let number = index.stripe_of(first);
            let mut stripe = index.lock(first);
            while let Some((hash, item)) =
                waiting.next_if(|&(hash, _)| index.stripe_of(hash) == number)
            {
                // The index compares tags first, so this lookup rarely reads another item.
                let other = stripe.get(hash, item.item(restore).key());
                ensure("a key has one item", item.item(restore).address(), other.is_none())?;
                stripe = index.restore(stripe, hash, item, |other| space.hash_of(other));
            }
        }
        Ok(())
    }

    /// Restores every queue from its saved tail, and counts the items in the queues.
    fn restore_queues(&mut self, saved: &Saved) -> Result<(), ColdReason> {
        for class in self.space.queueing_classes() {
            let mut class = class.lock();
            let id = class.id();
            class.restore_order(saved.rankings[id.index()]);
            for (&lane, tails) in &saved.tails[id.index()] {
                for (queue, &tail) in QueueKind::ALL.into_iter().zip(tails) {
                    let place = Place { lane, queue };
                    self.items_in_queues += class.restore_queue(&mut self.restore, place, tail)?;
                }
            }
        }
        Ok(())
    }
}

impl From<Broken> for ColdReason {
    fn from(Broken { invariant, address }: Broken) -> ColdReason {
        ColdReason::Damaged { invariant, offset: address.offset() as u64 }
    }
}
