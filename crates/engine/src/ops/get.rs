//! Getting with more than a look: a new expiry, an item made where there is none.

use super::handle::Handle;
use super::item::{Found, ItemView, Lookup};
use super::reservation::{ExpirySet, Reservation, ReserveError, Spare, publish_new};
use crate::layout::ItemMeta;
use crate::mem::{Linked, StripeGuard};
use crate::space::AccessKind;
use slabwise_base::{ClassId, Expiry, LookupKey, Now};

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
                Lookup::Missing(stripe) => match (made.take(), options.vivify) {
                    (Some(reservation), Some(vivify)) => {
                        let shown = self.make(stripe, (reservation, vivify.cas), options, now, f);
                        self.tap_get(key.hash(), None, options);
                        return Ok(Some(shown));
                    }
                    (_, Some(vivify)) => {
                        drop(stripe);
                        let meta = ItemMeta { expiry: vivify.expiry, ..ItemMeta::default() };
                        made = Reservation::take(cache, key, 0, meta, now).ok();
                        if made.is_some() {
                            continue;
                        }
                        self.counters().get_misses.bump();
                        self.tap_get(key.hash(), None, options);
                        return Ok(None);
                    }
                    (_, None) => {
                        drop(stripe);
                        self.counters().get_misses.bump();
                        self.tap_get(key.hash(), None, options);
                        return Ok(None);
                    }
                },
            };
            let expiry_before = found.item().expiry();
            let mut found = match options.touch {
                None => found,
                Some(expiry) => match spare.set_expiry(found, key, expiry, now)? {
                    ExpirySet::Done(found) => found,
                    ExpirySet::LookAgain => continue,
                },
            };
            let class = self.count_get(found.item(), options, options.marks);
            if options.marks {
                self.count_saved(&found, self.counters().class(class));
            }
            let met = Met { is_new: false, expiry_before };
            let shown = self.show_met(&mut found, options, met, now, f);
            drop(found);
            self.tap_get(key.hash(), Some(class), options);
            return Ok(Some(shown));
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
        let entry = publish_new(space, stripe, reservation, cas, now);
        let mut found = Found { space, entry };
        self.count_get(found.item(), options, false);
        let last_access = found.item().time();
        if options.marks {
            found.mark_hit(now);
        }
        let view = ItemView::new(space, found.item(), last_access, false);
        f(view, Met { is_new: true, expiry_before: Expiry::NEVER })
    }

    fn show_met<R>(
        &self,
        found: &mut Found<'e>,
        options: &GetOptions,
        met: Met,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>, Met) -> R,
    ) -> R {
        let (last_access, fetched) = (found.item().time(), found.item().state().fetched());
        if options.marks {
            found.mark_hit(now);
        }
        f(ItemView::new(self.space(), found.item(), last_access, fetched), met)
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
