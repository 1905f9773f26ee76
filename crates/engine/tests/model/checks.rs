//! The oracle's checks of the answers to stores, deletes, and incr and decr, with and without conditions.

use crate::oracle::{Entry, Marks, Oracle, Presence, show};
use slabwise_base::Now;
use slabwise_engine::{
    ArithmeticConditions, ArithmeticOutcome, DeleteOutcome, Delta, GetEffects, GetOptions,
    ItemMeta, Replacement, ReserveError, StoreConditions, StoreMode, StoreOutcome,
};

/// Returns the CAS value that the existing item must have. `None`: any value.
fn expected(conditions: &StoreConditions) -> Option<u64> {
    match conditions.mode {
        StoreMode::Cas(expected) => Some(expected),
        StoreMode::Add => None,
        _ => conditions.expected_cas,
    }
}

/// True if the mode joins the new value to the old one.
fn joins(mode: StoreMode) -> bool {
    matches!(mode, StoreMode::Append | StoreMode::Prepend)
}

impl Oracle {
    /// Checks the outcome of a store, and records the store.
    pub fn store(
        &mut self,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
        conditions: StoreConditions,
        outcome: StoreOutcome,
        now: Now,
    ) {
        let mode = conditions.mode;
        match outcome {
            StoreOutcome::Stored { cas, value_len } => {
                self.note_cas(key, cas, conditions.new_cas);
                let entry = self.stored_entry(key, value, meta, &conditions, value_len);
                assert_eq!(
                    entry.value.len(),
                    value_len,
                    "invariant OUTCOME: the length of the stored value of {}",
                    show(key)
                );
                let has_chosen_cas = conditions.new_cas.is_some();
                let entry = Entry { cas, has_chosen_cas, stored_at: now.seconds, ..entry };
                self.entries.insert(key.to_vec(), entry);
                self.settle(now);
            }
            StoreOutcome::NotStored if mode == StoreMode::Add => self.must_exist(key, "NotStored"),
            StoreOutcome::NotStored => {
                let joins = joins(mode) && !conditions.vivify;
                assert!(
                    joins || mode == StoreMode::Replace,
                    "invariant OUTCOME: {mode:?} answered NotStored"
                );
                self.miss(key);
            }
            StoreOutcome::Exists => {
                let Some(requested) = expected(&conditions) else {
                    panic!("invariant OUTCOME: {mode:?} answered Exists");
                };
                self.must_exist(key, "Exists");
                let cas = self.cas_of(key);
                assert_ne!(
                    cas,
                    Some(requested),
                    "invariant CAS: a store with the right CAS value was refused"
                );
                let stale = conditions.stale_allowed && !joins(mode);
                assert!(
                    !stale || cas < Some(requested),
                    "invariant CAS: a store with a lower CAS value, which is permitted, was refused"
                );
            }
            StoreOutcome::NotFound => {
                let compares = expected(&conditions).is_some() && !joins(mode);
                assert!(compares, "invariant OUTCOME: {mode:?} answered NotFound");
                self.miss(key);
            }
            StoreOutcome::OutOfMemory => self.refused(key, ReserveError::OutOfMemory, 0),
            StoreOutcome::TooLarge => {
                let old_len = if joins(mode) { self.value_len(key) } else { 0 };
                self.refused(key, ReserveError::TooLarge, old_len + value.len());
            }
        }
    }

