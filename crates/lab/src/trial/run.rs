//! Describes a run of a workload on an engine in virtual time, and generates the requests of the run in batches.

use super::curves::{BESIDE_VALUE_BYTES, ExactCurves, Phase};
use super::error::ExperimentError;
use super::setup::{CacheSetup, EarlierSetup, ResponseSetup, TimeSetup, WorkloadSetup, scaled};
use crate::vtime::{Cache, MoverName, Rate, SleepLength, VisitCost};
use indicatif::ProgressBar;
use slabwise_engine::{EngineConfig, EvictionKind};
use slabwise_replay::workload::{Request, Workload, key_of};
use std::time::Duration;

/// Returns the length of the longest value that needs no chaining with this configuration, in bytes.
pub fn value_len_max(config: &EngineConfig) -> u32 {
    let item_size_bytes = config.classes.chunk_size_bytes_max() as u64;
    let item_size_bytes = item_size_bytes.min(config.item_size_bytes_max);
    (item_size_bytes as usize - BESIDE_VALUE_BYTES) as u32
}

/// The requests of a run. Longer values than the engine can store without chaining are cut.
pub struct Requests {
    workload: Workload,
    /// Longest value, in bytes.
    value_len_max: u32,
    /// The batch that [`Requests::next`] returned last.
    batch: Vec<Request>,
    /// Number of requests of all batches so far.
    generated: u64,
}

/// Returns the keys that are stored before the first request: for each part of the workload's keys, the given number of
/// keys times the scale. The most popular key of each part is the last.
pub fn preloaded(keys: &[u64], scale: f64) -> impl Iterator<Item = u64> {
    keys.iter().enumerate().flat_map(move |(part, &keys)| {
        (0..scaled(keys, scale)).rev().map(move |rank| key_of(part, rank))
    })
}

impl Requests {
    pub fn new(
        workload: &WorkloadSetup,
        (scale, seed): (f64, u64),
        config: &EngineConfig,
    ) -> Result<Requests, ExperimentError> {
        Ok(Requests {
            workload: workload.open(scale, seed)?,
            value_len_max: value_len_max(config),
            batch: Vec::with_capacity(Cache::BATCH_MAX),
            generated: 0,
        })
    }

    /// Returns the next requests: at most `limit`, and at most [`Cache::BATCH_MAX`].
    pub fn next(&mut self, limit: u64) -> Result<&[Request], ExperimentError> {
        self.batch.clear();
        for _ in 0..limit.min(Cache::BATCH_MAX as u64) {
            let request = self.workload.next();
            let request = request.expect("the workload has as many requests as the set-up says")?;
            let value_len = request.value_len.min(self.value_len_max);
            self.batch.push(Request { value_len, ..request });
        }
        self.generated += self.batch.len() as u64;
        Ok(&self.batch)
    }

    /// Adds all requests before the request `to` to the exact curves. The requests before the request `from` warm up
    /// the stacks, and the others are measured.
    pub fn add_to(
        &mut self,
        exact: &mut ExactCurves<'_>,
        (from, to): (u64, u64),
        progress: &ProgressBar,
    ) -> Result<(), ExperimentError> {
        while self.generated < to {
            let (phase, phase_end) =
                if self.generated < from { (Phase::WarmUp, from) } else { (Phase::Measured, to) };
            let batch = self.next(phase_end - self.generated)?;
            batch.iter().for_each(|request| exact.reference(request, phase));
            progress.set_position(self.generated);
        }
        Ok(())
    }

    /// Returns the length of the value that the workload stores under a key, in bytes.
    pub fn value_len(&self, key: u64) -> u32 {
        self.scaled_value_len(key, 1.0)
    }

    /// Returns the value length of a key times `factor`, at least 1 and at most the longest value without chaining.
    pub fn scaled_value_len(&self, key: u64, factor: f64) -> u32 {
        let value_len = f64::from(self.workload.value_len(key)) * factor;
        value_len.clamp(1.0, f64::from(self.value_len_max)) as u32
    }
}

/// All conditions of a run, except the controller that moves the pages.
#[derive(Clone, Debug)]
pub struct Run<'s> {
    pub workload: &'s WorkloadSetup,
    pub cache: &'s CacheSetup,
    /// Memory limit at scale 1, which replaces the limit in `cache`.
    pub memory_mib: u64,
    /// Eviction kind, which replaces that in `cache`.
    pub eviction: EvictionKind,
    /// One element per part of the workload's keys: the number of keys, at scale 1, that are stored before the first
    /// request.
    pub preload: &'s [u64],
    /// If given, keys that are never requested fill the rest of the memory after the preload.
    pub earlier: Option<EarlierSetup>,
    pub mover: MoverName,
    /// Length of the sleep that the mover requests after a busy chunk.
    pub mover_pause: Duration,
    /// Length by which a sleep advances virtual time.
    pub sleep: SleepLength,
    /// Virtual time of a visit to a chunk.
    pub cost: VisitCost,
    pub rate: Rate,
    pub response: ResponseSetup,
    /// If given, the tuner profiles every key, with this half-life in gets. If `None`, the tuner samples keys as in a
    /// server.
    pub full_profile_gets: Option<u64>,
    /// True if no move budget limits the tuner, as in the published systems, so that only the cost of visits does.
    pub has_no_move_budget: bool,
    pub scale: f64,
    pub seed: u64,
    /// Number of windows, which are equal parts of the run. The record has one element per window.
    pub windows: u64,
    pub at_target: AtTarget,
}

/// The action of a run when the pages have their target partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtTarget {
    Continue,
    Stop,
}

impl<'s> Run<'s> {
    /// Returns a run with 200 windows that starts with an empty cache, and continues after the pages have their target
    /// partition. A visit of the mover to a chunk takes [`VisitCost::NOMINAL`].
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
            eviction: cache.eviction,
            preload: &[],
            earlier: None,
            mover,
            mover_pause: Duration::from_micros(time.sleep_us),
            sleep: SleepLength::Requested,
            cost: VisitCost::NOMINAL,
            rate: Rate::new(time.operations_per_second),
            response: ResponseSetup::default(),
            full_profile_gets: None,
            has_no_move_budget: false,
            scale,
            seed,
            windows: 200,
            at_target: AtTarget::Continue,
        }
    }

    pub fn engine_config(&self) -> EngineConfig {
        let mut config = self.cache.engine_config_of(self.memory_mib, self.scale, self.seed);
        config.eviction = self.eviction;
        config.mover = self.mover.kind();
        config.mover_pause = self.mover_pause;
        config
    }

    pub fn requests(&self, config: &EngineConfig) -> Result<Requests, ExperimentError> {
        Requests::new(self.workload, (self.scale, self.seed), config)
    }
}
