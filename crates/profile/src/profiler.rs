//! The profiler of a server. It computes a profile of each class from sampled accesses, in bounded memory.
//!
//! ```text
//!   Access --is_sampled--> KeyTable: one record per key       (found by hash; has the stack and the slot)
//!                             |
//!               .-------------+----------------.
//!               v             v                v
//!        stack of class 0   of class 1 ...   absent keys      (order of use; a key is in one of them)
//!               | distance / rate  '--- reuse time ---.
//!               v                                     v
//!          Histogram --> Mrc                    ReuseWindows --> Mrc    (weights 1 / rate; decaying; of
//!                                                                       the last gets, if requested)
//! ```
//!
//! *Absent* keys are keys that were requested but never stored, and deleted keys. A *slot* is a position in a stack.
//!
//! Sources: sampling, the scaling of distances and the bound on the number of keys are those of SHARDS (Waldspurger and
//! others, FAST 2015, sections 3 and 4: SHARDS-adj, and a fixed size by lowering the threshold). Distances are the
//! stack distances of an LRU (Mattson and others, 1970).
//!
//! The profiler counts accesses by these rules:
//!
//! - A get of a key in the stack of a class is a reference of that class at the key's scaled distance. If the get hits,
//!   the key moves to the top. If it misses, the key keeps its position until it is stored, so further misses count at
//!   about the same distance.
//! - A get of a deleted key is a reference that misses at every size.
//! - A miss of a key that was never stored waits for the store, which determines the class, and then counts as a first
//!   reference. As long as no store follows, [`RecentGets::unstored`] counts the miss.
//! - A hit of an unknown key, which was stored before the profiler started, is not a reference, because its distance is
//!   unknown. The key is then on top of its class's stack. A hit of a key that missed and has no recorded store since
//!   is treated in the same way: a get has created (vivified) the item.
//! - A store puts the key on top of the stack of its class and removes it from any other stack. It is not a reference.
//! - A delete removes the key from the stack of its class. The record keeps the class, so that the next miss of the key
//!   is not counted as a first reference.
//!
//! Invariants: there are at most `keys_max` keys; each key is in the stack and on the slot that its record names, and
//! in no other stack; without decay and at sampling rate 1, curves are exact at their points.
//!
//! The number of keys is bounded. Each class keeps the keys that it could hold in [`HISTORY_FACTOR`] times the current
//! memory, and forgets the least recently used of the other keys. At most an eighth of all keys are absent keys. If
//! there are too many keys, this factor decreases first, down to [`HISTORY_FACTOR_MIN`], and then the sampling rate.
//! Neither increases again: the keys of a larger sample would be unknown.
//!
//! The memory for reuse times, and for their latest and previous curves, is taken from the memory for keys. Its usual
//! amount is reserved when the sizes of classes are first reported, because the table of keys does not shrink. If
//! footprints are requested after all keys are in use, the memory exceeds its bound.
//!
//! The profiler has no clock and no locks: the caller passes the accesses in order of time.

mod detection;
mod reuse_change;
mod sizes;
mod stacks;
mod table_change;

use crate::class_keys::Weights;
use crate::class_profile::{Access, ClassProfile};
use crate::decay::Decay;
use crate::get_counts::{GetCounts, RecentGets};
use crate::key_table::{Place, Record};
use crate::recent_references::RecentReferences;
use crate::reuse_windows::{ReuseWindows, UsedAt};
use crate::size_buckets::{SizeBucket, SizeClasses};
use crate::stored_before::StoredBefore;
use slabwise_base::random::{mix, unit};
use slabwise_base::sampling::{is_sampled, rate_of, threshold_of};
use slabwise_base::{AccessKind, ClassId};
use stacks::Stacks;

