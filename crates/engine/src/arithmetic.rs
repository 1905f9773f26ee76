//! incr and decr: a number as text, changed in place where its length allows it.
//!
//! As in memcached: the value must begin with a decimal `u64`, spaces and a plus sign before it allowed,
//! and end there or go on after a space; incr wraps at 2^64, decr
//! stops at 0; a result shorter than the text that was there is padded with spaces behind it.

use crate::engine::Engine;
use crate::handle::{Found, Handle, Lookup};
use crate::mem::ReadProof;
use crate::reservation::{ItemMeta, Reservation};
use crate::store::StoreOutcome;
use slabwise_base::Now;
use std::io::Write;

/// Which way, and by how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Adds, modulo 2^64.
    Increment(u64),
    /// Subtracts, down to 0.
    Decrement(u64),
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
    },
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
    /// Changes the number that an item's value stands for.
    pub fn arithmetic(&mut self, key: &[u8], delta: Delta, now: Now) -> ArithmeticOutcome {
        let engine = self.engine();
        let hash = engine.hasher.hash(key);
        let mut spare: Option<Reservation<'e>> = None;
        loop {
            let Lookup::Found(found) = engine.lookup(key, hash, now, self.counters()) else {
                match delta {
                    Delta::Increment(_) => self.counters().incr_misses.bump(),
                    Delta::Decrement(_) => self.counters().decr_misses.bump(),
                }
                return ArithmeticOutcome::NotFound;
            };
            let Some((old_len, number)) = engine.number(&found) else {
                return ArithmeticOutcome::NotNumeric;
            };
            let value = delta.apply(number);
            let text = Text::padded(value, old_len);
            if text.len == old_len && engine.overwrite_number(&found, text.as_bytes(), now) {
                self.count_hit(&found, delta);
                let cas = engine.memory.header(found.address).cas();
                return ArithmeticOutcome::Value { value, cas };
            }
            let proof = ReadProof::under_stripe(&found.stripe);
            let meta = ItemMeta {
                client_flags: engine.memory.client_flags(found.address, proof),
                expiry: engine.memory.expiry(found.address, proof),
            };
            if let Some(mut grown) = spare.take_if(|spare| spare.fits(text.len, meta)) {
                grown.set_meta(meta);
                grown.fill_all(text.as_bytes());
                self.count_hit(&found, delta);
                return match engine.publish_over(grown, found, now) {
                    StoreOutcome::Stored { cas } => ArithmeticOutcome::Value { value, cas },
                    other => unreachable!("publishing over a found item came to {other:?}"),
                };
            }
            drop(spare.take());
            match engine.reserve_beside(found, key, text.len, meta, now) {
                Ok(reservation) => spare = Some(reservation),
                Err(_) => return ArithmeticOutcome::OutOfMemory,
            }
        }
    }

    fn count_hit(&self, found: &Found<'_>, delta: Delta) {
        let class = self.counters().class(self.engine().queue_class(found.address));
        match delta {
            Delta::Increment(_) => class.incr_hits.bump(),
            Delta::Decrement(_) => class.decr_hits.bump(),
        }
    }
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

impl Engine {
    /// The length and the number of a found item's value, if it is one.
    fn number(&self, found: &Found<'_>) -> Option<(usize, u64)> {
        let proof = ReadProof::under_stripe(&found.stripe);
        if self.memory.header(found.address).state().load().chained() {
            return None;
        }
        let text = self.memory.value_part(found.address, proof);
        (text.len() <= NUMBER_LEN_MAX).then_some(())?;
        Some((text.len(), parse(text)?))
    }

    /// Writes a number over one of the same length; false if somebody is reading the value.
    fn overwrite_number(&self, found: &Found<'_>, text: &[u8], now: Now) -> bool {
        let header = self.memory.header(found.address);
        let Some(right) = self.memory.arena.value_right(found.address, 0, &found.stripe) else {
            return false;
        };
        let start = self.memory.layout(found.address).value();
        self.memory.arena.overwrite_value(&right, start, text);
        header.set_cas(self.next_cas());
        self.mark_hit(found, now);
        true
    }
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
