//! Operations that change an existing item: delete, marking as stale, incr and decr.
//!
//! Numbers work as in memcached. A value is a number if it consists of optional white space, an optional sign, a decimal
//! number of at most 64 bits, and either nothing else or white space or a zero byte followed by any bytes. A negative
//! number is subtracted from 2^64, and is valid if the difference is below 2^63. An incr wraps around at 2^64, and a decr
//! stops at 0. If the result is shorter than the old text, it is padded with spaces at the end. The number is overwritten
//! in place if its text keeps its length, the item can store a requested expiry, and no reader pins the item.

use super::handle::{Cache, Found, Handle, Lookup};
use super::own_spares::OwnSpares;
use super::reservation::{PreparedMemory, Reservation};
use super::store::{publish_new, publish_over, unlock_and_report};
use crate::layout::ItemMeta;
use crate::space::AccessKind;
use slabwise_base::{ClassId, Expiry, HashedKey, LookupKey, Now};
use std::io::Write;

/// The effect that a delete has on the item of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The item is removed.
    Nothing,
    /// The item stays, and is marked as stale. Gets report this mark, and one client may claim the right to recompute
    /// the item.
    Stale {
        /// The item's new expiry; `None`: the expiry is unchanged.
        expiry: Option<Expiry>,
        /// The item's new CAS value; `None`: the engine assigns its next value.
        new_cas: Option<u64>,
    },
    /// The item is replaced by a new item with an empty value.
    Empty {
        /// The metadata of the new item.
        meta: ItemMeta,
        /// True if the new item is marked as stale.
        stale: bool,
        /// The CAS value of the new item. `None`: the engine assigns its next value if the new item is stale, and
        /// otherwise the new item keeps the CAS value of the old one.
        new_cas: Option<u64>,
    },
}

/// The outcome of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The item was removed, marked as stale or replaced, as requested.
    Done,
    /// The key has no item.
    NotFound,
    /// The item does not have the expected CAS value. The item is unchanged.
    Exists,
    /// There is no memory for the changed item. The item is unchanged.
    OutOfMemory,
}

/// The operation on a number, and the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Adds this number, modulo 2^64.
    Increment(u64),
    /// Subtracts this number. If the result would be negative, it is 0.
    Decrement(u64),
}

/// The conditions and options of incr and decr. By default there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArithmeticConditions {
    /// The CAS value that the item must have; `None`: any value.
    pub expected_cas: Option<u64>,
    /// The item's new CAS value; `None`: the engine assigns its next value.
    pub new_cas: Option<u64>,
    /// The item's new expiry; `None`: the expiry is unchanged.
    pub touch: Option<Expiry>,
    /// The number to store if the key has no item; `None`: stores nothing.
    pub initial: Option<Initial>,
}

/// The number that incr or decr stores if the key has no item. The delta is not applied to this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    /// The number to store.
    pub value: u64,
    /// The expiry of the new item.
    pub expiry: Expiry,
}

/// The outcome of incr or decr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOutcome {
    /// The number was changed, or the initial number was stored.
    Value {
        /// The number that the item holds now.
        value: u64,
        /// The item's new CAS value.
        cas: u64,
        /// True if the key had no item, so that the initial number was stored.
        is_new: bool,
        /// The item's expiry before the operation; `Expiry::NEVER` if the key had no item.
        expiry_before: Expiry,
    },
    /// The item does not have the expected CAS value. The item is unchanged.
    Exists,
    /// The key has no item.
    NotFound,
    /// The item's value is not a number.
    NotNumeric,
    /// There is no memory for the new number.
    OutOfMemory,
}

/// The length of the longest text of a number that is composed at once. Longer texts are padded with [`SPACES`].
const COMPOSED_LEN_MAX: usize = 64;
/// Spaces for the end of a long text.
const SPACES: [u8; 1024] = [b' '; 1024];

impl Delta {
    /// Returns the result of the operation on this number.
    fn apply(self, value: u64) -> u64 {
        match self {
            Delta::Increment(by) => value.wrapping_add(by),
            Delta::Decrement(by) => value.saturating_sub(by),
        }
    }
}

