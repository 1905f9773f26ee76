//! Profiling while the cache serves: the engine's access observer, a queue, a profiler, and what they may cost.
//!
//! ```text
//!   Engine --tap--> Sampler --queue--> Profiler --> profiles of the classes
//!      ^                                  |
//!      '----------- threshold ------------'      which keys are shown: fewer as they grow too many
//! ```
//!
//! Invariants: the engine shows no key that the profiler would pass over, except for those already in the queue when
//! the threshold falls; a step takes in at most a full queue; memory is bounded by the options, time by
//! [`ProfilingOptions::accesses_per_second_max`], or four times as many accesses where sampled keys are few. There are
//! at most two generations of profiles, the one made last and the one shown last: copies share their curves. Only a
//! reader of what is shown may hold an older one.

use crate::sampler::{Caller, Sampler, Samples};
use slabwise_base::{ClassId, Clock, Now, Ticks};
use slabwise_engine::{AccessObserver, Engine};
use slabwise_policy::Snapshot;
use slabwise_profile::{ClassProfile, ClassSize, KEY_SIZE_BYTES, Profiler, ProfilerOptions};
use std::sync::Arc;

/// Between two looks at what is looked at now and then: sizes, gets, the number of accesses.
const LOOK_TICKS: u32 = Ticks::PER_SECOND / 4;
/// With few keys in the sample curves are coarse: from here on they are only made fewer above a rate ...
const FEW_KEYS_MAX: usize = 8_192;
/// ... at which they cost little whatever the traffic.
const RATE_FEW_KEYS_MAX: f64 = 1.0 / 32.0;
/// Where there are so many times too many accesses, few keys have most of them: then any number may go.
const ACCESSES_FACTOR_MAX: f64 = 4.0;
/// Bytes that what is counted of a table's classes may take, and two generations of curves, however many classes
/// there are and whichever of them had how many keys.
const CLASSES_SIZE_BYTES: usize = 704 << 10;

/// Limits of profiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilingOptions {
    /// The profiler's.
    pub profiler: ProfilerOptions,
    /// Accesses that may wait between two steps, at least 1; more are dropped.
    pub queue_len_max: usize,
    /// Accesses that may be taken in in a second of the cache's time, over a while. Where there are more, fewer
    /// keys are looked at from then on. Four times as many may be taken in where no more than 8,192 keys are in the
    /// sample, at a rate of 1/32 or less: with fewer keys curves would be coarse.
    pub accesses_per_second_max: u64,
}

impl ProfilingOptions {
    /// What a second's work may be: at under a microsecond an access, on the thread that serves and on the one
    /// that profiles, a hundredth of one processor; and four hundredths where keys in the sample are few.
    pub const ACCESSES_PER_SECOND_DEFAULT: u64 = 10_000;

    const QUEUE_LEN_MAX: usize = 8_192;
    /// The rate begins at this over the keys that may be remembered, within bounds: where these are many, so are
    /// the items.
    const KEYS_FIRST: f64 = 8_192.0;
    const RATE_FIRST_MIN: f64 = 1.0 / 32.0;
    const RATE_FIRST_MAX: f64 = 1.0 / 8.0;
    const KEYS_MAX_MIN: usize = 1_000;
    /// Sampled references of a half-life: some ten for each key.
    const WINDOW_REFERENCES_PER_KEY: u64 = 3;

    /// The least memory that [`ProfilingOptions::within`] takes, in bytes.
    pub const MEMORY_BYTES_MIN: u64 = (Self::KEYS_MAX_MIN * KEY_SIZE_BYTES
        + CLASSES_SIZE_BYTES
        + Self::QUEUE_LEN_MAX * Sampler::ACCESS_SIZE_BYTES)
        as u64;

    /// What a server does within so much memory, the queue's included; `None`: too little.
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
    threshold_shown: u64,
    accesses: u64,
    hit_time_us: f64,
    looked: Look,
    made: Option<Arc<Made>>,
    shown: Option<Arc<Made>>,
}

#[derive(Debug)]
struct Made {
    classes: Vec<(ClassId, usize)>,
    profiles: Vec<ClassProfile>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Ticks,
    /// Taken in or dropped by then.
    accesses: u64,
    dropped: u64,
}

/// What profiling takes, and how much it sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilingStats {
    /// The share of keys that are looked at.
    pub rate: f64,
    /// Keys that are remembered.
    pub keys: usize,
    /// The most of them.
    pub keys_max: usize,
    /// Accesses taken in.
    pub accesses: u64,
    /// Accesses dropped because the queue was full.
    pub accesses_dropped: u64,
    /// Bytes, the queue's included, and those of curves that were made or shown last.
    pub size_bytes: usize,
    /// Mean time to answer a hit, in microseconds; 0 where nobody measures it.
    pub hit_time_us: f64,
}

