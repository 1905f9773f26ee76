//! The image of a cache: the tables of the index, the entries of the pages, and the ends of the queues, as they are in the
//! memory of a process. A process that maps the arena of another one makes its own index and queues from the image, without
//! a visit of the items. So the time does not depend on the items, only on the size of the index, about 10 bytes per item.
//!
//! ```text
//!   words    64 bits each, in the order of `collect` in this file: geometry, tables, pages, queues, held chunks and pins
//!   buckets  the buckets of all tables, as `mem/buckets.rs` interleaves them
//!   overflow the overflow buckets of all tables
//! ```
//!
//! The image is only valid with the text of the state (`meta.rs`) of the same moment, which has the class table.
//!
//! What a process holds beyond an operation must be freed by the process that takes over:
//!
//! - *Spare chunks* return to their classes before the image is collected, and a page move is given up.
//! - *Held chunks* are in use, but neither hold an item of a queue nor belong to one: those of uploads, and of items that
//!   were replaced or evicted while a client reads them. A class has exactly as many as its count of chunks in use exceeds
//!   the chunks of queued items, so a search for them ends when it has found all, and usually does not begin.
//! - *Pins* that outlast an operation are on items of large chunks ([`Space::note_value_pin`]), so a search visits only
//!   these classes.
//!
//! Invariants:
//!
//! - SAME-MOMENT: no thread uses the cache from the start of [`collect`] until the other process has ended or given up. So
//!   all parts of the image describe the arena of the same moment.
//! - CONSERVATION: the tables have as many entries as the queues have items. [`adopt`] checks this, and the limits that
//!   `mem/takeover.rs` checks. If a check fails, or the format or the hash differs, the caller rebuilds the index and the
//!   queues from the arena instead, which reads every item and trusts nothing.

use super::meta::Saved;
use super::resize::SavedPool;
use crate::class::{ClassState, TABLE_NUMBERS};
use crate::evict::{ItemCosts, ItemSizes, Lane, Place};
use crate::layout::ChunkAddress;
use crate::mem::{
    Broken, Kind, ListImage, MappingError, PageImage, QueueKind, TableCounts, Takeover, ensure,
};
use crate::ops::Cache;
use crate::space::Space;
use slabwise_base::{ClassId, Moment, PageId};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The version of the format. A change of the words, of the buckets or of the hash of keys needs a new version.
pub const FORMAT: u32 = 1;

/// The first and the last word.
const MARK: u64 = u64::from_le_bytes(*b"an image");

/// The largest number of words, as a limit for the length that the other process sends.
const WORDS_MAX: u64 = 1 << 27;

/// Where an image is in a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePlace {
    pub offset: u64,
    /// The length of the words. The buckets follow.
    pub words_len: u64,
}

/// The chunks and pins that connections of a process hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) chunks: Vec<ChunkAddress>,
    pub(super) pinned: Vec<ChunkAddress>,
}

/// The reason why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("the image is not complete")]
    Incomplete,
    #[error("the hash of keys or the size of the index differs")]
    OtherHash,
    #[error("broken invariant at byte {}: {}", .0.address.offset(), .0.invariant)]
    Broken(Broken),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Broken> for ImageError {
    fn from(broken: Broken) -> ImageError {
        ImageError::Broken(broken)
    }
}

/// Returns the spare chunks to their classes, and gives up the page move in progress.
pub fn settle(cache: &Cache, at: Moment) {
    cache.mover.lock().give_up_present(&cache.space, at);
    cache.space.recall_all();
}

/// Writes the image of a cache, which [`settle`] has prepared, to a file. `None`: the counts of chunks do not agree, so the
/// other process must rebuild the index.
pub fn write(cache: &Cache, file: &File, offset: u64) -> io::Result<Option<ImagePlace>> {
    let space = &cache.space;
    let Some(held) = find_held(space) else { return Ok(None) };
    space.index.with_all_locked(|tables| {
        let Some(words) = collect(space, &tables.counts(), &held) else { return Ok(None) };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let place = ImagePlace { offset, words_len: bytes.len() as u64 };
        file.write_all_at(&bytes, offset)?;
        let mut at = offset + place.words_len;
        tables.visit_bytes(|bytes| {
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
            Ok(())
        })?;
        Ok(Some(place))
    })
}

