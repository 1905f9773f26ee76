//! A worker's operations that write.
//!
//! Memory is always taken before the stripe is locked. Where the size needed depends on the item that
//! is there (append, prepend, a growing number, a touch that adds an expiry), the operation looks,
//! reserves, locks again and looks again; if the item changed its size meanwhile it starts over. Each
//! such round means that another writer made progress.

use crate::engine::Engine;
use crate::handle::{Found, Handle, Lookup};
use crate::mem::{OwnedChunk, ReadProof};
use crate::reservation::{ItemMeta, Reservation, ReserveError};
use slabwise_base::{ClassId, Now};

/// On what a store depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// On nothing.
    Set,
    /// The key holds nothing.
    Add,
    /// The key holds something.
    Replace,
    /// As replace; the value is added behind the one there, whose flags and expiry stay.
    Append,
    /// As append, in front.
    Prepend,
    /// The item there has this CAS value.
    Cas(u64),
}

/// What became of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// Stored, under a new CAS value.
    Stored {
        /// That value.
        cas: u64,
    },
    /// The condition of add, replace, append or prepend did not hold.
    NotStored,
    /// The CAS value did not match.
    Exists,
    /// There is no item to compare a CAS value with.
    NotFound,
    /// No memory for the grown value (of append or prepend), or for [`Handle::set`].
    OutOfMemory,
    /// The same, larger than an item may be.
    TooLarge,
}

impl From<ReserveError> for StoreOutcome {
    fn from(error: ReserveError) -> StoreOutcome {
        match error {
            ReserveError::TooLarge => StoreOutcome::TooLarge,
            ReserveError::OutOfMemory => StoreOutcome::OutOfMemory,
        }
    }
}

impl<'e> Handle<'e> {
    /// Publishes what was reserved and filled, if `mode` allows it; else gives the memory back.
    pub fn store(
        &mut self,
        mut reservation: Reservation<'e>,
        mode: StoreMode,
        now: Now,
    ) -> StoreOutcome {
        let engine = self.engine();
        assert!(std::ptr::eq(engine, reservation.engine()), "a reservation stays with its engine");
        let hash = engine.hasher.hash(reservation.key());
        self.counters().class(engine.queue_class(reservation.address())).sets.bump();
        if matches!(mode, StoreMode::Append | StoreMode::Prepend) {
            return self.extend(reservation, hash, mode == StoreMode::Append, now);
        }
        match (engine.lookup(reservation.key(), hash, now, self.counters()), mode) {
            (Lookup::Found(_), StoreMode::Add) | (Lookup::Missing(_), StoreMode::Replace) => {
                StoreOutcome::NotStored
            }
            (Lookup::Missing(_), StoreMode::Cas(_)) => {
                self.counters().cas_misses.bump();
                StoreOutcome::NotFound
            }
            (Lookup::Found(found), StoreMode::Cas(expected))
                if engine.memory.header(found.address).cas() != expected =>
            {
                let class = engine.queue_class(found.address);
                self.counters().class(class).cas_badval.bump();
                StoreOutcome::Exists
            }
            (Lookup::Found(found), mode) => {
                if let StoreMode::Cas(_) = mode {
                    let class = engine.queue_class(found.address);
                    self.counters().class(class).cas_hits.bump();
                }
                self.counters().items_total.bump();
                engine.publish_over(reservation, found, now)
            }
            (Lookup::Missing(mut stripe), _) => {
                self.counters().items_total.bump();
                let (chunk, queue_class, short_lived) = engine.finish(reservation, now);
                let hash_of = |other, proof: ReadProof<'_>| engine.hash_of(other, proof);
                if engine.index.insert(&mut stripe, hash, chunk.address(), hash_of) {
                    engine.charge_index();
                }
                engine.enqueue_new(queue_class, chunk, short_lived)
            }
        }
    }

