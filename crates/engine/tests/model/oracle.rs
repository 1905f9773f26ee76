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

use slabwise_base::{Cost, Expiry, Now, Seconds};
use slabwise_engine::{CrawledItem, ItemMeta, ReserveError};
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
pub(crate) struct Entry {
    pub(crate) value: Vec<u8>,
    pub(crate) client_flags: u32,
    pub(crate) cost: Option<Cost>,
    pub(crate) expiry: Expiry,
    pub(crate) cas: u64,
    pub(crate) stored_at: Seconds,
    /// Whether a marking get has seen it; `None` where the rule is the engine's own.
    pub(crate) fetched: Option<bool>,
    /// A single answer left open whether it is still there.
    pub(crate) doubtful: bool,
    /// Its spaces at the end may be missing (difference 5).
    pub(crate) padding_open: bool,
    pub(crate) marks: Marks,
    /// A client chose its CAS value.
    pub(crate) given_cas: bool,
}

/// What stands on an item for those who would store it anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// It is out of date.
    pub stale: bool,
    /// Somebody has been told to store it anew.
    pub claimed: bool,
}

/// What a hit showed.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The value, all slices together.
    pub value: Vec<u8>,
    /// As stored.
    pub client_flags: u32,
    pub cost: Option<Cost>,
    /// As stored or touched.
    pub expiry: Expiry,
    /// As answered by the store.
    pub cas: u64,
    /// Whether a get had marked the item before.
    pub fetched: bool,
    /// As marked.
    pub marks: Marks,
}

/// The model and judge.
#[derive(Debug)]
pub struct Oracle {
    pub(crate) rules: Rules,
    pub(crate) entries: HashMap<Vec<u8>, Entry>,
    pub(crate) flush_pending: Option<Seconds>,
    pub(crate) cas_seen: HashSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
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
        assert_eq!(entry.cost, seen.cost, "law LAST-WRITE: cost of {}", show(key));
        assert_eq!(entry.expiry, seen.expiry, "law LAST-WRITE: expiry of {}", show(key));
        assert_eq!(entry.cas, seen.cas, "law LAST-WRITE: CAS of {}", show(key));
        assert_eq!(entry.marks, seen.marks, "law LAST-WRITE: stale and claimed of {}", show(key));
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

    pub(crate) fn must_exist(&mut self, key: &[u8], what: &str) {
        let Some(entry) = self.entries.get_mut(key) else {
            panic!("law NO-GHOSTS: {what} found {} which was gone", show(key));
        };
        // An add that fails, and any other answer that proves the item, may also mark it.
        entry.fetched = None;
        entry.doubtful = false;
    }

    /// Judges the CAS value of a write; `given` if the client chose it.
    pub(crate) fn note_cas(&mut self, key: &[u8], cas: u64, given: Option<u64>) {
        if let Some(given) = given {
            assert_eq!(given, cas, "law CAS: {} was to have the client's own", show(key));
            return;
        }
        assert!(self.cas_seen.insert(cas), "law CAS: {cas} was given twice");
        let before = self.entries.get(key).filter(|entry| !entry.given_cas);
        assert!(
            before.is_none_or(|before| before.cas < cas),
            "law CAS: that of {} fell from {:?} to {cas}",
            show(key),
            self.cas_of(key)
        );
    }

    pub(crate) fn presence(&self, key: &[u8]) -> Presence {
        match self.entries.get(key) {
            None => Presence::No,
            Some(entry) if entry.doubtful || self.rules.losses_allowed => Presence::Maybe,
            Some(_) => Presence::Certain,
        }
    }
}

impl Entry {
    pub(crate) fn meta(&self) -> ItemMeta {
        ItemMeta { client_flags: self.client_flags, expiry: self.expiry, cost: self.cost }
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