    /// Returns the item that a successful store creates, except for its CAS value and time. Removes the old item.
    fn stored_entry(
        &mut self,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
        conditions: &StoreConditions,
        value_len: usize,
    ) -> Entry {
        let mode = conditions.mode;
        let before = self.presence(key);
        let mut old = self.entries.remove(key);
        if joins(mode) && conditions.vivify && value_len == value.len() {
            // The stored value is as long as the new value. So the key had no item, or an item with an empty value.
            let empty = old.as_ref().is_some_and(|old| old.value.is_empty());
            assert!(
                before != Presence::Certain || empty,
                "invariant NO-LOSS: the item of {} is lost",
                show(key)
            );
            old = old.filter(|_| empty);
        }
        if let (Some(requested), Some(old)) = (expected(conditions), &old)
            && old.cas != requested
        {
            let stale = conditions.stale_allowed && requested < old.cas && !joins(mode);
            assert!(
                stale,
                "invariant CAS: a store that expects {requested} replaced {}, which has {}",
                show(key),
                old.cas
            );
            let meta = ItemMeta { expiry: old.expiry, ..meta };
            let entry = Entry::new(value.to_vec(), meta);
            return Entry { marks: Marks { stale: true, claimed: old.marks.claimed }, ..entry };
        }
        let needs_old = match mode {
            StoreMode::Set => conditions.expected_cas.is_some(),
            StoreMode::Add => false,
            StoreMode::Replace | StoreMode::Cas(_) => true,
            StoreMode::Append | StoreMode::Prepend => !conditions.vivify,
        };
        match (mode, old) {
            (_, None) if needs_old => {
                panic!(
                    "invariant NO-GHOSTS: {mode:?} found an item of {}, which has none",
                    show(key)
                )
            }
            (StoreMode::Add, _) => {
                assert_ne!(
                    before,
                    Presence::Certain,
                    "invariant NO-LOSS: add stored {} although it has an item",
                    show(key)
                );
                Entry::new(value.to_vec(), meta)
            }
            (StoreMode::Append, Some(old)) => {
                Entry { fetched: None, ..Entry::new([&old.value, value].concat(), old.meta()) }
            }
            (StoreMode::Prepend, Some(old)) => {
                Entry { fetched: None, ..Entry::new([value, &old.value].concat(), old.meta()) }
            }
            _ => Entry::new(value.to_vec(), meta),
        }
    }

    /// Checks that a get with these options may create an item, and records this item.
    pub fn created(&mut self, key: &[u8], options: &GetOptions, cas: u64, now: Now) {
        let Some(vivify) = options.vivify else {
            panic!("invariant OUTCOME: {} was created without vivify", show(key));
        };
        assert_ne!(
            self.presence(key),
            Presence::Certain,
            "invariant NO-LOSS: the item of {} is lost",
            show(key)
        );
        self.note_cas(key, cas, vivify.cas);
        let meta = ItemMeta { expiry: vivify.expiry, ..ItemMeta::default() };
        let entry = Entry {
            cas,
            has_chosen_cas: vivify.cas.is_some(),
            stored_at: now.seconds,
            ..Entry::new(Vec::new(), meta)
        };
        self.entries.insert(key.to_vec(), entry);
    }

    /// Checks the expiry that a get reports as the item's expiry before the get.
    pub fn check_expiry_before(&self, key: &[u8], effects: GetEffects) {
        let before = self.entries.get(key).map(|entry| entry.expiry);
        assert_eq!(
            before,
            Some(effects.expiry_before),
            "invariant LAST-WRITE: the reported earlier expiry of {}",
            show(key)
        );
    }

    /// Checks whether a client may claim the right to recompute an item, and records the claim. `won` is the engine's
    /// answer.
    pub fn claimed(&mut self, key: &[u8], won: bool) {
        let entry = self.entries.get_mut(key).expect("a get has returned the item");
        assert_eq!(
            won,
            !entry.marks.claimed,
            "invariant CLAIM: exactly one client claims {}",
            show(key)
        );
        entry.marks.claimed = true;
    }