impl ProfilingStats {
    pub(crate) fn seen(&self) -> u64 {
        self.accesses + self.accesses_dropped
    }
}

impl Profiling {
    /// Begins to look at the keys of this engine; `clock` dates what is seen.
    ///
    /// # Panics
    /// If the engine is observed already.
    pub fn start(
        engine: &Engine,
        options: ProfilingOptions,
        clock: Arc<Clock>,
        now: Now,
    ) -> Profiling {
        let (sampler, samples) = Sampler::new(clock, options.queue_len_max);
        let profiler = Profiler::new(options.profiler);
        engine.tap().set_access_observer(sampler as Arc<dyn AccessObserver>);
        engine.tap().sample_accesses(profiler.threshold());
        // Sizes are told at the first look: those of an empty cache would keep histories short.
        let looked = Look { at: now.ticks, accesses: 0, dropped: 0 };
        Profiling {
            options,
            threshold_shown: profiler.threshold(),
            profiler,
            samples,
            accesses: 0,
            hit_time_us: 0.0,
            looked,
            made: None,
            shown: None,
        }
    }

    /// The same; `caller` is called, on a thread that serves, when the queue is half full: at most once between
    /// two steps. Until then steps may wait.
    pub fn calling(self, caller: Caller) -> Profiling {
        self.samples.set_caller(caller);
        self
    }

    /// Whether the next step had better not wait.
    pub fn is_half_full(&self) -> bool {
        self.samples.is_half_full()
    }

    /// One bounded piece of work.
    pub fn step(&mut self, engine: &Engine, now: Now) {
        self.drain();
        let waited = self.looked.at.age_at(now.ticks);
        if waited >= LOOK_TICKS {
            self.look(engine, waited, now);
        }
        // Those who serve read it at every access: it is only written where it falls.
        if self.profiler.threshold() < self.threshold_shown {
            self.threshold_shown = self.profiler.threshold();
            engine.tap().sample_accesses(self.threshold_shown);
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

    fn look(&mut self, engine: &Engine, waited_ticks: u32, now: Now) {
        let dropped = self.samples.dropped();
        let accesses = self.accesses + dropped;
        let since = (accesses - self.looked.accesses) as f64;
        let per_second = since * f64::from(Ticks::PER_SECOND) / f64::from(waited_ticks);
        self.limit_accesses(per_second / self.profiler.rate());
        self.note_classes(engine, dropped > self.looked.dropped, now);
        self.looked = Look { at: now.ticks, accesses, dropped };
        self.made = None;
    }

    /// Looks at fewer keys, if those of all keys are `per_second` accesses.
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

    /// Tells the profiler what the engine counts of each class; `is_lacking`: of some it was not told.
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

    /// Tells the mean time to answer a hit, in microseconds: of all classes alike.
    pub fn set_hit_time_us(&mut self, hit_time_us: f64) {
        self.hit_time_us = hit_time_us;
    }

    /// Profiles of a snapshot's classes, in their order, as they were when they were first asked for since the
    /// last look, if classes are still the same.
    pub fn recent_profiles(&mut self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        match &self.made {
            Some(made) if made.classes == keys_of(snapshot) => made.profiles.clone(),
            _ => self.new_profiles(snapshot),
        }
    }

    /// The same as they are now: making their curves takes longer than a policy's step.
    pub(crate) fn new_profiles(&mut self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        // Before new ones are made: no third generation.
        self.made = None;
        let profiles = self.profiles(snapshot);
        self.made = Some(Arc::new(Made { classes: keys_of(snapshot), profiles: profiles.clone() }));
        profiles
    }

    /// Recent profiles to be shown: with them goes what was shown before.
    pub(crate) fn shown_profiles(&mut self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        let profiles = self.recent_profiles(snapshot);
        self.shown.clone_from(&self.made);
        profiles
    }

    /// Profiles of a snapshot's classes, in their order, as they are now; they are not kept.
    pub fn profiles(&self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        let profile = |class: &slabwise_policy::ClassSnapshot| {
            let profile = self.profiler.profile(class.class);
            ClassProfile { hit_time_us: self.hit_time_us, ..profile }
        };
        snapshot.classes.iter().map(profile).collect()
    }

    /// What it takes, and how much it sees.
    pub fn stats(&self) -> ProfilingStats {
        let made = self.made.as_ref();
        let is_another = |shown: &&Arc<Made>| made.is_none_or(|made| !Arc::ptr_eq(made, shown));
        let generations = made.into_iter().chain(self.shown.as_ref().filter(is_another));
        let profiles = generations.flat_map(|made| &made.profiles);
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

/// What tells the classes of a snapshot from those of another: numbers come to stand for other classes.
fn keys_of(snapshot: &Snapshot) -> Vec<(ClassId, usize)> {
    let key = |class: &slabwise_policy::ClassSnapshot| (class.class, class.chunk_size_bytes);
    snapshot.classes.iter().map(key).collect()
}
