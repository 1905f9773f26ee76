//! Profiling of a running cache: the engine's access observer, a queue, a profiler, and limits of memory and time.
//!
//! ```text
//!   Engine --access observer--> Sampler --queue--> Profiler --> profiles of the classes
//!      ^                                              |
//!      '----------------- threshold ------------------'      limits the sampled keys
//! ```
//!
//! Invariants:
//!
//! - the engine reports only accesses to sampled keys; accesses that are in the queue when the threshold decreases may
//!   be to keys that are no longer sampled;
//! - a step counts at most a full queue of accesses;
//! - the options bound the memory; the time is proportional to the requests, at the highest sampling rate about a
//!   hundredth of the workers' time;
//! - at most two sets of profiles are in memory, the last computed and the last reported, because copies share their
//!   curves; readers of the status may keep older sets.

use crate::sampler::{Sampler, Samples, Waker};
use crate::work::turnovers;
use slabwise_base::{ClassId, Clock, Now, Ticks};
use slabwise_engine::{AccessObserver, ClassTable, Engine};
use slabwise_policy::Snapshot;
use slabwise_profile::{
    ClassProfile, ClassSize, Hazards, KEY_SIZE_BYTES, Profiler, ProfilerOptions,
};
use std::sync::Arc;

/// The longest time between two reports of sizes and hits to the profiler, and between two checks of dropped accesses.
const CHECK_TICKS: u32 = Ticks::PER_SECOND / 4;
/// A check is due earlier if this part of the memory was stored.
const CHECK_TURNOVERS: f64 = 1.0 / 64.0;
/// If more than this share of the accesses was dropped in each of the last windows, fewer keys are sampled.
const DROPPED_SHARE_MAX: f64 = 1.0 / 16.0;
/// The shortest window.
const DROPPED_WINDOW_TICKS: u32 = Ticks::PER_SECOND;
/// The number of these windows.
const DROPPED_WINDOWS: u32 = 3;
/// The rate is not lowered below this value because of dropped accesses.
const RATE_MIN_IF_FULL: f64 = 1.0 / 256.0;
/// The maximum number of keys from which hit densities are learned.
const HAZARD_KEYS_MAX: usize = 16 << 10;
/// The maximum memory for learning hit densities, in addition to that of the profiles.
pub const DENSITIES_SIZE_BYTES_MAX: usize = Hazards::size_bytes_max(HAZARD_KEYS_MAX);
/// The maximum memory of the counts of all classes and of two sets of their curves (the last computed and the last
/// reported), for any number of classes and keys.
const CLASSES_SIZE_BYTES: usize = 704 << 10;

/// Limits of profiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilingOptions {
    /// The options of the profiler.
    pub profiler: ProfilerOptions,
    /// The maximum number of accesses in the queue, at least 1. Further accesses are dropped.
    pub queue_len_max: usize,
    /// True if fewer keys are sampled when the queue has often been full, so that accesses were dropped.
    pub lowers_rate_if_full: bool,
}

impl ProfilingOptions {
    /// The value of [`ProfilingOptions::queue_len_max`] in a server.
    const QUEUE_LEN_MAX: usize = 6_144;
    /// The initial sampling rate is this number divided by the maximum number of keys, within the two limits below. A
    /// cache with much memory for profiling has many items, so a low rate suffices.
    const KEYS_FIRST: f64 = 8_192.0;
    /// The minimum of the initial sampling rate.
    const RATE_FIRST_MIN: f64 = 1.0 / 32.0;
    /// The maximum of the initial sampling rate. An access takes about as much time as a tenth of a request, in the
    /// worker's thread and in the profiler's thread together. So profiling takes at most about a hundredth of the time.
    const RATE_FIRST_MAX: f64 = 1.0 / 12.0;
    /// The maximum number of sampled keys with the least memory.
    const KEYS_MAX_MIN: usize = 1_000;
    /// The half-life of the profiler's counts, in references, is this number times the maximum number of sampled keys.
    const HALF_LIFE_REFERENCES_PER_KEY: u64 = 3;

    /// The minimum of the memory for profiling that [`ProfilingOptions::within`] accepts, in bytes.
    pub const MEMORY_BYTES_MIN: u64 = (Self::KEYS_MAX_MIN * KEY_SIZE_BYTES
        + CLASSES_SIZE_BYTES
        + Self::QUEUE_LEN_MAX * Sampler::ACCESS_SIZE_BYTES)
        as u64;

