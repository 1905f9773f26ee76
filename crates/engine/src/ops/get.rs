//! Getting with more than a look: a new expiry, an item made where there is none. And the opposite, a look that
//! leaves no trace: nothing is marked, counted or removed.

use super::handle::{Found, Handle, Lookup};
use super::item::ItemView;
use super::reservation::{Reservation, ReserveError, Spare};
use super::store::publish_new;
use crate::layout::ItemMeta;
use crate::mem::{Linked, StripeGuard};
use crate::space::{AccessKind, Death};
use slabwise_base::{ClassId, Expiry, HashedKey, LookupKey, Now};

/// What a get does beside showing the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetOptions {
    /// Gives the item a new expiry; counts as a touch.
    pub touch: Option<Expiry>,
    /// Where there is no item, makes an empty one.
    pub vivify: Option<Vivify>,
    /// Marks the item as used, as other gets do.
    pub marks: bool,
}

/// How an item is made that was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vivify {
    /// When it ends.
    pub expiry: Expiry,
    /// Its CAS value, if not the engine's next.
    pub cas: Option<u64>,
}

/// How a get met its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// This get made it.
    pub is_new: bool,
    /// When it was to end before this get gave it another expiry.
    pub expiry_before: Expiry,
}

impl Default for GetOptions {
    fn default() -> GetOptions {
        GetOptions { touch: None, vivify: None, marks: true }
    }
}

impl<'e> Handle<'e> {
    /// Looks a key up as [`Handle::get`] does, with more to do. An item that cannot be made for want of
    /// memory is a miss; an error is one that could not be given its expiry.
    pub fn get_with<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        options: &GetOptions,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>, Met) -> R,
    ) -> Result<Option<R>, ReserveError> {
        let (cache, space) = (self.cache(), self.space());
        let key = key.hashed_by(&space.hasher);
        let mut spare = Spare::new(cache);
        let mut made: Option<Reservation<'e>> = None;
        loop {
            let found = match Lookup::of(space, key, now, self.counters()) {
                Lookup::Found(found) => found,
                Lookup::Missing(stripe) => {
                    if let (Some(reservation), Some(vivify)) = (made.take(), options.vivify) {
                        let shown = self.make(stripe, (reservation, vivify.cas), options, now, f);
                        self.tap_get(key.hash(), None, options);
                        return Ok(Some(shown));
                    }
                    drop(stripe);
                    made = options.vivify.and_then(|vivify| {
                        let meta = ItemMeta { expiry: vivify.expiry, ..ItemMeta::default() };
                        Reservation::take(cache, key, 0, meta, now).ok()
                    });
                    if made.is_some() {
                        continue;
                    }
                    self.counters().get_misses.bump();
                    self.tap_get(key.hash(), None, options);
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
            let met = Met { is_new: false, expiry_before };
            let shown = self.show(&mut found, options.marks, now, |view| f(view, met));
            drop(found);
            self.tap_get(key.hash(), Some(class), options);
            return Ok(Some(shown));
        }
    }

    /// Changes when an item ends, then shows it to `f` like [`Handle::get`].
    /// Counts as a touch.
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
            self.space().show_access(key.hash(), AccessKind::Miss, None);
            return Ok(None);
        };
        let class = found.class();
        self.counters().class(class).gat_hits.bump();
        self.count_saved(&found, self.counters().class(class));
        let shown = self.show(&mut found, true, now, f);
        drop(found);
        self.space().show_access(key.hash(), AccessKind::Hit, Some(class));
        Ok(Some(shown))
    }

    /// Changes when an item ends. `Ok(false)`: there is no such item.
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
        self.space().show_access(key.hash(), AccessKind::Touch, Some(class));
        Ok(true)
    }

    /// Finds an item and gives it a new expiry; counts as a touch.
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

    /// Shows a get to the profiler: one that leaves no mark says nothing of how soon keys come again.
    fn tap_get(&self, hash: u64, class: Option<ClassId>, options: &GetOptions) {
        if options.marks {
            let kind = if class.is_some() { AccessKind::Hit } else { AccessKind::Miss };
            self.space().show_access(hash, kind, class);
        }
    }

    /// Publishes an empty item and shows it.
    fn make<R>(
        &self,
        stripe: StripeGuard<'e>,
        (reservation, cas): (Reservation<'e>, Option<u64>),
        options: &GetOptions,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>, Met) -> R,
    ) -> R {
        let space = self.space();
        self.counters().items_total.bump();
        let (mut found, _) = publish_new(space, stripe, reservation, cas, now);
        self.count_get(found.item(), options, false);
        let met = Met { is_new: true, expiry_before: Expiry::NEVER };
        self.show(&mut found, options.marks, now, |view| f(view, met))
    }

    /// Counts a get that hit, as a touch if it was one; `is_shown`: as a hit, at the tap. Returns the class in
    /// whose queue the item is.
    fn count_get(&self, item: Linked<'_>, options: &GetOptions, is_shown: bool) -> ClassId {
        let id = item.queue_class();
        let class = self.counters().class(id);
        if !is_shown {
            // First, so that a concurrent reading finds no hit too many.
            class.unshown_hits.bump();
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

/// What can be seen of an item without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The class it is in.
    pub class: ClassId,
    /// Bytes of the value.
    pub value_len: usize,
    /// When it ends.
    pub expiry: Expiry,
    /// Whether it would be found.
    pub life: Life,
}

/// Whether an item would be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It would.
    Live,
    /// Its expiry has come.
    Expired,
    /// A flush ended it.
    Flushed,
}

impl Handle<'_> {
    /// What a look-up of this key would meet; `None`: nothing.
    pub fn inspect<'k>(&self, key: impl LookupKey<'k>, now: Now) -> Option<Seen> {
        let space = self.space();
        space.flush.settle(now);
        let key = key.hashed_by(&space.hasher);
        let stripe = space.index.lock(key.hash());
        let item = stripe.get(key.hash(), key.bytes())?;
        let life = match space.death_of(item, now) {
            None => Life::Live,
            Some(Death::Expired) => Life::Expired,
            Some(Death::Flushed) => Life::Flushed,
        };
        Some(Seen {
            class: space.shown_class(item.queue_class()),
            value_len: item.value_len(),
            expiry: item.expiry(),
            life,
        })
    }
}

impl Reservation<'_> {
    /// What the item will be once it is stored.
    pub fn inspect(&self) -> Seen {
        let (space, item) = (&self.cache().space, self.item());
        Seen {
            class: space.shown_class(self.queue_class()),
            value_len: self.value_len(),
            expiry: item.expiry(),
            life: Life::Live,
        }
    }
}
