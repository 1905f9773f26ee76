//! Serves requests with an engine that is configured as a server: in virtual time, with a tuner, an LRU maintainer and
//! a look-aside client.

use super::error::ExperimentError;
use super::execute::{profiling_options, tuner};
use super::setup::eviction;
use crate::vtime::{Access, Cache, Maintainer, MoverName, Rate, RunningTuner, VisitCost};
use serde::Deserialize;
use slabwise_base::{Clock, memcached};
use slabwise_engine::{ClassStats, ClassTable, Engine, EngineConfig, EvictionKind, SizeModel};
use slabwise_policy::PagePolicy;
use slabwise_policy::partition::WhatIf;
use slabwise_policy::sizes::LearnerOptions;
use slabwise_profile::RecentGets;
use slabwise_replay::workload::{Op, Request};
use slabwise_tuner::{Learning, ProfilingOptions};
use std::sync::Arc;

/// Length in bytes of the longest value. With its key and header, such a value is just below 1 MiB, the largest item
/// that a server accepts by default.
pub const VALUE_LEN_MAX: u32 = (1 << 20) - 512;

/// The configuration of a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedSetup {
    /// Name of the server in rows.
    pub name: String,
    /// True for memcached's pages, chunk sizes and item sizes, false for slabwise's defaults.
    #[serde(default)]
    pub is_memcached: bool,
    /// Name of the page policy.
    pub policy: String,
    #[serde(deserialize_with = "eviction")]
    pub eviction: EvictionKind,
    pub mover: MoverName,
    /// A run with a smaller scale than this does not include the server.
    #[serde(default)]
    pub scale_min: f64,
}

impl ServedSetup {
    pub fn engine_config(&self, memory_limit_bytes: u64, seed: u64) -> EngineConfig {
        let ours = EngineConfig {
            hash_seed: seed,
            mover: self.mover.kind(),
            eviction: self.eviction,
            ..EngineConfig::new(memory_limit_bytes)
        };
        if !self.is_memcached {
            return ours;
        }
        EngineConfig {
            page_size_bytes: memcached::PAGE_SIZE_BYTES,
            classes: ClassTable::geometric(
                memcached::HEADER_SIZE_BYTES + memcached::ITEM_ROOM_BYTES_MIN,
                memcached::GROWTH_FACTOR,
                memcached::CHUNK_SIZE_BYTES_MAX,
            ),
            size_model: SizeModel::Memcached,
            first_page_beyond_limit: true,
            index_within_limit: false,
            ..ours
        }
    }
}

/// A server in virtual time.
pub struct Served<'e> {
    engine: &'e Engine,
    rate: Rate,
    tuner: RunningTuner<'e>,
    maintainer: Maintainer<'e>,
    cache: Cache<'e>,
    /// Number of gets so far.
    pub gets: u64,
    /// Number of gets so far that missed.
    pub misses: u64,
    /// Number of operations so far, which determines the virtual time.
    operations: u64,
}

impl<'e> Served<'e> {
    /// Creates a server at time 0. The caller has configured the engine with [`ServedSetup::engine_config`]. `visit_ns`
    /// is the virtual time of a visit of the mover to a chunk.
    pub fn new(
        setup: &ServedSetup,
        engine: &'e Engine,
        times: (f64, f64),
    ) -> Result<Served<'e>, ExperimentError> {
        let profiling = profiling_options(engine.config().memory_limit_bytes);
        Served::with_profiling(setup, engine, times, profiling)
    }

    /// Creates a server as [`Served::new`] does, with these options of its profiles.
    pub fn with_profiling(
        setup: &ServedSetup,
        engine: &'e Engine,
        (operations_per_second, visit_ns): (f64, f64),
        profiling: ProfilingOptions,
    ) -> Result<Served<'e>, ExperimentError> {
        let policy = PagePolicy::with_options(&setup.policy, &[]);
        let policy = policy.map_err(|error| ExperimentError::Option(error.to_string()))?;
        let response_clock = Arc::new(Clock::manual());
        let mut tuner = tuner(engine, policy, profiling, &response_clock, None);
        if !setup.is_memcached {
            tuner.set_learning(Some(Learning::new(LearnerOptions::default())));
        }
        let rate = Rate::new(operations_per_second);
        Ok(Served {
            engine,
            rate,
            tuner: RunningTuner::new(engine, tuner, VisitCost::new(visit_ns)?, rate),
            maintainer: Maintainer::new(engine),
            cache: Cache::new(engine),
            gets: 0,
            misses: 0,
            operations: 0,
        })
    }

    pub fn serve(&mut self, requests: &[Request]) {
        for batch in requests.chunks(Cache::BATCH_MAX) {
            self.cache.prefetch(batch);
            self.maintainer.work_until(self.rate.nanos_at(self.operations));
            let now = self.rate.now_at(self.operations);
            for request in batch {
                self.tuner.work_until(self.rate.nanos_at(self.operations));
                let access = self.cache.request(request, now);
                self.gets += u64::from(request.op == Op::Get);
                self.misses += u64::from(access == Access::Miss);
                self.operations += access.operations();
            }
        }
    }

    /// Returns the bytes of all pages that the engine holds, including the page pool.
    pub fn held_bytes(&self) -> u64 {
        self.engine.page_stats().held * self.engine.config().page_size_bytes as u64
    }

    /// Predicts the miss ratio at other memory sizes. Also returns the recent gets from which it is predicted.
    pub fn what_if(&mut self) -> Option<(Vec<WhatIf>, RecentGets)> {
        self.tuner.what_if(self.rate.now_at(self.operations))
    }

    pub fn classes(&self) -> Vec<ClassStats> {
        self.engine.class_stats(self.rate.now_at(self.operations))
    }
}
