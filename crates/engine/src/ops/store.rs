//! A worker's operations that write.
//!
//! Memory is always taken before the stripe is locked. Where the size needed depends on the item that
//! is there (append, prepend, a growing number, a touch that adds an expiry), the operation goes in rounds:
//! see `reservation.rs`. What was filled is published: it enters the index and a queue, and what it replaces ends.

use super::handle::{Found, Handle, Lookup};
use super::reservation::{Reservation, ReserveError, Spare};
use crate::layout::ItemMeta;
use crate::mem::{Entry, NewItem, StripeGuard};
use crate::space::{AccessKind, Space};
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

impl Join {
    /// The length and the meta of what a found item and a new value become.
    fn shape(self, found: &Found<'_>, value: &Reservation<'_>) -> (usize, ItemMeta) {
        let meta = found.item().meta();
        if self == Join::Stale {
            let expiry = meta.expiry;
            return (value.value_len(), ItemMeta { expiry, ..value.item().meta() });
        }
        (found.item().value_len() + value.value_len(), meta)
    }

    fn fill(self, joined: &mut Reservation<'_>, found: &Found<'_>, value: &mut Reservation<'_>) {
        if self == Join::Behind {
            joined.fill_with(found);
        }
        value.for_each_part(|part| joined.fill_all(part));
        if self == Join::InFront {
            joined.fill_with(found);
        }
    }

