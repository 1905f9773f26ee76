//! The oracle: a model of the cache, which decides whether an answer of the engine is permitted.
//!
//! A cache may lose items, but must not return wrong ones. The oracle stores the last write of every key and compares
//! each answer with it. After a permitted miss, the oracle removes the key, so a later hit with the lost value is an
//! error.
//!
//! The engine's answers may differ from those of an exact map only in these ways:
//!
//! 1. Any lookup may miss, if items may be lost ([`Rules::losses_allowed`]).
//! 2. An operation may answer `OutOfMemory`, if memory may run short ([`Rules::out_of_memory_allowed`]). The earlier
//!    item of the key may then be lost.
//! 3. A store may answer `TooLarge`, if the length of key and value is at most [`ITEM_OVERHEAD_BYTES_MAX`] below the
//!    limit, or above it. The earlier item of the key may then be lost.
//! 4. A lookup may miss during the last second before a delayed flush, as in memcached.
//! 5. The result of an incr or decr may be without padding, if a pin or a missing expiry field prevented a change in
//!    place.
//! 6. A number in a value of more than 64 bytes may be accepted as a number or not, because the item may be chained.

use slabwise_base::{Cost, Expiry, Now, Seconds};
use slabwise_engine::{CrawledItem, ItemMeta, ReserveError};
use std::collections::{HashMap, HashSet};

/// The largest difference between the size of an item, as the engine counts it, and the length of its key and value, in
/// bytes. The difference consists of the header, client flags, expiry and the additions of memcached's size model.
pub const ITEM_OVERHEAD_BYTES_MAX: usize = 96;

/// The losses and refusals that a scenario permits.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// True if evictions and page moves may remove items.
    pub losses_allowed: bool,
    /// True if an operation may fail because there is no memory.
    pub out_of_memory_allowed: bool,
    /// The largest size of an item in the engine, in bytes.
    pub item_size_bytes_max: usize,
}

/// The item that the last write of a key has created.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) value: Vec<u8>,
    pub(crate) client_flags: u32,
    pub(crate) cost: Option<Cost>,
    pub(crate) expiry: Expiry,
    pub(crate) cas: u64,
    /// The second of the last store.
    pub(crate) stored_at: Seconds,
    /// True if a get has marked the item as fetched. `None`: the item may be marked or not.
    pub(crate) fetched: Option<bool>,
    /// True if the item may be lost: the answers so far do not show whether it exists.
    pub(crate) doubtful: bool,
    /// True if the value may be without the spaces at its end (difference 5).
    pub(crate) padding_unknown: bool,
    pub(crate) marks: Marks,
    /// True if a client chose the CAS value.
    pub(crate) has_chosen_cas: bool,
}

/// The marks by which clients decide whether to recompute an item's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// True if the value is out of date.
    pub stale: bool,
    /// True if a client has claimed the right to recompute the value.
    pub claimed: bool,
}

/// The item that a lookup has returned.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The bytes of all slices of the value.
    pub value: Vec<u8>,
    /// The client flags of the store.
    pub client_flags: u32,
    /// The cost of the store.
    pub cost: Option<Cost>,
    /// The expiry of the last store or touch.
    pub expiry: Expiry,
    /// The CAS value that the store returned.
    pub cas: u64,
    /// True if an earlier get had marked the item as fetched.
    pub fetched: bool,
    /// The stale and claimed marks.
    pub marks: Marks,
}

/// The model of the cache, which checks the engine's answers.
#[derive(Debug)]
pub struct Oracle {
    pub(crate) rules: Rules,
    /// The items by key.
    pub(crate) entries: HashMap<Vec<u8>, Entry>,
    /// The second of the delayed flush that is pending; `None`: no flush is pending.
    pub(crate) flush_pending: Option<Seconds>,
    /// All CAS values that the engine has assigned.
    pub(crate) cas_seen: HashSet<u64>,
}

