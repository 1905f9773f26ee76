//! Gets with side effects, such as setting the expiry or creating a missing item, and `inspect`, which marks, counts
//! and removes nothing.

use super::handle::{Found, Handle, Lookup};
use super::item::ItemView;
use super::reservation::{PreparedMemory, Reservation, ReserveError};
use super::store::publish_new;
use crate::layout::ItemMeta;
use crate::mem::{Linked, StripeGuard};
use crate::space::{AccessKind, InvalidReason};
use slabwise_base::{ClassId, Expiry, HashedKey, LookupKey, Now};

/// The options of a get: the side effects that it has on the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetOptions {
    /// The expiry that the get sets; the get then counts as a touch. `None`: the expiry is unchanged.
    pub touch: Option<Expiry>,
    /// The properties of the empty item that the get creates on a miss. `None`: the get creates no item.
    pub vivify: Option<Vivify>,
    /// True if the get marks the item as used, as [`Handle::get`] does.
    pub marks: bool,
}

/// The properties of an item that a get creates on a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vivify {
    /// The expiry of the created item.
    pub expiry: Expiry,
    /// The CAS value of the created item; `None`: the engine assigns its next value.
    pub cas: Option<u64>,
}

/// The side effects that a get had on the item that it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetEffects {
    /// True if this get created the item.
    pub is_new: bool,
    /// The item's expiry before this get changed it; `Expiry::NEVER` if this get created the item.
    pub expiry_before: Expiry,
}

impl Default for GetOptions {
    fn default() -> GetOptions {
        GetOptions { touch: None, vivify: None, marks: true }
    }
}

impl<'e> Handle<'e> {
    /// Looks a key up as [`Handle::get`] does, with the side effects that `options` request. `None`: the key has no
    /// item, and the get creates none because `options` do not request it or there is no memory. Returns an error if
    /// there is no memory to set the expiry of an item.
    pub fn get_with<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        options: &GetOptions,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>, GetEffects) -> R,
    ) -> Result<Option<R>, ReserveError> {
        let (cache, space) = (self.cache(), self.space());
        let key = key.hashed_by(&space.hasher);
        let handle = &*self;
        let mut prepared = PreparedMemory::new(cache, handle.spares());
        let mut reserved: Option<Reservation<'e>> = None;
        loop {
            let found = match Lookup::find(space, key, now, self.counters()) {
                Lookup::Found(found) => found,
                Lookup::Missing(stripe) => {
                    if let (Some(empty), Some(vivify)) = (reserved.take(), options.vivify) {
                        let result = self.vivify(stripe, (empty, vivify.cas), options, now, f);
                        self.report_miss(key.hash(), options);
                        return Ok(Some(result));
                    }
                    drop(stripe);
                    reserved = options.vivify.and_then(|vivify| {
                        let meta = ItemMeta { expiry: vivify.expiry, ..ItemMeta::default() };
                        Reservation::begin((cache, self.spares()), key, 0, meta, now).ok()
                    });
                    if reserved.is_some() {
                        continue;
                    }
                    self.counters().get_misses.bump();
                    self.report_miss(key.hash(), options);
                    return Ok(None);
                }
            };
            let expiry_before = found.item().expiry();
            let mut found = match options.touch {
                None => found,
                Some(expiry) => match prepared.set_expiry(found, key, expiry, now)? {
                    Some(found) => found,
                    None => continue,
                },
            };
            let class = self.count_get(found.item(), options, options.marks);
            if options.marks {
                self.count_saved(&found, self.counters().class(class));
            }
            let effects = GetEffects { is_new: false, expiry_before };
            let result =
                self.call_with_view(&mut found, options.marks, now, |view| f(view, effects));
            // A get that does not mark its item is not reported, because it does not count as a use of the key.
            let access = match options.marks {
                true => self.space().access_to(key.hash(), AccessKind::Hit, found.item()),
                false => None,
            };
            drop(found);
            self.space().report(access);
            return Ok(Some(result));
        }
    }

    /// Sets the expiry of a key's item and calls `f` with the item, as [`Handle::get`] does. Counts as a touch and as a
    /// get. Returns an error if there is no memory to set the expiry.
    pub fn get_and_touch<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        expiry: Expiry,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Result<Option<R>, ReserveError> {
        let key = key.hashed_by(&self.space().hasher);
        let Some(mut found) = self.set_expiry(key, expiry, now)? else {
            self.counters().gat_misses.bump();
            self.space().report_access(key.hash(), AccessKind::Miss, None);
            return Ok(None);
        };
        let class = found.class();
        self.counters().class(class).gat_hits.bump();
        self.count_saved(&found, self.counters().class(class));
        let result = self.call_with_view(&mut found, true, now, f);
        let access = self.space().access_to(key.hash(), AccessKind::Hit, found.item());
        drop(found);
        self.space().report(access);
        Ok(Some(result))
    }

    /// Sets the expiry of a key's item. Returns false if the key has no item, and an error if there is no memory to set
    /// the expiry.
    pub fn touch<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        expiry: Expiry,
        now: Now,
    ) -> Result<bool, ReserveError> {
        let key = key.hashed_by(&self.space().hasher);
        let Some(mut found) = self.set_expiry(key, expiry, now)? else { return Ok(false) };
        found.mark_hit(now, || self.random());
        let access = self.space().access_to(key.hash(), AccessKind::Touch, found.item());
        drop(found);
        self.space().report(access);
        Ok(true)
    }

    /// Looks a key up, sets the expiry of its item, and counts a touch. Returns `None` if the key has no item.
    fn set_expiry(
        &self,
        key: HashedKey<'_>,
        expiry: Expiry,
        now: Now,
    ) -> Result<Option<Found<'e>>, ReserveError> {
        self.counters().touches.bump();
        let mut prepared = PreparedMemory::new(self.cache(), self.spares());
        loop {
            let Lookup::Found(found) = Lookup::find(self.space(), key, now, self.counters()) else {
                self.counters().touch_misses.bump();
                return Ok(None);
            };
            if let Some(found) = prepared.set_expiry(found, key, expiry, now)? {
                self.counters().class(found.class()).touch_hits.bump();
                return Ok(Some(found));
            }
        }
    }

    /// Reports a get that missed to the observer of accesses. A get that would not mark its item is not reported,
    /// because it does not count as a use of the key.
    fn report_miss(&self, hash: u64, options: &GetOptions) {
        if options.marks {
            self.space().report_access(hash, AccessKind::Miss, None);
        }
    }

    /// Publishes the reserved empty item, counts the get, and calls `f` with the item.
    fn vivify<R>(
        &self,
        stripe: StripeGuard<'e>,
        (reservation, cas): (Reservation<'e>, Option<u64>),
        options: &GetOptions,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>, GetEffects) -> R,
    ) -> R {
        let space = self.space();
        self.count_stored(reservation.item().counted_size_bytes());
        let mut found = publish_new(space, stripe, reservation, cas, now);
        self.count_get(found.item(), options, false);
        let effects = GetEffects { is_new: true, expiry_before: Expiry::NEVER };
        self.call_with_view(&mut found, options.marks, now, |view| f(view, effects))
    }

    /// Counts a get that returns this item: as a touch if the get touches, and otherwise as a plain hit. `is_reported`
    /// is true if the caller reports the get as a hit to the observer of accesses. Returns the class that queues the
    /// item.
    fn count_get(&self, item: Linked<'_>, options: &GetOptions, is_reported: bool) -> ClassId {
        let id = item.queue_class();
        let class = self.counters().class(id);
        if !is_reported {
            // This counter is raised before the counter of hits. Statistics compute the reported hits as the difference
            // of the two, so a concurrent reader never finds too many.
            class.unreported_hits.bump();
        }
        if options.touch.is_some() {
            self.counters().touches.bump();
            class.touch_hits.bump();
            class.gat_hits.bump();
        } else {
            class.hits_to[item.state().queue().index()].bump();
        }
        id
    }
}