    /// Returns the options of a server that has this memory for profiling, including the queue. Returns `None` if the
    /// memory is below [`ProfilingOptions::MEMORY_BYTES_MIN`].
    pub fn within(memory_bytes: u64) -> Option<ProfilingOptions> {
        let spare_bytes = memory_bytes.checked_sub(Self::MEMORY_BYTES_MIN)?;
        let keys_max = Self::KEYS_MAX_MIN + spare_bytes as usize / KEY_SIZE_BYTES;
        Some(ProfilingOptions {
            profiler: ProfilerOptions {
                keys_max,
                rate_max: (Self::KEYS_FIRST / keys_max as f64)
                    .clamp(Self::RATE_FIRST_MIN, Self::RATE_FIRST_MAX),
                half_life_references: keys_max as u64 * Self::HALF_LIFE_REFERENCES_PER_KEY,
            },
            queue_len_max: Self::QUEUE_LEN_MAX,
            lowers_rate_if_full: true,
        })
    }

    /// Returns the default memory for profiling, in bytes: a hundredth of the memory limit plus 1 MiB.
    pub fn default_memory_bytes(memory_limit_bytes: u64) -> u64 {
        memory_limit_bytes / 100 + (1 << 20)
    }

    /// Returns these options without the limit of the time: profiling begins with all keys, and samples keys only if
    /// there are more keys than the memory allows.
    pub fn of_every_access(self) -> ProfilingOptions {
        let profiler = ProfilerOptions { rate_max: 1.0, ..self.profiler };
        ProfilingOptions { profiler, lowers_rate_if_full: false, ..self }
    }

    /// Returns the maximum memory for profiling, in bytes, if [`ProfilingOptions::within`] made these options.
    pub fn memory_bytes_max(&self) -> u64 {
        let keys = self.profiler.keys_max - Self::KEYS_MAX_MIN;
        Self::MEMORY_BYTES_MIN + (keys * KEY_SIZE_BYTES) as u64
    }
}

/// The profiler of an engine, and the queue of accesses.
#[derive(Debug)]
pub struct Profiling {
    options: ProfilingOptions,
    pub(crate) profiler: Profiler,
    /// Learns hit densities; `None` if the eviction kind does not use them.
    hazards: Option<Hazards>,
    /// The consumer's end of the queue.
    samples: Samples,
    /// The sampling threshold that the engine uses.
    threshold_set: u64,
    /// The number of accesses counted since the start.
    accesses: u64,
    /// The mean time to answer a hit, in microseconds; 0 if it is not measured.
    hit_time_us: f64,
    /// The counts at the last check.
    checked: Check,
    dropping: Dropping,
    /// The class table that was last reported to the profiler.
    table: ClassTable,
    /// The last computed profiles; `None` if none were computed since the last check.
    computed: Option<Arc<Generation>>,
    /// The last reported profiles; `None` before the first report.
    reported: Option<Arc<Generation>>,
}

/// The profiles of all classes, computed at one time.
#[derive(Debug)]
struct Generation {
    /// The number and the chunk size (in bytes) of each class.
    classes: Vec<(ClassId, usize)>,
    /// The profile of each class, in the order of `classes`.
    profiles: Vec<ClassProfile>,
}

/// The windows in which many accesses were dropped.
#[derive(Clone, Copy, Debug)]
struct Dropping {
    /// The start of the present window.
    window: Check,
    /// The number of windows before it, one after the other, in which many accesses were dropped.
    windows: u32,
}

#[derive(Clone, Copy, Debug)]
struct Check {
    /// The time of the check.
    at: Ticks,
    /// The turnovers since the start at the check.
    turnovers: f64,
    /// The number of accesses counted or dropped since the start.
    accesses: u64,
    /// The number of accesses dropped since the start.
    dropped: u64,
}

/// The counts and the memory of profiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilingStats {
    /// The sampling rate: the share of keys that are sampled.
    pub rate: f64,
    /// The number of sampled keys.
    pub keys: usize,
    /// The maximum number of sampled keys.
    pub keys_max: usize,
    /// The number of accesses counted since the start.
    pub accesses: u64,
    /// The number of accesses dropped since the start because the queue was full.
    pub accesses_dropped: u64,
    /// The memory in bytes, including the queue and the curves that were last computed or reported.
    pub size_bytes: usize,
    /// The mean time to answer a hit, in microseconds; 0 if it is not measured.
    pub hit_time_us: f64,
}

