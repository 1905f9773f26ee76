//! Warm restart: a cache whose arena is in a file continues with the items of the previous process.
//!
//! ```text
//!   FILE        the mapped arena, page by page; after it the generation number (8 bytes)
//!   FILE.meta   text: settings, generation ("seal"), clock, CAS counter, flush, the current class table and the
//!               retired classes, the class of each page, the tail of each queue; a checksum
//!
//!   close:  write the generation, then FILE.meta          open:  remove FILE.meta, erase the generation,
//!                                                                rebuild the rest by walking the arena
//! ```
//!
//! The arena persists: items with their CAS values, times, states and queue links. Chunks are addressed by their
//! offset from its start, so it may be mapped at any address. Index, free lists and counters are rebuilt. Only chunks
//! of linked items count as in use, so an upload or a page move that the stop interrupted leaks no memory.
//!
//! The rebuild walks the arena in three passes, each over what the one before has checked:
//!
//! 1. Every page, every slot: a linked item is checked against its chunk, its bodies against the item, and it
//!    enters the index. Pins of the last process are dropped.
//! 2. Every queue, from its tail: it links all items whose states name it, each once.
//! 3. Every page: chunks that hold neither a linked item nor one of its bodies are free.
//!
//! `mem` checks the bytes alone; this module checks them against the saved text and the eviction order.
//!
//! Invariants:
//!
//! - ONE-LIFE: `FILE.meta` exists only while no process uses FILE. It is removed from the disk before the first byte of
//!   the arena changes, and the generation number, which only the two files share, is erased. So the arena is not
//!   used after a crash, or with a copy of an older FILE.meta.
//! - ALL-OR-NOTHING: every header, chain and queue is checked before it is followed, as untrusted input. A broken
//!   one means that another program wrote to the file, so no value in it can be trusted, and the cache starts cold. It
//!   may lose items, but must not return wrong values.
//! - ONE-PROCESS: a process locks FILE as long as it uses it.
//!
//! Time: the clock of the new process continues where the old one's would be now ([`Warm::elapsed`]),
//! so that expiries and access times stay valid without conversion.
//!
//! The server calls this module before it creates the first handle and after it drops the last one. The module reads
//! no clock.

mod file;
mod meta;
mod outcome;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::class::{CLASS_NUMBERS, ClassStatus};
use crate::config::EngineConfig;
use crate::evict::Place;
use crate::heap::Pool;
use crate::layout::ChunkAddress;
use crate::mem::{Arena, Broken, Kind, QueueKind, Restore, RestoredItem, UnusedPage, ensure};
use crate::ops::Cache;
use crate::space::Space;
use meta::Saved;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, KeyHasher, PageId};
use std::path::Path;
use std::time::Duration;

pub use file::MemoryFile;
pub use outcome::{ColdReason, Progress, RestartError, Start, Stop, Warm};

/// Opens a cache on the memory file at `path`, which is created if it does not exist. The cache holds the items of the
/// last process if that one closed it, and is empty otherwise. `unix_time` is the machine's date.
pub fn open(
    config: EngineConfig,
    path: &Path,
    unix_time: Duration,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Cache, MemoryFile, Start), RestartError> {
    let file = MemoryFile::open(path)?;
    let size_bytes = config.arena_size_bytes();
    let saved = read_saved(&file, &config, unix_time)?;
    file.remove_meta()?;
    let generation = file.take_generation(size_bytes)?;
    let reason = match saved {
        Ok(saved) if generation == Some(saved.generation) => {
            let elapsed = saved.stop.elapsed + (unix_time - saved.stop.unix_time);
            let cache = over(config.clone(), &file)?;
            match resume(&cache, &saved, progress) {
                Ok(items) => return Ok((cache, file, Start::Warm(Warm { items, elapsed }))),
                Err(damage) => damage,
            }
        }
        Ok(_) => ColdReason::OtherArena,
        Err(reason) => reason,
    };
    file.reset(size_bytes)?;
    let cache = over(config, &file)?;
    Ok((cache, file, Start::Cold(reason)))
}

/// Saves a cache on a memory file, so that the next [`open`] restores its items. After an error the next start is
/// cold.
pub fn close(cache: &Cache, file: &MemoryFile, stop: Stop) -> Result<(), RestartError> {
    let saved = saved(cache, stop);
    let config = &cache.space.config;
    file.save(config.arena_size_bytes(), saved.generation)?;
    file.write_meta(&meta::compose(config, &saved))
}

fn over(config: EngineConfig, file: &MemoryFile) -> Result<Cache, RestartError> {
    let size_bytes = config.arena_size_bytes() as usize;
    let arena = Arena::of_file(file.descriptor(), size_bytes, config.huge_pages)?;
    Ok(Cache::new(config, arena))
}

