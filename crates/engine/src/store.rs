//! A worker's operations that write.
//!
//! Memory is always taken before the stripe is locked. Where the size needed depends on the item that
//! is there (append, prepend, a growing number, a touch that adds an expiry), the operation goes in rounds:
//! see `spare.rs`.

use crate::engine::Engine;
use crate::handle::{Found, Handle, Lookup};
use crate::index::StripeGuard;
use crate::mem::{ChunkAddress, OwnedChunk, ReadProof};
use crate::reservation::{ItemMeta, Reservation, ReserveError};
use crate::spare::{Room, Spare};
use crate::tap::AccessKind;
use slabwise_base::{ClassId, LookupKey, Now};

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

/// On what a store depends beside its mode, and what it leaves. `mode.into()` asks for nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConditions {
    /// On what it depends.
    pub mode: StoreMode,
    /// The CAS value that the item there must have. Set and replace with one are [`StoreMode::Cas`]; add
    /// asks for no item, and so for none.
    pub expected_cas: Option<u64>,
    /// The item's CAS value, if not the engine's next.
    pub new_cas: Option<u64>,
    /// Of a CAS value that does not match: one that is lower than the item's stores all the same, but the
    /// item keeps its expiry and is stale.
    pub stale_allowed: bool,
    /// Append and prepend store the value as it is where there is none.
    pub vivify: bool,
}

impl From<StoreMode> for StoreConditions {
    fn from(mode: StoreMode) -> StoreConditions {
        let (expected_cas, new_cas) = (None, None);
        StoreConditions { mode, expected_cas, new_cas, stale_allowed: false, vivify: false }
    }
}

/// What becomes of the item that a store finds.
enum Verdict {
    Refused(StoreOutcome),
    Replaced,
    Joined(Join),
}

/// How a new value and a found item become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    Behind,
    InFront,
    /// The new value alone; the item's expiry stays, and it is stale.
    Stale,
}