impl ProfilingStats {
    /// Returns the number of accesses counted or dropped since the start.
    pub(crate) fn accesses_all(&self) -> u64 {
        self.accesses + self.accesses_dropped
    }
}

impl Profiling {
    /// Starts to profile the keys of this engine. Workers read `clock` for the times of accesses.
    ///
    /// # Panics
    /// Panics if the engine already has an access observer.
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
        // Sizes are reported at the first check. The cache may be empty now: with the size of an empty cache, the
        // profiler would keep only short histories.
        let counts_uses = engine.config().eviction.info().counts_uses;
        let checked = Check { at: now.ticks, turnovers: 0.0, accesses: 0, dropped: 0 };
        Profiling {
            options,
            threshold_set: profiler.threshold(),
            profiler,
            hazards: counts_uses.then(|| Hazards::new(HAZARD_KEYS_MAX)),
            samples,
            accesses: 0,
            hit_time_us: 0.0,
            checked,
            dropping: Dropping { window: checked, windows: 0 },
            table: engine.class_table(),
            computed: None,
            reported: None,
        }
    }

    /// Sets a function that a worker's thread calls when the queue is half full, at most once between two steps. The
    /// owner should then take a step soon.
    pub fn with_waker(self, waker: Waker) -> Profiling {
        self.samples.set_waker(waker);
        self
    }

    /// Returns true if the queue is half full, so that the next step should not wait.
    pub fn is_half_full(&self) -> bool {
        self.samples.is_half_full()
    }

    /// Counts the accesses in the queue, and checks the limits if a check is due. A call takes a bounded time.
    pub fn step(&mut self, engine: &Engine, now: Now) {
        self.drain();
        self.follow_table(engine, now);
        let waited = self.checked.at.age_at(now.ticks);
        let turnovers = turnovers(engine);
        if waited >= CHECK_TICKS
            || waited > 0 && turnovers - self.checked.turnovers >= CHECK_TURNOVERS
        {
            self.check(engine, turnovers, now);
        }
        // Workers read the threshold at every access, so it is only written when it changes.
        if self.profiler.threshold() < self.threshold_set {
            self.threshold_set = self.profiler.threshold();
            engine.observers().sample_accesses(self.threshold_set);
            if let Some(hazards) = &mut self.hazards {
                hazards.set_threshold(self.threshold_set);
            }
        }
        let densities = self.hazards.as_mut().and_then(|it| it.densities(engine.work_time()));
        if let Some(densities) = densities {
            engine.set_densities(&Arc::new(densities));
        }
    }

    /// Counts the accesses in the queue.
    fn drain(&mut self) {
        self.samples.begin();
        for _ in 0..self.options.queue_len_max {
            let Some(sample) = self.samples.pop() else { return };
            self.profiler.access(&sample.access);
            if let Some(hazards) = &mut self.hazards {
                hazards.access(&sample.use_of_key());
            }
            self.accesses += 1;
        }
    }

    /// Checks if accesses were dropped, and reports the sizes and hits of classes to the profiler.
    fn check(&mut self, engine: &Engine, turnovers: f64, now: Now) {
        let dropped = self.samples.dropped();
        let accesses = self.accesses + dropped;
        let present = Check { at: now.ticks, turnovers, accesses, dropped };
        self.lower_rate_if_full(present);
        self.note_classes(engine, dropped > self.checked.dropped, now);
        self.checked = present;
        self.computed = None;
    }

    /// Samples fewer keys if many accesses were dropped in each of the last windows of some seconds. The rate never
    /// rises again, so a single pause of the tuner's thread must not lower it.
    fn lower_rate_if_full(&mut self, present: Check) {
        let window = self.dropping.window;
        let accesses = present.accesses - window.accesses;
        let is_complete = window.at.age_at(present.at) >= DROPPED_WINDOW_TICKS
            && accesses >= 2 * self.options.queue_len_max as u64;
        if !self.options.lowers_rate_if_full || !is_complete {
            return;
        }
        let dropped = (present.dropped - window.dropped) as f64;
        let is_full = dropped > accesses as f64 * DROPPED_SHARE_MAX;
        let windows = if is_full { self.dropping.windows + 1 } else { 0 };
        self.dropping = Dropping { window: present, windows };
        if windows >= DROPPED_WINDOWS && self.profiler.rate() > RATE_MIN_IF_FULL {
            self.profiler.lower_threshold();
        }
    }

    /// Reports the classes to the profiler at once if the class table has changed, so that the keys follow their items
    /// into the new classes.
    pub(crate) fn follow_table(&mut self, engine: &Engine, now: Now) {
        if engine.class_table() != self.table {
            self.note_classes(engine, self.samples.dropped() > self.checked.dropped, now);
            self.computed = None;
        }
    }

    /// Reports the size and the hits of each class to the profiler. `has_dropped` is true if accesses were dropped
    /// since the last report.
    fn note_classes(&mut self, engine: &Engine, has_dropped: bool, now: Now) {
        let size = |class: &slabwise_policy::ClassSnapshot| {
            let chunks_per_page = class.chunks_per_page as u64;
            ClassSize {
                class: class.class,
                chunks: class.pages * chunks_per_page,
                chunks_per_page,
                chunk_size_bytes: class.chunk_size_bytes as u64,
            }
        };
        self.table = engine.class_table();
        let classes = crate::view::snapshot(engine, now).classes;
        let pages: u64 = classes.iter().map(|class| class.pages).sum();
        // Retired classes and the page pool have these pages. Classes of the table will receive them.
        let other_pages = engine.page_stats().held.saturating_sub(pages);
        self.profiler.set_sizes(&classes.iter().map(size).collect::<Vec<_>>(), other_pages);
        self.profiler.note_gets(engine.gets_ever(), engine.misses_ever());
        for class in &classes {
            match has_dropped {
                true => self.profiler.skip_hits(class.class, class.hits),
                false => self.profiler.note_hits(class.class, class.hits),
            }
        }
    }

    /// Sets the mean time to answer a hit, in microseconds. The profiles of all classes have this value.
    pub fn set_hit_time_us(&mut self, hit_time_us: f64) {
        self.hit_time_us = hit_time_us;
    }

    /// Returns the profiles of a snapshot's classes, in their order. Profiles that were computed since the last check
    /// are returned again, unless the classes have changed.
    pub fn recent_profiles(&mut self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        match &self.computed {
            Some(made) if made.classes == keys_of(snapshot) => made.profiles.clone(),
            _ => self.new_profiles(snapshot),
        }
    }

    /// Computes the profiles of a snapshot's classes and keeps them for [`Profiling::recent_profiles`]. The computation
    /// takes longer than a step of most policies.
    pub(crate) fn new_profiles(&mut self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        // The old profiles are dropped first, so that there are never three sets of profiles in memory.
        self.computed = None;
        let profiles = self.profiles(snapshot);
        self.computed =
            Some(Arc::new(Generation { classes: keys_of(snapshot), profiles: profiles.clone() }));
        profiles
    }

    /// Returns recent profiles and keeps them as the last reported profiles.
    pub(crate) fn report_profiles(&mut self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        let profiles = self.recent_profiles(snapshot);
        self.reported.clone_from(&self.computed);
        profiles
    }

    /// Computes the profiles of a snapshot's classes, in their order. The profiles are not kept.
    pub fn profiles(&self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        let profile = |class: &slabwise_policy::ClassSnapshot| {
            let profile = self.profiler.profile(class.class);
            ClassProfile { hit_time_us: self.hit_time_us, ..profile }
        };
        snapshot.classes.iter().map(profile).collect()
    }

    /// Returns the counts and the memory of profiling.
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
                + self.hazards.as_ref().map_or(0, |_| DENSITIES_SIZE_BYTES_MAX)
                + self.options.queue_len_max * Sampler::ACCESS_SIZE_BYTES
                + curves_bytes,
            hit_time_us: self.hit_time_us,
        }
    }
}

/// Returns the number and the chunk size (in bytes) of each class of a snapshot. The two together identify a class,
/// because the number alone can be given to another class later.
fn keys_of(snapshot: &Snapshot) -> Vec<(ClassId, usize)> {
    let key = |class: &slabwise_policy::ClassSnapshot| (class.class, class.chunk_size_bytes);
    snapshot.classes.iter().map(key).collect()
}
