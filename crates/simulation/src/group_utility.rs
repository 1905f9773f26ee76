//! Predicts the utilities of groups of items for [`super::gl_cache`] (GL-Cache, FAST 2023, section 3.3).
//!
//! ```text
//!   groups --> samples: features now --> requests until the next training: utilities --> gradient-boosted trees
//! ```
//!
//! The utility of a group at a time is the sum, over its items, of one over the size and over the time until the next
//! request. So a group with many small items that are soon requested has a high utility. Samples of groups are taken
//! after each training. Their utilities are known at the next one, also those of groups that were evicted since then.

use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::xgboost::{XGRegressor, XGRegressorParameters};
use std::collections::HashMap;

/// Age of the group in requests, mean size of its items, number of requests of its items, number of requested items, and
/// the miss ratio of the cache when the group was created. The paper also uses rates of requests and writes: in a
/// simulation whose time is the number of requests, they are one, and the miss ratio.
pub type Features = [f64; 5];

const SAMPLES_MAX: usize = 8_192;
/// Fewer samples are not learned from.
const SAMPLES_MIN: usize = 10;
const TREES: usize = 20;
const DEPTH_MAX: u16 = 6;
const LEARNING_RATE: f64 = 0.3;

type Model = XGRegressor<f64, f64, DenseMatrix<f64>, Vec<f64>>;

#[derive(Debug)]
struct Sample {
    features: Features,
    utility: f64,
}

pub struct Learner {
    model: Option<Model>,
    samples: Vec<Sample>,
    /// The sample and the size of items that left their groups since the samples were taken, by the number of the key.
    left: HashMap<u32, (usize, u32)>,
    /// Time at which the samples were taken.
    taken: u64,
    seed: u64,
}

impl std::fmt::Debug for Learner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (samples, has_learned) = (self.samples.len(), self.has_learned());
        formatter
            .debug_struct("Learner")
            .field("samples", &samples)
            .field("has_learned", &has_learned)
            .finish()
    }
}

impl Learner {
    pub fn new(seed: u64) -> Learner {
        Learner { model: None, samples: Vec::new(), left: HashMap::new(), taken: 0, seed }
    }

    pub fn has_learned(&self) -> bool {
        self.model.is_some()
    }

    /// Drops all samples. Returns which of `groups` groups are sampled: evenly spaced ones, at most [`SAMPLES_MAX`].
    pub fn begin_samples(&mut self, groups: usize, now: u64) -> Vec<usize> {
        self.samples.clear();
        self.left.clear();
        self.taken = now;
        let count = groups.min(SAMPLES_MAX);
        (0..count).map(|number| number * groups / count).collect()
    }

    /// Adds a sample, and returns its number.
    pub fn add_sample(&mut self, features: Features) -> usize {
        self.samples.push(Sample { features, utility: 0.0 });
        self.samples.len() - 1
    }

    /// Notes the first request of an item of a sampled group.
    pub fn requested(&mut self, sample: usize, size_bytes: u32, now: u64) {
        let time = (now - self.taken + 1) as f64;
        self.samples[sample].utility += 1.0 / (time * f64::from(size_bytes.max(1)));
    }

    /// Notes that an item left its sampled group without a request.
    pub fn left(&mut self, key: u32, sample: usize, size_bytes: u32) {
        self.left.insert(key, (sample, size_bytes));
    }

    /// Notes a request of a key whose item may have left its sampled group.
    pub fn requested_after_eviction(&mut self, key: u32, now: u64) {
        if let Some((sample, size_bytes)) = self.left.remove(&key) {
            self.requested(sample, size_bytes, now);
        }
    }

    /// Learns from the samples, if there are enough.
    pub fn train(&mut self) {
        let highest = self.samples.iter().map(|sample| sample.utility).fold(0.0, f64::max);
        if self.samples.len() < SAMPLES_MIN || highest == 0.0 {
            return;
        }
        let features: Vec<Features> = self.samples.iter().map(|sample| sample.features).collect();
        let utilities = self.samples.iter().map(|sample| sample.utility / highest).collect();
        let parameters = XGRegressorParameters::default()
            .with_n_estimators(TREES)
            .with_max_depth(DEPTH_MAX)
            .with_learning_rate(LEARNING_RATE)
            .with_seed(self.seed);
        let model = XGRegressor::fit(&matrix(&features), &utilities, parameters);
        self.model = Some(model.expect("the parameters are valid, and there are samples"));
    }

    /// Predicts the utility of each group, relative to the highest of the last training.
    ///
    /// # Panics
    /// If the learner has not learned.
    pub fn predict(&self, groups: &[Features]) -> Vec<f64> {
        if groups.is_empty() {
            return Vec::new();
        }
        let model = self.model.as_ref().expect("the learner has learned");
        model.predict(&matrix(groups)).expect("the features have the shape of the samples")
    }
}

fn matrix(rows: &[Features]) -> DenseMatrix<f64> {
    let values = rows.iter().flatten().copied().collect();
    DenseMatrix::new(rows.len(), Features::default().len(), values, false)
        .expect("the number of values is that of the matrix")
}

#[cfg(test)]
mod tests {
    use super::{Features, Learner, SAMPLES_MIN};

    const SEED: u64 = 1;

    /// Of 20 groups, the items of the even ones are requested: half of them in the group, half of them after eviction.
    #[test]
    fn groups_with_requested_items_have_the_higher_prediction() {
        let mut learner = Learner::new(SEED);
        let features = |group: usize| -> Features { [1.0, 100.0, (group % 2) as f64, 0.0, 0.0] };
        assert_eq!(learner.begin_samples(20, 5), Vec::from_iter(0..20));
        let samples: Vec<usize> =
            (0..20).map(|group| learner.add_sample(features(group))).collect();
        for &sample in samples.iter().step_by(2) {
            learner.requested(sample, 100, 8);
            learner.left(7, sample, 100);
            learner.requested_after_eviction(7, 9);
            learner.requested_after_eviction(7, 9);
            let expected = 1.0 / 400.0 + 1.0 / 500.0;
            let utility = learner.samples[sample].utility;
            assert!((utility - expected).abs() < 1e-12, "{utility}, expected {expected}");
        }
        learner.train();
        let predicted = learner.predict(&[features(0), features(1)]);
        assert!(predicted[0] > 0.9 && predicted[1] < 0.1, "{predicted:?}");
    }

    #[test]
    fn too_few_samples_or_no_requests_are_not_learned_from() {
        let mut learner = Learner::new(SEED);
        for _ in 1..SAMPLES_MIN {
            let sample = learner.add_sample(Features::default());
            learner.requested(sample, 1, 0);
        }
        learner.train();
        assert!(!learner.has_learned());
        learner.begin_samples(0, 0);
        for _ in 0..SAMPLES_MIN {
            learner.add_sample(Features::default());
        }
        learner.train();
        assert!(!learner.has_learned());
    }

    #[test]
    fn samples_are_evenly_spaced() {
        let mut learner = Learner::new(SEED);
        let chosen = learner.begin_samples(16_384, 0);
        assert_eq!((chosen.len(), chosen[1], chosen[8_191]), (8_192, 2, 16_382));
    }
}
