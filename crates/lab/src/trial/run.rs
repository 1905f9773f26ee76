//! What is run: a workload on one engine, on virtual time, with someone who moves pages between requests.

use super::error::ExperimentError;
use super::requests::Requests;
use super::setup::{AnswerSetup, CacheSetup, EarlierSetup, TimeSetup, WorkloadSetup};
use crate::vtime::{MoverName, Rate, SleepLength, VisitCost};
use slabwise_engine::EngineConfig;
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

    /// Its requests, for an engine of this configuration.
    pub fn requests(&self, config: &EngineConfig) -> Result<Requests, ExperimentError> {
        Requests::new(self.workload, (self.scale, self.seed), config)
    }
}
