//! Rebuilding what is not saved, by walking the arena: three passes, each over what the one before has
//! checked.
//!
//! 1. Every page, every slot: a linked item is checked against its chunk, its bodies against it, and it
//!    enters the index. Items are at rest: whoever held them is gone.
//! 2. Every page: what is neither a linked item nor one of its bodies is free.
//! 3. Every queue, from its tail: it leads over all items that say they are in it, once each.
//!
//! Nothing here believes a length or an address before it has compared it with the arena and the page it
//! leads to (ALL-OR-NOTHING). The engine is empty before and nobody else's during all of this.

use super::meta::Saved;
use super::outcome::{ColdReason, Progress};
use crate::class::{CHAINED, ClassState};
use crate::evict::{Lane, Place, Queue};
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES};
use crate::mem::{AtRest, Kind, QueueKind, ReadProof, State};
use crate::space::Space;
use slabwise_base::{ClassId, KEY_SIZE_BYTES_MAX, PageId};
use std::collections::{HashMap, HashSet};

/// Items that enter the index together, in the order of their hashes: then a stripe is locked once for
/// many, and their buckets are fetched beside each other.
const BATCH_ITEMS: usize = 1 << 20;

struct Rebuild<'e> {
    at_rest: &'e AtRest<'e, Space>,
    space: &'e Space,
    saved: &'e Saved,
    /// Items that are checked but not in the index yet, by their hashes.
    batch: Vec<(u64, ChunkAddress)>,
    /// Bodies that an item leads to.
    bodies: HashSet<ChunkAddress>,
    /// Items that say they are in a queue, by that.
    queued: HashMap<QueueId, u64>,
    /// Items met in queues.
    queues_items: u64,
}

/// A queue of a lane of a class.
type QueueId = (ClassId, Lane, QueueKind);

/// Fills the engine with what its arena holds; returns the number of items.
pub fn rebuild(
    at_rest: &AtRest<'_, Space>,
    saved: &Saved,
    progress: &mut dyn FnMut(Progress),
) -> Result<u64, ColdReason> {
    let space = at_rest.owner();
    let (batch, bodies, queued) = (Vec::new(), HashSet::new(), HashMap::new());
    let mut rebuild = Rebuild { at_rest, space, saved, batch, bodies, queued, queues_items: 0 };
    let owned = |(index, owner): (usize, &Option<ClassId>)| Some((PageId(index as u32), (*owner)?));
    let pages = || saved.owners.iter().enumerate().filter_map(owned);
    for (page, class) in pages() {
        rebuild.enter_items(page, class)?;
        progress(Progress { pages_done: page.index() + 1, pages: saved.owners.len() });
    }
    rebuild.index_batch()?;
    for (page, class) in pages() {
        let in_use = |address| rebuild.is_in_use(address);
        space.class(class).lock().readopt(&space.memory, page, in_use);
    }
    for class in space.queueing_classes() {
        let id = class.lock().id();
        class.lock().restore_order(saved.rankings[id.index()]);
        for &lane in saved.tails[id.index()].keys() {
            for kind in QueueKind::ALL {
                rebuild.queue((id, lane, kind), &mut class.lock())?;
            }
        }
    }
    let items = rebuild.queued.values().sum();
    let queued = rebuild.queues_items;
    law("every item is in a queue", ChunkAddress::from_offset(0), items == queued)?;
    Ok(items)
}

