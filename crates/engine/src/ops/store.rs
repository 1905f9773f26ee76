//! A worker's operations that write.
//!
//! Memory is always taken before the stripe is locked. Where the size needed depends on the item that
//! is there (append, prepend, a growing number, a touch that adds an expiry), the operation goes in rounds:
//! see `reservation.rs`.

use super::handle::Handle;
use super::item::{Found, Lookup};
use super::reservation::{
    Reservation, ReserveError, Room, Spare, Stored, publish_new, publish_over, stored,
};
use crate::layout::ItemMeta;
use crate::space::AccessKind;
use slabwise_base::{LookupKey, Now};

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

impl From<Stored> for StoreOutcome {
    fn from(Stored { cas, value_len }: Stored) -> StoreOutcome {
        StoreOutcome::Stored { cas, value_len }
    }
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
            joined.item().mark_stale();
            if found.item().state().claimed() {
                joined.item().claim();
            }
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
                    let cas = conditions.new_cas;
                    self.count_insertion(&reservation);
                    let hash = reservation.hash();
                    let entry = publish_new(space, stripe, reservation, cas, now);
                    let (outcome, class) = (stored(&entry).into(), entry.item().queue_class());
                    drop(entry);
                    space.show_access(hash, AccessKind::Store, Some(class));
                    return outcome;
                }
            };
            match self.judge_found(&found, conditions) {
                Verdict::Refused(outcome) => return outcome,
                Verdict::Replaced => {
                    self.counters().items_total.bump();
                    let cas = conditions.new_cas;
                    return publish_over(reservation, found, cas, now).into();
                }
                Verdict::Joined(join) => {
                    let (value_len, meta) = join.shape(&found, &reservation);
                    match spare.room(found, reservation.hashed_key(), value_len, meta, now) {
                        Ok(Room::LookAgain) => {}
                        Ok(Room::Ready(found, mut joined)) => {
                            join.fill(&mut joined, &found, &mut reservation);
                            self.counters().items_total.bump();
                            join.mark(&joined, &found);
                            return publish_over(joined, found, conditions.new_cas, now).into();
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
