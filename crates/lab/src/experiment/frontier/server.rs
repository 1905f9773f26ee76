//! An engine as a server has it, on virtual time.

use super::{Finding, FrontierSetup, ServerSetup};
use crate::experiment::divider::{profiling_options, tuner};
use crate::experiment::error::ExperimentError;
use crate::experiment::run::value_len_max;
use crate::virtual_time::{Access, Cache, Maintainer, Rate, Tuned, VisitCost};
use crate::workload::{Op, Request};
use slabwise_base::Clock;
use slabwise_engine::{ClassTable, Engine, EngineConfig, EvictionKind, SizeModel};
use slabwise_policy::PagePolicy;
use slabwise_policy::sizes::LearnerOptions;
use slabwise_tuner::Learning;
use std::sync::Arc;

/// memcached's pages, and its largest and first chunk.
const MEMCACHED_PAGE_SIZE_BYTES: usize = 1 << 20;
const MEMCACHED_CHUNK_SIZE_BYTES_MAX: usize = 512 << 10;
const MEMCACHED_CHUNK_SIZE_BYTES_MIN: usize = 96;
const MEMCACHED_FACTOR: f64 = 1.25;

impl ServerSetup {
    fn config(&self, memory_limit_bytes: u64, seed: u64) -> EngineConfig {
        let ours = EngineConfig {
            hash_seed: seed,
            mover: self.mover.kind(),
            ..EngineConfig::new(memory_limit_bytes)
        };
        if !self.is_memcached {
            return EngineConfig { eviction: EvictionKind::CostBands, ..ours };
        }
        EngineConfig {
            page_size_bytes: MEMCACHED_PAGE_SIZE_BYTES,
            classes: ClassTable::geometric(
                MEMCACHED_CHUNK_SIZE_BYTES_MIN,
                MEMCACHED_FACTOR,
                MEMCACHED_CHUNK_SIZE_BYTES_MAX,
            ),
            size_model: SizeModel::Memcached,
            first_page_beyond_limit: true,
            index_within_limit: false,
            eviction: EvictionKind::Segmented,
            ..ours
        }
    }
}

/// Sends it all requests, look-aside.
pub fn go(
    setup: &FrontierSetup,
    server: &ServerSetup,
    requests: &[Request],
    memory_limit_bytes: u64,
    seed: u64,
) -> Result<Finding, ExperimentError> {
    let config = server.config(memory_limit_bytes, seed);
    let value_len_max = value_len_max(&config);
    let engine = match Engine::new(config) {
        Ok(engine) => engine,
        Err(error) => {
            return Ok(Finding { miss_ratio: Err(error.to_string()), memory_share: 1.0 });
        }
    };
    let policy = PagePolicy::with_options(&server.policy, &[]);
    let policy = policy.map_err(|error| ExperimentError::Option(error.to_string()))?;
    let dates = Arc::new(Clock::manual());
    let mut tuner = tuner(&engine, policy, profiling_options(memory_limit_bytes), &dates, seed);
    if !server.is_memcached {
        tuner.set_learning(Some(Learning::new(LearnerOptions::default())));
    }
    let rate = Rate::new(setup.operations_per_second);
    let mut tuned = Tuned::new(&engine, tuner, VisitCost::new(setup.visit_ns)?);
    let mut maintainer = Maintainer::new(&engine);
    let mut cache = Cache::new(&engine);
    let (mut gets, mut misses, mut operations) = (0u64, 0u64, 0u64);
    for batch in requests.chunks(Cache::BATCH_MAX) {
        cache.prefetch(batch);
        maintainer.work_until(rate.nanos_at(operations));
        let now = rate.now_at(operations);
        for request in batch {
            tuned.work_until(rate.nanos_at(operations));
            let value_len = request.value_len.min(value_len_max);
            let access = cache.request(&Request { value_len, ..*request }, now);
            gets += u64::from(request.op == Op::Get);
            misses += u64::from(access == Access::Miss);
            operations += access.operations();
        }
    }
    let held_bytes = engine.page_stats().held * engine.config().page_size_bytes as u64;
    Ok(Finding {
        miss_ratio: Ok(misses as f64 / gets.max(1) as f64),
        memory_share: held_bytes as f64 / memory_limit_bytes as f64,
    })
}
