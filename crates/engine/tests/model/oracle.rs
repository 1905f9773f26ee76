//! What the engine may answer, given what it was asked and what it has answered so far.
//!
//! A cache may forget but must not lie. The oracle keeps the last write of every key and judges each
//! answer against it; an answer that is legal but lossy (a miss) becomes part of what it knows, so
//! that a value that was missed once can never come back.
//!
//! The permitted differences from an exact map, all of them:
//!
//! 1. A miss, where memory may be short ([`Rules::losses_allowed`]).
//! 2. `OutOfMemory`, where memory may be short ([`Rules::out_of_memory_allowed`]). What stood under
//!    the key before is then kept or gone.
//! 3. `TooLarge`, for an item whose key and value come within [`ITEM_OVERHEAD_BYTES_MAX`] of the
//!    limit. What stood under the key before is then kept or gone.
//! 4. A miss during the last second before a delayed flush, as in memcached.
//! 5. A numeric result that was not written in place because the item was pinned has no padding.
//! 6. Text that is a number only for C's `strtoull` (`" 12"`, `"12 x"`) may count as one or not.

use slabwise_base::{Expiry, Now, Seconds};
use slabwise_engine::{
    ArithmeticOutcome, CrawledItem, Delta, ItemMeta, ReserveError, StoreMode, StoreOutcome,
};
use std::collections::{HashMap, HashSet};

/// The most bytes that header, flags, expiry and memcached's own way of counting add to key and
/// value.
pub const ITEM_OVERHEAD_BYTES_MAX: usize = 96;

/// What the scenario permits.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Memory may run short and the engine may evict, or page moves may drop items.
    pub losses_allowed: bool,
    /// Memory may run short.
    pub out_of_memory_allowed: bool,
    /// The engine's own limit.
    pub item_size_bytes_max: usize,
}

/// The last write of a key.
#[derive(Clone, Debug)]
struct Entry {
    value: Vec<u8>,
    client_flags: u32,
    expiry: Expiry,
    cas: u64,
    stored_at: Seconds,
    /// Whether a marking get has seen it; `None` where the rule is the engine's own.
    fetched: Option<bool>,
    /// A single answer left open whether it is still there.
    doubtful: bool,
    /// Its spaces at the end may be missing (difference 5).
    padding_open: bool,
}

/// What a hit showed.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The value, all slices together.
    pub value: Vec<u8>,
    /// As stored.
    pub client_flags: u32,
    /// As stored or touched.
    pub expiry: Expiry,
    /// As answered by the store.
    pub cas: u64,
    /// Whether a get had marked the item before.
    pub fetched: bool,
}

/// The model and judge.
#[derive(Debug)]
pub struct Oracle {
    rules: Rules,
    entries: HashMap<Vec<u8>, Entry>,
    flush_pending: Option<Seconds>,
    cas_seen: HashSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    No,
    Maybe,
    Certain,
}

impl Oracle {
    pub fn new(rules: Rules) -> Oracle {
        Oracle { rules, entries: HashMap::new(), flush_pending: None, cas_seen: HashSet::new() }
    }

    /// Brings expiry and the pending flush up to `now`; every judgement begins with it.
    pub fn settle(&mut self, now: Now) {
        if let Some(at) = self.flush_pending {
            if now.seconds >= at {
                self.entries.retain(|_, entry| entry.stored_at >= at);
                self.flush_pending = None;
            } else if now.seconds.0 + 1 == at.0 {
                self.entries.values_mut().for_each(|entry| entry.doubtful = true);
            }
        }
        self.entries.retain(|_, entry| !entry.expiry.is_past(now.seconds));
    }

    /// flush_all; a new one takes the place of one that has not come to pass.
    pub fn flush(&mut self, at: Option<Seconds>, now: Now) {
        self.settle(now);
        self.flush_pending = at;
        if at.is_none() {
            self.entries.clear();
        }
    }

    /// Keys that must be there, sorted.
    pub fn keys_certain(&self) -> Vec<Vec<u8>> {
        let certain = |key: &&Vec<u8>| self.presence(key) == Presence::Certain;
        let mut keys: Vec<Vec<u8>> = self.entries.keys().filter(certain).cloned().collect();
        keys.sort();
        keys
    }

