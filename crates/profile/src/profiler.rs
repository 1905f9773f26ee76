//! The profiler that a server runs: from sampled accesses, in bounded memory, to a profile of each class.
//!
//! ```text
//!   Access --is_sampled--> KeyTable: one record a key         (found by hash; says in which stack, where)
//!                             |
//!               .-------------+----------------.
//!               v             v                v
//!        stack of class 0   of class 1 ...   absent keys      (order of use; a key is in one of them)
//!               | distance / rate  '--- reuse time ---.
//!               v                                     v
//!          Histogram --> Mrc                    ReuseWindows --> Mrc    (weights 1 / rate; decaying; of
//!                                                                       the last M gets, where wanted)
//! ```
//!
//! Sources: the sample, its rescaling and the bound on its keys are those of SHARDS (Waldspurger and others, FAST 2015,
//! sections 3 and 4: SHARDS-adj, and fixed size by lowering the threshold); distances are those of an LRU (Mattson and
//! others, 1970).
//!
//! How an access is counted:
//!
//! - A get of a key in a stack is a reference of that stack's class at its scaled distance. If it hit, the key moves to
//!   the top. If it missed, the key keeps its place until it is stored: further misses count at about the same
//!   distance.
//! - A get of a deleted key is a reference that misses at every size.
//! - A miss of a key that was never stored waits for the store, which gives the class, and then counts as a first
//!   reference. Where no store follows, [`Profiler::unstored_gets`] counts it: it misses whatever the memory.
//! - A hit of an unknown key (stored before the profiler started) is noted, not counted: its distance is unknown. So is
//!   one of a key that missed and was not seen to be stored, as a get vivified it.
//! - A store puts the key on top of its class's stack, out of any other's, and is no reference.
//! - A delete takes it out and keeps its class, so that its next miss is known not to be the first.
//!
//! Invariants: there are at most `keys_max` keys; a key is in the stack and on the slot of its record, and in no other;
//! without decay and at rate 1 curves are those of exact stack distances, at their points.
//!
//! History is bounded, too. The least recently used keys beyond what a class could hold in [`HISTORY_FACTOR`] times the
//! present memory are forgotten, and absent keys beyond an eighth of all. Where keys are too many, first the history
//! shrinks, down to [`HISTORY_FACTOR_MIN`] times the memory, and then the rate. Neither grows again: a larger sample
//! would be of other keys.
//!
//! Reuse times of classes and two generations of their curves take memory from the keys: the usual amount from the
//! first sizes on, as the table of keys does not shrink. If they begin when all keys are in use, memory exceeds its
//! bound.
//!
//! One thread at a time may call it, with accesses in the order of their times. It has no clock.

mod stacks;

use crate::class_keys::{ClassSize, Share};
use crate::class_profile::{Access, ClassProfile};
use crate::fading::Fading;
use crate::key_table::{Place, Record};
use crate::mrc::Mrc;
use crate::reuse_windows::{ReuseWindows, UsedAt};
use slabwise_base::random::unit;
use slabwise_base::sampling::{is_sampled, rate_of, threshold_of};
use slabwise_base::{AccessKind, ClassId};
use stacks::Stacks;

/// The most that a key takes: 24 bytes of record, 5 to 11 of index, 8 to 17 of stack, and while these grow a part of
/// what they had. Histograms of distances are apart.
pub const KEY_SIZE_BYTES: usize = 60;
/// How many times the present memory a class's history reaches at most.
pub const HISTORY_FACTOR: u64 = 4;
/// The same where keys are too many: still enough to tell what twice the memory would be worth.
pub const HISTORY_FACTOR_MIN: u64 = 2;
/// However small the memory, a class may remember as many keys.
const CLASS_KEYS_MIN: usize = 64;
/// What the reuse times of a class usually take; their curves take up to half as much.
const CLASS_REUSES_SIZE_BYTES: usize = 6 << 10;
/// A store longer after a miss is not its answer.
const MISS_TIME_US_MAX: u32 = 10_000_000;

