//! Stores: the operations of a worker that write a new value.
//!
//! A store reserves memory before it locks the stripe. The size of the new item may depend on the existing item, for
//! example in an append or in a touch that adds an expiry. Such an operation works in rounds, which `reservation.rs`
//! describes. When the reservation is filled, the store publishes it: it adds the new item to the index and to a queue,
//! and removes the item that the new one replaces.

use super::handle::{Found, Handle, Lookup};
use super::own_spares::OwnSpares;
use super::reservation::{PreparedMemory, Reservation, ReserveError};
use crate::layout::ItemMeta;
use crate::mem::{Entry, NewItem, Removed, StripeGuard, UnlinkedChunks};
use crate::space::{AccessKind, Space};
use slabwise_base::random::mix;
use slabwise_base::{LookupKey, Now};

/// The kind of a store: memcached's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Stores unconditionally.
    Set,
    /// Stores if the key has no item.
    Add,
    /// Stores if the key has an item.
    Replace,
    /// Appends the value to the value of the key's item. The item keeps its client flags and its expiry.
    Append,
    /// Prepends the value to the value of the key's item. The item keeps its client flags and its expiry.
    Prepend,
    /// Stores if the key's item has this CAS value.
    Cas(u64),
}

/// The mode, conditions and options of a store. `mode.into()` returns a mode without conditions and options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConditions {
    /// The kind of the store.
    pub mode: StoreMode,
    /// The CAS value that the existing item must have; `None`: any value. A set or replace with such a value works as
    /// [`StoreMode::Cas`]. An add and a [`StoreMode::Cas`] ignore this field.
    pub expected_cas: Option<u64>,
    /// The CAS value of the stored item; `None`: the engine assigns its next value.
    pub new_cas: Option<u64>,
    /// True if the store also takes place when the expected CAS value is lower than the item's. The new item is then
    /// marked as stale and gets the expiry of the old one.
    pub stale_allowed: bool,
    /// True if append and prepend store the value when the key has no item.
    pub vivify: bool,
}

impl From<StoreMode> for StoreConditions {
    fn from(mode: StoreMode) -> StoreConditions {
        let (expected_cas, new_cas) = (None, None);
        StoreConditions { mode, expected_cas, new_cas, stale_allowed: false, vivify: false }
    }
}

/// The effect of a store on the existing item.
enum Decision {
    /// The store is refused with this outcome.
    Refuse(StoreOutcome),
    /// The new item replaces the existing one.
    Replace,
    /// An item that combines the new value and the existing item replaces the existing item.
    Join(Join),
}

/// The way in which a store combines the new value and the existing item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    /// The value is the old value followed by the new value.
    Append,
    /// The value is the new value followed by the old value.
    Prepend,
    /// The value is the new value, the expiry is the old expiry, and the item is marked as stale.
    Stale,
}

/// The outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// The item was stored.
    Stored {
        /// The CAS value of the stored item.
        cas: u64,
        /// The length of the stored value, in bytes.
        value_len: usize,
    },
    /// The condition of add, replace, append or prepend does not hold.
    NotStored,
    /// The item does not have the expected CAS value.
    Exists,
    /// The store expects a CAS value, but the key has no item.
    NotFound,
    /// There is no memory for the item.
    OutOfMemory,
    /// The item would be larger than the largest allowed item.
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

impl Join {
    /// Returns the value length and the metadata of the combined item.
    fn len_and_meta(self, found: &Found<'_>, value: &Reservation<'_>) -> (usize, ItemMeta) {
        let meta = found.item().meta();
        if self == Join::Stale {
            let expiry = meta.expiry;
            return (value.value_len(), ItemMeta { expiry, ..value.item().meta() });
        }
        (found.item().value_len() + value.value_len(), meta)
    }

    /// Writes the value of the combined item.
    fn fill(self, joined: &mut Reservation<'_>, found: &Found<'_>, value: &mut Reservation<'_>) {
        if self == Join::Append {
            joined.fill_with(found);
        }
        value.for_each_part(|part| joined.fill_all(part));
        if self == Join::Prepend {
            joined.fill_with(found);
        }
    }

    /// Sets the marks of the combined item.
    fn mark(self, joined: &Reservation<'_>, found: &Found<'_>) {
        if self == Join::Stale {
            joined.item().marks().mark_stale();
            if found.item().state().claimed() {
                joined.item().marks().claim();
            }
        }
    }
}