    /// The CAS value a careful client would send: the last one it was given.
    pub fn cas_of(&self, key: &[u8]) -> Option<u64> {
        self.entries.get(key).map(|entry| entry.cas)
    }

    /// How many bytes the last write left, for choosing what to append.
    pub fn value_len(&self, key: &[u8]) -> usize {
        self.entries.get(key).map_or(0, |entry| entry.value.len())
    }

    /// Judges a hit; `marks` says whether the call counts as a use of the item.
    pub fn hit(&mut self, key: &[u8], seen: &Seen, marks: bool) {
        let Some(entry) = self.entries.get_mut(key) else {
            panic!("law NO-GHOSTS: a hit on {} which holds nothing", show(key));
        };
        if entry.padding_open && entry.value.trim_ascii_end() == seen.value.trim_ascii_end() {
            entry.value.clone_from(&seen.value);
            entry.padding_open = false;
        }
        assert!(
            entry.value == seen.value,
            "law LAST-WRITE: the value of {} is not the one last written: {}",
            show(key),
            first_difference(&entry.value, &seen.value)
        );
        assert_eq!(entry.client_flags, seen.client_flags, "law LAST-WRITE: flags of {}", show(key));
        assert_eq!(entry.expiry, seen.expiry, "law LAST-WRITE: expiry of {}", show(key));
        assert_eq!(entry.cas, seen.cas, "law LAST-WRITE: CAS of {}", show(key));
        if let Some(fetched) = entry.fetched {
            assert_eq!(fetched, seen.fetched, "law FETCHED: the mark of {}", show(key));
        }
        entry.doubtful = false;
        if marks {
            entry.fetched = Some(true);
        }
    }

    /// Judges a miss of any kind (get, touch, delete, arithmetic, replace, cas).
    pub fn miss(&mut self, key: &[u8]) {
        let presence = self.presence(key);
        assert!(presence != Presence::Certain, "law NO-LOSS: {} is gone", show(key));
        self.entries.remove(key);
    }

    /// Judges a store of `value` under `key`.
    pub fn store(
        &mut self,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
        mode: StoreMode,
        outcome: StoreOutcome,
        now: Now,
    ) {
        match outcome {
            StoreOutcome::Stored { cas } => self.stored(key, value, meta, mode, cas, now),
            StoreOutcome::NotStored if mode == StoreMode::Add => self.must_exist(key, "NotStored"),
            StoreOutcome::NotStored => {
                let needs_old = [StoreMode::Replace, StoreMode::Append, StoreMode::Prepend];
                assert!(needs_old.contains(&mode), "law OUTCOME: {mode:?} answered NotStored");
                self.miss(key);
            }
            StoreOutcome::Exists => {
                let StoreMode::Cas(asked) = mode else {
                    panic!("law OUTCOME: {mode:?} answered Exists");
                };
                self.must_exist(key, "Exists");
                assert_ne!(self.cas_of(key), Some(asked), "law CAS: the right CAS was refused");
            }
            StoreOutcome::NotFound => {
                assert!(matches!(mode, StoreMode::Cas(_)), "law OUTCOME: {mode:?}: NotFound");
                self.miss(key);
            }
            StoreOutcome::OutOfMemory => self.refused(key, ReserveError::OutOfMemory, 0),
            StoreOutcome::TooLarge => {
                let joins = matches!(mode, StoreMode::Append | StoreMode::Prepend);
                let old_len = if joins { self.value_len(key) } else { 0 };
                self.refused(key, ReserveError::TooLarge, old_len + value.len());
            }
        }
    }

    /// Judges a refusal of memory to an operation on `key`, which may also have removed it;
    /// `value_len` is what the item would have held.
    pub fn refused(&mut self, key: &[u8], error: ReserveError, value_len: usize) {
        self.reservation_refused(key, error, value_len);
        if let Some(entry) = self.entries.get_mut(key) {
            entry.doubtful = true;
        }
    }

