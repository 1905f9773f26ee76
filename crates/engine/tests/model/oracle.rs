//! The answers that the engine may give, after the operations and answers so far.
//!
//! A cache may lose items but must not return wrong ones. The oracle keeps the last write of every key and checks each
//! answer against it. A permitted miss updates the oracle, so that a lost value must not return.
//!
//! All permitted differences from an exact map:
//!
//! 1. A miss, if memory may be short ([`Rules::losses_allowed`]).
//! 2. `OutOfMemory`, if memory may be short ([`Rules::out_of_memory_allowed`]). The earlier item of the key is then
//!    kept or gone.
//! 3. `TooLarge`, for an item whose key and value are within [`ITEM_OVERHEAD_BYTES_MAX`] of the limit. The earlier item
//!    of the key is then kept or gone.
//! 4. A miss during the last second before a delayed flush, as in memcached.
//! 5. A number that could not be written in place, because the item was pinned, has no padding.
//! 6. Text that is a number only for C's `strtoull` (`" 12"`, `"12 x"`) may be accepted as a number or not.

use slabwise_base::{Cost, Expiry, Now, Seconds};
use slabwise_engine::{CrawledItem, ItemMeta, ReserveError};
use std::collections::{HashMap, HashSet};

/// The largest difference between the engine's item size and the length of key and value: header, flags, expiry and
/// memcached's rules of counting.
pub const ITEM_OVERHEAD_BYTES_MAX: usize = 96;

/// The losses and refusals that the scenario permits.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// True if items may be evicted or dropped by page moves.
    pub losses_allowed: bool,
    /// True if memory may run short.
    pub out_of_memory_allowed: bool,
    /// The item size limit of the engine.
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
    /// True if a get has marked the item as fetched; `None` if the engine may decide.
    pub(crate) fetched: Option<bool>,
    /// True if the last answer does not show whether the item still exists.
    pub(crate) doubtful: bool,
    /// True if the spaces at the end of the value may be missing (difference 5).
    pub(crate) padding_open: bool,
    pub(crate) marks: Marks,
    /// True if a client chose the CAS value.
    pub(crate) has_chosen_cas: bool,
}

/// The marks of an item for clients that would recompute it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The value is out of date.
    pub stale: bool,
    /// A client has won the recache.
    pub claimed: bool,
}