/// What became of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// Stored, under a new CAS value.
    Stored {
        /// That value.
        cas: u64,
        /// Bytes of the item's value.
        value_len: usize,
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
        reservation: Reservation<'e>,
        mode: StoreMode,
        now: Now,
    ) -> StoreOutcome {
        self.store_if(reservation, &mode.into(), now)
    }

    /// The same, under more conditions.
    pub fn store_if(
        &mut self,
        reservation: Reservation<'e>,
        conditions: &StoreConditions,
        now: Now,
    ) -> StoreOutcome {
        self.store_reserved(reservation, conditions, now)
    }

    /// The same for [`Handle::set_if`]: a reservation is large, and so stays where it is.
    #[inline(always)]
    fn store_reserved(
        &mut self,
        mut reservation: Reservation<'e>,
        conditions: &StoreConditions,
        now: Now,
    ) -> StoreOutcome {
        let engine = self.engine();
        assert!(std::ptr::eq(engine, reservation.engine()), "a reservation stays with its engine");
        self.counters().class(engine.queue_class(reservation.address())).sets.bump();
        let mut spare = Spare::default();
        loop {
            let found = match engine.lookup(reservation.hashed_key(), now, self.counters()) {
                Lookup::Found(found) => found,
                Lookup::Missing(mut stripe) => {
                    if let Err(refused) = self.judge_missing(conditions) {
                        return refused;
                    }
                    self.counters().items_total.bump();
                    let (value_len, cas) = (reservation.value_len(), conditions.new_cas);
                    self.count_insertion(&reservation);
                    let hash = reservation.hash();
                    let address = engine.publish_new(&mut stripe, reservation, cas, now);
                    let outcome = engine.stored(address, value_len);
                    let class = engine.queue_class(address);
                    drop(stripe);
                    engine.tap(hash, AccessKind::Store, Some(class));
                    return outcome;
                }
            };
            match self.judge_found(&found, conditions) {
                Verdict::Refused(outcome) => return outcome,
                Verdict::Replaced => {
                    self.counters().items_total.bump();
                    let cas = conditions.new_cas;
                    return engine.publish_over(reservation, found, cas, now);
                }
                Verdict::Joined(join) => {
                    let (value_len, meta) = engine.joined(&found, &reservation, join);
                    match spare.room(found, reservation.hashed_key(), value_len, meta, now) {
                        Ok(Room::LookAgain) => {}
                        Ok(Room::Ready(found, mut joined)) => {
                            engine.fill_joined(&mut joined, &found, &mut reservation, join);
                            self.counters().items_total.bump();
                            let made = (joined, conditions.new_cas);
                            return engine.publish_joined(made, found, join, now);
                        }
                        Err(error) => return error.into(),
                    }
                }
            }
        }
    }

    /// Counts a store under a key that holds nothing.
    #[inline(always)]
    fn count_insertion(&self, reservation: &Reservation<'_>) {
        let class = self.counters().class(self.engine().queue_class(reservation.address()));
        class.inserted.bump();
        if let Some(cost) = reservation.meta().cost {
            class.costs_told.bump();
            class.cost_paid.add(u64::from(cost.units()));
        }
    }

    /// Whether a store that finds nothing goes on.
    #[inline(always)]
    fn judge_missing(&self, conditions: &StoreConditions) -> Result<(), StoreOutcome> {
        match conditions.mode {
            StoreMode::Cas(_) => {}
            StoreMode::Set | StoreMode::Replace if conditions.expected_cas.is_some() => {}
            StoreMode::Set | StoreMode::Add => return Ok(()),
            StoreMode::Append | StoreMode::Prepend if conditions.vivify => return Ok(()),
            _ => return Err(StoreOutcome::NotStored),
        }
        self.counters().cas_misses.bump();
        Err(StoreOutcome::NotFound)
    }

    #[inline(always)]
    fn judge_found(&self, found: &Found<'_>, conditions: &StoreConditions) -> Verdict {
        let engine = self.engine();
        let expected = match (conditions.mode, conditions.expected_cas) {
            (StoreMode::Add, _) => return Verdict::Refused(StoreOutcome::NotStored),
            (StoreMode::Set | StoreMode::Replace, None) => return Verdict::Replaced,
            (StoreMode::Append | StoreMode::Prepend, expected) => {
                let cas = engine.memory.header(found.address).cas();
                return match conditions.mode {
                    _ if expected.is_some_and(|expected| expected != cas) => {
                        Verdict::Refused(StoreOutcome::Exists)
                    }
                    StoreMode::Append => Verdict::Joined(Join::Behind),
                    _ => Verdict::Joined(Join::InFront),
                };
            }
            (StoreMode::Cas(expected), _)
            | (StoreMode::Set | StoreMode::Replace, Some(expected)) => expected,
        };
        let cas = engine.memory.header(found.address).cas();
        let class = self.counters().class(engine.queue_class(found.address));
        if cas == expected {
            class.cas_hits.bump();
            Verdict::Replaced
        } else if conditions.stale_allowed && expected < cas {
            class.cas_hits.bump();
            Verdict::Joined(Join::Stale)
        } else {
            class.cas_badval.bump();
            Verdict::Refused(StoreOutcome::Exists)
        }
    }

    /// Reserves, writes and stores in one.
    pub fn set<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        value: &[u8],
        meta: ItemMeta,
        mode: StoreMode,
        now: Now,
    ) -> StoreOutcome {
        self.set_if(key, value, meta, &mode.into(), now)
    }

    /// The same, under more conditions.
    pub fn set_if<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        value: &[u8],
        meta: ItemMeta,
        conditions: &StoreConditions,
        now: Now,
    ) -> StoreOutcome {
        match self.reserve(key, value.len(), meta, now) {
            Ok(mut reservation) => {
                if reservation.fill(value) < value.len() {
                    self.counters().store_no_memory.bump();
                    return StoreOutcome::OutOfMemory;
                }
                self.store_reserved(reservation, conditions, now)
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
}

impl<'e> Engine {
    /// Gives a filled reservation its CAS value and time; the caller publishes it.
    #[inline(always)]
    fn finish(
        &self,
        reservation: Reservation<'_>,
        cas: Option<u64>,
        now: Now,
    ) -> (OwnedChunk, ClassId, bool) {
        let short_lived = reservation.short_lived();
        let chunk = reservation.into_published();
        self.memory.header(chunk.address()).set_time(now.ticks);
        self.give_cas(chunk.address(), cas, now);
        let class = self.queue_class(chunk.address());
        (chunk, class, short_lived)
    }

    /// Publishes a filled reservation under its key, which leads to nothing.
    pub(crate) fn publish_new(
        &self,
        stripe: &mut StripeGuard<'_>,
        reservation: Reservation<'_>,
        cas: Option<u64>,
        now: Now,
    ) -> ChunkAddress {
        let hash = reservation.hash();
        let (chunk, queue_class, short_lived) = self.finish(reservation, cas, now);
        let address = chunk.address();
        let hash_of = |other, proof: ReadProof<'_>| self.hash_of(other, proof);
        if self.index.insert(stripe, hash, address, hash_of) {
            self.charge_index();
        }
        self.enqueue_new(queue_class, chunk, short_lived);
        address
    }

    /// Publishes a reservation in the place of the item found under its key's hash, as new.
    pub(crate) fn publish_over(
        &self,
        reservation: Reservation<'_>,
        mut found: Found<'_>,
        cas: Option<u64>,
        now: Now,
    ) -> StoreOutcome {
        let hash = reservation.hash();
        self.memory.prefetch_neighbours(found.address);
        let value_len = reservation.value_len();
        let (chunk, queue_class, short_lived) = self.finish(reservation, cas, now);
        let address = chunk.address();
        found.stripe.replace(found.slot, address);
        let remains = self.unlink_unfreed(found.address);
        self.enqueue_new(queue_class, chunk, short_lived);
        let outcome = self.stored(address, value_len);
        drop(found);
        self.free_remains(remains);
        self.tap(hash, AccessKind::Store, Some(queue_class));
        outcome
    }

    /// What the stripe's holder answers for an item that it has just published.
    fn stored(&self, address: ChunkAddress, value_len: usize) -> StoreOutcome {
        StoreOutcome::Stored { cas: self.memory.header(address).cas(), value_len }
    }

    fn enqueue_new(&self, class: ClassId, chunk: OwnedChunk, short_lived: bool) {
        let mut class = self.class(class).lock();
        let queue = class.queue_for_new(short_lived);
        class.enqueue(&self.memory, chunk, queue);
    }

    /// The length and the meta of what a found item and a new value become.
    fn joined(&self, found: &Found<'_>, value: &Reservation<'_>, join: Join) -> (usize, ItemMeta) {
        let proof = ReadProof::under_stripe(&found.stripe);
        let meta = self.memory.meta(found.address, proof);
        if join == Join::Stale {
            let expiry = meta.expiry;
            return (value.value_len(), ItemMeta { expiry, ..value.meta() });
        }
        let old_len = self.memory.value_len(found.address, proof);
        (old_len + value.value_len(), meta)
    }

    fn fill_joined(
        &'e self,
        joined: &mut Reservation<'_>,
        found: &Found<'e>,
        value: &mut Reservation<'_>,
        join: Join,
    ) {
        if join == Join::Behind {
            self.copy_value(found, joined);
        }
        value.for_each_part(|part| joined.fill_all(part));
        if join == Join::InFront {
            self.copy_value(found, joined);
        }
    }

    fn publish_joined(
        &self,
        (joined, cas): (Reservation<'_>, Option<u64>),
        found: Found<'_>,
        join: Join,
        now: Now,
    ) -> StoreOutcome {
        if join == Join::Stale {
            let claimed = self.memory.header(found.address).state().load().claimed();
            let word = self.memory.header(joined.address()).state();
            word.mark_stale();
            if claimed {
                word.claim();
            }
        }
        self.publish_over(joined, found, cas, now)
    }

    /// Publishes an item without a value in the place of the one found.
    pub(crate) fn empty_over(
        &self,
        (empty, new_cas): (Reservation<'_>, Option<u64>),
        found: Found<'_>,
        stale: bool,
        now: Now,
    ) {
        let cas = if stale {
            self.memory.header(empty.address()).state().mark_stale();
            new_cas
        } else {
            new_cas.or(Some(self.memory.header(found.address).cas()))
        };
        self.publish_over(empty, found, cas, now);
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
