//! The driver's operations with conditions.

use crate::driver::{Driver, read_view};
use crate::oracle::show;
use slabwise_base::Now;
use slabwise_engine::{
    ArithmeticConditions, DeleteOutcome, GetOptions, Initial, ItemMeta, Leave, ReserveError,
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
            // After a possible loss, an empty item and a missing one read_view the same.
            vivify: self.random.below(2) == 0
                && (self.oracle.value_len(key) > 0 || !self.scenario.rules.losses_allowed),
        };
        let outcome = self.handle().set_if(key, &value, meta, &conditions, now);
        self.note(format!(
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
        self.note(format!("get_with {} {options:?} -> {brief:?}", show(key)));
        let (seen, effects, won) = match outcome {
            Ok(Some(seen)) => seen,
            Ok(None) if vivify.is_some() => {
                return self.oracle.refused(key, ReserveError::OutOfMemory, 0);
            }
            // A touch to a past time may end the item between the two parts of the operation.
            Ok(None) if options.touch.is_some_and(|expiry| expiry.is_past(now.seconds)) => {
                return self.oracle.deleted_unseen(key);
            }
            Ok(None) => return self.oracle.miss(key),
            Err(error) => return self.oracle.refused(key, error, self.oracle.value_len(key)),
        };
        if effects.is_new {
            self.oracle.made(key, &options, seen.cas, now);
            self.oracle.hit(key, &seen, options.marks);
        } else {
            self.oracle.must_exist(key, "a get");
            self.oracle.expiry_before(key, effects);
            if let Some(expiry) = options.touch {
                self.oracle.entries.get_mut(key).expect("it exists").expiry = expiry;
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
        let leave = match self.random.below(3) {
            0 => Leave::Nothing,
            1 => {
                let expiry = (self.random.below(2) == 0).then(|| self.expiry(now));
                Leave::Stale { expiry, new_cas }
            }
            _ => {
                let meta: ItemMeta = self.meta(now);
                Leave::Empty { meta, stale: self.random.below(2) == 0, new_cas }
            }
        };
        let outcome = self.handle().delete_if(key, requested, leave, now);
        self.note(format!("delete_if {} {requested:?} {leave:?} -> {outcome:?}", show(key)));
        let left = outcome == DeleteOutcome::Done && leave != Leave::Nothing;
        let cas = if left { self.handle().peek(key, now, |view| view.cas()) } else { None };
        self.oracle.deleted_if(key, requested, leave, outcome, cas, now);
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
        self.note(format!("{delta:?} {conditions:?} {} -> {outcome:?}", show(key)));
        let pinned = self.pins.iter().any(|held| held.key == key) || conditions.touch.is_some();
        self.oracle.arithmetic(key, delta, &conditions, outcome, pinned, now);
    }

    /// Draws the CAS value that a client expects: mostly the right one, sometimes a lower or higher one.
    fn draw_expected_cas(&mut self, key: &[u8]) -> Option<u64> {
        let cas = self.oracle.cas_of(key).unwrap_or(7);
        match self.random.below(6) {
            0 => Some(cas.wrapping_sub(1)),
            1 => Some(cas.wrapping_add(1)),
            2 | 3 => Some(cas),
            _ => None,
        }
    }

    /// Draws a CAS value that the client chooses for the item.
    fn draw_chosen_cas(&mut self) -> Option<u64> {
        match self.random.below(8) {
            0 => Some(1),
            1 => Some(u64::MAX),
            2 => Some(self.random.next_u64()),
            _ => None,
        }
    }
}