    /// Judges a refusal of memory alone: what stands under the key stays.
    pub fn reservation_refused(&self, key: &[u8], error: ReserveError, value_len: usize) {
        match error {
            ReserveError::OutOfMemory => assert!(
                self.rules.out_of_memory_allowed,
                "law NO-LOSS: out of memory where memory is never short ({})",
                show(key)
            ),
            ReserveError::TooLarge => assert!(
                key.len() + value_len + ITEM_OVERHEAD_BYTES_MAX > self.rules.item_size_bytes_max,
                "law LIMIT: {} B of value under {} is not too large",
                value_len,
                show(key)
            ),
        }
    }

    fn stored(
        &mut self,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
        mode: StoreMode,
        cas: u64,
        now: Now,
    ) {
        self.note_cas(key, cas);
        let before = self.presence(key);
        let old = self.entries.remove(key);
        let (value, meta) = match (mode, old) {
            (StoreMode::Set, _) => (value.to_vec(), meta),
            (StoreMode::Add, _) => {
                assert_ne!(before, Presence::Certain, "law NO-LOSS: add replaced {}", show(key));
                (value.to_vec(), meta)
            }
            (_, None) => panic!("law NO-GHOSTS: {mode:?} found {} which was gone", show(key)),
            (StoreMode::Replace, Some(_)) => (value.to_vec(), meta),
            (StoreMode::Cas(asked), Some(old)) => {
                assert_eq!(old.cas, asked, "law CAS: a stale CAS stored {}", show(key));
                (value.to_vec(), meta)
            }
            (StoreMode::Append, Some(old)) => ([&old.value, value].concat(), old.meta()),
            (StoreMode::Prepend, Some(old)) => ([value, &old.value].concat(), old.meta()),
        };
        assert!(
            key.len() + value.len() <= self.rules.item_size_bytes_max,
            "law LIMIT: {} B of value under {} were stored",
            value.len(),
            show(key)
        );
        let joined = matches!(mode, StoreMode::Append | StoreMode::Prepend);
        let entry = Entry {
            value,
            client_flags: meta.client_flags,
            expiry: meta.expiry,
            cas,
            stored_at: now.seconds,
            fetched: (!joined).then_some(false),
            doubtful: false,
            padding_open: false,
        };
        self.entries.insert(key.to_vec(), entry);
        self.settle(now);
    }

    /// Judges a touch that found its item.
    pub fn touched(&mut self, key: &[u8], expiry: Expiry, now: Now) {
        self.must_exist(key, "a touch");
        if let Some(entry) = self.entries.get_mut(key) {
            entry.expiry = expiry;
            entry.fetched = None;
        }
        self.settle(now);
    }

    /// Judges a delete.
    pub fn deleted(&mut self, key: &[u8], found: bool) {
        if found {
            self.must_exist(key, "a delete");
            self.entries.remove(key);
        } else {
            self.miss(key);
        }
    }

    /// A touch into the past answered that there is nothing: true now, whatever was there before.
    pub fn deleted_unseen(&mut self, key: &[u8]) {
        self.entries.remove(key);
    }

    /// Judges what a crawler shows.
    pub fn crawled(&mut self, item: &CrawledItem<'_>) {
        let Some(entry) = self.entries.get(item.key) else {
            panic!("law NO-GHOSTS: a crawl shows {} which holds nothing", show(item.key));
        };
        let pads = entry.padding_open && item.value_len <= entry.value.len();
        assert!(
            item.value_len == entry.value.len() || pads,
            "law LAST-WRITE: crawled length of {}",
            show(item.key)
        );
        let expected = (entry.client_flags, entry.expiry, entry.cas);
        let shown = (item.client_flags, item.expiry, item.cas);
        assert_eq!(expected, shown, "law LAST-WRITE: a crawl shows {}", show(item.key));
        if let Some(fetched) = entry.fetched {
            assert_eq!(fetched, item.fetched, "law FETCHED: the mark of {}", show(item.key));
        }
    }