    /// Checks a delete with conditions, and records its effect. `cas` is the item's CAS value after the delete; `None`:
    /// the item was not found afterwards.
    pub fn deleted_if(
        &mut self,
        key: &[u8],
        requested: Option<u64>,
        replacement: Replacement,
        outcome: DeleteOutcome,
        cas: Option<u64>,
        now: Now,
    ) {
        match outcome {
            DeleteOutcome::NotFound => return self.miss(key),
            DeleteOutcome::OutOfMemory => return self.refused(key, ReserveError::OutOfMemory, 0),
            DeleteOutcome::Exists => {
                self.must_exist(key, "Exists");
                assert_ne!(
                    self.cas_of(key),
                    requested,
                    "invariant CAS: a delete with the right CAS value was refused"
                );
                return;
            }
            DeleteOutcome::Done => self.must_exist(key, "a delete"),
        }
        assert!(
            requested.is_none() || self.cas_of(key) == requested,
            "invariant CAS: a delete with a wrong CAS value succeeded"
        );
        let old = self.entries.remove(key).expect("the item exists");
        let (old_cas, mut entry, stale, new_cas) = match replacement {
            Replacement::Nothing => return,
            Replacement::Stale { expiry, new_cas } => {
                (None, Entry { expiry: expiry.unwrap_or(old.expiry), ..old }, true, new_cas)
            }
            Replacement::Empty { meta, stale, new_cas } => {
                let old_cas = (!stale && new_cas.is_none()).then_some(old.cas);
                (old_cas, Entry::new(Vec::new(), meta), stale, new_cas)
            }
        };
        let Some(cas) = cas else {
            // The item may have expired or may have been evicted since, so nothing is known about it.
            return;
        };
        self.note_cas(key, cas, new_cas.or(old_cas));
        entry.cas = cas;
        entry.has_chosen_cas = new_cas.or(old_cas).is_some();
        entry.marks = Marks { stale, claimed: false };
        entry.stored_at = now.seconds;
        entry.fetched = None;
        self.entries.insert(key.to_vec(), entry);
        self.settle(now);
    }

    /// Checks incr or decr, and records its effect. `pinned` is true if a pin or a missing expiry field may have
    /// prevented a change in place.
    pub fn arithmetic(
        &mut self,
        key: &[u8],
        delta: Delta,
        conditions: &ArithmeticConditions,
        outcome: ArithmeticOutcome,
        pinned: bool,
        now: Now,
    ) {
        match outcome {
            ArithmeticOutcome::NotFound => {
                assert!(
                    conditions.initial.is_none(),
                    "invariant OUTCOME: incr or decr with an initial value answered NotFound"
                );
                self.miss(key);
            }
            ArithmeticOutcome::OutOfMemory => self.refused(key, ReserveError::OutOfMemory, 0),
            ArithmeticOutcome::Exists => {
                self.must_exist(key, "Exists");
                assert_ne!(
                    self.cas_of(key),
                    conditions.expected_cas,
                    "invariant CAS: incr or decr with the right CAS value was refused"
                );
            }
            ArithmeticOutcome::NotNumeric => {
                self.must_exist(key, "NotNumeric");
                let number = self.entries.get(key).map(|entry| Number::of(&entry.value));
                assert!(
                    !matches!(number, Some(Number::Plain(_))),
                    "invariant NUMBER: the engine accepts no number in {}, but it holds {number:?}",
                    show(key)
                );
            }
            ArithmeticOutcome::Value { value, cas, is_new: true, .. } => {
                let Some(initial) = conditions.initial else {
                    panic!("invariant OUTCOME: {} was created without an initial value", show(key));
                };
                let gone = self.presence(key) != Presence::Certain;
                assert!(gone, "invariant NO-LOSS: the item of {} is lost", show(key));
                assert_eq!(value, initial.value, "invariant NUMBER: the initial value is stored");
                self.note_cas(key, cas, conditions.new_cas);
                let meta = ItemMeta { expiry: initial.expiry, ..ItemMeta::default() };
                let has_chosen_cas = conditions.new_cas.is_some();
                let entry = Entry::new(value.to_string().into_bytes(), meta);
                let entry = Entry { cas, has_chosen_cas, stored_at: now.seconds, ..entry };
                self.entries.insert(key.to_vec(), entry);
                self.settle(now);
            }
            ArithmeticOutcome::Value { value, cas, expiry_before, .. } => {
                self.must_exist(key, "arithmetic");
                let requested = conditions.expected_cas;
                assert!(
                    requested.is_none() || self.cas_of(key) == requested,
                    "invariant CAS: incr or decr with a wrong CAS value succeeded"
                );
                self.note_cas(key, cas, conditions.new_cas);
                let Some(entry) = self.entries.get_mut(key) else { return };
                assert_eq!(
                    entry.expiry,
                    expiry_before,
                    "invariant LAST-WRITE: the reported earlier expiry of {}",
                    show(key)
                );
                entry.change_number(key, delta, value, pinned);
                entry.cas = cas;
                entry.has_chosen_cas = conditions.new_cas.is_some();
                entry.expiry = conditions.touch.unwrap_or(expiry_before);
                entry.stored_at = now.seconds;
                entry.fetched = None;
                self.settle(now);
            }
        }
    }
}

