//! Profiling of a running cache: the engine's access observer, a queue, a profiler, and the limits of their cost.
//!
//! ```text
//!   Engine --access observer--> Sampler --queue--> Profiler --> profiles of the classes
//!      ^                                              |
//!      '----------------- threshold ------------------'      limits the sampled keys
//! ```
//!
//! Invariants: the engine reports no key outside the sample, except for those already in the queue when the threshold
//! falls; a step counts at most a full queue; the options bound the memory, and
//! [`ProfilingOptions::accesses_per_second_max`] the time, or four times that number of accesses if sampled keys are
//! few. There are at most two generations of profiles, the one computed last and the one reported last: copies share
//! their curves. Only a reader of the status may hold an older one.

use crate::sampler::{Sampler, Samples, Waker};
use slabwise_base::{ClassId, Clock, Now, Ticks};
use slabwise_engine::{AccessObserver, Engine};
use slabwise_policy::Snapshot;
use slabwise_profile::{ClassProfile, ClassSize, KEY_SIZE_BYTES, Profiler, ProfilerOptions};
use std::sync::Arc;

/// The time between two checks of sizes, hits and the number of accesses.
const CHECK_TICKS: u32 = Ticks::PER_SECOND / 4;
/// With few sampled keys, curves are coarse. From this number down, keys are only reduced above a rate ...
const FEW_KEYS_MAX: usize = 8_192;
/// ... below which they cost little under any traffic.
const RATE_FEW_KEYS_MAX: f64 = 1.0 / 32.0;
/// If accesses exceed their limit by this factor, few keys have most of them, and the number of keys may fall further.
const ACCESSES_FACTOR_MAX: f64 = 4.0;
/// The maximum memory of all classes' counts and two generations of their curves, for any number of classes and any
/// number of keys in each.
const CLASSES_SIZE_BYTES: usize = 704 << 10;

/// Limits of profiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilingOptions {
    /// The options of the profiler.
    pub profiler: ProfilerOptions,
    /// The maximum number of accesses that wait between two steps, at least 1; further ones are dropped.
    pub queue_len_max: usize,
    /// The maximum number of accesses counted in a second of the cache's time, on average. If there are more, fewer
    /// keys are sampled. The limit is four times higher if at most 8,192 keys are sampled, at a rate of 1/32 or less:
    /// with fewer keys curves would be coarse.
    pub accesses_per_second_max: u64,
}

impl ProfilingOptions {
    /// At under a microsecond per access, on the worker's thread and on the profiler's, this takes a hundredth of one
    /// processor, or four hundredths if sampled keys are few.
    pub const ACCESSES_PER_SECOND_DEFAULT: u64 = 10_000;

    const QUEUE_LEN_MAX: usize = 8_192;
    /// The initial rate is this number over the maximum number of keys, within limits: if that is large, there are also
    /// many items.
    const KEYS_FIRST: f64 = 8_192.0;
    const RATE_FIRST_MIN: f64 = 1.0 / 32.0;
    const RATE_FIRST_MAX: f64 = 1.0 / 8.0;
    const KEYS_MAX_MIN: usize = 1_000;
    /// The half-life in sampled references for each key.
    const WINDOW_REFERENCES_PER_KEY: u64 = 3;

    /// The minimum memory for [`ProfilingOptions::within`], in bytes.
    pub const MEMORY_BYTES_MIN: u64 = (Self::KEYS_MAX_MIN * KEY_SIZE_BYTES
        + CLASSES_SIZE_BYTES
        + Self::QUEUE_LEN_MAX * Sampler::ACCESS_SIZE_BYTES)
        as u64;

    /// The options of a server with this much memory for profiling, including the queue; `None` if it is too little.
    pub fn within(memory_bytes: u64) -> Option<ProfilingOptions> {
        let spare_bytes = memory_bytes.checked_sub(Self::MEMORY_BYTES_MIN)?;
        let keys_max = Self::KEYS_MAX_MIN + spare_bytes as usize / KEY_SIZE_BYTES;
        Some(ProfilingOptions {
            profiler: ProfilerOptions {
                keys_max,
                rate_max: (Self::KEYS_FIRST / keys_max as f64)
                    .clamp(Self::RATE_FIRST_MIN, Self::RATE_FIRST_MAX),
                window_references: keys_max as u64 * Self::WINDOW_REFERENCES_PER_KEY,
            },
            queue_len_max: Self::QUEUE_LEN_MAX,
            accesses_per_second_max: Self::ACCESSES_PER_SECOND_DEFAULT,
        })
    }
}