    /// Judges incr and decr; `pinned` says whether anything may keep it from writing in place.
    pub fn arithmetic(
        &mut self,
        key: &[u8],
        delta: Delta,
        outcome: ArithmeticOutcome,
        pinned: bool,
        now: Now,
    ) {
        match outcome {
            ArithmeticOutcome::NotFound => self.miss(key),
            ArithmeticOutcome::OutOfMemory => self.refused(key, ReserveError::OutOfMemory, 0),
            ArithmeticOutcome::NotNumeric => {
                self.must_exist(key, "NotNumeric");
                let number = self.entries.get(key).map(|entry| Number::of(&entry.value));
                assert!(
                    !matches!(number, Some(Number::Plain(_))),
                    "law NUMBER: {} holds {number:?}",
                    show(key)
                );
            }
            ArithmeticOutcome::Value { value, cas } => {
                self.must_exist(key, "arithmetic");
                self.note_cas(key, cas);
                let Some(entry) = self.entries.get_mut(key) else { return };
                let expected = match (Number::of(&entry.value), delta) {
                    (Number::Plain(n) | Number::Loose(n), Delta::Increment(d)) => n.wrapping_add(d),
                    (Number::Plain(n) | Number::Loose(n), Delta::Decrement(d)) => {
                        n.saturating_sub(d)
                    }
                    (Number::None, _) => panic!("law NUMBER: {} holds no number", show(key)),
                };
                assert_eq!(value, expected, "law NUMBER: {delta:?} of {}", show(key));
                let mut text = value.to_string().into_bytes();
                text.resize(text.len().max(entry.value.len()), b' ');
                entry.value = text;
                entry.cas = cas;
                entry.stored_at = now.seconds;
                entry.fetched = None;
                entry.padding_open = pinned;
            }
        }
    }

    fn must_exist(&mut self, key: &[u8], what: &str) {
        let Some(entry) = self.entries.get_mut(key) else {
            panic!("law NO-GHOSTS: {what} found {} which was gone", show(key));
        };
        // An add that fails, and any other answer that proves the item, may also mark it.
        entry.fetched = None;
        entry.doubtful = false;
    }

    fn note_cas(&mut self, key: &[u8], cas: u64) {
        assert!(self.cas_seen.insert(cas), "law CAS: {cas} was given twice");
        assert!(
            self.cas_of(key).is_none_or(|before| before < cas),
            "law CAS: that of {} fell from {:?} to {cas}",
            show(key),
            self.cas_of(key)
        );
    }

    fn presence(&self, key: &[u8]) -> Presence {
        match self.entries.get(key) {
            None => Presence::No,
            Some(entry) if entry.doubtful || self.rules.losses_allowed => Presence::Maybe,
            Some(_) => Presence::Certain,
        }
    }
}

impl Entry {
    fn meta(&self) -> ItemMeta {
        ItemMeta { client_flags: self.client_flags, expiry: self.expiry }
    }
}

/// What text is to incr and decr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// Digits, then nothing but spaces.
    Plain(u64),
    /// A number to `strtoull` only (difference 6).
    Loose(u64),
    None,
}

impl Number {
    fn of(value: &[u8]) -> Number {
        let lead = value.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let digits = value[lead..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let rest = &value[lead + digits..];
        let text = std::str::from_utf8(&value[lead..lead + digits]).unwrap_or_default();
        match (text.parse::<u64>(), rest.first()) {
            (Ok(number), _) if lead == 0 && rest.iter().all(|&byte| byte == b' ') => {
                if value.len() <= 20 { Number::Plain(number) } else { Number::Loose(number) }
            }
            (Ok(number), None) => Number::Loose(number),
            (Ok(number), Some(next)) if next.is_ascii_whitespace() => Number::Loose(number),
            _ => Number::None,
        }
    }
}

/// A key in an error message.
pub fn show(key: &[u8]) -> String {
    format!("key \"{}\" ({} B)", key[..key.len().min(24)].escape_ascii(), key.len())
}

fn first_difference(expected: &[u8], seen: &[u8]) -> String {
    let at = expected.iter().zip(seen).position(|(a, b)| a != b);
    format!(
        "lengths {} and {}, first different byte {at:?}, {:?}.. and {:?}..",
        expected.len(),
        seen.len(),
        expected.get(at.unwrap_or(0)..).map(|rest| &rest[..rest.len().min(16)]),
        seen.get(at.unwrap_or(0)..).map(|rest| &rest[..rest.len().min(16)]),
    )
}
