//! One run of a workload on one engine, on virtual time: requests, and between them whoever moves pages.
//!
//! ```text
//!   what is stored before --> requests, window by window ----------------------> Course
//!              ^                 ^ between two of them: ActiveDivider (a tuner, or told splits)
//!              '- it looks on, while time stands still
//! ```
//!
//! What is profiled is dated by a clock of its own, that of one client who waits for every answer: so profiles
//! tell how long answers take, which nothing here waits for.
//!
//! Laws: everything but the processor's time follows from the run's fields, where the cost of a visit is not
//! measured; a value that no chunk holds is cut to the longest that one does.

use super::course::Course;
use super::divider::{ActiveDivider, Divider};
use super::error::ExperimentError;
use super::exact_curves::BESIDE_VALUE_BYTES;
use super::spec::{
    AnswerSetup, CacheSetup, EarlierSetup, FIRST_CLASS, SECOND_CLASS, TimeSetup, WorkloadSetup,
    scaled,
};
use super::split::pages_by_class;
use crate::virtual_time::{
    Access, Cache, Maintainer, MoveCounts, MoverName, Rate, SleepLength, VisitCost,
    thread_cpu_nanos,
};
use indicatif::ProgressBar;
use slabwise_base::Clock;
use slabwise_engine::{Engine, EngineConfig};
use slabwise_replay::workload::{Op, Request, Workload, key_of};
use std::sync::Arc;
use std::time::Duration;

/// What is run.
#[derive(Clone, Debug)]
pub struct Run<'s> {
    /// The requests.
    pub workload: &'s WorkloadSetup,
    /// The cache.
    pub cache: &'s CacheSetup,
    /// Its memory limit in MiB at scale 1.
    pub memory_mib: u64,
    /// Of each part of the workload's keys, how many are stored before the first request, hottest last.
    pub preload: &'s [u64],
    /// What fills the memory before the first request, behind what is preloaded; none for nothing.
    pub earlier: Option<EarlierSetup>,
    /// The mover.
    pub mover: MoverName,
    /// What it sleeps after a busy chunk.
    pub mover_rest: Duration,
    /// How long such a sleep is.
    pub sleep: SleepLength,
    /// What it is charged for a visit.
    pub cost: VisitCost,
    /// When gets and sets come.
    pub rate: Rate,
    /// How long answers take.
    pub answer: AnswerSetup,
    /// Gets of a half-life of a profile of every key; none for what a server profiles.
    pub full_profile_gets: Option<u64>,
    /// The size of the run.
    pub scale: f64,
    /// What everything random follows from.
    pub seed: u64,
    /// Equal stretches for which miss ratios are kept.
    pub windows: u64,
    /// Whether the run goes on when the pages are where they should be.
    pub at_target: AtTarget,
}

/// What happens when the pages are where they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtTarget {
    /// The run goes on to its end.
    GoOn,
    /// It ends.
    Stop,
}