    /// Reserves, writes and stores in one.
    pub fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
        mode: StoreMode,
        now: Now,
    ) -> StoreOutcome {
        match self.reserve(key, value.len(), meta, now) {
            Ok(mut reservation) => {
                if reservation.fill(value) < value.len() {
                    self.counters().store_no_memory.bump();
                    return StoreOutcome::OutOfMemory;
                }
                self.store(reservation, mode, now)
            }
            Err(error) => error.into(),
        }
    }

    /// Drops an upload that was starved, and counts it as a store that found no memory.
    pub fn give_up(&mut self, starved: Reservation<'e>) {
        assert!(starved.is_starved(), "an upload is given up because it was starved");
        self.counters().store_no_memory.bump();
        drop(starved);
    }

    /// Append and prepend: joins the value that is there with the one reserved.
    fn extend(
        &mut self,
        mut addition: Reservation<'e>,
        hash: u64,
        behind: bool,
        now: Now,
    ) -> StoreOutcome {
        let engine = self.engine();
        let mut spare: Option<Reservation<'e>> = None;
        loop {
            let Lookup::Found(found) = engine.lookup(addition.key(), hash, now, self.counters())
            else {
                return StoreOutcome::NotStored;
            };
            let proof = ReadProof::under_stripe(&found.stripe);
            let old_len = engine.memory.value_len(found.address, proof);
            let client_flags = engine.memory.client_flags(found.address, proof);
            let expiry = engine.memory.expiry(found.address, proof);
            let (meta, value_len) =
                (ItemMeta { client_flags, expiry }, old_len + addition.value_len());
            if let Some(mut joined) = spare.take_if(|spare| spare.fits(value_len, meta)) {
                joined.set_meta(meta);
                if behind {
                    engine.copy_value(&found, &mut joined);
                    addition.for_each_part(|part| joined.fill_all(part));
                } else {
                    addition.for_each_part(|part| joined.fill_all(part));
                    engine.copy_value(&found, &mut joined);
                }
                self.counters().items_total.bump();
                return engine.publish_over(joined, found, now);
            }
            drop(spare.take());
            match engine.reserve_beside(found, addition.key(), value_len, meta, now) {
                Ok(reservation) => spare = Some(reservation),
                Err(error) => return error.into(),
            }
        }
    }
}

impl<'e> Engine {
    /// Gives a filled reservation its CAS value and time; the caller publishes it.
    fn finish(&self, reservation: Reservation<'_>, now: Now) -> (OwnedChunk, ClassId, bool) {
        let short_lived = reservation.short_lived();
        let chunk = reservation.into_published();
        let header = self.memory.header(chunk.address());
        header.set_cas(self.next_cas());
        header.set_time(now.ticks);
        let class = self.queue_class(chunk.address());
        (chunk, class, short_lived)
    }

    /// Publishes a reservation in the place of the item found, as new.
    pub(crate) fn publish_over(
        &self,
        reservation: Reservation<'_>,
        mut found: Found<'_>,
        now: Now,
    ) -> StoreOutcome {
        self.memory.prefetch_neighbours(found.address);
        let (chunk, queue_class, short_lived) = self.finish(reservation, now);
        found.stripe.replace(found.slot, chunk.address());
        let remains = self.unlink_unfreed(found.address);
        let outcome = self.enqueue_new(queue_class, chunk, short_lived);
        drop(found);
        self.free_remains(remains);
        outcome
    }

    fn enqueue_new(&self, class: ClassId, chunk: OwnedChunk, short_lived: bool) -> StoreOutcome {
        let cas = self.memory.header(chunk.address()).cas();
        let mut class = self.class(class).lock();
        let queue = class.queue_for_new(short_lived);
        class.enqueue(&self.memory, chunk, queue);
        StoreOutcome::Stored { cas }
    }

    /// Adds a found item's value to a reservation.
    pub(crate) fn copy_value(&'e self, found: &Found<'e>, into: &mut Reservation<'_>) {
        let proof = ReadProof::under_stripe(&found.stripe);
        for part in crate::item::parts(self, found.address, proof) {
            into.fill_all(part);
        }
    }

    /// Writes a found item's value, CAS value and time into a reservation of the same size, and ends
    /// the reservation; the caller publishes the chunk.
    pub(crate) fn copy_into(
        &'e self,
        mut reservation: Reservation<'_>,
        found: &Found<'e>,
    ) -> OwnedChunk {
        self.copy_value(found, &mut reservation);
        let chunk = reservation.into_published();
        let (old, new) = (self.memory.header(found.address), self.memory.header(chunk.address()));
        new.set_cas(old.cas());
        new.set_time(old.time());
        chunk
    }
}