impl Entry {
    /// Returns the entry of an item with this value, without CAS value and time.
    pub(crate) fn new(value: Vec<u8>, meta: ItemMeta) -> Entry {
        Entry {
            value,
            client_flags: meta.client_flags,
            expiry: meta.expiry,
            cost: meta.cost,
            cas: 0,
            stored_at: slabwise_base::Seconds::START,
            fetched: Some(false),
            doubtful: false,
            padding_unknown: false,
            marks: Marks::default(),
            has_chosen_cas: false,
        }
    }

    /// Checks the result of incr or decr, and records the new value.
    fn change_number(&mut self, key: &[u8], delta: Delta, value: u64, pinned: bool) {
        let expected = match (Number::of(&self.value), delta) {
            (Number::Plain(n) | Number::Loose(n), Delta::Increment(d)) => n.wrapping_add(d),
            (Number::Plain(n) | Number::Loose(n), Delta::Decrement(d)) => n.saturating_sub(d),
            (Number::None, _) => panic!("invariant NUMBER: {} does not hold a number", show(key)),
        };
        assert_eq!(value, expected, "invariant NUMBER: {delta:?} of {}", show(key));
        let mut text = value.to_string().into_bytes();
        if text.len() > self.value.len() {
            self.marks = Marks::default();
        }
        text.resize(text.len().max(self.value.len()), b' ');
        self.value = text;
        self.padding_unknown = pinned;
    }
}

/// The number in a value, as C's `strtoull` parses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// The value is a number. The engine must accept it.
    Plain(u64),
    /// The value is a number, but the item may be chained. The engine may accept or refuse it (difference 6 in
    /// `oracle.rs`).
    Loose(u64),
    /// The value is not a number. The engine must refuse it.
    None,
}

/// The length up to which the item of a value is not chained, in bytes.
const PLAIN_LEN_MAX: usize = 64;

impl Number {
    fn of(value: &[u8]) -> Number {
        let is_space = |byte: &u8| b" \t\n\x0b\x0c\r".contains(byte);
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let lead = value.iter().take_while(|byte| is_space(byte)).count();
        let is_signed = matches!(value.get(lead), Some(b'+' | b'-'));
        let start = lead + usize::from(is_signed);
        let end = start + value[start..].iter().take_while(|byte| is_digit(byte)).count();
        let is_ended = value.get(end).is_none_or(|byte| is_space(byte) || *byte == 0);
        let digits = std::str::from_utf8(&value[start..end]).expect("digits are UTF-8");
        let number = digits.parse().ok().filter(|_| is_ended).and_then(|number: u64| {
            if value.get(lead) != Some(&b'-') {
                return Some(number);
            }
            let difference = u64::try_from((1u128 << 64) - u128::from(number)).unwrap_or(0);
            Some(difference).filter(|&difference| i64::try_from(difference).is_ok())
        });
        match number {
            Some(number) if value.len() <= PLAIN_LEN_MAX => Number::Plain(number),
            Some(number) => Number::Loose(number),
            None => Number::None,
        }
    }
}