/// Returns the words of the image. `None`: a page is draining.
fn collect(space: &Space, tables: &[TableCounts], held: &Held) -> Option<Vec<u64>> {
    let mut words = vec![MARK, hash_check(space), tables.len() as u64];
    for table in tables {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        words.extend([pair(table.home, table.overflow), pair(table.free_head, table.free)]);
        words.push(u64::from(table.items));
    }
    let pool = space.lock_pool();
    words.push(u64::from(pool.frontier));
    let mut is_free = vec![false; pool.frontier as usize];
    pool.free_pages().for_each(|page| is_free[page.index()] = true);
    for id in (0..pool.frontier).map(PageId) {
        let page = space.memory.page(id);
        words.extend(match (page.owner(), PageImage::of(page)) {
            (None, _) => [0, u64::from(is_free[id.index()]), 0],
            (Some(_), image) => page_words(image?),
        });
    }
    drop(pool);
    for class in space.queueing_classes() {
        collect_class(&class.lock(), &mut words);
    }
    for addresses in [&held.chunks, &held.pinned] {
        words.push(addresses.len() as u64);
        words.extend(addresses.iter().map(|&it| ChunkAddress::to_bits(Some(it))));
    }
    words.push(MARK);
    Some(words)
}

fn page_words(page: PageImage) -> [u64; 3] {
    let PageImage { owner, used, free_head, fresh, taken_as } = page;
    let free_head = free_head.map_or(0, |slot| slot + 1);
    let first = (u64::from(owner.0) + 1) | u64::from(used) << 32;
    [first, u64::from(free_head) | u64::from(fresh) << 32, taken_as]
}

/// Adds the queues of a class, and the statistics of its items.
fn collect_class(class: &ClassState, words: &mut Vec<u64>) {
    let places = places(class);
    words.push(places.len() as u64);
    for place in places {
        let ListImage { head, tail, count, bytes } = class.lanes.queue(place).image();
        words.push(u64::from(place.lane.0) << 8 | place.queue.index() as u64);
        words.extend([ChunkAddress::to_bits(head), ChunkAddress::to_bits(tail), count, bytes]);
    }
    let (first, items) = class.sizes.counts();
    words.extend([class.costs.count, class.costs.units, first as u64, items.len() as u64]);
    words.extend(items);
}

/// Returns the queues of a class that hold items.
fn places(class: &ClassState) -> Vec<Place> {
    let of_lane = |lane| QueueKind::ALL.map(|queue| Place { lane, queue });
    let all = class.lanes.all().flat_map(of_lane);
    all.filter(|&place| class.lanes.queue(place).count() > 0).collect()
}

/// Returns a number that depends on the seed and on the function of the hash of keys.
fn hash_check(space: &Space) -> u64 {
    space.hasher.hash(b"slabwise")
}

/// Finds the chunks and the pins that connections hold. `None`: the counts of chunks do not agree.
pub(super) fn find_held(space: &Space) -> Option<Held> {
    let mut held = Held::default();
    let mut chained = [0; TABLE_NUMBERS];
    let heads: Vec<_> = {
        let class = space.chained.lock();
        let queue = |place| class.lanes.queue(place).iter_from_tail(&class.pages.token);
        let all = places(&class).into_iter().flat_map(queue);
        all.map(|item| (space.hash_of(item), item.address())).collect()
    };
    for (hash, address) in heads {
        let stripe = space.index.lock(hash);
        let entry = crate::mem::Entry::find_address(stripe, hash, address).ok()?;
        let class_of = |chunk| space.memory.page(space.memory.page_of(chunk)).owner();
        for chunk in entry.item().chunks() {
            chained[class_of(chunk)?.index()] += 1;
        }
        if entry.item().state().pins() > 0 {
            held.pinned.push(address);
        }
    }
    let pinned_size_bytes_min = space.pinned_chunk_size_bytes_min();
    for class in &space.classes {
        let class = class.lock();
        let excess = class.unqueued_count().checked_sub(chained[class.id().index()])?;
        let may_be_pinned = class.chunk_size_bytes() >= pinned_size_bytes_min;
        if excess > 0 || may_be_pinned {
            let found = visit_chunks(space, &class, excess, may_be_pinned, &mut held);
            if found != excess {
                return None;
            }
        }
    }
    Some(held)
}

