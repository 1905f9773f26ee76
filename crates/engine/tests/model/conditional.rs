//! The driver's operations with conditions and options.

use crate::driver::{Driver, read_view};
use crate::oracle::show;
use slabwise_base::Now;
use slabwise_engine::{
    ArithmeticConditions, DeleteOutcome, GetOptions, Initial, ItemMeta, Replacement, ReserveError,
    StoreConditions, StoreMode, Vivify,
};

impl Driver<'_> {
    pub(crate) fn store_if(&mut self, key: &[u8], now: Now) {
        let (value, meta) = (self.value(), self.meta(now));
        let modes = [StoreMode::Set, StoreMode::Add, StoreMode::Replace, StoreMode::Append];
        let mode = match self.random.below(5) {
            4 => StoreMode::Prepend,
            index => modes[index as usize],
        };
        let conditions = StoreConditions {
            mode,
            expected_cas: self.draw_expected_cas(key),
            new_cas: self.draw_chosen_cas(),
            stale_allowed: self.random.below(2) == 0,
            // If the old item has an empty value or may be lost, the answer does not show whether the new value was
            // joined to an old one. So this case is drawn only if items cannot be lost.
            vivify: self.random.below(2) == 0
                && (self.oracle.value_len(key) > 0 || !self.scenario.rules.losses_allowed),
        };
        let outcome = self.handle().set_if(key, &value, meta, &conditions, now);
        self.log_line(format!(
            "{conditions:?} {} {} B {meta:?} -> {outcome:?}",
            show(key),
            value.len()
        ));
        self.oracle.store(key, &value, meta, conditions, outcome, now);
    }

    pub(crate) fn get_with(&mut self, key: &[u8], now: Now) {
        let vivify = (self.random.below(2) == 0)
            .then(|| Vivify { expiry: self.expiry(now), cas: self.draw_chosen_cas() });
        let options = GetOptions {
            touch: (self.random.below(2) == 0).then(|| self.expiry(now)),
            vivify,
            marks: self.random.below(2) == 0,
        };
        let claims = self.random.below(2) == 0;
        let outcome = self.handle().get_with(key, &options, now, |view, effects| {
            let seen = read_view(view);
            (seen, effects, claims.then(|| view.claim()))
        });
        let brief =
            outcome.as_ref().map(|seen| seen.as_ref().map(|(_, effects, won)| (*effects, *won)));
        self.log_line(format!("get_with {} {options:?} -> {brief:?}", show(key)));
        let (seen, effects, won) = match outcome {
            Ok(Some(seen)) => seen,
            Ok(None) if vivify.is_some() => {
                return self.oracle.refused(key, ReserveError::OutOfMemory, 0);
            }
            // A touch with an expiry in the past may make the item invalid before the operation reads it.
            Ok(None) if options.touch.is_some_and(|expiry| expiry.is_past(now.seconds)) => {
                return self.oracle.assume_deleted(key);
            }
            Ok(None) => return self.oracle.miss(key),
            Err(error) => return self.oracle.refused(key, error, self.oracle.value_len(key)),
        };
        if effects.is_new {
            self.oracle.created(key, &options, seen.cas, now);
            self.oracle.hit(key, &seen, options.marks);
        } else {
            self.oracle.must_exist(key, "a get");
            self.oracle.check_expiry_before(key, effects);
            if let Some(expiry) = options.touch {
                self.oracle.entries.get_mut(key).expect("a get has returned the item").expiry =
                    expiry;
            }
            self.oracle.hit(key, &seen, options.marks);
        }
        if let Some(won) = won {
            self.oracle.claimed(key, won);
        }
        self.oracle.settle(now);
    }

    pub(crate) fn delete_if(&mut self, key: &[u8], now: Now) {
        let requested = self.draw_expected_cas(key);
        let new_cas = self.draw_chosen_cas();
        let replacement = match self.random.below(3) {
            0 => Replacement::Nothing,
            1 => {
                let expiry = (self.random.below(2) == 0).then(|| self.expiry(now));
                Replacement::Stale { expiry, new_cas }
            }
            _ => {
                let meta: ItemMeta = self.meta(now);
                Replacement::Empty { meta, stale: self.random.below(2) == 0, new_cas }
            }
        };
        let outcome = self.handle().delete_if(key, requested, replacement, now);
        self.log_line(format!(
            "delete_if {} {requested:?} {replacement:?} -> {outcome:?}",
            show(key)
        ));
        let item_stays = outcome == DeleteOutcome::Done && replacement != Replacement::Nothing;
        let cas = if item_stays { self.handle().peek(key, now, |view| view.cas()) } else { None };
        self.oracle.deleted_if(key, requested, replacement, outcome, cas, now);
    }

    pub(crate) fn arithmetic_if(&mut self, key: &[u8], now: Now) {
        let delta = self.delta();
        let conditions = ArithmeticConditions {
            expected_cas: self.draw_expected_cas(key),
            new_cas: self.draw_chosen_cas(),
            touch: (self.random.below(2) == 0).then(|| self.expiry(now)),
            initial: (self.random.below(2) == 0)
                .then(|| Initial { value: self.random.below(3), expiry: self.expiry(now) }),
        };
        let outcome = self.handle().arithmetic(key, delta, &conditions, now);
        self.log_line(format!("{delta:?} {conditions:?} {} -> {outcome:?}", show(key)));
        let pinned = self.pins.iter().any(|held| held.key == key) || conditions.touch.is_some();
        self.oracle.arithmetic(key, delta, &conditions, outcome, pinned, now);
    }

    /// Draws the CAS value that a client expects: none, the right value, or the next lower or higher value.
    fn draw_expected_cas(&mut self, key: &[u8]) -> Option<u64> {
        let cas = self.oracle.cas_of(key).unwrap_or(7);
        match self.random.below(6) {
            0 => Some(cas.wrapping_sub(1)),
            1 => Some(cas.wrapping_add(1)),
            2 | 3 => Some(cas),
            _ => None,
        }
    }

    /// Draws the CAS value that a client chooses for an item; mostly none.
    fn draw_chosen_cas(&mut self) -> Option<u64> {
        match self.random.below(8) {
            0 => Some(1),
            1 => Some(u64::MAX),
            2 => Some(self.random.next_u64()),
            _ => None,
        }
    }
}