/// The profiler of an engine, and its queue.
#[derive(Debug)]
pub struct Profiling {
    options: ProfilingOptions,
    pub(crate) profiler: Profiler,
    samples: Samples,
    threshold_set: u64,
    accesses: u64,
    hit_time_us: f64,
    checked: Check,
    computed: Option<Arc<Generation>>,
    reported: Option<Arc<Generation>>,
}

#[derive(Debug)]
struct Generation {
    classes: Vec<(ClassId, usize)>,
    profiles: Vec<ClassProfile>,
}

#[derive(Clone, Copy, Debug)]
struct Check {
    at: Ticks,
    /// Accesses counted or dropped by then.
    accesses: u64,
    dropped: u64,
}

/// The counts and the memory of profiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilingStats {
    /// The share of keys that are sampled.
    pub rate: f64,
    /// The number of sampled keys.
    pub keys: usize,
    /// The maximum number of sampled keys.
    pub keys_max: usize,
    /// Accesses counted.
    pub accesses: u64,
    /// Accesses dropped because the queue was full.
    pub accesses_dropped: u64,
    /// The memory in bytes, including the queue and the curves computed or reported last.
    pub size_bytes: usize,
    /// The mean time to answer a hit, in microseconds; 0 if it is not measured.
    pub hit_time_us: f64,
}

impl ProfilingStats {
    pub(crate) fn seen(&self) -> u64 {
        self.accesses + self.accesses_dropped
    }
}

impl Profiling {
    /// Starts to profile the keys of this engine; `clock` gives the times of accesses.
    ///
    /// # Panics
    /// If the engine already has an access observer.
    pub fn start(
        engine: &Engine,
        options: ProfilingOptions,
        clock: Arc<Clock>,
        now: Now,
    ) -> Profiling {
        let (sampler, samples) = Sampler::new(clock, options.queue_len_max);
        let profiler = Profiler::new(options.profiler);
        engine.observers().set_access_observer(sampler as Arc<dyn AccessObserver>);
        engine.observers().sample_accesses(profiler.threshold());
        // Sizes are set at the first check: those of an empty cache would keep histories short.
        let checked = Check { at: now.ticks, accesses: 0, dropped: 0 };
        Profiling {
            options,
            threshold_set: profiler.threshold(),
            profiler,
            samples,
            accesses: 0,
            hit_time_us: 0.0,
            checked,
            computed: None,
            reported: None,
        }
    }

    /// Sets a function that is called on a worker's thread when the queue is half full, at most once between two steps.
    /// Until then steps may wait.
    pub fn with_waker(self, waker: Waker) -> Profiling {
        self.samples.set_waker(waker);
        self
    }

    /// True if the next step should not wait.
    pub fn is_half_full(&self) -> bool {
        self.samples.is_half_full()
    }

    /// Does one bounded piece of work.
    pub fn step(&mut self, engine: &Engine, now: Now) {
        self.drain();
        let waited = self.checked.at.age_at(now.ticks);
        if waited >= CHECK_TICKS {
            self.check(engine, waited, now);
        }
        // Workers read the threshold at every access, so it is only written when it falls.
        if self.profiler.threshold() < self.threshold_set {
            self.threshold_set = self.profiler.threshold();
            engine.observers().sample_accesses(self.threshold_set);
        }
    }

    fn drain(&mut self) {
        self.samples.begin();
        for _ in 0..self.options.queue_len_max {
            let Some(access) = self.samples.pop() else { return };
            self.profiler.access(&access);
            self.accesses += 1;
        }
    }

    fn check(&mut self, engine: &Engine, waited_ticks: u32, now: Now) {
        let dropped = self.samples.dropped();
        let accesses = self.accesses + dropped;
        let since = (accesses - self.checked.accesses) as f64;
        let per_second = since * f64::from(Ticks::PER_SECOND) / f64::from(waited_ticks);
        self.limit_accesses(per_second / self.profiler.rate());
        self.note_classes(engine, dropped > self.checked.dropped, now);
        self.checked = Check { at: now.ticks, accesses, dropped };
        self.computed = None;
    }

