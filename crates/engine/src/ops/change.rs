//! Operations that change what is there: a delete, which may leave something behind, and incr and decr.
//!
//! A number is changed in place where its length allows it. As in memcached: the value must begin with a decimal
//! `u64`, perhaps after spaces and a plus sign, and end there or go on after a space; incr wraps at 2^64, decr stops
//! at 0; a result shorter than the old text is padded with spaces.

use super::handle::{Cache, Found, Handle, Lookup};
use super::reservation::{Reservation, Spare};
use super::store::{end_store, publish_new, publish_over};
use crate::layout::ItemMeta;
use crate::space::AccessKind;
use slabwise_base::{ClassId, Expiry, HashedKey, LookupKey, Now};
use std::io::Write;

/// What a delete leaves in the item's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Nothing.
    Nothing,
    /// The item, stale: readers are shown that it is, and one may claim to store it anew.
    Stale {
        /// When it ends now, if that changes.
        expiry: Option<Expiry>,
        /// Its CAS value, if not the engine's next.
        new_cas: Option<u64>,
    },
    /// An item without a value.
    Empty {
        /// What is said of it.
        meta: ItemMeta,
        /// Whether it is stale.
        stale: bool,
        /// Its CAS value; `None`: the old item's, or, if it is stale, the engine's next.
        new_cas: Option<u64>,
    },
}

/// What became of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The item is gone, or is what was to be left.
    Done,
    /// There is no such item.
    NotFound,
    /// The CAS value did not match.
    Exists,
    /// No memory for what was to be left; the item is as it was.
    OutOfMemory,
}

/// Which way, and by how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Adds, modulo 2^64.
    Increment(u64),
    /// Subtracts, down to 0.
    Decrement(u64),
}

/// On what a change of a number depends, and what it does beside. The default asks for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArithmeticConditions {
    /// The CAS value that the item must have.
    pub expected_cas: Option<u64>,
    /// The item's CAS value afterwards, if not the engine's next.
    pub new_cas: Option<u64>,
    /// When the item ends now, if that changes.
    pub touch: Option<Expiry>,
    /// Where there is no item, makes one that holds this.
    pub initial: Option<Initial>,
}

/// A number that is stored where there was none; the delta is not applied to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    /// The number.
    pub value: u64,
    /// When its item ends.
    pub expiry: Expiry,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOutcome {
    /// The new value, stored under a new CAS value.
    Value {
        /// The number.
        value: u64,
        /// The CAS value.
        cas: u64,
        /// It is an initial value: there was no item.
        is_new: bool,
        /// When the item was to end before this gave it another expiry.
        expiry_before: Expiry,
    },
    /// The CAS value did not match.
    Exists,
    /// There is no such item.
    NotFound,
    /// The value is not a number.
    NotNumeric,
    /// The number needs more room than can be had.
    OutOfMemory,
}

/// The longest text that can be a number, its trailing spaces included.
const NUMBER_LEN_MAX: usize = 64;

impl Delta {
    fn apply(self, value: u64) -> u64 {
        match self {
            Delta::Increment(by) => value.wrapping_add(by),
            Delta::Decrement(by) => value.saturating_sub(by),
        }
    }
}

/// The number that a value stands for.
fn parse(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let ends_well = text.get(end).is_none_or(|&byte| byte.is_ascii_whitespace());
    let digits = std::str::from_utf8(&text[..end]).ok()?;
    if ends_well { digits.parse().ok() } else { None }
}