impl<'e> Rebuild<'e> {
    fn proof(&self) -> ReadProof<'e> {
        self.at_rest.proof()
    }

    fn state(&self, address: ChunkAddress) -> State {
        self.space.memory.header(address).state().load()
    }

    /// Checks every linked item of a page and enters it.
    fn enter_items(&mut self, page: PageId, class: ClassId) -> Result<(), ColdReason> {
        let space = self.space;
        let size = space.size_map.chunk_size_bytes(class);
        let chunks_per_page = space.memory.page_size_bytes() / size;
        for slot in 0..chunks_per_page as u32 {
            let address = space.memory.chunk_at(page, slot, size);
            let state = self.state(address);
            law("a chunk is free, an item or a body", address, state.is_sound())?;
            if state.kind() == Kind::Item && state.linked() {
                self.enter(address, class, state)?;
            }
        }
        Ok(())
    }

    fn enter(
        &mut self,
        address: ChunkAddress,
        class: ClassId,
        state: State,
    ) -> Result<(), ColdReason> {
        let memory = &self.space.memory;
        let header = memory.header(address);
        law("a linked item is queued", address, state.queued())?;
        let key_len = state.key_len();
        law("a key has 1 to 250 bytes", address, (1..=KEY_SIZE_BYTES_MAX).contains(&key_len))?;
        let size_bytes = state.layout().value() + header.len();
        let chunk_size_bytes = self.space.size_map.chunk_size_bytes(class);
        law("an item fits its chunk", address, size_bytes <= chunk_size_bytes)?;
        if state.chained() {
            self.claim_bodies(address)?;
        }
        self.at_rest.forget_pins(&memory.arena, address);
        let queued_in = if state.chained() { CHAINED } else { class };
        let lane = self.space.class(queued_in).lock().lane_of(memory, address);
        *self.queued.entry((queued_in, lane, state.queue())).or_default() += 1;
        self.batch.push((self.space.hash_of(address, self.proof()), address));
        if self.batch.len() == BATCH_ITEMS { self.index_batch() } else { Ok(()) }
    }

    /// Checks that an item's chain leads over bodies of its own, which hold its value and no more. It
    /// ends: none is met twice.
    fn claim_bodies(&mut self, head: ChunkAddress) -> Result<(), ColdReason> {
        let memory = &self.space.memory;
        let value_len = memory.value_len(head, self.proof());
        let (mut len, mut next) =
            (memory.header(head).len(), memory.first_body(head, self.proof()));
        law("a chained item has a body", head, len == 0 && next.is_some())?;
        while let Some(body) = next {
            let size_bytes = self.chunk_size_of(body).unwrap_or(0);
            law("a chain leads over chunks", head, size_bytes > 0)?;
            let (header, state) = (memory.header(body), self.state(body));
            let is_body = state.is_sound() && state.kind() == Kind::Body;
            law("a chain leads over bodies", body, is_body)?;
            law("a body knows its item", body, header.prev() == Some(head))?;
            let fits = (1..=size_bytes - HEADER_SIZE_BYTES).contains(&header.len());
            law("a body's part fits its chunk", body, fits)?;
            law("a chain meets a body once", body, self.bodies.insert(body))?;
            len += header.len();
            next = header.next();
        }
        law("the parts make the value", head, len == value_len)
    }

    /// Lets the index lead to the items that wait.
    fn index_batch(&mut self) -> Result<(), ColdReason> {
        let (space, proof) = (self.space, self.proof());
        let (index, memory) = (&space.index, &space.memory);
        self.batch.sort_unstable_by_key(|&(hash, _)| hash);
        let in_one_stripe =
            |a: &(u64, _), b: &(u64, _)| index.stripe_of(a.0) == index.stripe_of(b.0);
        for items in self.batch.chunk_by(in_one_stripe) {
            let mut stripe = index.lock(items[0].0);
            items.iter().for_each(|&(hash, _)| stripe.prefetch(hash));
            for &(hash, address) in items {
                // Few entries look alike, so the item's own line is seldom needed again.
                let same_key = |other| memory.key(other, proof) == memory.key(address, proof);
                let twin = stripe.find(hash, same_key);
                law("a key has one item", address, twin.is_none())?;
                index
                    .insert(&mut stripe, hash, address, |other, proof| space.hash_of(other, proof));
            }
        }
        self.batch.clear();
        Ok(())
    }

    /// Whether a chunk holds a linked item or a part of one. All items are entered.
    fn is_in_use(&self, address: ChunkAddress) -> bool {
        match self.state(address).kind() {
            Kind::Free => false,
            Kind::Item => self.state(address).linked(),
            Kind::Body => self.bodies.contains(&address),
        }
    }

    /// The size of the chunk at an address; `None` if there is no chunk.
    fn chunk_size_of(&self, address: ChunkAddress) -> Option<usize> {
        let page_size_bytes = self.space.memory.page_size_bytes();
        let page = address.offset() / page_size_bytes;
        let class = (*self.saved.owners.get(page)?)?;
        let size = self.space.size_map.chunk_size_bytes(class);
        let within = address.offset() % page_size_bytes;
        (within.is_multiple_of(size) && within + size <= page_size_bytes).then_some(size)
    }

    /// Follows a queue from its saved tail. It ends: whoever leads to an item is the one that the item
    /// leads back to, so none is met twice. Counts the items' sizes.
    fn queue(&mut self, id: QueueId, state: &mut ClassState) -> Result<(), ColdReason> {
        let memory = &self.space.memory;
        let (class, lane, kind) = id;
        let tail = self.saved.tails[class.index()][&lane][kind.index()];
        let (mut head, mut at) = (None, tail);
        let (mut count, mut bytes) = (0, 0);
        while let Some(address) = at {
            let is_chunk = self.chunk_size_of(address).is_some();
            law("a queue leads over chunks", address, is_chunk)?;
            let (header, item) = (memory.header(address), self.state(address));
            let is_item = item.kind() == Kind::Item && item.linked();
            law("a queue leads over linked items", address, is_item)?;
            let here = item.queue() == kind
                && self.space.queue_class(address) == class
                && state.lane_of(memory, address) == lane;
            law("an item is in the queue that it names", address, here)?;
            law("a queue's links lead both ways", address, header.next() == head)?;
            count += 1;
            let size_bytes = memory.counted_size_of(address, self.proof());
            state.count_restored(size_bytes, memory.cost(address, self.proof()));
            bytes += size_bytes;
            head = Some(address);
            at = header.prev();
        }
        let expected = self.queued.get(&id).copied().unwrap_or(0);
        let at = tail.unwrap_or(ChunkAddress::from_offset(0));
        law("a queue holds all items that name it", at, count == expected)?;
        self.queues_items += count;
        let place = Place { lane, queue: kind };
        state.restore_queue(memory, place, Queue::of_linked(head, tail, count, bytes));
        Ok(())
    }
}

fn law(law: &'static str, address: ChunkAddress, holds: bool) -> Result<(), ColdReason> {
    if holds { Ok(()) } else { Err(ColdReason::Damaged { law, offset: address.offset() as u64 }) }
}
