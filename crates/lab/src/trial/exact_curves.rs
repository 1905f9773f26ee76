//! Each class's curve from exact stack distances over the requests of an experiment.

use super::error::ExperimentError;
use slabwise_base::{ClassId, memcached};
use slabwise_engine::EngineConfig;
use slabwise_profile::{Distances, Mrc, StackDistances};
use slabwise_replay::KEY_SIZE_BYTES;
use slabwise_replay::workload::Request;

/// What memcached counts for an item beside its value.
pub const BESIDE_VALUE_BYTES: usize = memcached::beside_value_bytes(KEY_SIZE_BYTES);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Yes,
    No,
}

#[derive(Clone, Debug)]
pub struct ExactCurve {
    /// Misses by chunks.
    pub mrc: Mrc,
    /// The mean value length of the references counted, in bytes; 0 without any.
    pub value_len_mean: f64,
}

#[derive(Debug)]
pub struct ExactCurves<'c> {
    config: &'c EngineConfig,
    stacks: Vec<StackDistances>,
    counted: Vec<Counted>,
}

#[derive(Clone, Debug, Default)]
struct Counted {
    distances: Distances,
    references: u64,
    value_bytes: u64,
}

impl<'c> ExactCurves<'c> {
    pub fn new(config: &'c EngineConfig) -> ExactCurves<'c> {
        let classes = config.classes.count();
        let stacks = (0..classes).map(|_| StackDistances::default()).collect();
        ExactCurves { config, stacks, counted: vec![Counted::default(); classes] }
    }

    pub fn reference(&mut self, request: &Request, counts: Counts) {
        let class = class_of(request, self.config).index();
        let distance = self.stacks[class].reference(request.key);
        if counts == Counts::Yes {
            let counted = &mut self.counted[class];
            counted.distances.record(distance);
            counted.references += 1;
            counted.value_bytes += u64::from(request.value_len);
        }
    }

    /// The curves of what was counted since this was last asked, a class each, exact at whole pages.
    pub fn take(&mut self) -> Vec<ExactCurve> {
        let classes = self.counted.iter_mut().zip(self.config.classes.classes());
        let curve = |(counted, (_, chunk_size_bytes)): (&mut Counted, (ClassId, usize))| {
            let Counted { distances, references, value_bytes } = std::mem::take(counted);
            ExactCurve {
                mrc: distances.mrc(self.config.page_size_bytes / chunk_size_bytes),
                value_len_mean: value_bytes as f64 / references.max(1) as f64,
            }
        };
        classes.map(curve).collect()
    }
}

/// The curves of a stream: its first half fills the stacks, its second half counts.
pub fn of_second_half(
    requests: impl ExactSizeIterator<Item = Result<Request, ExperimentError>>,
    config: &EngineConfig,
) -> Result<Vec<Mrc>, ExperimentError> {
    let mut curves = ExactCurves::new(config);
    let warm_up = requests.len() / 2;
    for (at, request) in requests.enumerate() {
        curves.reference(&request?, if at < warm_up { Counts::No } else { Counts::Yes });
    }
    Ok(curves.take().into_iter().map(|curve| curve.mrc).collect())
}

/// The class of a request's item, counted as memcached counts it.
fn class_of(request: &Request, config: &EngineConfig) -> ClassId {
    let size_bytes = BESIDE_VALUE_BYTES + request.value_len as usize;
    let class = config.classes.class_for(size_bytes);
    class.unwrap_or_else(|| panic!("an experiment's items fit its classes, not {size_bytes} bytes"))
}