/// The fields that a hit returned.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The bytes of all slices of the value.
    pub value: Vec<u8>,
    /// The client flags of the store.
    pub client_flags: u32,
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

    /// Applies expiry and a pending flush up to `now`. Every check begins with this.
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

    /// Applies flush_all. A new flush replaces a pending one.
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

    /// Returns the last CAS value that a client received for the key.
    pub fn cas_of(&self, key: &[u8]) -> Option<u64> {
        self.entries.get(key).map(|entry| entry.cas)
    }

    /// Returns the length of the last written value, for choosing what to append.
    pub fn value_len(&self, key: &[u8]) -> usize {
        self.entries.get(key).map_or(0, |entry| entry.value.len())
    }

    /// Checks a hit. `marks` is true if the call counts as a use of the item.
    pub fn hit(&mut self, key: &[u8], seen: &Seen, marks: bool) {
        let Some(entry) = self.entries.get_mut(key) else {
            panic!("invariant NO-GHOSTS: a hit on {} which does not exist", show(key));
        };
        if entry.padding_open && entry.value.trim_ascii_end() == seen.value.trim_ascii_end() {
            entry.value.clone_from(&seen.value);
            entry.padding_open = false;
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
            "invariant LAST-WRITE: flags of {}",
            show(key)
        );
        assert_eq!(entry.cost, seen.cost, "invariant LAST-WRITE: cost of {}", show(key));
        assert_eq!(entry.expiry, seen.expiry, "invariant LAST-WRITE: expiry of {}", show(key));
        assert_eq!(entry.cas, seen.cas, "invariant LAST-WRITE: CAS of {}", show(key));
        assert_eq!(
            entry.marks,
            seen.marks,
            "invariant LAST-WRITE: stale and claimed of {}",
            show(key)
        );
        if let Some(fetched) = entry.fetched {
            assert_eq!(fetched, seen.fetched, "invariant FETCHED: the mark of {}", show(key));
        }
        entry.doubtful = false;
        if marks {
            entry.fetched = Some(true);
        }
    }

    /// Records a miss of any operation.
    pub fn miss(&mut self, key: &[u8]) {
        let presence = self.presence(key);
        assert!(presence != Presence::Certain, "invariant NO-LOSS: {} is gone", show(key));
        self.entries.remove(key);
    }

    /// Checks that memory was refused to an operation on `key`, which may also have removed the item. `value_len` is
    /// the length that the value would have had.
    pub fn refused(&mut self, key: &[u8], error: ReserveError, value_len: usize) {
        self.reservation_refused(key, error, value_len);
        if let Some(entry) = self.entries.get_mut(key) {
            entry.doubtful = true;
        }
    }

    /// Checks that memory was refused to a reservation. The item of the key stays.
    pub fn reservation_refused(&self, key: &[u8], error: ReserveError, value_len: usize) {
        match error {
            ReserveError::OutOfMemory => assert!(
                self.rules.out_of_memory_allowed,
                "invariant NO-LOSS: out of memory where memory is never short ({})",
                show(key)
            ),
            ReserveError::TooLarge => assert!(
                key.len() + value_len + ITEM_OVERHEAD_BYTES_MAX > self.rules.item_size_bytes_max,
                "invariant LIMIT: {} B of value under {} is not too large",
                value_len,
                show(key)
            ),
        }
    }

    /// Checks a touch that found its item.
    pub fn touched(&mut self, key: &[u8], expiry: Expiry, now: Now) {
        self.must_exist(key, "a touch");
        if let Some(entry) = self.entries.get_mut(key) {
            entry.expiry = expiry;
            entry.fetched = None;
        }
        self.settle(now);
    }

    /// Checks a delete.
    pub fn deleted(&mut self, key: &[u8], found: bool) {
        if found {
            self.must_exist(key, "a delete");
            self.entries.remove(key);
        } else {
            self.miss(key);
        }
    }

    /// Records that a touch to a past time reported a miss: the item is gone, whether it existed before or not.
    pub fn deleted_unseen(&mut self, key: &[u8]) {
        self.entries.remove(key);
    }

    /// Checks an item that a crawler visited.
    pub fn crawled(&mut self, item: &CrawledItem<'_>) {
        let Some(entry) = self.entries.get(item.key) else {
            panic!("invariant NO-GHOSTS: a crawl shows {} which does not exist", show(item.key));
        };
        let pads = entry.padding_open && item.value_len <= entry.value.len();
        assert!(
            item.value_len == entry.value.len() || pads,
            "invariant LAST-WRITE: crawled length of {}",
            show(item.key)
        );
        let expected = (entry.client_flags, entry.expiry, entry.cas);
        let shown = (item.client_flags, item.expiry, item.cas);
        assert_eq!(expected, shown, "invariant LAST-WRITE: a crawl shows {}", show(item.key));
        if let Some(fetched) = entry.fetched {
            assert_eq!(fetched, item.fetched, "invariant FETCHED: the mark of {}", show(item.key));
        }
    }

    pub(crate) fn must_exist(&mut self, key: &[u8], what: &str) {
        let Some(entry) = self.entries.get_mut(key) else {
            panic!("invariant NO-GHOSTS: {what} found {} which does not exist", show(key));
        };
        // A failed add, or any other answer that shows that the item exists, may also mark it as fetched.
        entry.fetched = None;
        entry.doubtful = false;
    }

    /// Checks the CAS value of a write. `given` is the value that the client chose, if it did.
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
        assert!(self.cas_seen.insert(cas), "invariant CAS: {cas} was given twice");
        let before = self.entries.get(key).filter(|entry| !entry.has_chosen_cas);
        assert!(
            before.is_none_or(|before| before.cas < cas),
            "invariant CAS: that of {} fell from {:?} to {cas}",
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

/// Returns a key as text for an error message.
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