/// Visits the chunks of a class until it has found `excess` held chunks and, if `may_be_pinned`, all pins. Returns the
/// number of held chunks.
fn visit_chunks(
    space: &Space,
    class: &ClassState,
    excess: u64,
    may_be_pinned: bool,
    held: &mut Held,
) -> u64 {
    let (token, mut found) = (&class.pages.token, 0);
    for page in token.pages() {
        for slot in 0..token.own(page).fresh() {
            if found == excess && !may_be_pinned {
                return found;
            }
            let address = space.memory.chunk_at(page, slot, token.chunk_size_bytes());
            let Some(state) = token.state_of(address) else { continue };
            let is_held = match state.kind() {
                Kind::Free => false,
                Kind::Item => !state.linked(),
                Kind::Body => !token.head_is_linked(address),
            };
            if is_held {
                held.chunks.push(address);
                found += 1;
            } else if state.linked() && state.pins() > 0 && !state.chained() {
                held.pinned.push(address);
            }
        }
    }
    found
}

/// The words that are not read yet.
struct Words<'w>(std::slice::Iter<'w, u64>);

impl Words<'_> {
    fn next(&mut self) -> Result<u64, ImageError> {
        self.0.next().copied().ok_or(ImageError::Incomplete)
    }

    /// Returns a number of things of which each has at least one word.
    fn count(&mut self) -> Result<usize, ImageError> {
        let count = self.next()?;
        if count > self.0.len() as u64 {
            return Err(ImageError::Incomplete);
        }
        Ok(count as usize)
    }

    fn halves(&mut self) -> Result<(u32, u32), ImageError> {
        let word = self.next()?;
        Ok((word as u32, (word >> 32) as u32))
    }

    fn addresses(&mut self, takeover: &Takeover) -> Result<Vec<ChunkAddress>, ImageError> {
        let count = self.count()?;
        (0..count).map(|_| Ok(takeover.address(self.next()?)?)).collect()
    }

    /// Returns an address, or `None` for the bits of no address.
    fn address(&mut self, takeover: &Takeover) -> Result<Option<ChunkAddress>, ImageError> {
        let bits = self.next()?;
        Ok((bits != 0).then(|| takeover.address(bits)).transpose()?)
    }
}

/// A cache that was made from an image, and whose arena has not been changed.
#[derive(Debug)]
pub struct Resumed {
    takeover: Takeover,
    held: Held,
    retired: Vec<(ClassId, usize)>,
    /// The number of items.
    pub items: u64,
}

impl Resumed {
    /// Frees what the connections of the other process held, after which the cache can be used.
    pub fn finish(self, space: &Space) -> Result<(), MappingError> {
        self.takeover.allow_writes()?;
        let class_of = |address| {
            let id = space.memory.page(space.memory.page_of(address)).owner();
            id.map(|id| space.class(id))
        };
        for address in self.held.pinned {
            if let Some(class) = class_of(address) {
                self.takeover.unpin(&mut class.lock().pages.token, address);
            }
        }
        for address in self.held.chunks {
            let Some(mut class) = class_of(address).map(|class| class.lock()) else { continue };
            if let Some(chunk) = self.takeover.reclaim(&mut class.pages.token, address) {
                class.pages.give(chunk);
            }
        }
        space.retire_restored(&self.retired);
        space.charge_tables();
        Ok(())
    }
}

