//! The profiler of a server: it computes a profile of each class from sampled accesses, in bounded memory.
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
//!                                                                       the last M gets, if requested)
//! ```
//!
//! Sources: sampling, rescaling and the bound on keys are those of SHARDS (Waldspurger and others, FAST 2015,
//! sections 3 and 4: SHARDS-adj, and fixed size by lowering the threshold); distances are those of an LRU (Mattson and
//! others, 1970).
//!
//! How an access is counted:
//!
//! - A get of a key in a stack is a reference of that stack's class at its scaled distance. If it hits, the key moves
//!   to the top. If it misses, the key keeps its place until it is stored, so further misses count at about the same
//!   distance.
//! - A get of a deleted key is a reference that misses at every size.
//! - A miss of a key that was never stored waits for the store, which determines the class, and then counts as a first
//!   reference. Without a store, [`Profiler::unstored_gets`] counts it: it misses with any memory.
//! - A hit of an unknown key (stored before the profiler started) is recorded but not counted, because its distance is
//!   unknown. The same holds for a key that missed and whose store was not seen, because a get vivified it.
//! - A store puts the key on top of its class's stack, removes it from any other, and is not a reference.
//! - A delete removes the key from its stack and keeps its class, so that its next miss is not counted as a first one.
//!
//! Invariants: there are at most `keys_max` keys; a key is only in the stack and on the slot that its record says;
//! without decay and at rate 1 curves are exact at their points.
//!
//! History is bounded, too. Each class keeps the keys that it could hold in [`HISTORY_FACTOR`] times the current memory
//! and forgets the least recently used beyond; absent keys are limited to an eighth of all. If there are too many keys,
//! first the history shrinks, down to [`HISTORY_FACTOR_MIN`] times the memory, and then the rate. Neither grows again:
//! a larger sample would have other keys.
//!
//! Reuse times of classes and two generations of their curves take memory from the keys: from the first sizes on the
//! usual amount, as the table of keys does not shrink. If reuse times start when all keys are in use, memory exceeds
//! its bound.
//!
//! One thread at a time may call it, with accesses in order of time. It has no clock.

mod stacks;

use crate::class_keys::{ClassSize, Share};
use crate::class_profile::{Access, ClassProfile};
use crate::decay::Decay;
use crate::key_table::{Place, Record};
use crate::mrc::Mrc;
use crate::reuse_windows::{ReuseWindows, UsedAt};
use slabwise_base::random::unit;
use slabwise_base::sampling::{is_sampled, rate_of, threshold_of};
use slabwise_base::{AccessKind, ClassId};
use stacks::Stacks;

/// The maximum memory of a key: 24 bytes of record, 5 to 11 of index and 8 to 17 of stack, plus a part of the old
/// tables while these grow. Histograms of distances are not included.
pub const KEY_SIZE_BYTES: usize = 60;
/// The maximum history of a class, as a multiple of the current memory.
pub const HISTORY_FACTOR: u64 = 4;
/// The history if there are too many keys, as a multiple of the current memory: enough for a curve up to twice of it.
pub const HISTORY_FACTOR_MIN: u64 = 2;
/// The number of keys that a class may always keep, even with little memory.
const CLASS_KEYS_MIN: usize = 64;
/// The usual memory of a class's reuse times; their curves take up to half of that in addition.
const CLASS_REUSES_SIZE_BYTES: usize = 6 << 10;
/// A store later than this after a miss does not belong to it.
const MISS_TIME_US_MAX: u32 = 10_000_000;

