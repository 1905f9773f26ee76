//! A window: successive lines of all accesses, from which the stack distances of each class follow.
//!
//! ```text
//!   lines in order --> lookup, held until the next line of its connection --> Reference --> estimates
//!                         |                           \-> dropped, if that line is a store or delete of the key
//!                         '-> StackDistances of the class
//! ```
//!
//! memcached looks up the key of each store and each delete, and writes a line for this lookup as for a get. The line of
//! the store or delete is the next line of the connection, so the window holds a lookup until then.
//!
//! The line of a miss has no class. The class is that of the key in this window, or that of the next store of the key:
//! a look-aside client stores after a miss.
//!
//! Invariants: at most one lookup is held for each connection; a key is in the stack of at most one class, the class of
//! its last access.

use super::estimates::{Distance, Estimates, Reference, Result};
use super::line::AccessKind;
use slabwise_profile::{KeyMap, StackDistances};

/// The number of classes that memcached has at most, and class 0.
const CLASS_NUMBERS: usize = 64;

/// An access to a sampled key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// The hash of the key.
    pub key: u64,
    /// The kind of access, and its result.
    pub kind: AccessKind,
    /// The number of the class; 0 if it is unknown.
    pub class_number: u8,
    /// The file descriptor of the client's connection in the server; 0 for a delete.
    pub connection: u32,
    /// The size of the item in bytes, without the flags of the client.
    pub item_size_bytes: u32,
}

/// The keys of a window.
#[derive(Debug)]
pub struct Window {
    /// The fraction of the keys that is sampled.
    sampling_rate: f64,
    keys: KeyMap<KeyState>,
    /// The stack of each class by its number.
    stacks: Vec<StackDistances>,
    /// The last lookup of each connection.
    held: KeyMap<Lookup>,
    /// The connection whose lookup of a key is held.
    holders: KeyMap<u64>,
    /// The misses of keys whose class is unknown.
    unknown: KeyMap<UnknownMisses>,
}

#[derive(Clone, Copy, Debug)]
struct KeyState {
    class_number: u8,
    /// True if the item was deleted or expired, so the next get misses at every size.
    is_gone: bool,
}

#[derive(Clone, Copy, Debug)]
struct Lookup {
    key: u64,
    kind: LookupKind,
    /// The size of the item that was found; 0 if none was found.
    item_size_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
enum LookupKind {
    Known(u8, Reference),
    Unknown { is_gone: bool },
}

#[derive(Clone, Copy, Debug, Default)]
struct UnknownMisses {
    count: u32,
    is_gone: bool,
}

impl Window {
    /// Starts a window without keys. `sampling_rate` is the fraction of the keys whose accesses the caller passes.
    pub fn new(sampling_rate: f64) -> Window {
        Window {
            sampling_rate,
            keys: KeyMap::default(),
            stacks: (0..CLASS_NUMBERS).map(|_| StackDistances::default()).collect(),
            held: KeyMap::default(),
            holders: KeyMap::default(),
            unknown: KeyMap::default(),
        }
    }

    /// Adds an access, and records the references that are known after it.
    pub fn access(&mut self, access: &KeyAccess, estimates: &mut Estimates) {
        let connection = u64::from(access.connection);
        match access.kind {
            AccessKind::Hit | AccessKind::Miss | AccessKind::Expired => {
                self.settle(connection, estimates);
                let kind = self.lookup(access, estimates);
                let item_size_bytes = match access.kind {
                    AccessKind::Hit => access.item_size_bytes,
                    _ => 0,
                };
                self.held.insert(connection, Lookup { key: access.key, kind, item_size_bytes });
                self.holders.insert(access.key, connection);
            }
            AccessKind::Store | AccessKind::Refused => {
                match self.held.get(&connection).is_some_and(|held| held.key == access.key) {
                    true => self.drop_held(connection),
                    false => self.settle(connection, estimates),
                }
                if access.kind == AccessKind::Store {
                    self.store(access, estimates);
                }
            }
            AccessKind::Delete => {
                if let Some(&connection) = self.holders.get(&access.key) {
                    self.drop_held(connection);
                }
                self.forget(access.key);
                estimates.recording.delete(access.key);
            }
            AccessKind::Lost => {
                self.settle(connection, estimates);
                self.forget(access.key);
                estimates.recording.delete(access.key);
            }
        }
    }

    /// Records all held lookups, and the misses whose class stayed unknown.
    pub fn finish(&mut self, estimates: &mut Estimates) {
        let connections: Vec<u64> = self.held.keys().copied().collect();
        for connection in connections {
            self.settle(connection, estimates);
        }
        for (key, misses) in self.unknown.drain() {
            estimates.record_unknown_misses(key, f64::from(misses.count));
        }
    }

    /// Returns the number of different keys of a class that the window has seen, or its estimate if keys are sampled.
    pub fn footprint(&self, class_number: u8) -> u64 {
        self.stacks.get(usize::from(class_number)).map_or(0, |stack| self.scaled(stack.keys()))
    }

