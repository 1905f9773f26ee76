//! The fixture of the tests: a memory with two classes, the class of chained items, and two stripes.

use crate::counted_lock::CountedLock;
use crate::layout::{CHAINED, ChunkAddress, ItemFields, ItemMeta, SizeModel};
use crate::mem::arena::Arena;
use crate::mem::chunk::{NewItem, OwnedChunk, UnlinkedChunks, ValueShape};
use crate::mem::class_token::ClassToken;
use crate::mem::list::List;
use crate::mem::mapping::HugePages;
use crate::mem::memory::Memory;
use crate::mem::restore::Restore;
use crate::mem::state::QueueKind;
use crate::mem::stripe::{Entry, Removed, Stripe, StripeGuard};
use slabwise_base::{ClassId, PageId};
use std::sync::Arc;

/// The class with chunks of 512 bytes, which owns page 0. Items and the heads of chained items are in these chunks.
pub const SMALL: ClassId = ClassId(0);
/// The class with chunks of 1024 bytes, which owns page 1. Bodies are in these chunks.
pub const LARGE: ClassId = ClassId(1);
pub const PAGE_SIZE_BYTES: usize = 64 << 10;

/// The optional fields of the items: all except the cost.
pub const FIELDS: ItemFields = ItemFields { flags: true, expiry: true, cost: false, rank: true };

pub struct Fixture {
    pub memory: Arc<Memory>,
    pub small: ClassToken,
    pub large: ClassToken,
    pub chained: ClassToken,
    pub stripes: Stripes,
    /// The items that are not chained.
    pub queue: List,
    /// The chained items.
    pub chained_queue: List,
}

pub struct Stripes(Vec<CountedLock<Stripe>>);

impl Stripes {
    pub fn lock(&self, stripe: usize) -> StripeGuard<'_> {
        self.0[stripe].lock()
    }

    /// Returns the entry of a key in stripe 0. All keys of this stripe have the hash 0.
    pub fn find(&self, key: &[u8]) -> Option<Entry<'_>> {
        Entry::find(self.lock(0), 0, key).ok()
    }
}

fn arena() -> Arena {
    Arena::reserve(16 * PAGE_SIZE_BYTES, HugePages::BySystem)
        .expect("the system reserves the address space")
}

pub fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(arena(), PAGE_SIZE_BYTES, SizeModel::Exact))
}

impl Fixture {
    /// Returns a fixture whose arena has the same bytes as that of `old`, and a restore that has adopted the pages 0
    /// and 1 of this fixture.
    pub fn restored_from(old: &Fixture) -> (Fixture, Restore) {
        let mut arena = arena();
        // SAFETY: both arenas have the same size. No other thread uses `old`.
        unsafe { arena.copy_from(&old.memory.arena) };
        let memory = Arc::new(Memory::new(arena, PAGE_SIZE_BYTES, SizeModel::Exact));
        let mut fixture = Fixture::without_pages(memory);
        let mut restore = Restore::new(&fixture.memory);
        for class in [&mut fixture.small, &mut fixture.large] {
            restore.adopt(
                class,
                fixture.memory.next_new_page().expect("the arena has an unused page"),
            );
        }
        (fixture, restore)
    }

    /// Changes the link of a body to its item: the body then links to itself.
    pub fn forge_body(&self, body: ChunkAddress) {
        // SAFETY: the callers pass the address of a chunk.
        unsafe { self.memory.arena.header_of(body) }.set_prev(Some(body));
    }

    /// Gives a chunk that [`Restore::item`] has not checked the state of a restored item, as in a damaged memory file.
    pub fn forge_restored(&self, item: ChunkAddress) {
        // SAFETY: the callers pass the address of a chunk.
        let state = unsafe { self.memory.arena.header_of(item) }.state();
        state.store(state.load().restored());
    }

    /// Changes the link of an item toward the head of its queue.
    pub fn forge_prev(&self, item: ChunkAddress, prev: ChunkAddress) {
        // SAFETY: the callers pass the address of a chunk.
        unsafe { self.memory.arena.header_of(item) }.set_prev(Some(prev));
    }