/// Rebuilds an empty cache from the bytes of its arena. Returns the number of items.
fn resume(
    cache: &Cache,
    saved: &Saved,
    progress: &mut dyn FnMut(Progress),
) -> Result<u64, ColdReason> {
    let space = &cache.space;
    space.flush.restore(saved.flush);
    space.index.presize(saved.index_buckets.min(index_buckets_max(space, saved)));
    space.restore_classes(saved.table.clone(), &saved.retired);
    let restore = Restore::new(&space.memory);
    let mut rebuild = Rebuild { space, restore, batch: Vec::new(), items: 0, queues_items: 0 };
    let unused = rebuild.adopt_pages(saved);
    let owned = |(index, owner): (usize, &Option<ClassId>)| Some((PageId(index as u32), (*owner)?));
    let pages = || saved.owners.iter().enumerate().filter_map(owned);
    for (page, class) in pages() {
        rebuild.enter_items(page, class)?;
        progress(Progress { pages_done: page.index() + 1, pages: saved.owners.len() });
    }
    rebuild.index_batch()?;
    rebuild.queues(saved)?;
    for (page, class) in pages() {
        space.class(class).lock().pages.finish_restore(&mut rebuild.restore, page);
    }
    let all_queued = rebuild.items == rebuild.queues_items;
    ensure("every item is in a queue", ChunkAddress::from_offset(0), all_queued)?;
    {
        let mut pool = lock(&space.pool);
        *pool = Pool::resumed(pool.limit, saved.owners.len() as u32, unused);
    }
    space.retire_restored(&saved.retired);
    space.charge_index();
    Ok(rebuild.items)
}

/// The number of index buckets for an arena full of the smallest items.
fn index_buckets_max(space: &Space, saved: &Saved) -> u64 {
    let classes = saved.table.classes().chain(saved.retired.iter().copied());
    let chunk_size_bytes = classes.map(|(_, size)| size as u64).min();
    space.memory.size_bytes() as u64 / chunk_size_bytes.expect("a table has a class")
}

/// Collects the state that is not in the arena, for the .meta file. Marks fresh chunks as free.
fn saved(cache: &Cache, stop: Stop) -> Saved {
    let space = &cache.space;
    let frontier = lock(&space.pool).frontier;
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
        generation: KeyHasher::new(space.config.hash_seed).hash(&nanos),
        stop,
        flush: space.flush.saved(),
        index_buckets: space.index.bucket_count(),
        table: space.class_table(),
        retired,
        owners: pages().map(|id| space.memory.page(id).owner()).collect(),
        tails,
        rankings,
    }
}

/// Reads the saved state, or returns why it cannot be used.
fn read_saved(
    file: &MemoryFile,
    config: &EngineConfig,
    unix_time: Duration,
) -> Result<Result<Saved, ColdReason>, RestartError> {
    let Some(text) = file.read_meta()? else { return Ok(Err(ColdReason::NothingSaved)) };
    match meta::parse(&text, config) {
        None => Err(RestartError::MalformedMeta(file.meta_path())),
        Some(Ok(saved)) if saved.stop.unix_time > unix_time => Ok(Err(ColdReason::ClockBack)),
        Some(saved) => Ok(saved),
    }
}

/// The number of items that are sorted by hash and enter the index together. A stripe is then locked once for many
/// items, and accesses to its buckets are close together.
const BATCH_ITEMS: usize = 1 << 20;

struct Rebuild<'e> {
    space: &'e Space,
    restore: Restore,
    /// Checked items that are not in the index yet, with their hashes.
    batch: Vec<(u64, RestoredItem)>,
    /// The number of items found on pages.
    items: u64,
    /// The number of items found in queues.
    queues_items: u64,
}

impl Rebuild<'_> {
    /// Gives each class its pages; returns the pages that no class owned.
    fn adopt_pages(&mut self, saved: &Saved) -> Vec<UnusedPage> {
        let mut unused = Vec::new();
        for owner in &saved.owners {
            let page = self.space.memory.next_new_page().expect("the arena has the saved pages");
            match owner {
                Some(class) => {
                    let mut class = self.space.class(*class).lock();
                    class.pages.begin_restore(&mut self.restore, page);
                }
                None => unused.push(page),
            }
        }
        unused
    }

    /// Checks every linked item of a page and adds it to the batch.
    fn enter_items(&mut self, page: PageId, class: ClassId) -> Result<(), ColdReason> {
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
            self.items += 1;
            self.batch.push((space.hash_of(item.item(&self.restore)), item));
            if self.batch.len() == BATCH_ITEMS {
                self.index_batch()?;
            }
        }
        Ok(())
    }

    /// Inserts the batch into the index.
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
                // Few entries have the same tag, so other items are rarely read.
                let twin = stripe.get(hash, item.item(restore).key());
                ensure("a key has one item", item.item(restore).address(), twin.is_none())?;
                stripe = index.restore(stripe, hash, item, |other| space.hash_of(other));
            }
        }
        Ok(())
    }

    /// Follows every queue from its saved tail, and counts its items.
    fn queues(&mut self, saved: &Saved) -> Result<(), ColdReason> {
        for class in self.space.queueing_classes() {
            let mut class = class.lock();
            let id = class.id();
            class.restore_order(saved.rankings[id.index()]);
            for (&lane, tails) in &saved.tails[id.index()] {
                for (queue, &tail) in QueueKind::ALL.into_iter().zip(tails) {
                    let place = Place { lane, queue };
                    self.queues_items += class.restore_queue(&mut self.restore, place, tail)?;
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