/// 2^64 divided by the golden ratio: its multiples, modulo 2^64, are spread evenly.
const SPREAD_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Limits of a [`Profiler`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilerOptions {
    /// The maximum number of keys, at least 1.
    pub keys_max: usize,
    /// The initial share of keys that are sampled, in (0, 1]; it falls if there are too many.
    pub rate_max: f64,
    /// The half-life of decaying counts, in sampled references; at least 1. With `u64::MAX` nothing decays.
    pub window_references: u64,
}

impl Default for ProfilerOptions {
    fn default() -> ProfilerOptions {
        ProfilerOptions { keys_max: 25_000, rate_max: 1.0, window_references: 1_000_000 }
    }
}

/// Computes profiles of all classes from one stream of accesses.
#[derive(Debug)]
pub struct Profiler {
    options: ProfilerOptions,
    threshold: u64,
    /// The number of keys that a sampled key represents: 1 / rate.
    scale: f64,
    history_factor: u64,
    /// True once sizes are known: accesses to a class without a size, which is retired or new, are then ignored.
    has_sizes: bool,
    /// The maximum number of keys beside the memory of reuse times.
    keys_max: usize,
    stacks: Stacks,
    /// Gets that wait for a store, as a decaying weight.
    unstored_gets: f64,
    /// `None` if footprints are not kept.
    reuses: Option<ReuseWindows>,
    decay: Decay,
    /// Steps evenly through all numbers, to spread scaled distances over the ones that they represent.
    spread: u64,
}

impl Profiler {
    /// A profiler without accesses.
    ///
    /// # Panics
    /// If a limit is not in its range.
    pub fn new(options: ProfilerOptions) -> Profiler {
        assert!(options.keys_max > 0, "keys_max must be at least 1");
        let threshold = threshold_of(options.rate_max);
        Profiler {
            options,
            threshold,
            scale: 1.0 / rate_of(threshold),
            history_factor: HISTORY_FACTOR,
            has_sizes: false,
            keys_max: options.keys_max,
            stacks: Stacks::new(options.keys_max),
            unstored_gets: 0.0,
            reuses: None,
            decay: Decay::new(options.window_references),
            spread: 0,
        }
    }

    /// The threshold for [`is_sampled`]; it only falls.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The share of keys that are sampled.
    pub fn rate(&self) -> f64 {
        rate_of(self.threshold)
    }

    /// The number of keys in the sample.
    pub fn keys(&self) -> usize {
        self.stacks.keys.count()
    }

    /// The memory of the profiler in bytes.
    pub fn size_bytes(&self) -> usize {
        size_of::<Profiler>() + self.stacks.size_bytes() + self.reuses_size_bytes()
    }

    /// Reports a class's hits since the start, of all keys, by a counter that only rises. The sample has too few or too
    /// many of them if a hot key is missing or included. The difference is corrected at small distances, which are
    /// those of hot keys (SHARDS-adj). The first call starts the count.
    pub fn note_hits(&mut self, class: ClassId, hits: u64) {
        let weight = self.decay.weight();
        self.stacks.class_mut(class).note_hits(hits, weight);
    }

    /// Reports a class's hits since the start if accesses were lost since the last call: these hits are not compared
    /// with the sample's, because lost hits are not those of hot keys and would be counted at small distances.
    pub fn pass_over_hits(&mut self, class: ClassId, hits: u64) {
        self.stacks.class_mut(class).note_hits(hits, 0.0);
    }

    /// Counts an access. Accesses to keys outside the sample are ignored. Once sizes are known, hits and stores in a
    /// class without a size are ignored, too: the next sizes would remove that class again.
    pub fn access(&mut self, access: &Access) {
        if !is_sampled(access.hash, self.threshold) {
            return;
        }
        let is_of_item = !matches!(access.kind, AccessKind::Miss | AccessKind::Delete);
        if is_of_item && access.class.is_some_and(|class| !self.has_place(class)) {
            return;
        }
        let known = self.stacks.keys.find(access.hash);
        if let (AccessKind::Hit, Some(class)) = (access.kind, access.class) {
            let scale = self.scale;
            self.stacks.class_mut(class).hits_sampled += scale;
        }
        match access.kind {
            AccessKind::Hit => self.hit(access, known),
            AccessKind::Miss => self.miss(access, known),
            // A touch renews an item like a store, and is not a reference either.
            AccessKind::Store | AccessKind::Touch => self.store(access, known),
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

    fn has_place(&self, class: ClassId) -> bool {
        !self.has_sizes || self.stacks.class(class).is_some_and(|keys| keys.size.is_some())
    }

    /// Recent gets of keys that have not been stored, in the unit of the curves' references: they miss with any memory.
    pub fn unstored_gets(&self) -> f64 {
        self.unstored_gets / self.decay.weight()
    }

    /// The profile of a class.
    pub fn profile(&self, class: ClassId) -> ClassProfile {
        let Some(keys) = self.stacks.class(class) else { return ClassProfile::default() };
        let profile = keys.profile(1.0 / self.decay.weight(), self.scale);
        ClassProfile { footprint_curve: self.footprint_curve(class, &profile.curve), ..profile }
    }

    /// Recomputes the invariants of keys and stacks.
    ///
    /// # Panics
    /// If an invariant is broken.
    pub fn check(&self) {
        let (keys, keys_max) = (self.keys(), self.options.keys_max);
        assert!(keys <= keys_max, "{keys} keys exceed the maximum of {keys_max}");
        self.stacks.check(self.threshold);
    }

    /// Reports the current sizes of all classes. Other classes are forgotten, and so is a class whose number of chunks
    /// per page changed, because it has other chunks. Before the first call accesses to all classes are counted.
    pub fn set_sizes(&mut self, sizes: &[ClassSize]) {
        let gone = self.stacks.classes().filter(|(class, keys)| {
            let chunks_per_page = keys.size.map(|known| known.chunks_per_page);
            !sizes.iter().any(|size| {
                size.class == *class
                    && chunks_per_page.is_none_or(|known| known == size.chunks_per_page)
            })
        });
        let gone: Vec<ClassId> = gone.map(|(class, _)| class).collect();
        for class in gone {
            self.stacks.forget_class(class);
            if let Some(reuses) = &mut self.reuses {
                reuses.forget(class);
            }
        }
        for &size in sizes {
            self.stacks.class_mut(size.class).size = Some(size);
        }
        self.has_sizes = true;
        self.limit_keys();
        self.limit_histories();
        self.stacks.fit();
    }

    /// Reduces the sample by an eighth and forgets the keys outside it. The profiler does this itself if there are too
    /// many keys; callers do if there are too many accesses.
    pub fn lower_threshold(&mut self) {
        self.threshold = self.threshold / 8 * 7;
        self.scale = 1.0 / self.rate();
        let threshold = self.threshold;
        self.stacks.forget_where(|record| !is_sampled(record.hash, threshold));
        self.limit_histories();
    }

    /// Keeps reuse times of at least the last `window_gets` gets from now on, for
    /// [`footprint_curve`](crate::ClassProfile::footprint_curve); with `None` they are not kept.
    ///
    /// # Panics
    /// If `window_gets` is 0.
    pub fn keep_footprints(&mut self, window_gets: Option<u64>) {
        if window_gets == self.reuses.as_ref().map(ReuseWindows::window_gets) {
            return;
        }
        self.reuses = window_gets.map(ReuseWindows::new);
        // All clocks start now.
        for number in self.stacks.keys.numbers_where(|record| record.used_at > 0) {
            self.stacks.keys.get_mut(number).used_at = 0;
        }
        self.limit_keys();
    }

    /// Limits the keys to the memory beside reuse times and their curves, but at least half of it.
    fn limit_keys(&mut self) {
        let keys_max = self.options.keys_max;
        let usual_bytes = match self.reuses {
            Some(_) => self.stacks.classes().count() * CLASS_REUSES_SIZE_BYTES,
            None => 0,
        };
        let reuses_bytes = self.reuses_size_bytes().max(usual_bytes);
        let keys = (reuses_bytes + reuses_bytes / 2).div_ceil(KEY_SIZE_BYTES);
        self.keys_max = keys_max - keys.min(keys_max / 2);
    }

    fn reuses_size_bytes(&self) -> usize {
        self.reuses.as_ref().map_or(0, ReuseWindows::size_bytes)
    }

    /// Counts a reference by its reuse time; without the time of the previous use it misses at every size.
    fn count_reuse(&mut self, class: ClassId, used_at: Option<UsedAt>) {
        if let Some(reuses) = &mut self.reuses {
            reuses.reference(class, used_at, self.scale, unit(self.spread));
        }
    }

    /// A class's curve by footprints, empty if none are kept. `curve` is the one by distances; the error of its sampled
    /// references also applies to this curve.
    fn footprint_curve(&self, class: ClassId, curve: &Mrc) -> Mrc {
        let curves = self.reuses.as_ref().zip(self.stacks.class(class));
        let Some((reuses, keys)) = curves else { return Mrc::empty() };
        let by_sample = reuses.mrc(class);
        let sampled = keys.references() / self.decay.weight();
        let corrected = if sampled > 0.0 { curve.references() / sampled } else { 1.0 };
        let references = by_sample.references() * corrected;
        by_sample.with_references(references)
    }

    /// Limits each class's history by the current sizes and rate.
    fn limit_histories(&mut self) {
        let rate = self.rate();
        let pages = |size: ClassSize| size.chunks.div_ceil(size.chunks_per_page);
        let sizes = self.stacks.classes().filter_map(|(_, keys)| keys.size);
        let pages_all: u64 = sizes.map(pages).sum();
        for keys in self.stacks.classes_mut() {
            if let Some(size) = keys.size {
                let chunks = self.history_factor * pages_all * size.chunks_per_page;
                keys.keys_max = ((chunks as f64 * rate).ceil() as usize).max(CLASS_KEYS_MIN);
            }
        }
        self.stacks.limit_all();
    }

    fn hit(&mut self, access: &Access, known: Option<u32>) {
        match (known, access.class) {
            (Some(number), class) if self.is_stored(number) => {
                let used_at = self.stacks.keys.get(number).used_at;
                let (old, distance) = self.distance(number);
                let share = self.count_get();
                self.stacks.class_mut(old).hit(distance, share);
                self.count_reuse(old, Some(used_at));
                self.put(number, Place::Stacked(class.unwrap_or(old)));
            }
            (_, Some(class)) => {
                let number = known.unwrap_or_else(|| self.stacks.keys.insert(access.hash));
                self.arrive(number, class);
            }
            (_, None) => {}
        }
    }

    fn miss(&mut self, access: &Access, known: Option<u32>) {
        let number = known.unwrap_or_else(|| self.stacks.keys.insert(access.hash));
        let record = self.stacks.keys.get_mut(number);
        if record.misses == 0 {
            record.miss_at_us = micros(access.at_nanos);
        }
        record.misses = record.misses.saturating_add(1);
        let Record { place, used_at, .. } = *record;
        let distance = self.stacks.class_of(number).map(|_| self.distance(number).1);
        let share = self.count_get();
        match place {
            Place::Stacked(class) | Place::Deleted(class) => {
                self.stacks.class_mut(class).miss(distance, share);
                self.count_reuse(class, distance.map(|_| used_at));
            }
            Place::Nowhere => self.unstored_gets += share.decaying,
        }
        match place {
            Place::Stacked(class) => self.note_use(number, class),
            Place::Deleted(_) | Place::Nowhere => self.put(number, place),
        }
    }

    fn store(&mut self, access: &Access, known: Option<u32>) {
        let Some(class) = access.class else { return };
        let number = known.unwrap_or_else(|| self.stacks.keys.insert(access.hash));
        let record = *self.stacks.keys.get(number);
        let waited_us = micros(access.at_nanos).wrapping_sub(record.miss_at_us);
        if record.misses > 0 && waited_us <= MISS_TIME_US_MAX {
            let weight = self.share().decaying;
            self.stacks.class_mut(class).miss_time_us.record(f64::from(waited_us), weight);
        }
        self.arrive(number, class);
    }

    fn delete(&mut self, known: Option<u32>) {
        let Some(number) = known else { return };
        if let Some(class) = self.stacks.class_of(number) {
            self.put(number, Place::Deleted(class));
        }
    }

    /// Adds a key to a class without a reference, and counts its misses that waited for that.
    fn arrive(&mut self, number: u32, class: ClassId) {
        let share = self.share();
        let record = self.stacks.keys.get_mut(number);
        let misses = std::mem::take(&mut record.misses);
        if record.place == Place::Nowhere {
            // They count as new in the class; here they may have decayed.
            let counted = f64::from(misses) * share.decaying;
            self.unstored_gets = (self.unstored_gets - counted).max(0.0);
            let keys = self.stacks.class_mut(class);
            (0..misses).for_each(|_| keys.miss(None, share));
            (0..misses).for_each(|_| self.count_reuse(class, None));
        }
        self.put(number, Place::Stacked(class));
    }

    /// The class of a stacked key, and its distance among all keys.
    fn distance(&mut self, number: u32) -> (ClassId, u64) {
        let Record { place: Place::Stacked(class), slot, .. } = *self.stacks.keys.get(number)
        else {
            unreachable!("key {number} is in no class's stack");
        };
        let distance = self.stacks.class_mut(class).stack.distance(slot);
        // `distance` sampled keys represent distance / rate to (distance + 1) / rate keys; spread the results evenly.
        self.spread = self.spread.wrapping_add(SPREAD_STEP);
        (class, ((distance as f64 + unit(self.spread)) * self.scale) as u64)
    }

    /// Puts a key on top of the stack of `place`, and removes it from its old stack.
    fn put(&mut self, number: u32, place: Place) {
        self.stacks.put(number, place);
        if let Place::Stacked(class) = place {
            self.note_use(number, class);
        }
        self.stacks.limit(place);
    }

    fn note_use(&mut self, number: u32, class: ClassId) {
        if let Some(reuses) = &mut self.reuses {
            self.stacks.keys.get_mut(number).used_at = reuses.now(class);
        }
    }

    /// Shadow hits of all classes since the start; see [`ClassProfile::shadow_hits`].
    pub fn shadow_hits(&self) -> f64 {
        self.stacks.classes().map(|(_, class)| class.shadow_hits).sum()
    }

    /// True if the key is in a class's stack and no miss of it waits for a store.
    fn is_stored(&self, number: u32) -> bool {
        self.stacks.class_of(number).is_some() && self.stacks.keys.get(number).misses == 0
    }

    /// Counts a get of a sampled key, and returns its weights.
    fn count_get(&mut self) -> Share {
        if let Some(factor) = self.decay.step() {
            self.stacks.classes_mut().for_each(|class| class.scale(factor));
            self.unstored_gets *= factor;
        }
        if let Some(reuses) = &mut self.reuses {
            reuses.get(self.scale);
        }
        self.share()
    }

    fn share(&self) -> Share {
        Share { total: self.scale, decaying: self.scale * self.decay.weight() }
    }
}

/// A time in microseconds that wraps around after 71 minutes.
fn micros(nanos: u64) -> u32 {
    (nanos / 1_000) as u32
}

#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod footprints_tests;
#[cfg(test)]
#[path = "profiler_tests.rs"]
mod tests;