    /// Returns the number of keys that the window holds.
    pub fn keys(&self) -> usize {
        self.keys.len() + self.unknown.len()
    }

    fn scaled(&self, sampled: u64) -> u64 {
        (sampled as f64 / self.sampling_rate) as u64
    }

    fn lookup(&mut self, access: &KeyAccess, estimates: &mut Estimates) -> LookupKind {
        let known = self.keys.get(&access.key).copied();
        let (class_number, result) = match (access.kind, known) {
            (AccessKind::Hit, _) => (access.class_number, Result::Hit),
            (_, Some(state)) => (state.class_number, Result::Miss),
            (kind, None) => return LookupKind::Unknown { is_gone: kind == AccessKind::Expired },
        };
        if result == Result::Hit {
            if known.is_none() {
                estimates.record_size(access.item_size_bytes);
            }
            self.resolve(access, class_number, estimates);
        }
        let is_gone = access.kind == AccessKind::Expired;
        if is_gone {
            estimates.recording.delete(access.key);
        }
        let distance = self.reference(access, class_number, is_gone);
        LookupKind::Known(class_number, Reference { result, distance })
    }

    fn store(&mut self, access: &KeyAccess, estimates: &mut Estimates) {
        if !self.keys.contains_key(&access.key) {
            estimates.record_size(access.item_size_bytes);
        }
        if !self.resolve(access, access.class_number, estimates) {
            self.reference(access, access.class_number, false);
        }
        estimates.recording.store(access.key, access.item_size_bytes);
    }

    /// Records the earlier misses of a key, whose class is known now. Returns false if there were none.
    fn resolve(&mut self, access: &KeyAccess, class_number: u8, estimates: &mut Estimates) -> bool {
        let Some(misses) = self.unknown.remove(&access.key) else { return false };
        let distance = self.reference(access, class_number, misses.is_gone);
        for _ in 0..misses.count {
            estimates.recording.miss(access.key);
            estimates.record(
                class_number,
                Reference { result: Result::Miss, distance },
                access.key,
            );
        }
        true
    }

    /// Moves the key to the top of the stack of its class, and returns the distance of this reference. An item that is
    /// gone cannot hit at any size.
    fn reference(&mut self, access: &KeyAccess, class_number: u8, is_gone: bool) -> Distance {
        let state = KeyState { class_number, is_gone: false };
        let before = self.keys.insert(access.key, state);
        if let Some(before) = before
            && before.class_number != class_number
            && let Some(stack) = self.stacks.get_mut(usize::from(before.class_number))
        {
            stack.forget(access.key);
        }
        let Some(stack) = self.stacks.get_mut(usize::from(class_number)) else {
            return Distance::AtLeast(0);
        };
        let seen = stack.keys();
        let distance = stack.reference(access.key);
        match (distance, is_gone || before.is_some_and(|before| before.is_gone)) {
            (_, true) => Distance::Infinite,
            (Some(distance), false) => Distance::Exact(self.scaled(distance)),
            (None, false) => Distance::AtLeast(self.scaled(seen)),
        }
    }

    /// Removes a key from its stack, because its item was deleted.
    fn forget(&mut self, key: u64) {
        if let Some(state) = self.keys.get_mut(&key) {
            state.is_gone = true;
            if let Some(stack) = self.stacks.get_mut(usize::from(state.class_number)) {
                stack.forget(key);
            }
        }
    }

    /// Records the lookup that is held for a connection.
    fn settle(&mut self, connection: u64, estimates: &mut Estimates) {
        let Some(lookup) = self.held.remove(&connection) else { return };
        self.holders.remove(&lookup.key);
        match lookup.kind {
            LookupKind::Known(class_number, reference) => {
                match reference.result {
                    Result::Hit => estimates.recording.hit(lookup.key, lookup.item_size_bytes),
                    Result::Miss => estimates.recording.miss(lookup.key),
                }
                estimates.record(class_number, reference, lookup.key);
            }
            LookupKind::Unknown { is_gone } => {
                let misses = self.unknown.entry(lookup.key).or_default();
                misses.count = misses.count.saturating_add(1);
                misses.is_gone |= is_gone;
            }
        }
    }