/// Makes the index and the queues of an empty cache, whose arena is mapped, from the image in `file` and the text of the
/// same moment. After an error, the cache must not be used.
pub fn adopt(
    cache: &Cache,
    saved: &Saved,
    file: &File,
    place: ImagePlace,
) -> Result<Resumed, ImageError> {
    let space = &cache.space;
    if place.words_len / 8 > WORDS_MAX || !place.words_len.is_multiple_of(8) {
        return Err(ImageError::Incomplete);
    }
    let mut bytes = vec![0; place.words_len as usize];
    file.read_exact_at(&mut bytes, place.offset)?;
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|&word| u64::from_le_bytes(word)).collect();
    let mut words = Words(words.iter());
    if words.next()? != MARK {
        return Err(ImageError::Incomplete);
    }
    if words.next()? != hash_check(space) {
        return Err(ImageError::OtherHash);
    }
    let tables = read_tables(&mut words)?;
    space.flush.restore(saved.flush);
    space.work.restore(&saved.work);
    space.restore_classes(saved.table.clone(), &saved.retired);
    let mut takeover = Takeover::new(&space.memory, saved.owners.len());
    read_pages(space, saved, &mut takeover, &mut words)?;
    let mut queued = 0;
    for class in space.queueing_classes() {
        let mut class = class.lock();
        let ranking = saved.rankings[class.id().index()];
        class.restore_order(ranking);
        queued += read_class(&mut class, &takeover, &mut words)?;
    }
    let held = Held { chunks: words.addresses(&takeover)?, pinned: words.addresses(&takeover)? };
    if words.next()? != MARK {
        return Err(ImageError::Incomplete);
    }
    let items: u64 = tables.iter().map(|table| u64::from(table.items)).sum();
    ensure(
        "the tables have the items of the queues",
        ChunkAddress::from_offset(0),
        items == queued,
    )?;
    let mut at = place.offset + place.words_len;
    let mut fill = |bytes: &mut [u8]| {
        file.read_exact_at(bytes, at)?;
        at += bytes.len() as u64;
        Ok(())
    };
    space.index.with_all_locked(|mut locked| locked.resume(&takeover, &tables, &mut fill))??;
    Ok(Resumed { takeover, held, retired: saved.retired.clone(), items })
}

fn read_tables(words: &mut Words<'_>) -> Result<Vec<TableCounts>, ImageError> {
    let count = words.count()?;
    let mut table = || {
        let ((home, overflow), (free_head, free)) = (words.halves()?, words.halves()?);
        let items = u32::try_from(words.next()?).map_err(|_| ImageError::Incomplete)?;
        Ok(TableCounts { home, overflow, free_head, free, items })
    };
    (0..count).map(|_| table()).collect()
}

/// Gives each page to the class that owned it, and the others to the page pool.
fn read_pages(
    space: &Space,
    saved: &Saved,
    takeover: &mut Takeover,
    words: &mut Words<'_>,
) -> Result<(), ImageError> {
    let count = words.count()?;
    let at = ChunkAddress::from_offset(0);
    ensure("the image has the pages of the state", at, count == saved.owners.len())?;
    let (mut free, mut released) = (Vec::new(), Vec::new());
    for &owner in &saved.owners {
        let page = space.memory.next_new_page().expect("the arena has all pages of the state");
        let (first, second, taken_as) = (words.halves()?, words.halves()?, words.next()?);
        let Some(owner) = owner else {
            let (_, used) = first;
            ensure("a page without an owner has no chunk in use", at, used == 0)?;
            if second.0 == 0 {
                released.push(page)
            } else {
                free.push(page)
            }
            continue;
        };
        let ((class, used), (free_head, fresh)) = (first, second);
        ensure("a page belongs to its class", at, class == u32::from(owner.0) + 1)?;
        let free_head = free_head.checked_sub(1);
        let image = PageImage { owner, used, free_head, fresh, taken_as };
        space.class(owner).lock().resume_page(takeover, page, image)?;
    }
    SavedPool::of(saved).restore(space, free, released);
    Ok(())
}

/// Makes the queues of a class. Returns the number of items in them.
fn read_class(
    class: &mut ClassState,
    takeover: &Takeover,
    words: &mut Words<'_>,
) -> Result<u64, ImageError> {
    let mut items = 0;
    for _ in 0..words.count()? {
        let place = words.next()?;
        let lane = u16::try_from(place >> 8).ok().map(Lane).filter(|&lane| lane <= Lane::MAX);
        let queue = QueueKind::ALL.get((place & 0xff) as usize);
        let (Some(lane), Some(&queue)) = (lane, queue) else { return Err(ImageError::Incomplete) };
        let (head, tail) = (words.address(takeover)?, words.address(takeover)?);
        let image = ListImage { head, tail, count: words.next()?, bytes: words.next()? };
        items += image.count;
        class.resume_queue(takeover, Place { lane, queue }, image)?;
    }
    class.costs = ItemCosts { count: words.next()?, units: words.next()? };
    let first = words.next()? as usize;
    let count = words.count()?;
    let sizes: Result<Vec<u64>, ImageError> = (0..count).map(|_| words.next()).collect();
    class.sizes = ItemSizes::from_counts(first, sizes?);
    Ok(items)
}