impl<'s> Run<'s> {
    /// A run to its end in 200 windows, from an empty cache; the mover is charged next to nothing.
    pub fn new(
        workload: &'s WorkloadSetup,
        cache: &'s CacheSetup,
        time: &TimeSetup,
        mover: MoverName,
        (scale, seed): (f64, u64),
    ) -> Run<'s> {
        Run {
            workload,
            cache,
            memory_mib: cache.memory_mib,
            preload: &[],
            earlier: None,
            mover,
            mover_rest: Duration::from_micros(time.sleep_us),
            sleep: SleepLength::AsAsked,
            cost: VisitCost::NOMINAL,
            rate: Rate::new(time.operations_per_second),
            answer: AnswerSetup::default(),
            full_profile_gets: None,
            scale,
            seed,
            windows: 200,
            at_target: AtTarget::GoOn,
        }
    }

    /// What its engine is made with.
    pub fn engine_config(&self) -> EngineConfig {
        let mut config = self.cache.engine_config_of(self.memory_mib, self.scale, self.seed);
        config.mover = self.mover.kind();
        config.mover_rest = self.mover_rest;
        config
    }

    /// The same run, its mover charged by what visits cost on an engine that is filled like this one's.
    pub fn measured(mut self) -> Result<Self, ExperimentError> {
        let engine = Engine::new(self.engine_config())?;
        let first_phase = scaled(self.workload.first_phase_requests, self.scale);
        let mut requests = self.requests(engine.config())?;
        let mut cache = Cache::new(&engine);
        let mut done = 0;
        while done < first_phase {
            let now = self.rate.now_at(done);
            let batch = requests.next(first_phase - done)?;
            cache.prefetch(batch);
            for request in batch {
                cache.request(request, now);
            }
            done += batch.len() as u64;
        }
        let at = self.rate.moment_at(done);
        self.cost = VisitCost::measure(&engine, FIRST_CLASS, SECOND_CLASS, at)?;
        Ok(self)
    }

    /// Runs it, with pages divided by `divider`.
    pub fn go(
        &self,
        divider: Divider<'_>,
        progress: &ProgressBar,
    ) -> Result<Course, ExperimentError> {
        let began_nanos = thread_cpu_nanos();
        let engine = Engine::new(self.engine_config())?;
        let mut requests = self.requests(engine.config())?;
        let total = scaled(self.workload.requests, self.scale);
        let mut course = Course {
            changed_at: divider.first_at(),
            window_requests: total.div_ceil(self.windows),
            ..Course::default()
        };
        let mut cache = Cache::new(&engine);
        let dates = Arc::new(Clock::manual());
        let mut divider = ActiveDivider::new(&engine, self, divider, &dates);
        self.store_before(&engine, &requests, &mut cache, &mut divider);
        let mut maintainer = Maintainer::new(&engine);
        let (mut misses, mut answer_us) = (0, 0.0);
        progress.set_length(total);
        while course.requests < total {
            // A batch ends where something changes.
            let window_left = course.window_requests - course.requests % course.window_requests;
            let next = divider.next_decision(course.requests).unwrap_or(total);
            let batch = requests.next(window_left.min(next.min(total) - course.requests))?;
            cache.prefetch(batch);
            let now = self.rate.now_at(course.operations);
            maintainer.work_until(self.rate.nanos_at(course.operations));
            divider.decide(&mut course);
            for request in batch {
                divider.work(&mut course);
                let access = cache.look_up(request, now);
                let us = self.answer.us(access, request.value_len);
                dates.advance(Duration::from_nanos((us * 1e3) as u64));
                if access == Access::Miss {
                    cache.bring_in(request, now);
                    misses += 1;
                }
                answer_us += us;
                course.operations += access.operations();
                course.requests += 1;
            }
            if course.requests.is_multiple_of(course.window_requests) || course.requests == total {
                course.misses.push(std::mem::take(&mut misses));
                course.answer_us.push(std::mem::take(&mut answer_us));
                course.pages.push(pages_by_class(&engine, now));
                course.moved.push(engine.mover_counters().moved);
                progress.set_position(course.requests);
            }
            if course.at_target.is_some() && self.at_target == AtTarget::Stop {
                break;
            }
        }
        course.counts = MoveCounts::of(&engine);
        course.time = divider.time();
        course.classes = engine.class_stats(self.rate.now_at(course.operations));
        course.memory = engine.page_stats();
        course.processor_nanos = thread_cpu_nanos() - began_nanos;
        progress.finish_and_clear();
        Ok(course)
    }

    /// Stores what the cache holds before the first request.
    fn store_before(
        &self,
        engine: &Engine,
        requests: &Requests,
        cache: &mut Cache<'_>,
        divider: &mut ActiveDivider<'_, '_>,
    ) {
        let mut store = |key, value_len| {
            cache
                .request(&Request { key, value_len, op: Op::Set, cost: None }, self.rate.now_at(0));
            divider.observe();
        };
        for (part, &keys) in self.preload.iter().enumerate() {
            for rank in (0..scaled(keys, self.scale)).rev() {
                let key = key_of(part, rank);
                store(key, requests.value_len(key));
            }
        }
        let Some(EarlierSetup { value_factor }) = self.earlier else { return };
        let mut ranks = 0..;
        while !engine.page_stats().memory_full() {
            let rank = ranks.next().unwrap_or_else(|| panic!("memory is full before keys end"));
            let value_len = requests.longer_value_len(rank, value_factor);
            store(key_of(EARLIER_PART, rank), value_len);
        }
    }

    /// Its requests, for an engine of this configuration.
    pub fn requests(&self, config: &EngineConfig) -> Result<Requests, ExperimentError> {
        Requests::new(self.workload, (self.scale, self.seed), config)
    }
}

