//! The oracle's checks of write operations with conditions.

use crate::oracle::{Entry, Marks, Oracle, Presence, show};
use slabwise_base::Now;
use slabwise_engine::{
    ArithmeticConditions, ArithmeticOutcome, DeleteOutcome, Delta, GetEffects, GetOptions,
    ItemMeta, Leave, ReserveError, StoreConditions, StoreMode, StoreOutcome,
};

/// Returns the CAS value that the existing item must have to be replaced.
fn expected(conditions: &StoreConditions) -> Option<u64> {
    match conditions.mode {
        StoreMode::Cas(expected) => Some(expected),
        StoreMode::Add => None,
        _ => conditions.expected_cas,
    }
}

fn joins(mode: StoreMode) -> bool {
    matches!(mode, StoreMode::Append | StoreMode::Prepend)
}

impl Oracle {
    /// Checks a store of `value` under `key`.
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
                let entry = self.stored(key, value, meta, &conditions, value_len);
                assert_eq!(
                    entry.value.len(),
                    value_len,
                    "invariant OUTCOME: length of {}",
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
                    "invariant OUTCOME: {mode:?}: NotStored"
                );
                self.miss(key);
            }
            StoreOutcome::Exists => {
                let Some(requested) = expected(&conditions) else {
                    panic!("invariant OUTCOME: {mode:?} answered Exists");
                };
                self.must_exist(key, "Exists");
                let cas = self.cas_of(key);
                assert_ne!(cas, Some(requested), "invariant CAS: the right CAS was refused");
                let stale = conditions.stale_allowed && !joins(mode);
                assert!(
                    !stale || cas < Some(requested),
                    "invariant CAS: a stale store was refused"
                );
            }
            StoreOutcome::NotFound => {
                let compares = expected(&conditions).is_some() && !joins(mode);
                assert!(compares, "invariant OUTCOME: {mode:?}: NotFound");
                self.miss(key);
            }
            StoreOutcome::OutOfMemory => self.refused(key, ReserveError::OutOfMemory, 0),
            StoreOutcome::TooLarge => {
                let old_len = if joins(mode) { self.value_len(key) } else { 0 };
                self.refused(key, ReserveError::TooLarge, old_len + value.len());
            }
        }
    }

    /// Returns the item that the store leaves, except for its CAS value and time.
    fn stored(
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
            // The value was not joined to another: there was no item, or an empty one.
            let empty = old.as_ref().is_some_and(|old| old.value.is_empty());
            assert!(
                before != Presence::Certain || empty,
                "invariant NO-LOSS: {} is gone",
                show(key)
            );
            old = old.filter(|_| empty);
        }
        if let (Some(requested), Some(old)) = (expected(conditions), &old)
            && old.cas != requested
        {
            let stale = conditions.stale_allowed && requested < old.cas && !joins(mode);
            assert!(stale, "invariant CAS: {requested} stored {} which has {}", show(key), old.cas);
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
                panic!("invariant NO-GHOSTS: {mode:?} found {} which does not exist", show(key))
            }
            (StoreMode::Add, _) => {
                assert_ne!(
                    before,
                    Presence::Certain,
                    "invariant NO-LOSS: add replaced {}",
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

    /// Checks that a get with these options created an item.
    pub fn made(&mut self, key: &[u8], options: &GetOptions, cas: u64, now: Now) {
        let Some(vivify) = options.vivify else {
            panic!("invariant OUTCOME: {} was created without vivify", show(key));
        };
        assert_ne!(
            self.presence(key),
            Presence::Certain,
            "invariant NO-LOSS: {} is gone",
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

    /// Checks the item that a get found before it changed its expiry.
    pub fn expiry_before(&self, key: &[u8], effects: GetEffects) {
        let before = self.entries.get(key).map(|entry| entry.expiry);
        assert_eq!(
            before,
            Some(effects.expiry_before),
            "invariant LAST-WRITE: expiry of {}",
            show(key)
        );
    }

    /// Records whether the reader of an item won the recache.
    pub fn claimed(&mut self, key: &[u8], won: bool) {
        let entry = self.entries.get_mut(key).expect("the item was returned");
        assert_eq!(
            won,
            !entry.marks.claimed,
            "invariant CLAIM: exactly one client wins, for {}",
            show(key)
        );
        entry.marks.claimed = true;
    }

    /// Checks a delete with conditions. `cas` is the item's CAS value after it, if the item was read.
    pub fn deleted_if(
        &mut self,
        key: &[u8],
        requested: Option<u64>,
        leave: Leave,
        outcome: DeleteOutcome,
        cas: Option<u64>,
        now: Now,
    ) {
        match outcome {
            DeleteOutcome::NotFound => return self.miss(key),
            DeleteOutcome::OutOfMemory => return self.refused(key, ReserveError::OutOfMemory, 0),
            DeleteOutcome::Exists => {
                self.must_exist(key, "Exists");
                assert_ne!(self.cas_of(key), requested, "invariant CAS: the right CAS was refused");
                return;
            }
            DeleteOutcome::Done => self.must_exist(key, "a delete"),
        }
        assert!(
            requested.is_none() || self.cas_of(key) == requested,
            "invariant CAS: a wrong CAS value deleted the item"
        );
        let old = self.entries.remove(key).expect("the item exists");
        let (old_cas, mut entry, stale, new_cas) = match leave {
            Leave::Nothing => return,
            Leave::Stale { expiry, new_cas } => {
                (None, Entry { expiry: expiry.unwrap_or(old.expiry), ..old }, true, new_cas)
            }
            Leave::Empty { meta, stale, new_cas } => {
                let old_cas = (!stale && new_cas.is_none()).then_some(old.cas);
                (old_cas, Entry::new(Vec::new(), meta), stale, new_cas)
            }
        };
        let Some(cas) = cas else {
            // The item may have expired or been evicted since, so its marks are unknown.
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

    /// Checks incr and decr. `pinned` is true if a pin may prevent a write in place.
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
                    "invariant OUTCOME: NotFound in spite of an initial value"
                );
                self.miss(key);
            }
            ArithmeticOutcome::OutOfMemory => self.refused(key, ReserveError::OutOfMemory, 0),
            ArithmeticOutcome::Exists => {
                self.must_exist(key, "Exists");
                assert_ne!(
                    self.cas_of(key),
                    conditions.expected_cas,
                    "invariant CAS: right, refused"
                );
            }
            ArithmeticOutcome::NotNumeric => {
                self.must_exist(key, "NotNumeric");
                let number = self.entries.get(key).map(|entry| Number::of(&entry.value));
                assert!(
                    !matches!(number, Some(Number::Plain(_))),
                    "invariant NUMBER: {} holds {number:?}",
                    show(key)
                );
            }
            ArithmeticOutcome::Value { value, cas, is_new: true, .. } => {
                let Some(initial) = conditions.initial else {
                    panic!("invariant OUTCOME: {} was created without an initial value", show(key));
                };
                let gone = self.presence(key) != Presence::Certain;
                assert!(gone, "invariant NO-LOSS: {} is gone", show(key));
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
                    "invariant CAS: a wrong CAS value"
                );
                self.note_cas(key, cas, conditions.new_cas);
                let Some(entry) = self.entries.get_mut(key) else { return };
                assert_eq!(
                    entry.expiry,
                    expiry_before,
                    "invariant LAST-WRITE: expiry of {}",
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
    /// Returns the entry of a value just stored.
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
            padding_open: false,
            marks: Marks::default(),
            has_chosen_cas: false,
        }
    }

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
        self.padding_open = pinned;
    }
}

/// How incr and decr parse a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// Digits followed by spaces only.
    Plain(u64),
    /// A number only for `strtoull` (difference 6).
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