/// Parses a value as a number, as the C function `strtoull` does. Returns `None` if the value is not a number.
fn parse(value: &[u8]) -> Option<u64> {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = value.iter().position(|&byte| !is_space(byte))?;
    let text = &value[start..];
    let is_negative = text[0] == b'-';
    let text = if is_negative { &text[1..] } else { text.strip_prefix(b"+").unwrap_or(text) };
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    if text.get(end).is_some_and(|&byte| !is_space(byte) && byte != 0) {
        return None;
    }
    let number: u64 = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    if !is_negative {
        return Some(number);
    }
    let difference = number.wrapping_neg();
    (difference < 1 << 63).then_some(difference)
}

impl<'e> Handle<'e> {
    /// Deletes the item of a key. Returns false if the key has no item.
    pub fn delete<'k>(&mut self, key: impl LookupKey<'k>, now: Now) -> bool {
        self.delete_if(key, None, Replacement::Nothing, now) == DeleteOutcome::Done
    }

    /// Removes the item of a key without counting a delete. After a failed store, the caller removes the old item in
    /// this way, because its value is out of date.
    pub fn discard<'k>(&mut self, key: impl LookupKey<'k>, now: Now) {
        let key = key.hashed_by(&self.space().hasher);
        if let Lookup::Found(found) = Lookup::find(self.space(), key, now, self.counters()) {
            let class = found.class();
            found.remove_into(key.hash(), self.spares());
            self.space().report_access(key.hash(), AccessKind::Delete, Some(class));
        }
    }

    /// Deletes the item of a key if it has the expected CAS value. `replacement` selects whether the item is removed,
    /// marked as stale or replaced by an empty one.
    pub fn delete_if<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        expected_cas: Option<u64>,
        replacement: Replacement,
        now: Now,
    ) -> DeleteOutcome {
        let (cache, space) = (self.cache(), self.space());
        let key = key.hashed_by(&space.hasher);
        let handle = &*self;
        let mut prepared = PreparedMemory::new(cache, handle.spares());
        loop {
            let Lookup::Found(found) = Lookup::find(space, key, now, self.counters()) else {
                self.counters().delete_misses.bump();
                space.report_access(key.hash(), AccessKind::Delete, None);
                return DeleteOutcome::NotFound;
            };
            let cas = found.item().cas();
            if expected_cas.is_some_and(|expected| expected != cas) {
                self.counters().delete_misses.bump();
                return DeleteOutcome::Exists;
            }
            match replacement {
                Replacement::Nothing => {
                    let class = self.count_delete(&found);
                    found.remove_into(key.hash(), self.spares());
                    space.report_access(key.hash(), AccessKind::Delete, Some(class));
                    return DeleteOutcome::Done;
                }
                Replacement::Stale { expiry, new_cas } => {
                    let found = match expiry {
                        None => found,
                        Some(expiry) => match prepared.set_expiry(found, key, expiry, now) {
                            Ok(Some(found)) => found,
                            Ok(None) => continue,
                            Err(_) => return DeleteOutcome::OutOfMemory,
                        },
                    };
                    found.item().marks().mark_stale();
                    space.flush.assign_cas(found.item(), new_cas, &space.work);
                    return DeleteOutcome::Done;
                }
                Replacement::Empty { meta, stale, new_cas } => {
                    match prepared.reserve(found, key, 0, meta, now) {
                        Ok(None) => {}
                        Ok(Some((found, empty))) => {
                            if !stale {
                                self.count_delete(&found);
                            }
                            self.count_stored(empty.item().counted_size_bytes());
                            publish_empty((empty, self.spares()), (found, new_cas), stale, now);
                            return DeleteOutcome::Done;
                        }
                        Err(_) => return DeleteOutcome::OutOfMemory,
                    }
                }
            }
        }
    }

    /// Counts a delete that found this item. Returns the class that queues the item.
    fn count_delete(&self, found: &Found<'_>) -> ClassId {
        let class = found.class();
        self.counters().class(class).delete_hits.bump();
        class
    }

    /// Carries out incr or decr: changes the number in the value of a key's item.
    pub fn arithmetic<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        delta: Delta,
        conditions: &ArithmeticConditions,
        now: Now,
    ) -> ArithmeticOutcome {
        let (cache, space) = (self.cache(), self.space());
        let key = key.hashed_by(&space.hasher);
        let handle = &*self;
        let mut prepared = PreparedMemory::new(cache, handle.spares());
        let mut reserved: Option<Reservation<'e>> = None;
        loop {
            let found = match Lookup::find(space, key, now, self.counters()) {
                Lookup::Found(found) => found,
                Lookup::Missing(stripe) => {
                    let Some(initial) = conditions.initial else {
                        self.count_miss(delta);
                        return ArithmeticOutcome::NotFound;
                    };
                    if let Some(first) = reserved.take() {
                        self.count_stored(first.item().counted_size_bytes());
                        let new = publish_new(space, stripe, first, conditions.new_cas, now);
                        return ArithmeticOutcome::Value {
                            value: initial.value,
                            cas: unlock_and_report(new, key.hash()),
                            is_new: true,
                            expiry_before: Expiry::NEVER,
                        };
                    }
                    drop(stripe);
                    reserved = reserve_number((cache, self.spares()), key, initial, now);
                    if reserved.is_none() {
                        return ArithmeticOutcome::OutOfMemory;
                    }
                    continue;
                }
            };
            if let Some(outcome) = self.change(found, key, delta, conditions, now, &mut prepared) {
                return outcome;
            }
        }
    }

    /// Changes the number in a found item. `None`: this call has reserved memory for the changed item, and the caller
    /// must repeat the lookup.
    fn change(
        &self,
        mut found: Found<'e>,
        key: HashedKey<'_>,
        delta: Delta,
        conditions: &ArithmeticConditions,
        now: Now,
        prepared: &mut PreparedMemory<'e, '_>,
    ) -> Option<ArithmeticOutcome> {
        let item = found.item();
        // The order of these checks is memcached's: an empty value and a chained item are reported as no number even if
        // the CAS value does not match.
        if item.value_len() == 0 || item.state().chained() {
            return Some(ArithmeticOutcome::NotNumeric);
        }
        if conditions.expected_cas.is_some_and(|expected| expected != item.cas()) {
            return Some(ArithmeticOutcome::Exists);
        }
        let old_len = item.value_len();
        let Some(number) = parse(item.value_in_first_chunk()) else {
            return Some(ArithmeticOutcome::NotNumeric);
        };
        let value = delta.apply(number);
        let text = Text::padded(value, old_len);
        let expiry_before = item.expiry();
        let expiry = conditions.touch.unwrap_or(expiry_before);
        let new_cas = conditions.new_cas;
        if text.len == old_len
            && found.can_hold(expiry)
            && overwrite_number(&mut found, &text, new_cas, now)
        {
            if conditions.touch.is_some() {
                found.set_expiry_in_place(expiry);
            }
            self.count_hit(&found, delta);
            let (space, cas) = (found.space, found.item().cas());
            let access = space.access_to(key.hash(), AccessKind::Touch, found.item());
            drop(found);
            space.report(access);
            return Some(ArithmeticOutcome::Value { value, cas, is_new: false, expiry_before });
        }
        let meta = ItemMeta { expiry, ..found.item().meta() };
        match prepared.reserve(found, key, text.len, meta, now) {
            Ok(None) => None,
            Err(_) => Some(ArithmeticOutcome::OutOfMemory),
            Ok(Some((found, mut changed))) => {
                text.parts().for_each(|(_, part)| changed.fill_all(part));
                self.count_hit(&found, delta);
                if text.len == old_len {
                    // The text has its old length, but a pin or a missing expiry field prevented a change in place. A
                    // change in place would have kept the item's marks, so the new item gets them, except *active*.
                    changed.item().marks().inherit(found.item().state());
                }
                let cas = publish_over((changed, self.spares()), found, new_cas, now);
                Some(ArithmeticOutcome::Value { value, cas, is_new: false, expiry_before })
            }
        }
    }

    /// Counts an incr or decr of a key without an item.
    fn count_miss(&self, delta: Delta) {
        match delta {
            Delta::Increment(_) => self.counters().incr_misses.bump(),
            Delta::Decrement(_) => self.counters().decr_misses.bump(),
        }
    }

    /// Counts an incr or decr that changes this item.
    fn count_hit(&self, found: &Found<'_>, delta: Delta) {
        let class = self.counters().class(found.class());
        match delta {
            Delta::Increment(_) => class.incr_hits.bump(),
            Delta::Decrement(_) => class.decr_hits.bump(),
        }
    }
}

