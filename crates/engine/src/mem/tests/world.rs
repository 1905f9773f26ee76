//! A test fixture: a memory with two classes and two stripes.

use crate::layout::{CHAINED, ChunkAddress, ItemFields, ItemMeta, SizeModel};
use crate::mem::arena::Arena;
use crate::mem::chunk::{NewItem, OwnedChunk, Remains, ValueShape};
use crate::mem::class_token::ClassToken;
use crate::mem::list::List;
use crate::mem::memory::Memory;
use crate::mem::restore::Restore;
use crate::mem::state::QueueKind;
use crate::mem::stripe::{Entry, Removed, Stripe, StripeGuard};
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, PageId};
use std::sync::Arc;

pub const SMALL: ClassId = ClassId(0);
pub const LARGE: ClassId = ClassId(1);
pub const PAGE_SIZE_BYTES: usize = 64 << 10;

/// Every field but the cost.
pub const FIELDS: ItemFields = ItemFields { flags: true, expiry: true, cost: false, rank: true };

pub struct World {
    pub memory: Arc<Memory>,
    pub small: ClassToken,
    pub large: ClassToken,
    pub chained: ClassToken,
    pub stripes: Stripes,
    pub queue: List,
    pub chained_queue: List,
}

pub struct Stripes([Mutex<Stripe>; 2]);

impl Stripes {
    pub fn lock(&self, stripe: usize) -> StripeGuard<'_> {
        lock(&self.0[stripe])
    }

    /// Finds a key in the first stripe, where all keys have the hash 0.
    pub fn find(&self, key: &[u8]) -> Option<Entry<'_>> {
        Entry::find(self.lock(0), 0, key).ok()
    }
}

fn arena() -> Arena {
    Arena::reserve(16 * PAGE_SIZE_BYTES, false).expect("there is address space")
}

pub fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(arena(), PAGE_SIZE_BYTES, SizeModel::Exact))
}

impl World {
    /// A world whose arena is a copy of another's, and its restore.
    pub fn restored_from(old: &World) -> (World, Restore) {
        let mut arena = arena();
        // SAFETY: nobody uses the other's chunks meanwhile.
        unsafe { arena.copy_from(&old.memory.arena) };
        let memory = Arc::new(Memory::new(arena, PAGE_SIZE_BYTES, SizeModel::Exact));
        let mut world = World::of(memory);
        let mut restore = Restore::new(&world.memory);
        for class in [&mut world.small, &mut world.large] {
            restore.adopt(class, world.memory.next_new_page().expect("there is a page"));
        }
        (world, restore)
    }

    /// Links a body to a wrong item.
    pub fn forge_body(&self, body: ChunkAddress) {
        // SAFETY: a chunk starts here.
        unsafe { self.memory.arena.header_of(body) }.set_prev(Some(body));
    }

    /// Gives an unchecked chunk the state of a restored item, as a damaged file could.
    pub fn forge_restored(&self, item: ChunkAddress) {
        // SAFETY: a chunk starts here.
        let state = unsafe { self.memory.arena.header_of(item) }.state();
        state.store(state.load().restored());
    }

    /// Changes the link of an item towards the head of its queue.
    pub fn forge_prev(&self, item: ChunkAddress, prev: ChunkAddress) {
        // SAFETY: a chunk starts here.
        unsafe { self.memory.arena.header_of(item) }.set_prev(Some(prev));
    }

    /// Marks the fresh chunks of a page as free.
    pub fn blank(&mut self, page: PageId) {
        let class = if page == PageId(0) { &mut self.small } else { &mut self.large };
        class.blank_fresh(page);
    }

    /// A world in which each class has a page.
    pub fn new() -> World {
        let mut world = World::of(memory());
        for class in [&mut world.small, &mut world.large] {
            class.adopt(world.memory.next_new_page().expect("there is a page"));
        }
        world
    }

    fn of(memory: Arc<Memory>) -> World {
        let [mut small, mut large, chained] =
            [SMALL, LARGE, CHAINED].map(|id| memory.class_token(id));
        small.set_chunk_size(512);
        large.set_chunk_size(1024);
        let stripes = Stripes([(); 2].map(|()| Mutex::new(Stripe::new(&memory))));
        World {
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

    pub fn take(&mut self, class: ClassId) -> OwnedChunk {
        let page = self.page(class);
        let class = if class == SMALL { &mut self.small } else { &mut self.large };
        class.take(page).expect("there is a free chunk")
    }

    pub fn used(&self, class: ClassId) -> u32 {
        self.memory.page(self.page(class)).used()
    }

    pub fn new_item(&mut self, key: &[u8], value: &[u8]) -> NewItem {
        let chunk = self.take(SMALL);
        let shape = ValueShape::Whole(value.len());
        let mut item =
            NewItem::begin(&self.memory, chunk, key, (ItemMeta::default(), FIELDS), shape);
        item.value_mut(&self.memory, 0).copy_from_slice(value);
        item
    }

    pub fn store(&mut self, key: &[u8], value: &[u8]) -> ChunkAddress {
        let item = self.new_item(key, value);
        let guard = self.stripes.lock(0);
        let mut entry = Entry::insert(guard, 0, item, |_| 0);
        self.queue.push_head(&mut self.small, entry.entered(), QueueKind::Hot, 1);
        entry.item().address()
    }

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

    pub fn unlink(&mut self, removed: Removed) -> Option<Remains> {
        self.queue.unlink(&mut self.small, removed, 1)
    }

    pub fn free(&mut self, remains: Remains) {
        self.small.give(remains.into_chunk(&self.memory).expect("it has no bodies"));
    }
}
