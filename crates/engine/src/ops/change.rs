//! Operations that change an existing item: delete, invalidate, incr and decr.
//!
//! A number is changed in place if its length allows it. As in memcached: the value must begin with a decimal
//! `u64`, optionally after spaces and a plus sign, followed by the end or white space; incr wraps at 2^64, decr
//! stops at 0; a result shorter than the old text is padded with spaces.

use super::handle::{Cache, Found, Handle, Lookup};
use super::reservation::{Reservation, Spare};
use super::store::{end_store, publish_new, publish_over};
use crate::layout::ItemMeta;
use crate::space::AccessKind;
use slabwise_base::{ClassId, Expiry, HashedKey, LookupKey, Now};
use std::io::Write;

/// The effect of a delete on the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The item is removed.
    Nothing,
    /// The item is marked stale: gets report that, and one client may claim the right to recompute it.
    Stale {
        /// Its new expiry; `None`: unchanged.
        expiry: Option<Expiry>,
        /// Its new CAS value; `None`: the engine's next.
        new_cas: Option<u64>,
    },
    /// The item is replaced by one without a value.
    Empty {
        /// The metadata of the new item.
        meta: ItemMeta,
        /// True if it is marked stale.
        stale: bool,
        /// Its CAS value; `None`: the old item's, or, if it is stale, the engine's next.
        new_cas: Option<u64>,
    },
}

/// The result of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The item was removed, marked or replaced.
    Done,
    /// There is no such item.
    NotFound,
    /// The CAS value does not match.
    Exists,
    /// There is no memory for the changed item; the item is unchanged.
    OutOfMemory,
}

/// The operation on a number, and its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Adds, modulo 2^64.
    Increment(u64),
    /// Subtracts, down to 0.
    Decrement(u64),
}

/// The conditions and options of incr and decr. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArithmeticConditions {
    /// The CAS value that the item must have.
    pub expected_cas: Option<u64>,
    /// The item's new CAS value; `None`: the engine's next.
    pub new_cas: Option<u64>,
    /// The item's new expiry; `None`: unchanged.
    pub touch: Option<Expiry>,
    /// The number to store if there is no item.
    pub initial: Option<Initial>,
}

/// A number that is stored if there is no item; the delta is not applied to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    /// The number.
    pub value: u64,
    /// The expiry of its item.
    pub expiry: Expiry,
}

/// The result of incr or decr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOutcome {
    /// The number was changed, or the initial one stored.
    Value {
        /// The new number.
        value: u64,
        /// The new CAS value.
        cas: u64,
        /// True if there was no item, so that this is the initial number.
        is_new: bool,
        /// The item's expiry before the operation.
        expiry_before: Expiry,
    },
    /// The CAS value does not match.
    Exists,
    /// There is no such item.
    NotFound,
    /// The value is not a number.
    NotNumeric,
    /// There is no memory for the new number.
    OutOfMemory,
}

/// The length of the longest text that is accepted as a number, trailing spaces included.
const NUMBER_LEN_MAX: usize = 64;

impl Delta {
    fn apply(self, value: u64) -> u64 {
        match self {
            Delta::Increment(by) => value.wrapping_add(by),
            Delta::Decrement(by) => value.saturating_sub(by),
        }
    }
}

/// Parses a value as a number.
fn parse(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let ends_well = text.get(end).is_none_or(|&byte| byte.is_ascii_whitespace());
    let digits = std::str::from_utf8(&text[..end]).ok()?;
    if ends_well { digits.parse().ok() } else { None }
}