/// Replaces a found item by an item with an empty value.
fn publish_empty(
    (empty, spares): (Reservation<'_>, &OwnSpares<'_>),
    (found, new_cas): (Found<'_>, Option<u64>),
    stale: bool,
    now: Now,
) {
    let cas = if stale {
        empty.item().marks().mark_stale();
        new_cas
    } else {
        new_cas.or(Some(found.item().cas()))
    };
    publish_over((empty, spares), found, cas, now);
}

/// A number as decimal text, padded with spaces at the end.
struct Text {
    /// The start of the text.
    start: [u8; COMPOSED_LEN_MAX],
    len: usize,
}

impl Text {
    /// Returns the number as text of at least `len_min` bytes.
    fn padded(value: u64, len_min: usize) -> Text {
        let mut start = [b' '; COMPOSED_LEN_MAX];
        let mut rest = &mut start[..];
        write!(rest, "{value}").expect("the buffer is longer than the text of any u64");
        let digits = COMPOSED_LEN_MAX - rest.len();
        Text { start, len: digits.max(len_min) }
    }

    /// Returns the parts of the text, each with its position.
    fn parts(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let padding = (COMPOSED_LEN_MAX..self.len).step_by(SPACES.len());
        let padding = padding.map(|at| (at, &SPACES[..(self.len - at).min(SPACES.len())]));
        std::iter::once((0, &self.start[..self.len.min(COMPOSED_LEN_MAX)])).chain(padding)
    }
}

/// Overwrites the number in an item by a text of the same length. Returns false if a reader pins the item.
fn overwrite_number(found: &mut Found<'_>, text: &Text, new_cas: Option<u64>, now: Now) -> bool {
    let Some(mut value) = found.entry.value_access(None) else { return false };
    text.parts().for_each(|(at, part)| value.overwrite(at, part));
    // As in memcached, the item is marked as active but not as hit.
    found.mark_active_on_use(now);
    found.space.flush.assign_cas(found.item(), new_cas, &found.space.work);
    true
}

/// Reserves memory for an item with the initial number, and writes the number. `None`: there is no memory.
fn reserve_number<'e>(
    memory: (&'e Cache, &OwnSpares<'_>),
    key: HashedKey<'_>,
    initial: Initial,
    now: Now,
) -> Option<Reservation<'e>> {
    let text = Text::padded(initial.value, 0);
    let meta = ItemMeta { expiry: initial.expiry, ..ItemMeta::default() };
    let mut first = Reservation::begin(memory, key, text.len, meta, now).ok()?;
    text.parts().for_each(|(_, part)| first.fill_all(part));
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::{Delta, Text, parse};

    #[test]
    fn only_decimal_numbers_of_at_most_64_bits_are_accepted() {
        assert_eq!(parse(b"0"), Some(0));
        assert_eq!(parse(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse(b"18446744073709551616"), None);
        assert_eq!(parse(b"9  "), Some(9));
        assert_eq!(parse(b" +9 8"), Some(9));
        assert_eq!(parse(b"\x0b9\x0c8"), Some(9));
        assert_eq!(parse(b"12\x003"), Some(12));
        assert_eq!(parse(&[b"0".repeat(100), b"7".to_vec()].concat()), Some(7));
        assert_eq!(parse(b"-0"), Some(0));
        assert_eq!(parse(b"-18446744073709551615"), Some(1));
        assert_eq!(parse(b"-9223372036854775809"), Some(i64::MAX as u64));
        for text in [
            &b""[..],
            b" ",
            b"-1",
            b"-9223372036854775808",
            b"-18446744073709551616",
            b"+",
            b"-",
            b"+ 1",
            b"+-1",
            b"-+1",
            b"1a",
            b"0x1",
            b"\x001",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn incr_wraps_around_decr_stops_at_zero_and_short_results_are_padded() {
        assert_eq!(Delta::Increment(2).apply(u64::MAX), 1);
        assert_eq!(Delta::Decrement(2).apply(1), 0);
        let text = |value, len_min| {
            let text = Text::padded(value, len_min);
            let mut bytes = Vec::new();
            for (at, part) in text.parts() {
                assert_eq!(at, bytes.len());
                bytes.extend_from_slice(part);
            }
            bytes
        };
        assert_eq!(text(9, 2), b"9 ");
        assert_eq!(text(100, 2), b"100");
        for len in [64, 65, 1087, 1088, 1089, 5000] {
            assert_eq!(text(9, len), format!("{:<len$}", 9).into_bytes());
        }
    }
}