impl<'e> Handle<'e> {
    /// Reserves memory for an item, and evicts other items if necessary. The memory for the value of a chained item is
    /// allocated later, while the value is filled in; if there is not enough, [`Reservation::is_starved`] is true.
    /// [`Handle::store`] makes the item visible.
    ///
    /// Panics if the key is empty or has more than 250 bytes.
    pub fn reserve<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Reservation<'e>, ReserveError> {
        let key = key.hashed_by(&self.space().hasher);
        let memory = (self.cache(), self.spares());
        let reserved = Reservation::begin(memory, key, value_len, meta, now);
        match reserved {
            Ok(_) => {}
            Err(ReserveError::TooLarge) => self.counters().store_too_large.bump(),
            Err(ReserveError::OutOfMemory) => self.counters().store_no_memory.bump(),
        }
        reserved
    }

    /// Counts a store that the caller has refused because the item is above a limit of the caller.
    pub fn count_too_large(&mut self) {
        self.counters().store_too_large.bump();
    }

    /// Publishes a filled reservation if `mode` permits the store. Otherwise frees its memory.
    pub fn store(
        &mut self,
        reservation: Reservation<'e>,
        mode: StoreMode,
        now: Now,
    ) -> StoreOutcome {
        self.store_if(reservation, &mode.into(), now)
    }

    /// Publishes a filled reservation if `conditions` permit the store. Otherwise frees its memory.
    // Inlined, because a reservation is large, and a call would copy it.
    #[inline(always)]
    pub fn store_if(
        &mut self,
        mut reservation: Reservation<'e>,
        conditions: &StoreConditions,
        now: Now,
    ) -> StoreOutcome {
        let (cache, space) = (self.cache(), self.space());
        assert!(
            std::ptr::eq(cache, reservation.cache()),
            "a reservation can be stored only in the engine that created it"
        );
        self.counters().class(reservation.queue_class()).sets.bump();
        let handle = &*self;
        let mut prepared = PreparedMemory::new(cache, handle.spares());
        loop {
            let found = match Lookup::find(space, reservation.hashed_key(), now, self.counters()) {
                Lookup::Found(found) => found,
                Lookup::Missing(stripe) => {
                    if let Err(refused) = self.check_missing(conditions) {
                        drop(stripe);
                        reservation.free_into(self.spares());
                        return refused;
                    }
                    self.count_stored(reservation.item().counted_size_bytes());
                    self.count_insertion(&reservation);
                    let (hash, value_len) = (reservation.key_hash, reservation.value_len());
                    let new = publish_new(space, stripe, reservation, conditions.new_cas, now);
                    let cas = unlock_and_report(new, hash);
                    return StoreOutcome::Stored { cas, value_len };
                }
            };
            match self.decide(&found, conditions) {
                Decision::Refuse(outcome) => {
                    drop(found);
                    reservation.free_into(self.spares());
                    return outcome;
                }
                Decision::Replace => {
                    self.count_stored(reservation.item().counted_size_bytes());
                    let value_len = reservation.value_len();
                    let cas =
                        publish_over((reservation, self.spares()), found, conditions.new_cas, now);
                    return StoreOutcome::Stored { cas, value_len };
                }
                Decision::Join(join) => {
                    let (value_len, meta) = join.len_and_meta(&found, &reservation);
                    match prepared.reserve(found, reservation.hashed_key(), value_len, meta, now) {
                        Ok(None) => {}
                        Ok(Some((found, mut joined))) => {
                            join.fill(&mut joined, &found, &mut reservation);
                            self.count_stored(joined.item().counted_size_bytes());
                            join.mark(&joined, &found);
                            let cas = publish_over(
                                (joined, self.spares()),
                                found,
                                conditions.new_cas,
                                now,
                            );
                            reservation.free_into(self.spares());
                            return StoreOutcome::Stored { cas, value_len };
                        }
                        Err(error) => return error.into(),
                    }
                }
            }
        }
    }

    /// Counts a store to a key that has no item.
    #[inline(always)]
    fn count_insertion(&self, reservation: &Reservation<'_>) {
        let class = self.counters().class(reservation.queue_class());
        class.inserted.bump();
        if let Some(cost) = reservation.item().cost() {
            class.costs_known.bump();
            class.cost_paid.add(u64::from(cost.units()));
        }
    }

    /// Returns an error if the conditions refuse a store to a key that has no item. Also counts a CAS miss.
    #[inline(always)]
    fn check_missing(&self, conditions: &StoreConditions) -> Result<(), StoreOutcome> {
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

    /// Decides on a store to a key that has an item. Also counts CAS hits and mismatches.
    #[inline(always)]
    fn decide(&self, found: &Found<'_>, conditions: &StoreConditions) -> Decision {
        let expected = match (conditions.mode, conditions.expected_cas) {
            (StoreMode::Add, _) => return Decision::Refuse(StoreOutcome::NotStored),
            (StoreMode::Set | StoreMode::Replace, None) => return Decision::Replace,
            (StoreMode::Append | StoreMode::Prepend, expected) => {
                let cas = found.item().cas();
                return match conditions.mode {
                    _ if expected.is_some_and(|expected| expected != cas) => {
                        Decision::Refuse(StoreOutcome::Exists)
                    }
                    StoreMode::Append => Decision::Join(Join::Append),
                    _ => Decision::Join(Join::Prepend),
                };
            }
            (StoreMode::Cas(expected), _)
            | (StoreMode::Set | StoreMode::Replace, Some(expected)) => expected,
        };
        let cas = found.item().cas();
        let class = self.counters().class(found.class());
        // A client can give an item the CAS value 0. As in memcached, no condition matches this value.
        if cas == expected && expected != 0 {
            class.cas_hits.bump();
            Decision::Replace
        } else if conditions.stale_allowed && expected < cas {
            class.cas_hits.bump();
            Decision::Join(Join::Stale)
        } else {
            class.cas_badval.bump();
            Decision::Refuse(StoreOutcome::Exists)
        }
    }

    /// Reserves memory for an item, writes the value, and stores the item if `mode` permits the store.
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

    /// Reserves memory for an item, writes the value, and stores the item if `conditions` permit the store.
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
                self.store_if(reservation, conditions, now)
            }
            Err(error) => error.into(),
        }
    }

    /// Counts a store that the caller has refused for lack of memory.
    pub fn count_no_memory(&mut self) {
        self.counters().store_no_memory.bump();
    }
}