impl<'e> Handle<'e> {
    /// Deletes an item. False: there is none.
    pub fn delete<'k>(&mut self, key: impl LookupKey<'k>, now: Now) -> bool {
        self.delete_if(key, None, Leave::Nothing, now) == DeleteOutcome::Done
    }

    /// Removes an item without counting it as a delete: what a failed store leaves behind is stale.
    pub fn discard<'k>(&mut self, key: impl LookupKey<'k>, now: Now) {
        let key = key.hashed_by(&self.space().hasher);
        if let Lookup::Found(found) = Lookup::of(self.space(), key, now, self.counters()) {
            let class = found.class();
            found.remove();
            self.space().show_access(key.hash(), AccessKind::Delete, Some(class));
        }
    }

    /// Deletes an item, or invalidates it, if its CAS value is the one expected.
    pub fn delete_if<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        expected_cas: Option<u64>,
        leave: Leave,
        now: Now,
    ) -> DeleteOutcome {
        let (cache, space) = (self.cache(), self.space());
        let key = key.hashed_by(&space.hasher);
        let mut spare = Spare::new(cache);
        loop {
            let Lookup::Found(found) = Lookup::of(space, key, now, self.counters()) else {
                self.counters().delete_misses.bump();
                space.show_access(key.hash(), AccessKind::Delete, None);
                return DeleteOutcome::NotFound;
            };
            let cas = found.item().cas();
            if expected_cas.is_some_and(|expected| expected != cas) {
                self.counters().delete_misses.bump();
                return DeleteOutcome::Exists;
            }
            match leave {
                Leave::Nothing => {
                    let class = self.count_delete(&found);
                    found.remove();
                    space.show_access(key.hash(), AccessKind::Delete, Some(class));
                    return DeleteOutcome::Done;
                }
                Leave::Stale { expiry, new_cas } => {
                    let found = match expiry {
                        None => found,
                        Some(expiry) => match spare.set_expiry(found, key, expiry, now) {
                            Ok(Some(found)) => found,
                            Ok(None) => continue,
                            Err(_) => return DeleteOutcome::OutOfMemory,
                        },
                    };
                    found.item().marks().mark_stale();
                    space.flush.give_cas(found.item(), new_cas, now);
                    return DeleteOutcome::Done;
                }
                Leave::Empty { meta, stale, new_cas } => {
                    match spare.room(found, key, 0, meta, now) {
                        Ok(None) => {}
                        Ok(Some((found, empty))) => {
                            if !stale {
                                self.count_delete(&found);
                            }
                            self.counters().items_total.bump();
                            empty_over((empty, new_cas), found, stale, now);
                            return DeleteOutcome::Done;
                        }
                        Err(_) => return DeleteOutcome::OutOfMemory,
                    }
                }
            }
        }
    }

    /// Returns the class in whose queue the item is.
    fn count_delete(&self, found: &Found<'_>) -> ClassId {
        let class = found.class();
        self.counters().class(class).delete_hits.bump();
        class
    }

    /// Changes the number that an item's value stands for, under these conditions.
    pub fn arithmetic<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        delta: Delta,
        conditions: &ArithmeticConditions,
        now: Now,
    ) -> ArithmeticOutcome {
        let (cache, space) = (self.cache(), self.space());
        let key = key.hashed_by(&space.hasher);
        let mut spare = Spare::new(cache);
        let mut made: Option<Reservation<'e>> = None;
        loop {
            let found = match Lookup::of(space, key, now, self.counters()) {
                Lookup::Found(found) => found,
                Lookup::Missing(stripe) => {
                    let Some(initial) = conditions.initial else {
                        self.count_miss(delta);
                        return ArithmeticOutcome::NotFound;
                    };
                    if let Some(first) = made.take() {
                        self.counters().items_total.bump();
                        let (new, class) =
                            publish_new(space, stripe, first, conditions.new_cas, now);
                        return ArithmeticOutcome::Value {
                            value: initial.value,
                            cas: end_store(new, class, key.hash()),
                            is_new: true,
                            expiry_before: Expiry::NEVER,
                        };
                    }
                    drop(stripe);
                    made = reserve_number(cache, key, initial, now);
                    if made.is_none() {
                        return ArithmeticOutcome::OutOfMemory;
                    }
                    continue;
                }
            };
            if let Some(outcome) = self.change(found, key, delta, conditions, now, &mut spare) {
                return outcome;
            }
        }
    }

    /// Changes a found number; `None`: memory was taken, look again.
    fn change(
        &self,
        mut found: Found<'e>,
        key: HashedKey<'_>,
        delta: Delta,
        conditions: &ArithmeticConditions,
        now: Now,
        spare: &mut Spare<'e>,
    ) -> Option<ArithmeticOutcome> {
        let item = found.item();
        // In memcached's order: a value that can be no number is reported before a CAS value that differs.
        if item.value_len() == 0 || item.state().chained() {
            return Some(ArithmeticOutcome::NotNumeric);
        }
        if conditions.expected_cas.is_some_and(|expected| expected != item.cas()) {
            return Some(ArithmeticOutcome::Exists);
        }
        let old_len = item.value_len();
        let number =
            if old_len > NUMBER_LEN_MAX { None } else { parse(item.value_in_first_chunk()) };
        let Some(number) = number else { return Some(ArithmeticOutcome::NotNumeric) };
        let value = delta.apply(number);
        let text = Text::padded(value, old_len);
        let expiry_before = item.expiry();
        let expiry = conditions.touch.unwrap_or(expiry_before);
        let new_cas = conditions.new_cas;
        if text.len == old_len
            && found.can_hold(expiry)
            && overwrite_number(&mut found, text.as_bytes(), new_cas, now)
        {
            if conditions.touch.is_some() {
                found.set_expiry_in_place(expiry);
            }
            self.count_hit(&found, delta);
            let (space, cas, class) = (found.space, found.item().cas(), found.class());
            drop(found);
            space.show_access(key.hash(), AccessKind::Touch, Some(class));
            return Some(ArithmeticOutcome::Value { value, cas, is_new: false, expiry_before });
        }
        let meta = ItemMeta { expiry, ..found.item().meta() };
        match spare.room(found, key, text.len, meta, now) {
            Ok(None) => None,
            Err(_) => Some(ArithmeticOutcome::OutOfMemory),
            Ok(Some((found, mut changed))) => {
                changed.fill_all(text.as_bytes());
                self.count_hit(&found, delta);
                if text.len == old_len {
                    // It would have been written in place, had there been nobody reading, and a field for
                    // its expiry.
                    changed.item().marks().inherit(found.item().state());
                }
                let cas = publish_over(changed, found, new_cas, now);
                Some(ArithmeticOutcome::Value { value, cas, is_new: false, expiry_before })
            }
        }
    }

    fn count_miss(&self, delta: Delta) {
        match delta {
            Delta::Increment(_) => self.counters().incr_misses.bump(),
            Delta::Decrement(_) => self.counters().decr_misses.bump(),
        }
    }

    fn count_hit(&self, found: &Found<'_>, delta: Delta) {
        let class = self.counters().class(found.class());
        match delta {
            Delta::Increment(_) => class.incr_hits.bump(),
            Delta::Decrement(_) => class.decr_hits.bump(),
        }
    }
}