/// 2^64 divided by the golden ratio: its multiples, modulo 2^64, leave no large gap.
const SPREAD_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Limits of a [`Profiler`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilerOptions {
    /// The most keys that are remembered, at least 1.
    pub keys_max: usize,
    /// The share of keys that are looked at until they are too many, in (0, 1].
    pub rate_max: f64,
    /// The half-life of what fades, in sampled references; at least 1. With `u64::MAX` nothing fades.
    pub window_references: u64,
}

impl Default for ProfilerOptions {
    fn default() -> ProfilerOptions {
        ProfilerOptions { keys_max: 25_000, rate_max: 1.0, window_references: 1_000_000 }
    }
}

/// Profiles of all classes from one stream of accesses.
#[derive(Debug)]
pub struct Profiler {
    options: ProfilerOptions,
    threshold: u64,
    /// How many keys one of the sample stands for: 1 / rate.
    scale: f64,
    history_factor: u64,
    /// Sizes have been told: of a class without one, which is retired or not yet told, nothing is taken in.
    has_sizes: bool,
    /// The most keys beside what reuse times take.
    keys_max: usize,
    stacks: Stacks,
    /// Gets that wait for a store: a weight that fades.
    unstored_gets: f64,
    /// `None` where nobody wants footprints.
    reuses: Option<ReuseWindows>,
    fading: Fading,
    /// Runs evenly through all numbers: spreads scaled distances over what they stand for.
    spread: u64,
}

impl Profiler {
    /// A profiler that has seen nothing.
    ///
    /// # Panics
    /// If a limit is not in its range.
    pub fn new(options: ProfilerOptions) -> Profiler {
        assert!(options.keys_max > 0, "a profiler remembers at least one key");
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
            fading: Fading::new(options.window_references),
            spread: 0,
        }
    }

    /// What [`is_sampled`] is to be asked with; it only falls.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The share of keys that are looked at.
    pub fn rate(&self) -> f64 {
        rate_of(self.threshold)
    }

    /// How many keys are remembered.
    pub fn keys(&self) -> usize {
        self.stacks.keys.count()
    }

    /// What it takes, in bytes.
    pub fn size_bytes(&self) -> usize {
        size_of::<Profiler>() + self.stacks.size_bytes() + self.reuses_size_bytes()
    }

    /// Tells a class's hits ever, of any key, by a counter that rises. What the sample has too few or too many
    /// of them, because a hot key is in it or not, is corrected at small distances (SHARDS-adj): hot keys
    /// have these. The first call begins the count.
    pub fn note_hits(&mut self, class: ClassId, ever: u64) {
        let weight = self.fading.weight();
        self.stacks.class_mut(class).note_hits(ever, weight);
    }

    /// Tells the same where accesses were lost since the last call: these hits are not compared with the
    /// sample's. Those lost are not those of hot keys, and would be taken for near hits.
    pub fn pass_over_hits(&mut self, class: ClassId, ever: u64) {
        self.stacks.class_mut(class).note_hits(ever, 0.0);
    }

    /// Takes an access in. One of a key that is not sampled is passed over, and once sizes are told so is a hit or
    /// a store in a class that has none: it would begin what the next telling forgets.
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
            // A touch renews an item as a store does, and is no reference either.
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

    /// Gets lately of keys that have not been stored, as many as curves have of others: they miss whatever the
    /// memory.
    pub fn unstored_gets(&self) -> f64 {
        self.unstored_gets / self.fading.weight()
    }

    /// What is known of a class.
    pub fn profile(&self, class: ClassId) -> ClassProfile {
        let Some(keys) = self.stacks.class(class) else { return ClassProfile::default() };
        let profile = keys.profile(1.0 / self.fading.weight(), self.scale);
        ClassProfile { footprint_curve: self.footprint_curve(class, &profile.curve), ..profile }
    }

    /// Recomputes the invariants of keys and stacks.
    ///
    /// # Panics
    /// If one is broken.
    pub fn check(&self) {
        let (keys, keys_max) = (self.keys(), self.options.keys_max);
        assert!(keys <= keys_max, "{keys} keys are remembered, and {keys_max} may be");
        self.stacks.check(self.threshold);
    }

    /// Tells the present sizes of all classes. Others are forgotten, and so is what was known of a class that
    /// has another number of chunks a page: it has other chunks. The first call may come late: until then every
    /// class is taken in.
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

    /// Looks at an eighth fewer keys from here on, and forgets those: as it does by itself where there are too
    /// many, so whoever has not the time for so many accesses.
    pub fn lower_threshold(&mut self) {
        self.threshold = self.threshold / 8 * 7;
        self.scale = 1.0 / self.rate();
        let threshold = self.threshold;
        self.stacks.forget_where(|record| !is_sampled(record.hash, threshold));
        self.limit_histories();
    }

    /// Keeps reuse times of the last so many gets from here on, for
    /// [`footprint_curve`](crate::ClassProfile::footprint_curve); `None`: not any more.
    ///
    /// # Panics
    /// If the gets are none.
    pub fn keep_footprints(&mut self, window_gets: Option<u64>) {
        if window_gets == self.reuses.as_ref().map(ReuseWindows::window_gets) {
            return;
        }
        self.reuses = window_gets.map(ReuseWindows::new);
        // All clocks begin now.
        for number in self.stacks.keys.numbers_where(|record| record.used_at > 0) {
            self.stacks.keys.get_mut(number).used_at = 0;
        }
        self.limit_keys();
    }

    /// Leaves to the keys what reuse times and their curves do not take, and half of the memory at least.
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

    /// Counts a reference by its reuse time; without the time of the use before, one that misses at every size.
    fn count_reuse(&mut self, class: ClassId, used_at: Option<UsedAt>) {
        if let Some(reuses) = &mut self.reuses {
            reuses.reference(class, used_at, self.scale, unit(self.spread));
        }
    }

    /// A class's curve by footprints, empty where none are kept; `curve` is the one by distances. The sample has as
    /// many too few of the references of either, or too many.
    fn footprint_curve(&self, class: ClassId, curve: &Mrc) -> Mrc {
        let curves = self.reuses.as_ref().zip(self.stacks.class(class));
        let Some((reuses, keys)) = curves else { return Mrc::empty() };
        let by_sample = reuses.mrc(class);
        let sampled = keys.references() / self.fading.weight();
        let corrected = if sampled > 0.0 { curve.references() / sampled } else { 1.0 };
        let references = by_sample.references() * corrected;
        by_sample.with_references(references)
    }

    /// How many keys of each class the history reaches back to, by the sizes and the rate of the moment.
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
            Place::Nowhere => self.unstored_gets += share.fading,
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
            let weight = self.share().fading;
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

    /// A key has come to a class without a reference; its misses that waited for that are counted.
    fn arrive(&mut self, number: u32, class: ClassId) {
        let share = self.share();
        let record = self.stacks.keys.get_mut(number);
        let misses = std::mem::take(&mut record.misses);
        if record.place == Place::Nowhere {
            // They count as new where they are going; what is left of them here is less.
            let counted = f64::from(misses) * share.fading;
            self.unstored_gets = (self.unstored_gets - counted).max(0.0);
            let keys = self.stacks.class_mut(class);
            (0..misses).for_each(|_| keys.miss(None, share));
            (0..misses).for_each(|_| self.count_reuse(class, None));
        }
        self.put(number, Place::Stacked(class));
    }

    /// A stacked key's class, and its distance among all keys.
    fn distance(&mut self, number: u32) -> (ClassId, u64) {
        let Record { place: Place::Stacked(class), slot, .. } = *self.stacks.keys.get(number)
        else {
            unreachable!("key {number} is in no class's stack");
        };
        let distance = self.stacks.class_mut(class).stack.distance(slot);
        // `distance` sampled keys stand for distance / rate to (distance + 1) / rate keys: taken in turn.
        self.spread = self.spread.wrapping_add(SPREAD_STEP);
        (class, ((distance as f64 + unit(self.spread)) * self.scale) as u64)
    }

    /// Puts a key on top of the stack that belongs to a place, whatever stack it is in.
    fn put(&mut self, number: u32, place: Place) {
        self.stacks.put(number, place);
        if let Place::Stacked(class) = place {
            self.note_use(number, class);
        }
        self.stacks.limit(place);
    }

    /// Dates a key's use by the clock of its class.
    fn note_use(&mut self, number: u32, class: ClassId) {
        if let Some(reuses) = &mut self.reuses {
            self.stacks.keys.get_mut(number).used_at = reuses.now(class);
        }
    }

    /// Shadow hits of all classes that are known, ever; see [`ClassProfile::shadow_hits`].
    pub fn shadow_hits(&self) -> f64 {
        self.stacks.classes().map(|(_, class)| class.shadow_hits).sum()
    }

    /// Whether the key is in a class's stack, and no miss of it waits for a store.
    fn is_stored(&self, number: u32) -> bool {
        self.stacks.class_of(number).is_some() && self.stacks.keys.get(number).misses == 0
    }

    /// Counts a get of a sampled key, and returns what it counts.
    fn count_get(&mut self) -> Share {
        if let Some(factor) = self.fading.step() {
            self.stacks.classes_mut().for_each(|class| class.scale(factor));
            self.unstored_gets *= factor;
        }
        if let Some(reuses) = &mut self.reuses {
            reuses.get(self.scale);
        }
        self.share()
    }

    fn share(&self) -> Share {
        Share { ever: self.scale, fading: self.scale * self.fading.weight() }
    }
}

/// A time that begins again after 71 minutes, in microseconds.
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