/// Publishes a filled reservation whose key has no item. Returns the item.
pub fn publish_new<'e>(
    space: &'e Space,
    stripe: StripeGuard<'e>,
    reservation: Reservation<'_>,
    cas: Option<u64>,
    now: Now,
) -> Found<'e> {
    let hash = reservation.key_hash;
    let (item, short_lived) = complete(space, reservation, cas, now);
    if space.counts_uses
        && let Some(uses) = space.ghosts.take(hash)
    {
        let new = item.item(&space.memory);
        new.set_uses(uses.counted(mix(new.cas())));
    }
    let (mut entry, has_grown) =
        space.index.insert(stripe, hash, item, |other| space.hash_of(other));
    if has_grown {
        space.charge_tables();
    }
    enqueue_new(space, &mut entry, short_lived);
    Found { space, entry }
}

/// Publishes a filled reservation in place of the item of its key, and frees the old item, whose first chunk becomes
/// one of `spares` if possible. Returns the new CAS value.
pub fn publish_over(
    (reservation, spares): (Reservation<'_>, &OwnSpares<'_>),
    mut found: Found<'_>,
    cas: Option<u64>,
    now: Now,
) -> u64 {
    let (space, hash) = (found.space, reservation.key_hash);
    found.item().prefetch_neighbours();
    let (item, short_lived) = complete(space, reservation, cas, now);
    item.item(&space.memory).set_uses(found.item().uses());
    let removed = found.entry.replace(item);
    let remains = requeue(space, removed, &mut found.entry, short_lived);
    let cas = unlock_and_report(found, hash);
    spares.free_unlinked(remains);
    cas
}

/// Unlocks the stripe of a published item, and reports the store to the observer of accesses. Returns the item's CAS
/// value.
#[inline(always)]
pub fn unlock_and_report(found: Found<'_>, hash: u64) -> u64 {
    let (space, cas) = (found.space, found.item().cas());
    let access = space.access_to(hash, AccessKind::Store, found.item());
    drop(found);
    space.report(access);
    cas
}

/// Sets the CAS value and the access time of a filled reservation. Returns its item, and true if the item's TTL is
/// short enough for the temp queue.
#[inline(always)]
fn complete(
    space: &Space,
    reservation: Reservation<'_>,
    cas: Option<u64>,
    now: Now,
) -> (NewItem, bool) {
    let short_lived = reservation.short_lived;
    let new = reservation.into_item();
    new.item(&space.memory).set_time(space.work.now());
    space.note_page_access(|| new.chunks(), now);
    space.flush.assign_cas(new.item(&space.memory), cas, &space.work);
    (new, short_lived)
}

/// Removes a replaced item from its queue, and adds the item that replaces it to a queue. Usually both items are in the
/// same class, which is then locked once. The caller frees the returned chunks.
fn requeue(
    space: &Space,
    old: Removed,
    entry: &mut Entry<'_>,
    short_lived: bool,
) -> Option<UnlinkedChunks> {
    let item = entry.entered();
    let class = old.queue_class(&space.memory);
    if item.queue_class() != class {
        let remains = space.unlink_without_freeing(old);
        enqueue_new(space, entry, short_lived);
        return remains;
    }
    space.class(class).lock().supersede(old, item, short_lived)
}

/// Adds a new item to a queue.
fn enqueue_new(space: &Space, entry: &mut Entry<'_>, short_lived: bool) {
    let item = entry.entered();
    let mut class = space.class(item.queue_class()).lock();
    let queue = class.queue_for_new(short_lived);
    class.enqueue(item, queue);
}
