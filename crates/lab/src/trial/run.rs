//! Describes a run of a workload on one engine in virtual time, and generates its requests in batches.

use super::curves::{BESIDE_VALUE_BYTES, ExactCurves, Phase};
use super::error::ExperimentError;
use super::setup::{AnswerSetup, CacheSetup, EarlierSetup, TimeSetup, WorkloadSetup, scaled};
use crate::vtime::{Cache, MoverName, Rate, SleepLength, VisitCost};
use indicatif::ProgressBar;
use slabwise_engine::EngineConfig;
use slabwise_replay::workload::{Request, Workload, key_of};
use std::time::Duration;

pub fn value_len_max(config: &EngineConfig) -> u32 {
    let item_size_bytes = config.classes.chunk_size_bytes_max() as u64;
    let item_size_bytes = item_size_bytes.min(config.item_size_bytes_max);
    (item_size_bytes as usize - BESIDE_VALUE_BYTES) as u32
}

pub struct Requests {
    workload: Workload,
    value_len_max: u32,
    batch: Vec<Request>,
    made: u64,
}

/// Returns this many keys of each part of a workload's keys, the hottest last.
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
            made: 0,
        })
    }

    /// Returns at most `limit` requests and at most one batch.
    pub fn next(&mut self, limit: u64) -> Result<&[Request], ExperimentError> {
        self.batch.clear();
        for _ in 0..limit.min(Cache::BATCH_MAX as u64) {
            let request =
                self.workload.next().expect("an experiment's workload has all requests")?;
            let value_len = request.value_len.min(self.value_len_max);
            self.batch.push(Request { value_len, ..request });
        }
        self.made += self.batch.len() as u64;
        Ok(&self.batch)
    }

    /// Adds all requests before number `to` to the exact curves; those from number `from` are measured.
    pub fn add_to(
        &mut self,
        exact: &mut ExactCurves<'_>,
        (from, to): (u64, u64),
        progress: &ProgressBar,
    ) -> Result<(), ExperimentError> {
        while self.made < to {
            let (phase, next) =
                if self.made < from { (Phase::WarmUp, from) } else { (Phase::Measured, to) };
            let batch = self.next(next - self.made)?;
            batch.iter().for_each(|request| exact.reference(request, phase));
            progress.set_position(self.made);
        }
        Ok(())
    }

    pub fn value_len(&self, key: u64) -> u32 {
        self.longer_value_len(key, 1.0)
    }

    pub fn longer_value_len(&self, key: u64, factor: f64) -> u32 {
        let value_len = f64::from(self.workload.value_len(key)) * factor;
        value_len.clamp(1.0, f64::from(self.value_len_max)) as u32
    }
}

#[derive(Clone, Debug)]
pub struct Run<'s> {
    pub workload: &'s WorkloadSetup,
    pub cache: &'s CacheSetup,
    pub memory_mib: u64,
    /// The number of keys that are stored before the first request, for each part of the workload's keys.
    pub preload: &'s [u64],
    /// The other keys that fill the memory after the preload.
    pub earlier: Option<EarlierSetup>,
    pub mover: MoverName,
    pub mover_rest: Duration,
    pub sleep: SleepLength,
    pub cost: VisitCost,
    pub rate: Rate,
    pub answer: AnswerSetup,
    /// The half-life in gets of a profile of every key; none for a sample, as in a server.
    pub full_profile_gets: Option<u64>,
    pub scale: f64,
    pub seed: u64,
    pub windows: u64,
    pub at_target: AtTarget,
}

/// What a run does when the pages have their target partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtTarget {
    Continue,
    Stop,
}

impl<'s> Run<'s> {
    /// A complete run in 200 windows, from an empty cache, whose mover is charged the nominal cost.
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
            sleep: SleepLength::Requested,
            cost: VisitCost::NOMINAL,
            rate: Rate::new(time.operations_per_second),
            answer: AnswerSetup::default(),
            full_profile_gets: None,
            scale,
            seed,
            windows: 200,
            at_target: AtTarget::Continue,
        }
    }

    pub fn engine_config(&self) -> EngineConfig {
        let mut config = self.cache.engine_config_of(self.memory_mib, self.scale, self.seed);
        config.mover = self.mover.kind();
        config.mover_rest = self.mover_rest;
        config
    }

    pub fn requests(&self, config: &EngineConfig) -> Result<Requests, ExperimentError> {
        Requests::new(self.workload, (self.scale, self.seed), config)
    }
}