    /// Writes the state `FREE` to the fresh chunks of page 0 or page 1.
    pub fn mark_fresh_free(&mut self, page: PageId) {
        let class = if page == PageId(0) { &mut self.small } else { &mut self.large };
        class.blank_fresh(page);
    }

    /// Returns a fixture in which each of the two classes owns one page.
    pub fn new() -> Fixture {
        let mut fixture = Fixture::without_pages(memory());
        for class in [&mut fixture.small, &mut fixture.large] {
            class.adopt(fixture.memory.next_new_page().expect("the arena has an unused page"));
        }
        fixture
    }

    /// Returns a fixture in which the classes own no page.
    fn without_pages(memory: Arc<Memory>) -> Fixture {
        let [mut small, mut large, chained] =
            [SMALL, LARGE, CHAINED].map(|id| memory.class_token(id));
        small.set_chunk_size(512);
        large.set_chunk_size(1024);
        let stripes = Stripes(Stripe::of_count(2, &memory).map(CountedLock::new).collect());
        Fixture {
            memory,
            small,
            large,
            chained,
            stripes,
            queue: List::EMPTY,
            chained_queue: List::EMPTY,
        }
    }

    fn page(&self, class: ClassId) -> PageId {
        PageId(u32::from(class.0))
    }

    /// Allocates a chunk of the class [`SMALL`] or [`LARGE`].
    pub fn take(&mut self, class: ClassId) -> OwnedChunk {
        let page = self.page(class);
        let class = if class == SMALL { &mut self.small } else { &mut self.large };
        class.take(page).expect("the page has a free chunk")
    }

    /// Returns the number of chunks in use on the page of a class.
    pub fn used_count(&self, class: ClassId) -> u32 {
        self.memory.page(self.page(class)).used()
    }

    /// Returns an unpublished item.
    pub fn new_item(&mut self, key: &[u8], value: &[u8]) -> NewItem {
        let chunk = self.take(SMALL);
        let shape = ValueShape::Whole(value.len());
        let mut item =
            NewItem::begin(&self.memory, chunk, key, (ItemMeta::default(), FIELDS), shape);
        item.value_mut(&self.memory, 0).copy_from_slice(value);
        item
    }

    /// Stores an item in stripe 0 and returns its address.
    pub fn store(&mut self, key: &[u8], value: &[u8]) -> ChunkAddress {
        let item = self.new_item(key, value);
        let guard = self.stripes.lock(0);
        let mut entry = Entry::insert(guard, 0, item, |_| 0);
        self.queue.push_head(&mut self.small, entry.entered(), QueueKind::Hot, 1);
        entry.item().address()
    }

    /// Stores a chained item in stripe 0 and returns the address of its head.
    pub fn store_chained(&mut self, key: &[u8], value: &[u8]) -> ChunkAddress {
        let (chunk, shape) = (self.take(SMALL), ValueShape::Chained(value.len()));
        let meta = (ItemMeta::default(), FIELDS);
        let mut item = NewItem::begin(&self.memory, chunk, key, meta, shape);
        let mut written = 0;
        while item.room() < value.len() {
            let body = self.take(LARGE);
            item.add_body(&self.memory, body);
            let part = item.body_mut(&self.memory, item.bodies.len() - 1, 0);
            part.copy_from_slice(&value[written..written + part.len()]);
            written += part.len();
        }
        let guard = self.stripes.lock(0);
        let mut entry = Entry::insert(guard, 0, item, |_| 0);
        self.chained_queue.push_head(&mut self.chained, entry.entered(), QueueKind::Hot, 1);
        entry.item().address()
    }

    /// Unlinks an item that is not chained. Returns its chunk if it has no pins.
    pub fn unlink(&mut self, removed: Removed) -> Option<UnlinkedChunks> {
        self.queue.unlink(&mut self.small, removed, 1)
    }

    /// Frees the chunk of an item that is not chained.
    pub fn free(&mut self, remains: UnlinkedChunks) {
        self.small.give(remains.try_into_chunk(&self.memory).expect("the item has no bodies"));
    }
}