    /// Reduces the sampled keys if too many of `per_second` accesses to all keys are sampled.
    fn limit_accesses(&mut self, per_second: f64) {
        let accesses_max = self.options.accesses_per_second_max as f64;
        let must_fall = |profiler: &Profiler| {
            let accesses = per_second * profiler.rate();
            let has_spare_keys =
                profiler.keys() > FEW_KEYS_MAX || profiler.rate() > RATE_FEW_KEYS_MAX;
            let factor_max = if has_spare_keys { 1.0 } else { ACCESSES_FACTOR_MAX };
            accesses > factor_max * accesses_max
        };
        while must_fall(&self.profiler) {
            self.profiler.lower_threshold();
        }
    }

    /// Reports the engine's counts of each class to the profiler; `is_lacking` is true if accesses were dropped.
    fn note_classes(&mut self, engine: &Engine, is_lacking: bool, now: Now) {
        let size = |class: &slabwise_policy::ClassSnapshot| {
            let chunks_per_page = class.chunks_per_page as u64;
            ClassSize { class: class.class, chunks: class.pages * chunks_per_page, chunks_per_page }
        };
        let classes = crate::view::snapshot(engine, now).classes;
        self.profiler.set_sizes(&classes.iter().map(size).collect::<Vec<_>>());
        for class in &classes {
            match is_lacking {
                true => self.profiler.pass_over_hits(class.class, class.hits),
                false => self.profiler.note_hits(class.class, class.hits),
            }
        }
    }

    /// Sets the mean time to answer a hit, in microseconds, for all classes.
    pub fn set_hit_time_us(&mut self, hit_time_us: f64) {
        self.hit_time_us = hit_time_us;
    }

    /// Profiles of a snapshot's classes, in their order, as first computed since the last check; new ones if the
    /// classes have changed.
    pub fn recent_profiles(&mut self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        match &self.computed {
            Some(made) if made.classes == keys_of(snapshot) => made.profiles.clone(),
            _ => self.new_profiles(snapshot),
        }
    }

    /// Computes profiles of a snapshot's classes; this takes longer than a policy's step.
    pub(crate) fn new_profiles(&mut self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        // The old ones are dropped first, so that there is no third generation.
        self.computed = None;
        let profiles = self.profiles(snapshot);
        self.computed =
            Some(Arc::new(Generation { classes: keys_of(snapshot), profiles: profiles.clone() }));
        profiles
    }

    /// Returns recent profiles to be reported; they replace those reported before.
    pub(crate) fn profiles_to_report(&mut self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        let profiles = self.recent_profiles(snapshot);
        self.reported.clone_from(&self.computed);
        profiles
    }

    /// Computes profiles of a snapshot's classes, in their order, without keeping them.
    pub fn profiles(&self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        let profile = |class: &slabwise_policy::ClassSnapshot| {
            let profile = self.profiler.profile(class.class);
            ClassProfile { hit_time_us: self.hit_time_us, ..profile }
        };
        snapshot.classes.iter().map(profile).collect()
    }

    /// The counts and the memory of profiling.
    pub fn stats(&self) -> ProfilingStats {
        let computed = self.computed.as_ref();
        let is_another = |reported: &&Arc<Generation>| {
            computed.is_none_or(|computed| !Arc::ptr_eq(computed, reported))
        };
        let generations = computed.into_iter().chain(self.reported.as_ref().filter(is_another));
        let profiles = generations.flat_map(|generation| &generation.profiles);
        let curves_bytes: usize = profiles.map(ClassProfile::curves_size_bytes).sum();
        ProfilingStats {
            rate: self.profiler.rate(),
            keys: self.profiler.keys(),
            keys_max: self.options.profiler.keys_max,
            accesses: self.accesses,
            accesses_dropped: self.samples.dropped(),
            size_bytes: self.profiler.size_bytes()
                + self.options.queue_len_max * Sampler::ACCESS_SIZE_BYTES
                + curves_bytes,
            hit_time_us: self.hit_time_us,
        }
    }
}

/// Identifies the classes of a snapshot: a class number can be given to another class later.
fn keys_of(snapshot: &Snapshot) -> Vec<(ClassId, usize)> {
    let key = |class: &slabwise_policy::ClassSnapshot| (class.class, class.chunk_size_bytes);
    snapshot.classes.iter().map(key).collect()
}