/// The part that no workload has, of keys that are stored before the first request and never asked for.
const EARLIER_PART: usize = 255;

/// The longest value that a chunk holds, in bytes.
pub fn value_len_max(config: &EngineConfig) -> u32 {
    let item_size_bytes = config.classes.chunk_size_bytes_max() as u64;
    let item_size_bytes = item_size_bytes.min(config.item_size_bytes_max);
    (item_size_bytes as usize - BESIDE_VALUE_BYTES) as u32
}

/// The requests of a run, batch by batch.
pub struct Requests {
    workload: Workload,
    value_len_max: u32,
    batch: Vec<Request>,
}

impl Requests {
    /// The stream at a scale, for an engine of this configuration.
    pub fn new(
        workload: &WorkloadSetup,
        (scale, seed): (f64, u64),
        config: &EngineConfig,
    ) -> Result<Requests, ExperimentError> {
        Ok(Requests {
            workload: workload.open(scale, seed)?,
            value_len_max: value_len_max(config),
            batch: Vec::with_capacity(Cache::BATCH_MAX),
        })
    }

    /// The next ones, at most `limit` and at most what is looked up together.
    pub fn next(&mut self, limit: u64) -> Result<&[Request], ExperimentError> {
        self.batch.clear();
        for _ in 0..limit.min(Cache::BATCH_MAX as u64) {
            let request = self.workload.next();
            let request =
                request.unwrap_or_else(|| panic!("an experiment's workload has all requests"))?;
            let value_len = request.value_len.min(self.value_len_max);
            self.batch.push(Request { value_len, ..request });
        }
        Ok(&self.batch)
    }

    /// The length of a key's value in bytes.
    pub fn value_len(&self, key: u64) -> u32 {
        self.longer_value_len(key, 1.0)
    }

    /// So many times the same.
    pub fn longer_value_len(&self, key: u64, factor: f64) -> u32 {
        let value_len = f64::from(self.workload.value_len(key)) * factor;
        value_len.clamp(1.0, f64::from(self.value_len_max)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::{ActiveDivider, Cache, Divider, MoverName, Run};
    use crate::experiment::spec::{EarlierSetup, Setup, Spec};
    use slabwise_base::Clock;
    use slabwise_engine::Engine;
    use slabwise_policy::PagePolicy;
    use std::sync::Arc;

    #[test]
    fn what_is_stored_before_the_first_request_is_profiled_and_fills_the_memory() {
        let spec = Spec::named("multi-tenant").expect("it is there");
        let Setup::PagePolicies(setup) = spec.setup else { panic!("another kind") };
        let size = (0.001, 7);
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, MoverName::Warm, size);
        let preload = [2_000_000, 1_000_000];
        let stored = |earlier| {
            let run =
                Run { preload: &preload, earlier, full_profile_gets: Some(1_000), ..run.clone() };
            let engine = Engine::new(run.engine_config()).expect("an engine");
            let requests = run.requests(engine.config()).expect("requests");
            let policy = PagePolicy::named("lama").expect("it is there");
            let dates = Arc::new(Clock::manual());
            let divider = Divider::Policy(Box::new(policy));
            let mut divider = ActiveDivider::new(&engine, &run, divider, &dates);
            run.store_before(&engine, &requests, &mut Cache::new(&engine), &mut divider);
            let profiling = divider.tuner().and_then(|tuner| tuner.profiling()).expect("profiles");
            (profiling.stats().accesses, engine.page_stats().memory_full())
        };
        assert_eq!(stored(None), (3_000, false));
        let (stores, is_full) = stored(Some(EarlierSetup { value_factor: 2.0 }));
        assert!(stores > 3_000 && is_full, "{stores} stores");
    }
}
