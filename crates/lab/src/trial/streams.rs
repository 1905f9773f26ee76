//! Streams of keys of which curves are made.

use super::error::ExperimentError;
use super::setup::{scaled, whole};
use serde::Deserialize;
use slabwise_replay::workload::{self, Op};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsSetup {
    pub streams: Vec<StreamSetup>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSetup {
    pub name: String,
    /// Keys of a loop; none for a workload.
    pub loop_keys: Option<u64>,
    #[serde(default)]
    pub is_recorded: bool,
    /// What the workload's keys are multiplied by beside the scale of the run.
    #[serde(default = "whole")]
    pub scale: f64,
    pub requests: u64,
    /// The memory of the cache whose server would sample them, in MiB.
    pub memory_mib: u64,
}

pub type Keys = Box<dyn Iterator<Item = Result<u64, ExperimentError>>>;

impl StreamSetup {
    pub fn keys(&self, scale: f64, seed: u64) -> Result<Keys, ExperimentError> {
        let requests = scaled(self.requests, scale);
        if let Some(keys) = self.loop_keys {
            let keys = scaled(keys, scale);
            return Ok(Box::new((0..requests).map(move |at| Ok(at % keys))));
        }
        // A recorded trace has the keys that it has: it is only cut short.
        let scale = (!self.is_recorded).then_some(scale * self.scale);
        let options = workload::Options {
            requests: Some(requests),
            scale,
            seed,
            ..workload::Options::default()
        };
        let requests = workload::open(&self.name, &options)?;
        let keys = requests.filter_map(|request| match request {
            Ok(request) => (request.op == Op::Get).then_some(Ok(request.key)),
            Err(error) => Some(Err(error.into())),
        });
        Ok(Box::new(keys))
    }
}
