//! Warm restart: a cache whose arena lies in a file goes on where another process left it.
//!
//! ```text
//!   FILE        the arena, page by page, mapped; behind it the seal (8 bytes)
//!   FILE.meta   text: settings, seal, clock, CAS counter, flush, the class table in force and what is
//!               left of earlier ones, who owns each page, where each queue ends; a checksum
//!
//!   close:  seal the arena, then write FILE.meta          open:  take FILE.meta away, break the seal,
//!                                                                rebuild the rest by walking the arena
//! ```
//!
//! What is persistent is what lies in the arena anyhow: items, with their CAS values, times, states and
//! queue links. Chunks are named by their distance from its start, so it does not matter where it is
//! mapped. What can be told from that is rebuilt: index, free lists, counters. Which chunks are in use follows
//! from who is linked, so that an upload or a move that the stop cut short leaves nothing behind.
//!
//! Rebuilding walks the arena in three passes, each over what the one before has checked:
//!
//! 1. Every page, every slot: a linked item is checked against its chunk, its bodies against it, and it
//!    enters the index. Pins of the last process mean nothing.
//! 2. Every queue, from its tail: it leads over all items that say they are in it, once each.
//! 3. Every page: what is neither a linked item nor one of its bodies is free.
//!
//! `mem` checks what can be told from the bytes alone; what the saved text and the eviction order say of them is
//! checked here.
//!
//! Invariants:
//!
//! - ONE-LIFE: `FILE.meta` is there only while no process uses FILE. It is gone from the disk before the
//!   first byte of the arena changes, and the seal, a number that only the two share, is broken: after a
//!   crash, or beside a copy of an older FILE.meta, the arena is not believed.
//! - ALL-OR-NOTHING: every header, chain and queue is checked before it is followed, as if a stranger
//!   had written it. One that does not hold means that somebody else wrote to the file, so no value in it
//!   can be trusted: the cache starts cold. It may forget, but must not lie.
//! - ONE-PROCESS: FILE is locked as long as its process lives.
//!
//! Time: the clock of the new process goes on from where the old one's would be now ([`Warm::elapsed`]),
//! so that expiries and access times mean what they meant, and nothing is converted.
//!
//! Who may call it: the server, before the first and after the last handle. It reads no clock.

mod file;
mod meta;
mod outcome;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::class::{CLASS_NUMBERS, Standing};
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

/// A cache over the memory file at `path`, which is made if it is not there: as the last process left
/// it if that one closed it, and empty otherwise. `unix_time` is the machine's date.
pub fn open(
    config: EngineConfig,
    path: &Path,
    unix_time: Duration,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Cache, MemoryFile, Start), RestartError> {
    let file = MemoryFile::open(path)?;
    let size_bytes = config.arena_size_bytes();
    let saved = judge(&file, &config, unix_time)?;
    file.take_meta_away()?;
    let sealed = file.break_seal(size_bytes)?;
    let reason = match saved {
        Ok(saved) if sealed == Some(saved.seal) => {
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
    file.begin_anew(size_bytes)?;
    let cache = over(config, &file)?;
    Ok((cache, file, Start::Cold(reason)))
}

/// Ends a cache over a memory file so that the next [`open`] finds everything again. After an
/// error it will find nothing.
pub fn close(cache: &Cache, file: &MemoryFile, stop: Stop) -> Result<(), RestartError> {
    let saved = saved(cache, stop);
    let config = &cache.space.config;
    file.seal(config.arena_size_bytes(), saved.seal)?;
    file.write_meta(&meta::compose(config, &saved))
}

fn over(config: EngineConfig, file: &MemoryFile) -> Result<Cache, RestartError> {
    let size_bytes = config.arena_size_bytes() as usize;
    let arena = Arena::of_file(file.descriptor(), size_bytes, config.huge_pages)?;
    Ok(Cache::new(config, arena))
}

/// Fills an empty cache with what lies in its arena; returns the number of items.
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

/// The buckets that an index over an arena full of the least items has.
fn index_buckets_max(space: &Space, saved: &Saved) -> u64 {
    let classes = saved.table.classes().chain(saved.retired.iter().copied());
    let chunk_size_bytes = classes.map(|(_, size)| size as u64).min();
    space.memory.size_bytes() as u64 / chunk_size_bytes.expect("a table has a class")
}

/// What the arena does not tell by itself. Slots that were never handed out are made to read as free.
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
        if state.standing() == Standing::Retired {
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
        seal: KeyHasher::new(space.config.hash_seed).hash(&nanos),
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

/// What was saved, or why it is of no use.
fn judge(
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

/// Items that enter the index together, in the order of their hashes: then a stripe is locked once for
/// many, and their buckets are fetched beside each other.
const BATCH_ITEMS: usize = 1 << 20;

struct Rebuild<'e> {
    space: &'e Space,
    restore: Restore,
    /// Items that are checked but not in the index yet, by their hashes.
    batch: Vec<(u64, RestoredItem)>,
    /// Items met on pages, and in queues.
    items: u64,
    queues_items: u64,
}

impl Rebuild<'_> {
    /// Gives each class the pages that it owned; returns those that nobody owned.
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

    /// Checks every linked item of a page and enters it.
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
            let is_as_others = has_rank == space.ranks_items;
            ensure("an item has a rank exactly if items are ranked", address, is_as_others)?;
            self.items += 1;
            self.batch.push((space.hash_of(item.item(&self.restore)), item));
            if self.batch.len() == BATCH_ITEMS {
                self.index_batch()?;
            }
        }
        Ok(())
    }

    /// Lets the index lead to the items that wait.
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
                // Few entries look alike, so the item's own line is seldom needed again.
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