/// The properties of an item, apart from its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemInfo {
    /// The class in which statistics show the item.
    pub class: ClassId,
    /// The length of the item's value, in bytes.
    pub value_len: usize,
    /// The item's expiry.
    pub expiry: Expiry,
    /// Whether a lookup would find the item.
    pub validity: Validity,
}

/// Whether a lookup would find an item, and the reason if it would not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// The item is valid, so a lookup would find it.
    Live,
    /// The item has expired.
    Expired,
    /// A flush has invalidated the item.
    Flushed,
}

impl Handle<'_> {
    /// Returns the properties of a key's item, even if the item has expired or was flushed. `None`: the key has no
    /// item. Marks, counts and removes nothing.
    pub fn inspect<'k>(&self, key: impl LookupKey<'k>, now: Now) -> Option<ItemInfo> {
        let space = self.space();
        space.observe_time(now);
        let key = key.hashed_by(&space.hasher);
        let stripe = space.index.lock(key.hash());
        let item = stripe.get(key.hash(), key.bytes())?;
        let validity = match space.invalid_reason(item, now) {
            None => Validity::Live,
            Some(InvalidReason::Expired) => Validity::Expired,
            Some(InvalidReason::Flushed) => Validity::Flushed,
        };
        Some(ItemInfo {
            class: space.stats_class(item.queue_class()),
            value_len: item.value_len(),
            expiry: item.expiry(),
            validity,
        })
    }
}

impl Reservation<'_> {
    /// Returns the properties that the item will have when it is stored.
    pub fn inspect(&self) -> ItemInfo {
        let (space, item) = (&self.cache().space, self.item());
        ItemInfo {
            class: space.stats_class(self.queue_class()),
            value_len: self.value_len(),
            expiry: item.expiry(),
            validity: Validity::Live,
        }
    }
}