/// Publishes an item without a value in the place of the one found.
fn empty_over(
    (empty, new_cas): (Reservation<'_>, Option<u64>),
    found: Found<'_>,
    stale: bool,
    now: Now,
) {
    let cas = if stale {
        empty.item().marks().mark_stale();
        new_cas
    } else {
        new_cas.or(Some(found.item().cas()))
    };
    publish_over(empty, found, cas, now);
}

/// A number as text, padded with spaces to a least length.
struct Text {
    bytes: [u8; NUMBER_LEN_MAX],
    len: usize,
}

impl Text {
    fn padded(value: u64, len_min: usize) -> Text {
        let mut bytes = [b' '; NUMBER_LEN_MAX];
        let mut rest = &mut bytes[..];
        write!(rest, "{value}").expect("every u64 is shorter than the longest number");
        let digits = NUMBER_LEN_MAX - rest.len();
        Text { bytes, len: digits.max(len_min) }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Writes a number over one of the same length; false if somebody is reading the value.
fn overwrite_number(found: &mut Found<'_>, text: &[u8], new_cas: Option<u64>, now: Now) -> bool {
    let Some(mut right) = found.entry.value_right(None) else { return false };
    right.overwrite(0, text);
    // A change is no hit, as in memcached. But what changes is in use and worth keeping.
    found.mark_use(now);
    found.space.flush.give_cas(found.item(), new_cas, now);
    true
}

/// An item that holds an initial number, not yet published.
fn reserve_number<'e>(
    cache: &'e Cache,
    key: HashedKey<'_>,
    initial: Initial,
    now: Now,
) -> Option<Reservation<'e>> {
    let text = Text::padded(initial.value, 0);
    let meta = ItemMeta { expiry: initial.expiry, ..ItemMeta::default() };
    let mut first = Reservation::take(cache, key, text.len, meta, now).ok()?;
    first.fill_all(text.as_bytes());
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::{Delta, Text, parse};

    #[test]
    fn only_decimal_numbers_within_64_bits_are_numbers() {
        assert_eq!(parse(b"0"), Some(0));
        assert_eq!(parse(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse(b"18446744073709551616"), None);
        assert_eq!(parse(b"9  "), Some(9));
        assert_eq!(parse(b" +9 8"), Some(9));
        for text in [&b""[..], b" ", b"-1", b"+", b"+ 1", b"1a", b"0x1"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn incr_wraps_decr_stops_and_short_results_are_padded() {
        assert_eq!(Delta::Increment(2).apply(u64::MAX), 1);
        assert_eq!(Delta::Decrement(2).apply(1), 0);
        assert_eq!(Text::padded(9, 2).as_bytes(), b"9 ");
        assert_eq!(Text::padded(100, 2).as_bytes(), b"100");
    }
}
