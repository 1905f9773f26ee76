//! Draining a retired class (`class_change.rs`): what is on its pages goes to the classes that now hold
//! such sizes.
//!
//! ```text
//!   idle --a retired class owns pages--> its emptiest page drains, for the pool
//!     each item, head or body --> a free chunk of its new class, from a new page if the pool has one
//!                             --> no room: the colder leaves, of what the retired class and of what the
//!                                 new one would give up next; room in the retired class itself serves, too
//! ```
//!
//! So memory stays within the limit, the retired class and its heirs together lose what is coldest in
//! them, and while the pool has pages nothing is lost. The first page is emptied by evictions, as a rule;
//! it goes to the pool, where the heirs find it when the second is emptied.
//!
//! It does so under every `page_mover`: how a retired class is emptied is published nowhere. Where eviction
//! is off, what finds no room stays where it is, and is tried again later.
//!
//! An item keeps its queue. Its place in it is found by its age, near either end: the oldest stay the
//! oldest, and what belongs in the middle counts as rather newer than older.

use super::counters::{Busy, MoverCounters};
use super::warm::Met;
use super::{Job, Mover, Order};
use crate::alloc::Evicted;
use crate::class::{Class, Standing};
use crate::config::MoverKind;
use crate::engine::Engine;
use crate::mem::{ChunkAddress, HEADER_SIZE_BYTES, Kind, OwnedChunk};
use crate::memory::Memory;
use crate::size_map::Choice;
use slabwise_base::{ClassId, Now};
use std::sync::atomic::Ordering::{AcqRel, Release};

/// Rounds of evictions for one batch: others may take what they free.
const ROUNDS_MAX: usize = 8;

impl Engine {
    /// Begins to empty a page of the retired class whose coldest item is the coldest, if there is one. A class
    /// whose page could not be emptied comes after the others.
    pub(super) fn begin_retired(&self, mover: &mut Mover, now: Now) -> Option<Job> {
        if !self.retiring.swap(false, AcqRel) {
            return None;
        }
        let ranked = |class: &Class| {
            let state = class.lock();
            let (id, age) = (state.id(), state.oldest_tail_age(&self.memory, now.ticks));
            let retired = state.standing() == Standing::Retired;
            retired.then_some((mover.gave_up_on != Some(id), age, id))
        };
        let (.., victim) = self.classes.iter().filter_map(ranked).max()?;
        self.retiring.store(true, Release);
        let reason = "its class is retired";
        let order = Order { victim, receiver: None, reason, kind: MoverKind::Warm };
        self.begin(order, mover, now)
    }

    pub(super) fn is_retired(&self, class: ClassId) -> bool {
        self.class(class).lock().standing() == Standing::Retired
    }

    /// Empties a batch of chunks of a retired class's page.
    pub(super) fn empty_retired_batch(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        mut batch: Vec<ChunkAddress>,
        now: Now,
    ) {
        let mut nothing_leaves = false;
        for _ in 0..ROUNDS_MAX {
            let missing = self.look_beyond(job, counters, &mut batch);
            if missing.is_empty() {
                break;
            }
            let made = missing.into_iter().filter(|&heir| self.make_room_in_either(job, heir, now));
            let evicted = made.count();
            counters.evicted += evicted as u64;
            nothing_leaves = evicted == 0;
            if nothing_leaves {
                break;
            }
            job.progress(now);
        }
        for address in batch {
            let carried = match self.carry_to_heir(job, counters, address, now) {
                Err(Busy::NoRoom) if nothing_leaves => {
                    self.drop_for_move(job, counters, address, now)
                }
                outcome => outcome,
            };
            job.note(carried, address, counters, now);
        }
    }

    /// Leaves in the batch what can be carried now, and takes free chunks for it; returns the class of each
    /// chunk that is missing. Where the table has changed since a class was chosen nothing is missing: what
    /// has no room then is met again.
    fn look_beyond(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        batch: &mut Vec<ChunkAddress>,
    ) -> Vec<Choice> {
        let mut wanted = Vec::with_capacity(batch.len());
        {
            let class = self.class(job.order.victim).lock();
            batch.retain(|&address| match self.meet(job, address, &class) {
                Met::Free => false,
                Met::Carriable => {
                    wanted.extend(self.heir_of(address));
                    true
                }
                Met::Busy(why) => {
                    counters.note_busy(why);
                    job.held.push(address);
                    false
                }
            });
        }
        // What is there already: room of the right class, then room in the retired class.
        let class_of = |chunk: &OwnedChunk| self.memory.class_of(chunk.address());
        let mut spares: Vec<ClassId> = job.spares.iter().map(class_of).collect();
        let victim = job.order.victim;
        for from in [None, Some(victim)] {
            wanted.retain(|heir: &Choice| {
                let room = from.unwrap_or(heir.id);
                let found = spares.iter().position(|&class| class == room);
                found.map(|at| spares.swap_remove(at)).is_none()
            });
        }
        wanted.retain(|&heir| {
            let mut state = self.class(heir.id).lock();
            if !state.accepts(heir) {
                return false;
            }
            let free = self.take_free(&mut state);
            free.map(|chunk| job.spares.push(chunk)).is_none()
        });
        wanted
    }
}

impl Engine {
    /// The class of the present table that has chunks for what lies in a chunk: what a head takes of a chained
    /// item counts alone. `None`: nothing lies there.
    fn heir_of(&self, address: ChunkAddress) -> Option<Choice> {
        let header = self.memory.header(address);
        let state = header.state().load();
        let (key_len, fields) = (state.key_len(), state.fields());
        let size_bytes = match state.kind() {
            Kind::Free => return None,
            Kind::Body => HEADER_SIZE_BYTES + header.len(),
            Kind::Item if state.chained() => Memory::chain_head_size_bytes(key_len, fields),
            Kind::Item => self.memory.counted_size_bytes(key_len, header.len(), fields),
        };
        self.size_map.class_for(size_bytes)
    }

    /// Evicts one item for the sake of the heir: what the retired class or the heir would give up next,
    /// whichever is colder. False: there is nothing that could leave.
    fn make_room_in_either(&self, job: &mut Job, heir: Choice, now: Now) -> bool {
        if !self.config.eviction_enabled {
            return false;
        }
        let coldness = |id: ClassId| self.class(id).lock().coldness(&self.memory, now.ticks);
        let victim = job.order.victim;
        let heirs_is_colder = coldness(heir.id) > coldness(victim);
        let (first, second) = if heirs_is_colder { (heir.id, victim) } else { (victim, heir.id) };
        [first, second].into_iter().any(|class| match self.evict_for_carried(class, now) {
            Evicted::Chunk(chunk) => {
                self.keep_as_room(job, chunk);
                true
            }
            Evicted::Freed => true,
            Evicted::Nothing => false,
        })
    }

    /// Carries what is in a chunk to a spare one, of its heir, or else of its own class.
    fn carry_to_heir(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        address: ChunkAddress,
        now: Now,
    ) -> Result<(), Busy> {
        let Some(heir) = self.heir_of(address) else { return Ok(()) };
        let spare = [heir.id, job.order.victim].into_iter().find_map(|class| {
            job.spares.iter().position(|chunk| self.memory.class_of(chunk.address()) == class)
        });
        let at = spare.ok_or(Busy::NoRoom)?;
        // The spare that is taken is the last one.
        let last = job.spares.len() - 1;
        job.spares.swap(at, last);
        self.carry_one(job, counters, address, now)
    }
}