/// Whether a key has an item in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The key has no item.
    No,
    /// The key may have an item.
    Maybe,
    /// The key must have an item.
    Certain,
}

impl Oracle {
    pub fn new(rules: Rules) -> Oracle {
        Oracle { rules, entries: HashMap::new(), flush_pending: None, cas_seen: HashSet::new() }
    }

    /// Removes the items that have expired or were flushed by this time. The driver calls this before each operation.
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

    /// Records a flush. A new flush replaces a pending one.
    pub fn flush(&mut self, at: Option<Seconds>, now: Now) {
        self.settle(now);
        self.flush_pending = at;
        if at.is_none() {
            self.entries.clear();
        }
    }

    /// Returns the keys that must be in the cache, sorted.
    pub fn keys_certain(&self) -> Vec<Vec<u8>> {
        let certain = |key: &&Vec<u8>| self.presence(key) == Presence::Certain;
        let mut keys: Vec<Vec<u8>> = self.entries.keys().filter(certain).cloned().collect();
        keys.sort();
        keys
    }

    /// Returns the CAS value of the key's last write.
    pub fn cas_of(&self, key: &[u8]) -> Option<u64> {
        self.entries.get(key).map(|entry| entry.cas)
    }

    /// Returns the length of the value of the key's last write; 0 if the key has no item.
    pub fn value_len(&self, key: &[u8]) -> usize {
        self.entries.get(key).map_or(0, |entry| entry.value.len())
    }

    /// Checks the item that a lookup has returned. `marks` is true if the lookup counts as a use of the item.
    pub fn hit(&mut self, key: &[u8], seen: &Seen, marks: bool) {
        let Some(entry) = self.entries.get_mut(key) else {
            panic!("invariant NO-GHOSTS: a lookup found an item of {}, which has none", show(key));
        };
        if entry.padding_unknown && entry.value.trim_ascii_end() == seen.value.trim_ascii_end() {
            entry.value.clone_from(&seen.value);
            entry.padding_unknown = false;
        }
        assert!(
            entry.value == seen.value,
            "invariant LAST-WRITE: the value of {} is not the one last written: {}",
            show(key),
            first_difference(&entry.value, &seen.value)
        );
        assert_eq!(
            entry.client_flags,
            seen.client_flags,
            "invariant LAST-WRITE: the client flags of {}",
            show(key)
        );
        assert_eq!(entry.cost, seen.cost, "invariant LAST-WRITE: the cost of {}", show(key));
        assert_eq!(entry.expiry, seen.expiry, "invariant LAST-WRITE: the expiry of {}", show(key));
        assert_eq!(entry.cas, seen.cas, "invariant LAST-WRITE: the CAS value of {}", show(key));
        assert_eq!(
            entry.marks,
            seen.marks,
            "invariant LAST-WRITE: the marks stale and claimed of {}",
            show(key)
        );
        if let Some(fetched) = entry.fetched {
            assert_eq!(
                fetched,
                seen.fetched,
                "invariant FETCHED: the mark fetched of {}",
                show(key)
            );
        }
        entry.doubtful = false;
        if marks {
            entry.fetched = Some(true);
        }
    }

    /// Checks a miss of any operation, and records it.
    pub fn miss(&mut self, key: &[u8]) {
        let presence = self.presence(key);
        assert!(
            presence != Presence::Certain,
            "invariant NO-LOSS: the item of {} is lost",
            show(key)
        );
        self.entries.remove(key);
    }

    /// Checks that the engine may refuse memory to an operation on `key`. The operation may have removed the key's
    /// item. `value_len` is the length that the new value would have had.
    pub fn refused(&mut self, key: &[u8], error: ReserveError, value_len: usize) {
        self.reservation_refused(key, error, value_len);
        if let Some(entry) = self.entries.get_mut(key) {
            entry.doubtful = true;
        }
    }

