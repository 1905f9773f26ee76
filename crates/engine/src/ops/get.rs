//! Gets with side effects (touch, vivify), and `inspect`, which marks, counts and removes nothing.

use super::handle::{Found, Handle, Lookup};
use super::item::ItemView;
use super::reservation::{Reservation, ReserveError, Spare};
use super::store::publish_new;
use crate::layout::ItemMeta;
use crate::mem::{Linked, StripeGuard};
use crate::space::{AccessKind, EndReason};
use slabwise_base::{ClassId, Expiry, HashedKey, LookupKey, Now};

/// The side effects of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetOptions {
    /// Sets this expiry; counts as a touch.
    pub touch: Option<Expiry>,
    /// Creates an empty item if there is none.
    pub vivify: Option<Vivify>,
    /// Marks the item as used, as plain gets do.
    pub marks: bool,
}

/// The properties of an item that a get creates on a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vivify {
    /// The item's expiry.
    pub expiry: Expiry,
    /// The item's CAS value; `None`: the engine's next.
    pub cas: Option<u64>,
}

/// What a get did to the item that it found or created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetEffects {
    /// True if this get created it.
    pub is_new: bool,
    /// The expiry before this get changed it.
    pub expiry_before: Expiry,
}

impl Default for GetOptions {
    fn default() -> GetOptions {
        GetOptions { touch: None, vivify: None, marks: true }
    }
}

impl<'e> Handle<'e> {
    /// Looks a key up as [`Handle::get`] does, with side effects. If there is no memory to create an item, the get
    /// is a miss. Returns an error if there is no memory to set the expiry.
    pub fn get_with<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        options: &GetOptions,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>, GetEffects) -> R,
    ) -> Result<Option<R>, ReserveError> {
        let (cache, space) = (self.cache(), self.space());
        let key = key.hashed_by(&space.hasher);
        let mut spare = Spare::new(cache);
        let mut reserved: Option<Reservation<'e>> = None;
        loop {
            let found = match Lookup::of(space, key, now, self.counters()) {
                Lookup::Found(found) => found,
                Lookup::Missing(stripe) => {
                    if let (Some(empty), Some(vivify)) = (reserved.take(), options.vivify) {
                        let shown = self.vivify(stripe, (empty, vivify.cas), options, now, f);
                        self.report_get(key.hash(), None, options);
                        return Ok(Some(shown));
                    }
                    drop(stripe);
                    reserved = options.vivify.and_then(|vivify| {
                        let meta = ItemMeta { expiry: vivify.expiry, ..ItemMeta::default() };
                        Reservation::take(cache, key, 0, meta, now).ok()
                    });
                    if reserved.is_some() {
                        continue;
                    }
                    self.counters().get_misses.bump();
                    self.report_get(key.hash(), None, options);
                    return Ok(None);
                }
            };
            let expiry_before = found.item().expiry();
            let mut found = match options.touch {
                None => found,
                Some(expiry) => match spare.set_expiry(found, key, expiry, now)? {
                    Some(found) => found,
                    None => continue,
                },
            };
            let class = self.count_get(found.item(), options, options.marks);
            if options.marks {
                self.count_saved(&found, self.counters().class(class));
            }
            let effects = GetEffects { is_new: false, expiry_before };
            let shown = self.show(&mut found, options.marks, now, |view| f(view, effects));
            drop(found);
            self.report_get(key.hash(), Some(class), options);
            return Ok(Some(shown));
        }
    }

    /// Changes an item's expiry and calls `f` with the item, as [`Handle::get`] does. Counts as a touch.
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
        let shown = self.show(&mut found, true, now, f);
        drop(found);
        self.space().report_access(key.hash(), AccessKind::Hit, Some(class));
        Ok(Some(shown))
    }

    /// Changes an item's expiry. `Ok(false)`: there is no such item.
    pub fn touch<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        expiry: Expiry,
        now: Now,
    ) -> Result<bool, ReserveError> {
        let key = key.hashed_by(&self.space().hasher);
        let Some(mut found) = self.set_expiry(key, expiry, now)? else { return Ok(false) };
        let class = found.class();
        found.mark_hit(now);
        drop(found);
        self.space().report_access(key.hash(), AccessKind::Touch, Some(class));
        Ok(true)
    }

    /// Finds an item and changes its expiry; counts as a touch.
    fn set_expiry(
        &self,
        key: HashedKey<'_>,
        expiry: Expiry,
        now: Now,
    ) -> Result<Option<Found<'e>>, ReserveError> {
        self.counters().touches.bump();
        let mut spare = Spare::new(self.cache());
        loop {
            let Lookup::Found(found) = Lookup::of(self.space(), key, now, self.counters()) else {
                self.counters().touch_misses.bump();
                return Ok(None);
            };
            if let Some(found) = spare.set_expiry(found, key, expiry, now)? {
                self.counters().class(found.class()).touch_hits.bump();
                return Ok(Some(found));
            }
        }
    }

    /// Reports a get to the observer of accesses, unless it leaves no mark: such a get is no reuse of the key.
    fn report_get(&self, hash: u64, class: Option<ClassId>, options: &GetOptions) {
        if options.marks {
            let kind = if class.is_some() { AccessKind::Hit } else { AccessKind::Miss };
            self.space().report_access(hash, kind, class);
        }
    }

    /// Publishes an empty item and calls `f` with it.
    fn vivify<R>(
        &self,
        stripe: StripeGuard<'e>,
        (reservation, cas): (Reservation<'e>, Option<u64>),
        options: &GetOptions,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>, GetEffects) -> R,
    ) -> R {
        let space = self.space();
        self.counters().items_total.bump();
        let (mut found, _) = publish_new(space, stripe, reservation, cas, now);
        self.count_get(found.item(), options, false);
        let effects = GetEffects { is_new: true, expiry_before: Expiry::NEVER };
        self.show(&mut found, options.marks, now, |view| f(view, effects))
    }

    /// Counts a hit, or a touch if the get is one; `is_reported` says whether it is reported as a hit to the observer
    /// of accesses. Returns the class that queues the item.
    fn count_get(&self, item: Linked<'_>, options: &GetOptions, is_reported: bool) -> ClassId {
        let id = item.queue_class();
        let class = self.counters().class(id);
        if !is_reported {
            // Counted first, so that a concurrent reader never computes too many reported hits.
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
    /// The class in which statistics show it.
    pub class: ClassId,
    /// The length of the value in bytes.
    pub value_len: usize,
    /// The expiry.
    pub expiry: Expiry,
    /// The validity.
    pub validity: Validity,
}

/// The validity of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// A lookup would find it.
    Live,
    /// It has expired.
    Expired,
    /// A flush has invalidated it.
    Flushed,
}

impl Handle<'_> {
    /// Returns the properties of a key's item without a trace; `None`: there is no item.
    pub fn inspect<'k>(&self, key: impl LookupKey<'k>, now: Now) -> Option<ItemInfo> {
        let space = self.space();
        space.flush.settle(now);
        let key = key.hashed_by(&space.hasher);
        let stripe = space.index.lock(key.hash());
        let item = stripe.get(key.hash(), key.bytes())?;
        let validity = match space.end_reason(item, now) {
            None => Validity::Live,
            Some(EndReason::Expired) => Validity::Expired,
            Some(EndReason::Flushed) => Validity::Flushed,
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
    /// The properties that the item will have once it is stored.
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