/// The maximum memory of a key: 24 bytes of record, 5 to 11 bytes of index, 8 to 17 bytes of stack and 1.5 bytes of
/// recent references, and its part of the old tables while the tables grow. Histograms of distances are not included.
pub const KEY_SIZE_BYTES: usize = 60;
/// The initial history of a class: it keeps the keys that it could hold in the pages of all classes times this factor.
pub const HISTORY_FACTOR: u64 = 4;
/// The minimum of the history factor, when there are too many keys. It suffices for curves up to twice the memory.
pub const HISTORY_FACTOR_MIN: u64 = 2;
/// The number of sampled keys that a class may keep even if its history allows fewer.
const CLASS_KEYS_MIN: usize = 64;
/// The maximum number of recent references is the maximum number of keys divided by this number.
const KEYS_PER_RECENT_REFERENCE: usize = 4;
/// The usual memory of a class's reuse times. Their curves take up to half of this memory in addition.
const CLASS_REUSES_SIZE_BYTES: usize = 8 << 10;
/// The maximum time from a miss to its store. A store that follows later is not timed.
const MISS_TIME_US_MAX: u32 = 10_000_000;

/// 2^64 divided by the golden ratio. Its multiples, modulo 2^64, are spread evenly over all numbers.
const SPREAD_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Limits of a [`Profiler`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilerOptions {
    /// The maximum number of keys in the sample, at least 1.
    pub keys_max: usize,
    /// The initial sampling rate, in (0, 1]. The rate decreases if there are too many keys.
    pub rate_max: f64,
    /// The half-life of decaying counts, in sampled references; at least 1. With `u64::MAX` no count decays.
    pub half_life_references: u64,
}

impl Default for ProfilerOptions {
    fn default() -> ProfilerOptions {
        ProfilerOptions { keys_max: 25_000, rate_max: 1.0, half_life_references: 1_000_000 }
    }
}

/// Computes profiles of all classes from one stream of accesses.
#[derive(Debug)]
pub struct Profiler {
    options: ProfilerOptions,
    /// A key is sampled if its hash is below this value.
    threshold: u64,
    /// The number of keys that a sampled key represents: 1 / sampling rate.
    scale: f64,
    /// The current factor that limits the histories of classes, from [`HISTORY_FACTOR`] down to [`HISTORY_FACTOR_MIN`].
    history_factor: u64,
    /// True if sizes of classes were reported. Accesses to a class without a size, which is retired or new, are then
    /// ignored.
    has_sizes: bool,
    /// The classes whose sizes were reported.
    classes: SizeClasses,
    /// The number of pages that belong to none of these classes.
    other_pages: u64,
    /// The maximum number of keys, which leaves memory for reuse times.
    keys_max: usize,
    stacks: Stacks,
    /// The number of sampled accesses since the start. It wraps around.
    accesses: u32,
    recent: RecentReferences,
    /// The recent gets and misses, of sampled keys and of all keys.
    gets: GetCounts,
    /// The reuse times of all classes; `None` if footprints are not kept.
    reuses: Option<ReuseWindows>,
    /// The keys that were stored recently; `None` if they are not detected.
    stored: Option<StoredBefore>,
    decay: Decay,
    /// A number that changes with each scaled distance and takes values spread evenly over all numbers. It selects one
    /// of the distances that a sampled distance represents.
    spread: u64,
}

impl Profiler {
    /// Creates a profiler without keys.
    ///
    /// # Panics
    /// Panics if an option is not in its range.
    pub fn new(options: ProfilerOptions) -> Profiler {
        assert!(options.keys_max > 0, "keys_max must be at least 1");
        let threshold = threshold_of(options.rate_max);
        Profiler {
            options,
            threshold,
            scale: 1.0 / rate_of(threshold),
            history_factor: HISTORY_FACTOR,
            has_sizes: false,
            classes: SizeClasses::default(),
            other_pages: 0,
            keys_max: options.keys_max,
            stacks: Stacks::new(options.keys_max),
            accesses: 0,
            recent: RecentReferences::new(options.keys_max.div_ceil(KEYS_PER_RECENT_REFERENCE)),
            gets: GetCounts::default(),
            reuses: None,
            stored: None,
            decay: Decay::new(options.half_life_references),
            spread: 0,
        }
    }

    /// Returns the sampling threshold: a key is sampled if its hash is below it ([`is_sampled`]). The threshold never
    /// increases.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Returns the sampling rate: the share of keys that are sampled.
    pub fn rate(&self) -> f64 {
        rate_of(self.threshold)
    }

    /// Returns the number of keys in the sample.
    pub fn keys(&self) -> usize {
        self.stacks.keys.count()
    }

    /// Returns the memory of the profiler, in bytes.
    pub fn size_bytes(&self) -> usize {
        let filters_bytes = self.filters_size_bytes();
        let sizes_bytes = self.classes.size_bytes() + self.recent.size_bytes();
        let keys_bytes = self.stacks.size_bytes() + self.reuses_size_bytes();
        size_of::<Profiler>() + keys_bytes + sizes_bytes + filters_bytes
    }

    /// Reports the number of hits of all keys of a class since the start. If the sample has no hot key, or too many,
    /// its scaled hits are too few or too many. The profiler corrects the difference at small distances, because hot
    /// keys have small distances (SHARDS-adj). The difference counts from the first call on.
    pub fn note_hits(&mut self, class: ClassId, hits: u64) {
        let weight = self.decay.weight();
        self.stacks.class_mut(class).note_hits(hits, weight);
    }

    /// Reports the number of gets and misses of all keys since the start. The gets count from the first call on.
    pub fn note_gets(&mut self, gets: u64, misses: u64) {
        self.gets.note_all(gets, misses, self.decay.weight());
    }

    /// Reports the number of hits of all keys of a class since the start, after accesses were lost. The hits since the
    /// last call are not compared with the hits of the sample: lost hits are of any keys, and a correction would count
    /// them at small distances.
    pub fn skip_hits(&mut self, class: ClassId, hits: u64) {
        self.stacks.class_mut(class).note_hits(hits, 0.0);
    }

    /// Counts an access. Accesses to keys outside the sample are ignored. After sizes of classes were reported, the size
    /// of an item determines its class. If this size is unknown, hits and stores in a class without a size are ignored,
    /// too, because the next report would remove that class again.
    pub fn access(&mut self, access: &Access) {
        if !is_sampled(access.hash, self.threshold) {
            return;
        }
        let class = self.class_of(access);
        if access.kind == AccessKind::Hit {
            self.count_hit(access.class, class);
        }
        let access = &Access { class, ..*access };
        let is_of_item = !matches!(access.kind, AccessKind::Miss | AccessKind::Delete);
        if is_of_item && access.class.is_some_and(|class| !self.accepts(class)) {
            return;
        }
        let known = self.stacks.keys.find(access.hash);
        self.accesses = self.accesses.wrapping_add(1);
        match access.kind {
            AccessKind::Hit => self.hit(access, known),
            AccessKind::Miss => self.miss(access, known),
            // A touch puts the key on top of its stack like a store. Neither is a reference.
            AccessKind::Store | AccessKind::Touch => {
                self.note_stored(access);
                self.store(access, known);
            }
            AccessKind::Delete => self.delete(known),
        }
        while self.stacks.keys.count() > self.keys_max {
            if self.history_factor > HISTORY_FACTOR_MIN {
                self.history_factor -= 1;
                self.limit_histories();
            } else {
                self.lower_threshold();
            }
        }
    }

    /// Returns the number of recent gets and misses. They decay like the references of the curves.
    pub fn recent_gets(&self) -> RecentGets {
        self.gets.recent(self.decay.weight(), self.keys())
    }

    /// Returns the profile of a class; the default profile if no key of the class is known.
    pub fn profile(&self, class: ClassId) -> ClassProfile {
        let Some(keys) = self.stacks.class(class) else { return ClassProfile::default() };
        let profile = keys.profile(1.0 / self.decay.weight(), self.scale);
        ClassProfile { footprint_curve: self.footprint_curve(class, &profile.curve), ..profile }
    }

    /// Checks the invariants of keys and stacks, for tests.
    ///
    /// # Panics
    /// Panics if an invariant does not hold.
    pub fn check(&self) {
        let (keys, keys_max) = (self.keys(), self.options.keys_max);
        assert!(keys <= keys_max, "a profiler has at most {keys_max} keys, not {keys}");
        self.stacks.check(self.threshold);
    }

    /// Reduces the sampling rate by an eighth and forgets the keys that are no longer sampled. The profiler calls this
    /// function if there are too many keys. The owner of the profiler calls it if accesses were dropped.
    pub fn lower_threshold(&mut self) {
        self.threshold = self.threshold / 8 * 7;
        self.scale = 1.0 / self.rate();
        let threshold = self.threshold;
        self.stacks.forget_where(|record| !is_sampled(record.hash, threshold));
        self.limit_histories();
    }

    fn reuses_size_bytes(&self) -> usize {
        self.reuses.as_ref().map_or(0, ReuseWindows::size_bytes)
    }

    /// Counts a reference by its reuse time. `used_at` is the time of the previous use of the key; with `None` the
    /// reference misses at every size.
    fn count_reuse(&mut self, class: ClassId, used_at: Option<UsedAt>) {
        if let Some(reuses) = &mut self.reuses {
            reuses.reference(class, used_at, self.scale, unit(self.spread));
        }
    }

    fn hit(&mut self, access: &Access, known: Option<u32>) {
        match (known, access.class) {
            (Some(number), class) if self.is_stored(number) => {
                self.number_of(access, known);
                let Record { used_at, at, .. } = *self.stacks.keys.get(number);
                let (old, distance) = self.distance(number);
                let weights = self.count_get();
                self.stacks.class_mut(old).hit(distance, position_of(access.hash), weights);
                self.note_recent(number, Some((distance, self.accesses.wrapping_sub(at))));
                self.count_reuse(old, Some(used_at));
                self.put(number, Place::Stacked(class.unwrap_or(old)));
            }
            (_, Some(class)) => {
                let number = self.number_of(access, known);
                self.enter_class(number, class);
            }
            (_, None) => {}
        }
    }

    fn miss(&mut self, access: &Access, known: Option<u32>) {
        let number = known.unwrap_or_else(|| self.stacks.keys.insert(access.hash));
        let record = self.stacks.keys.get_mut(number);
        let reuse_time = (record.misses == 0).then(|| self.accesses.wrapping_sub(record.at));
        if record.misses == 0 {
            record.at = micros(access.at_nanos);
        }
        record.misses = record.misses.saturating_add(1);
        let (place, used_at) = (record.place(), record.used_at);
        let distance = self.stacks.class_of(number).map(|_| self.distance(number).1);
        let weights = self.count_get();
        self.gets.sampled_misses += weights.decaying;
        match place {
            Place::Stacked(class) | Place::Deleted(class) => {
                let keys = self.stacks.class_mut(class);
                match distance {
                    Some(distance) => keys.miss_at(distance, position_of(access.hash), weights),
                    None => keys.miss_always(weights),
                }
                self.count_reuse(class, distance.map(|_| used_at));
                // The last use is known only at the first miss.
                if let Some(time) = reuse_time {
                    self.note_recent(number, distance.map(|distance| (distance, time)));
                }
            }
            Place::NeverStored => self.gets.unstored += weights.decaying,
        }
        match place {
            Place::Stacked(class) => self.note_use(number, class),
            Place::Deleted(_) | Place::NeverStored => self.put(number, place),
        }
    }

    fn store(&mut self, access: &Access, known: Option<u32>) {
        let Some(class) = access.class else { return };
        let number = self.number_of(access, known);
        let record = *self.stacks.keys.get(number);
        let waited_us = micros(access.at_nanos).wrapping_sub(record.at);
        if record.misses > 0 && waited_us <= MISS_TIME_US_MAX {
            let weight = self.weights().decaying;
            self.stacks.class_mut(class).miss_time_us.record(f64::from(waited_us), weight);
        }
        self.enter_class(number, class);
    }

    fn delete(&mut self, known: Option<u32>) {
        let Some(number) = known else { return };
        if let Some(class) = self.stacks.class_of(number) {
            self.put(number, Place::Deleted(class));
        }
    }

    /// Puts a key on top of the stack of a class without counting a reference. If the key had no class before, its
    /// misses now count in this class.
    fn enter_class(&mut self, number: u32, class: ClassId) {
        let weights = self.weights();
        let record = self.stacks.keys.get_mut(number);
        let misses = std::mem::take(&mut record.misses);
        if record.place() == Place::NeverStored {
            // The misses count with the current weight in the class. Their weight in `unstored` may have decayed.
            let counted = f64::from(misses) * weights.decaying;
            self.gets.unstored = (self.gets.unstored - counted).max(0.0);
            let keys = self.stacks.class_mut(class);
            (0..misses).for_each(|_| keys.miss_always(weights));
            (0..misses).for_each(|_| self.count_reuse(class, None));
            (0..misses).for_each(|_| self.note_recent(number, None));
        }
        self.put(number, Place::Stacked(class));
    }

    /// Returns the class in whose stack a key is, and the key's distance among all keys of the class, sampled or not.
    fn distance(&mut self, number: u32) -> (ClassId, u64) {
        let record = *self.stacks.keys.get(number);
        let Place::Stacked(class) = record.place() else {
            unreachable!("the caller passes a key in the stack of a class; key {number} is not");
        };
        let distance = self.stacks.class_mut(class).stack.distance(record.slot);
        // A distance of n sampled keys represents n / rate to (n + 1) / rate keys. The results are spread evenly over
        // this range.
        self.spread = self.spread.wrapping_add(SPREAD_STEP);
        (class, ((distance as f64 + unit(self.spread)) * self.scale) as u64)
    }

    /// Puts a key on top of the stack of `place` and removes it from its old stack.
    fn put(&mut self, number: u32, place: Place) {
        self.stacks.put(number, place);
        if let Place::Stacked(class) = place {
            self.stacks.keys.get_mut(number).at = self.accesses;
            self.note_use(number, class);
        }
        self.stacks.limit(place);
    }

    /// Records that a key of this class was used now.
    fn note_use(&mut self, number: u32, class: ClassId) {
        if let Some(reuses) = &mut self.reuses {
            self.stacks.keys.get_mut(number).used_at = reuses.now(class);
        }
    }

    /// Returns the number of gets since the start that hit the shadow queue of a class ([`ClassProfile::shadow_hits`]).
    pub fn shadow_hits(&self) -> f64 {
        self.stacks.classes().map(|(_, class)| class.shadow_hits).sum()
    }

    /// Returns the number of gets since the start that hit the shadow queue of a class or of a partition
    /// ([`ClassProfile::partition_shadow_hits`]).
    pub fn shadow_hits_with_partitions(&self) -> f64 {
        self.stacks.classes().map(|(_, class)| class.shadow_hits_with_partitions).sum()
    }

    /// Returns the number of an item's key, and adds the key if it is unknown. Records the size of the item.
    fn number_of(&mut self, access: &Access, known: Option<u32>) -> u32 {
        let number = known.unwrap_or_else(|| self.stacks.keys.insert(access.hash));
        let bucket = SizeBucket::of(access.size_bytes.into());
        if bucket != SizeBucket::UNKNOWN {
            self.stacks.keys.get_mut(number).set_bucket(bucket);
        }
        number
    }

    /// Adds a reference of a key, with its distance and reuse time, to the recent references.
    fn note_recent(&mut self, number: u32, distance: Option<(u64, u32)>) {
        self.recent.add(self.stacks.keys.get(number).bucket(), distance);
    }

    /// Returns true if the key is in the stack of a class and has not missed since its last store.
    fn is_stored(&self, number: u32) -> bool {
        self.stacks.class_of(number).is_some() && self.stacks.keys.get(number).misses == 0
    }

    /// Counts a get of a sampled key and returns its weights.
    fn count_get(&mut self) -> Weights {
        if let Some(factor) = self.decay.step() {
            self.stacks.classes_mut().for_each(|class| class.scale(factor));
            self.gets.scale(factor);
        }
        if let Some(reuses) = &mut self.reuses {
            reuses.get(self.scale);
        }
        self.weights()
    }

    /// Returns the weights of an event that occurs now.
    fn weights(&self) -> Weights {
        Weights { total: self.scale, decaying: self.scale * self.decay.weight() }
    }
}

/// Returns a number in [0, 1) that depends only on the key, and not on whether the key is in the sample.
fn position_of(hash: u64) -> f64 {
    unit(mix(hash))
}

/// Converts a time to microseconds. The result wraps around after 71 minutes.
fn micros(nanos: u64) -> u32 {
    (nanos / 1_000) as u32
}

#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod footprints_tests;
#[cfg(test)]
mod table_change_tests;
#[cfg(test)]
#[path = "profiler_tests.rs"]
mod tests;
