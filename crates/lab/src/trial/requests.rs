//! The requests of a run, batch by batch, for one engine: a value that no chunk holds is cut to the longest that one does.

use super::error::ExperimentError;
use super::exact_curves::BESIDE_VALUE_BYTES;
use super::setup::WorkloadSetup;
use crate::vtime::Cache;
use slabwise_engine::EngineConfig;
use slabwise_replay::workload::{Request, Workload};

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

    pub fn value_len(&self, key: u64) -> u32 {
        self.longer_value_len(key, 1.0)
    }

    /// So many times the same.
    pub fn longer_value_len(&self, key: u64, factor: f64) -> u32 {
        let value_len = f64::from(self.workload.value_len(key)) * factor;
        value_len.clamp(1.0, f64::from(self.value_len_max)) as u32
    }
}