    /// Gives the joined item the marks that it keeps or gets.
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
    /// Takes memory for an item, evicting as needed; for a value of several chunks as it is filled, so
    /// look at [`Reservation::is_starved`] when it takes no more. Nobody sees the item before
    /// [`Handle::store`]. Keys have 1 to 250 bytes.
    pub fn reserve<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Reservation<'e>, ReserveError> {
        let key = key.hashed_by(&self.space().hasher);
        let reserved = Reservation::take(self.cache(), key, value_len, meta, now);
        match reserved {
            Ok(_) => {}
            Err(ReserveError::TooLarge) => self.counters().store_too_large.bump(),
            Err(ReserveError::OutOfMemory) => self.counters().store_no_memory.bump(),
        }
        reserved
    }

    /// Counts a store that the caller refused as too large, by a limit narrower than the engine's own.
    pub fn count_too_large(&mut self) {
        self.counters().store_too_large.bump();
    }

    /// Publishes what was reserved and filled, if `mode` allows it; else gives the memory back.
    pub fn store(
        &mut self,
        reservation: Reservation<'e>,
        mode: StoreMode,
        now: Now,
    ) -> StoreOutcome {
        self.store_if(reservation, &mode.into(), now)
    }

    /// The same, under more conditions. (Inlined: a reservation is large, and so stays where it is.)
    #[inline(always)]
    pub fn store_if(
        &mut self,
        mut reservation: Reservation<'e>,
        conditions: &StoreConditions,
        now: Now,
    ) -> StoreOutcome {
        let (cache, space) = (self.cache(), self.space());
        assert!(std::ptr::eq(cache, reservation.cache()), "a reservation stays with its engine");
        self.counters().class(reservation.queue_class()).sets.bump();
        let mut spare = Spare::new(cache);
        loop {
            let found = match Lookup::of(space, reservation.hashed_key(), now, self.counters()) {
                Lookup::Found(found) => found,
                Lookup::Missing(stripe) => {
                    if let Err(refused) = self.judge_missing(conditions) {
                        return refused;
                    }
                    self.counters().items_total.bump();
                    self.count_insertion(&reservation);
                    let (hash, value_len) = (reservation.key_hash, reservation.value_len());
                    let (new, class) =
                        publish_new(space, stripe, reservation, conditions.new_cas, now);
                    let cas = end_store(new, class, hash);
                    return StoreOutcome::Stored { cas, value_len };
                }
            };
            match self.judge_found(&found, conditions) {
                Verdict::Refused(outcome) => return outcome,
                Verdict::Replaced => {
                    self.counters().items_total.bump();
                    let value_len = reservation.value_len();
                    let cas = publish_over(reservation, found, conditions.new_cas, now);
                    return StoreOutcome::Stored { cas, value_len };
                }
                Verdict::Joined(join) => {
                    let (value_len, meta) = join.shape(&found, &reservation);
                    match spare.room(found, reservation.hashed_key(), value_len, meta, now) {
                        Ok(None) => {}
                        Ok(Some((found, mut joined))) => {
                            join.fill(&mut joined, &found, &mut reservation);
                            self.counters().items_total.bump();
                            join.mark(&joined, &found);
                            let cas = publish_over(joined, found, conditions.new_cas, now);
                            return StoreOutcome::Stored { cas, value_len };
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
        let class = self.counters().class(reservation.queue_class());
        class.inserted.bump();
        if let Some(cost) = reservation.item().cost() {
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
        let expected = match (conditions.mode, conditions.expected_cas) {
            (StoreMode::Add, _) => return Verdict::Refused(StoreOutcome::NotStored),
            (StoreMode::Set | StoreMode::Replace, None) => return Verdict::Replaced,
            (StoreMode::Append | StoreMode::Prepend, expected) => {
                let cas = found.item().cas();
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
        let cas = found.item().cas();
        let class = self.counters().class(found.class());
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
                self.store_if(reservation, conditions, now)
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

/// Publishes a filled reservation under its key, which leads to nothing. Returns the class in whose queue it is.
pub fn publish_new<'e>(
    space: &'e Space,
    stripe: StripeGuard<'e>,
    reservation: Reservation<'_>,
    cas: Option<u64>,
    now: Now,
) -> (Found<'e>, ClassId) {
    let hash = reservation.key_hash;
    let (item, short_lived) = finish(space, reservation, cas, now);
    let (mut entry, has_grown) =
        space.index.insert(stripe, hash, item, |other| space.hash_of(other));
    if has_grown {
        space.charge_index();
    }
    let class = enqueue_new(space, &mut entry, short_lived);
    (Found { space, entry }, class)
}

/// Publishes a reservation in the place of the item found under its key, as new. Returns its CAS value.
pub fn publish_over(
    reservation: Reservation<'_>,
    mut found: Found<'_>,
    cas: Option<u64>,
    now: Now,
) -> u64 {
    let (space, hash) = (found.space, reservation.key_hash);
    found.item().prefetch_neighbours();
    let (item, short_lived) = finish(space, reservation, cas, now);
    let removed = found.entry.replace(item);
    let remains = space.unlink_unfreed(removed);
    let class = enqueue_new(space, &mut found.entry, short_lived);
    let cas = end_store(found, class, hash);
    space.free_remains(remains);
    cas
}

/// Lets the stripe of an item go that was just published, and shows the access. Returns its CAS value.
#[inline(always)]
pub fn end_store(found: Found<'_>, class: ClassId, hash: u64) -> u64 {
    let (space, cas) = (found.space, found.item().cas());
    drop(found);
    space.show_access(hash, AccessKind::Store, Some(class));
    cas
}

/// Gives a filled reservation its CAS value and time.
#[inline(always)]
fn finish(
    space: &Space,
    reservation: Reservation<'_>,
    cas: Option<u64>,
    now: Now,
) -> (NewItem, bool) {
    let short_lived = reservation.short_lived;
    let new = reservation.into_published();
    new.item(&space.memory).set_time(now.ticks);
    space.flush.give_cas(new.item(&space.memory), cas, now);
    (new, short_lived)
}

/// Returns the class in whose queue the item is.
fn enqueue_new(space: &Space, entry: &mut Entry<'_>, short_lived: bool) -> ClassId {
    let item = entry.entered();
    let id = item.queue_class();
    let mut class = space.class(id).lock();
    let queue = class.queue_for_new(short_lived);
    class.enqueue(item, queue);
    id
}