impl<'e> Handle<'e> {
    /// Deletes an item. Returns false if there is none.
    pub fn delete<'k>(&mut self, key: impl LookupKey<'k>, now: Now) -> bool {
        self.delete_if(key, None, Leave::Nothing, now) == DeleteOutcome::Done
    }

    /// Removes an item without counting a delete: after a failed store, the old item is outdated.
    pub fn discard<'k>(&mut self, key: impl LookupKey<'k>, now: Now) {
        let key = key.hashed_by(&self.space().hasher);
        if let Lookup::Found(found) = Lookup::of(self.space(), key, now, self.counters()) {
            let class = found.class();
            found.remove();
            self.space().report_access(key.hash(), AccessKind::Delete, Some(class));
        }
    }

    /// Deletes or invalidates an item if it has the expected CAS value.
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
                space.report_access(key.hash(), AccessKind::Delete, None);
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
                    space.report_access(key.hash(), AccessKind::Delete, Some(class));
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
                    match spare.reserve(found, key, 0, meta, now) {
                        Ok(None) => {}
                        Ok(Some((found, empty))) => {
                            if !stale {
                                self.count_delete(&found);
                            }
                            self.counters().items_total.bump();
                            publish_empty((empty, new_cas), found, stale, now);
                            return DeleteOutcome::Done;
                        }
                        Err(_) => return DeleteOutcome::OutOfMemory,
                    }
                }
            }
        }
    }

    /// Counts a delete. Returns the class that queues the item.
    fn count_delete(&self, found: &Found<'_>) -> ClassId {
        let class = found.class();
        self.counters().class(class).delete_hits.bump();
        class
    }

    /// Adds to or subtracts from the number that an item's value holds.
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
        let mut reserved: Option<Reservation<'e>> = None;
        loop {
            let found = match Lookup::of(space, key, now, self.counters()) {
                Lookup::Found(found) => found,
                Lookup::Missing(stripe) => {
                    let Some(initial) = conditions.initial else {
                        self.count_miss(delta);
                        return ArithmeticOutcome::NotFound;
                    };
                    if let Some(first) = reserved.take() {
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
                    reserved = reserve_number(cache, key, initial, now);
                    if reserved.is_none() {
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

    /// Changes the number of a found item. `None`: memory was reserved, and the lookup must be repeated.
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
        // Checked in memcached's order: a value that cannot be a number comes before a different CAS value.
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
            space.report_access(key.hash(), AccessKind::Touch, Some(class));
            return Some(ArithmeticOutcome::Value { value, cas, is_new: false, expiry_before });
        }
        let meta = ItemMeta { expiry, ..found.item().meta() };
        match spare.reserve(found, key, text.len, meta, now) {
            Ok(None) => None,
            Err(_) => Some(ArithmeticOutcome::OutOfMemory),
            Ok(Some((found, mut changed))) => {
                changed.fill_all(text.as_bytes());
                self.count_hit(&found, delta);
                if text.len == old_len {
                    // Only a reader or a missing expiry field prevented a change in place, which keeps marks.
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

/// Replaces the found item by one without a value.
fn publish_empty(
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

/// A number as text, padded with spaces to a minimum length.
struct Text {
    bytes: [u8; NUMBER_LEN_MAX],
    len: usize,
}

impl Text {
    fn padded(value: u64, len_min: usize) -> Text {
        let mut bytes = [b' '; NUMBER_LEN_MAX];
        let mut rest = &mut bytes[..];
        write!(rest, "{value}").expect("every u64 fits the buffer");
        let digits = NUMBER_LEN_MAX - rest.len();
        Text { bytes, len: digits.max(len_min) }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Overwrites a number by one of the same length. Returns false if a reader pins the value.
fn overwrite_number(found: &mut Found<'_>, text: &[u8], new_cas: Option<u64>, now: Now) -> bool {
    let Some(mut value) = found.entry.value_access(None) else { return false };
    value.overwrite(0, text);
    // As in memcached this is no hit, but the item is in use and should be kept.
    found.mark_use(now);
    found.space.flush.give_cas(found.item(), new_cas, now);
    true
}

/// Reserves an item and fills it with an initial number.
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
    fn parses_only_decimal_numbers_of_64_bits() {
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
    fn incr_wraps_decr_stops_at_zero_and_short_results_are_padded() {
        assert_eq!(Delta::Increment(2).apply(u64::MAX), 1);
        assert_eq!(Delta::Decrement(2).apply(1), 0);
        assert_eq!(Text::padded(9, 2).as_bytes(), b"9 ");
        assert_eq!(Text::padded(100, 2).as_bytes(), b"100");
    }
}