    fn drop_held(&mut self, connection: u64) {
        if let Some(lookup) = self.held.remove(&connection) {
            self.holders.remove(&lookup.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyAccess, Window};
    use crate::traffic::estimates::{Estimates, Present};
    use crate::traffic::line::AccessKind;
    use slabwise_base::Random;
    use slabwise_base::sampling::{is_sampled, threshold_of};
    use slabwise_profile::{Distances, StackDistances};
    use std::collections::{BTreeMap, VecDeque};

    fn access(key: u64, kind: AccessKind, class_number: u8, connection: u32) -> KeyAccess {
        KeyAccess { key, kind, class_number, connection, item_size_bytes: 100 }
    }

    /// The lines that a look-aside client causes at a server whose class 2 is an LRU of `chunks` chunks.
    struct Server {
        lru: VecDeque<u64>,
        chunks: usize,
    }

    impl Server {
        fn get(&mut self, key: u64, connection: u32, mut line: impl FnMut(KeyAccess)) {
            if let Some(at) = self.lru.iter().position(|&known| known == key) {
                self.lru.remove(at);
                line(access(key, AccessKind::Hit, 2, connection));
            } else {
                line(access(key, AccessKind::Miss, 0, connection));
                line(access(key, AccessKind::Miss, 0, connection));
                line(access(key, AccessKind::Store, 2, connection));
            }
            self.lru.push_front(key);
            self.lru.truncate(self.chunks);
        }
    }

    #[test]
    fn lines_of_short_windows_give_the_exact_curve() {
        for (seed, sampling_rate, limit) in [(1, 1.0, 0.05), (2, 0.3, 0.15)] {
            let mut random = Random::new(seed);
            let mut server = Server { lru: VecDeque::new(), chunks: 300 };
            let (mut estimates, mut stack) = (Estimates::default(), StackDistances::default());
            let (mut exact, mut misses, mut hits) = (Distances::default(), 0.0, 0.0);
            let threshold = threshold_of(sampling_rate);
            for _ in 0..10 {
                // A quarter of the time is watched.
                estimates.start_window(sampling_rate, 1.0);
                let mut window = Window::new(sampling_rate);
                for at in 0..20_000 {
                    let rank = (3_000.0f64).powf(random.below(1 << 20) as f64 / f64::from(1 << 20));
                    let key = (rank as u64).wrapping_mul(0xd6e8_feb8_6659_fd93);
                    exact.record(stack.reference(key));
                    server.get(key, random.below(4) as u32, |line| {
                        hits += f64::from(u8::from(line.kind == AccessKind::Hit));
                        misses += f64::from(u8::from(line.kind == AccessKind::Store));
                        if at < 5_000 && is_sampled(key, threshold) {
                            window.access(&line, &mut estimates);
                        }
                    });
                }
                window.finish(&mut estimates);
            }
            assert!(estimates.unknown_miss_share() < 0.001, "seed {seed}");
            let counted = BTreeMap::from([(2, Present { chunks: 300, hits, misses: 0.0 })]);
            let (found, exact) = (&estimates.curves(&counted, misses)[0], exact.mrc(1));
            assert!(found.range_chunks >= 600, "seed {seed}: up to {}", found.range_chunks);
            for chunks in [150, 300, 600] {
                let (found, expected) = (found.curve.miss_ratio(chunks), exact.miss_ratio(chunks));
                let off = (found / expected - 1.0).abs();
                assert!(off < limit, "seed {seed}, {chunks} chunks: {found}, not {expected}");
            }
        }
    }

    /// Returns the numbers of references with an exact and with another distance after these accesses.
    fn references(accesses: &[KeyAccess]) -> f64 {
        let (mut window, mut estimates) = (Window::new(1.0), Estimates::default());
        estimates.start_window(1.0, 1.0);
        accesses.iter().for_each(|it| window.access(it, &mut estimates));
        window.finish(&mut estimates);
        estimates.references().map(|(_, count)| count).sum()
    }

    #[test]
    fn lookups_of_stores_and_deletes_are_no_references() {
        use AccessKind::{Delete, Hit, Miss, Refused, Store};
        let set = [access(1, Hit, 2, 9), access(1, Store, 2, 9)];
        assert_eq!(references(&set), 0.0);
        assert_eq!(references(&[access(1, Hit, 2, 9), access(1, Refused, 2, 9)]), 0.0);
        assert_eq!(references(&[access(1, Hit, 2, 9), access(1, Delete, 2, 0)]), 0.0);
        let get_and_set = [access(1, Hit, 2, 9), set[0], set[1]];
        assert_eq!(references(&get_and_set), 1.0);
        let other_connection = [access(1, Hit, 2, 8), access(1, Hit, 2, 9), access(1, Store, 2, 9)];
        assert_eq!(references(&other_connection), 1.0);
        let miss = [access(1, Miss, 0, 9), access(1, Miss, 0, 9), access(1, Store, 2, 9)];
        assert_eq!(references(&miss), 1.0);
        assert_eq!(references(&miss[..2]), 0.0, "the class of a miss without a store is unknown");
    }

    #[test]
    fn a_get_after_a_delete_misses_at_every_size() {
        use AccessKind::{Delete, Hit, Miss, Store};
        let (mut window, mut estimates) = (Window::new(1.0), Estimates::default());
        estimates.start_window(1.0, 1.0);
        for _ in 0..100 {
            let lines = [access(1, Hit, 2, 9), access(1, Hit, 2, 9), access(1, Delete, 2, 0)];
            let again = [access(1, Miss, 0, 9), access(1, Miss, 0, 9), access(1, Store, 2, 9)];
            lines.iter().chain(&again).for_each(|it| window.access(it, &mut estimates));
        }
        window.finish(&mut estimates);
        let counted = BTreeMap::from([(2, Present { chunks: 1, hits: 100.0, misses: 0.0 })]);
        let curve = &estimates.curves(&counted, 100.0)[0].curve;
        assert_eq!(curve.misses(1_000), 100.0);
    }
}