    /// Checks that the engine may refuse memory to a reservation. The key keeps its item.
    pub fn reservation_refused(&self, key: &[u8], error: ReserveError, value_len: usize) {
        match error {
            ReserveError::OutOfMemory => assert!(
                self.rules.out_of_memory_allowed,
                "invariant NO-LOSS: out of memory, although memory is ample, for {}",
                show(key)
            ),
            ReserveError::TooLarge => assert!(
                key.len() + value_len + ITEM_OVERHEAD_BYTES_MAX > self.rules.item_size_bytes_max,
                "invariant LIMIT: a value of {} B for {} was refused as too large",
                value_len,
                show(key)
            ),
        }
    }

    /// Checks a touch that found an item, and records the new expiry.
    pub fn touched(&mut self, key: &[u8], expiry: Expiry, now: Now) {
        self.must_exist(key, "a touch");
        if let Some(entry) = self.entries.get_mut(key) {
            entry.expiry = expiry;
            entry.fetched = None;
        }
        self.settle(now);
    }

    /// Checks a delete without conditions, and records it. `found` is the engine's answer.
    pub fn deleted(&mut self, key: &[u8], found: bool) {
        if found {
            self.must_exist(key, "a delete");
            self.entries.remove(key);
        } else {
            self.miss(key);
        }
    }

    /// Records that a touch with an expiry in the past has missed. The key has no item now, whether it had one before
    /// or not.
    pub fn assume_deleted(&mut self, key: &[u8]) {
        self.entries.remove(key);
    }

    /// Checks an item that a crawl has reported.
    pub fn crawled(&mut self, item: &CrawledItem<'_>) {
        let Some(entry) = self.entries.get(item.key) else {
            panic!(
                "invariant NO-GHOSTS: a crawl reports an item of {}, which has none",
                show(item.key)
            );
        };
        let may_lack_padding = entry.padding_unknown && item.value_len <= entry.value.len();
        assert!(
            item.value_len == entry.value.len() || may_lack_padding,
            "invariant LAST-WRITE: the length of {} in a crawl",
            show(item.key)
        );
        let expected = (entry.client_flags, entry.expiry, entry.cas);
        let shown = (item.client_flags, item.expiry, item.cas);
        assert_eq!(
            expected,
            shown,
            "invariant LAST-WRITE: client flags, expiry or CAS value of {} in a crawl",
            show(item.key)
        );
        if let Some(fetched) = entry.fetched {
            assert_eq!(
                fetched,
                item.fetched,
                "invariant FETCHED: the mark fetched of {}",
                show(item.key)
            );
        }
    }

    /// Checks that the key may have an item, because the answer `what` shows that it has one.
    pub(crate) fn must_exist(&mut self, key: &[u8], what: &str) {
        let Some(entry) = self.entries.get_mut(key) else {
            panic!("invariant NO-GHOSTS: {what} found an item of {}, which has none", show(key));
        };
        // An operation that finds an item, such as a failed add, may mark the item as fetched.
        entry.fetched = None;
        entry.doubtful = false;
    }

    /// Checks the CAS value of a write. `given` is the value that the client chose; `None`: the engine assigned the
    /// value.
    pub(crate) fn note_cas(&mut self, key: &[u8], cas: u64, given: Option<u64>) {
        if let Some(given) = given {
            assert_eq!(
                given,
                cas,
                "invariant CAS: {} does not have the client's CAS value",
                show(key)
            );
            return;
        }
        assert!(self.cas_seen.insert(cas), "invariant CAS: the engine assigned {cas} twice");
        let before = self.entries.get(key).filter(|entry| !entry.has_chosen_cas);
        assert!(
            before.is_none_or(|before| before.cas < cas),
            "invariant CAS: the CAS value of {} fell from {:?} to {cas}",
            show(key),
            self.cas_of(key)
        );
    }

    /// Returns whether the key has an item in the engine.
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

/// Returns a key as text, for messages.
pub fn show(key: &[u8]) -> String {
    format!("key \"{}\" ({} B)", key[..key.len().min(24)].escape_ascii(), key.len())
}

/// Describes the first difference between two values, for messages.
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
