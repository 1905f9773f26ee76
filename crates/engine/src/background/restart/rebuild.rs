//! Rebuilding what is not saved, by walking the arena: three passes, each over what the one before has
//! checked.
//!
//! 1. Every page, every slot: a linked item is checked against its chunk, its bodies against it, and it
//!    enters the index. Pins of the last process mean nothing.
//! 2. Every queue, from its tail: it leads over all items that say they are in it, once each.
//! 3. Every page: what is neither a linked item nor one of its bodies is free.
//!
//! What can be told from the bytes alone is checked in `mem` (ALL-OR-NOTHING); what the saved text and the
//! eviction order say of them, here. The engine is empty before and nobody else's during all of this.

use super::meta::Saved;
use super::outcome::{ColdReason, Progress};
use crate::evict::Place;
use crate::layout::ChunkAddress;
use crate::mem::{Broken, Kind, QueueKind, Restore, RestoredItem, UnusedPage};
use crate::space::Space;
use slabwise_base::{ClassId, PageId};

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

/// Fills the engine with what its arena holds; returns the number of items, and the pages of no class.
pub fn rebuild(
    space: &Space,
    saved: &Saved,
    progress: &mut dyn FnMut(Progress),
) -> Result<(u64, Vec<UnusedPage>), ColdReason> {
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
    Ok((rebuild.items, unused))
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
        let (size_bytes, count) = (class.chunk_size_bytes(), class.pages.chunks_per_page());
        drop(class);
        for slot in 0..count {
            let address = space.memory.chunk_at(page, slot, size_bytes);
            if self.restore.state(address)?.kind() != Kind::Item {
                continue;
            }
            let Some(item) = self.restore.item(address)? else { continue };
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
                    self.queues_items += class.restore_queue(&self.restore, place, tail)?;
                }
            }
        }
        Ok(())
    }
}

fn ensure(invariant: &'static str, address: ChunkAddress, holds: bool) -> Result<(), ColdReason> {
    if holds { Ok(()) } else { Err(Broken { invariant, address }.into()) }
}

impl From<Broken> for ColdReason {
    fn from(Broken { invariant, address }: Broken) -> ColdReason {
        ColdReason::Damaged { law: invariant, offset: address.offset() as u64 }
    }
}
