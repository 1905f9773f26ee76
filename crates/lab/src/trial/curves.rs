//! Computes the exact curve of each class from stack distances, the best partition of the pages, and its misses.

use super::error::ExperimentError;
use super::setup::AnswerSetup;
use slabwise_base::{ClassId, Now, memcached};
use slabwise_engine::{Engine, EngineConfig};
use slabwise_policy::split::{ClassCurve, best_split};
use slabwise_profile::{Distances, Mrc, StackDistances};
use slabwise_replay::KEY_SIZE_BYTES;
use slabwise_replay::workload::Request;

/// The bytes that memcached counts for an item in addition to its value.
pub const BESIDE_VALUE_BYTES: usize = memcached::beside_value_bytes(KEY_SIZE_BYTES);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    WarmUp,
    Measured,
}

#[derive(Clone, Debug)]
pub struct ExactCurve {
    pub mrc: Mrc,
    /// The mean value length of the measured references in bytes; 0 without any.
    pub value_len_mean: f64,
}

#[derive(Debug)]
pub struct ExactCurves<'c> {
    config: &'c EngineConfig,
    stacks: Vec<StackDistances>,
    measured: Vec<Measured>,
}

#[derive(Clone, Debug, Default)]
struct Measured {
    distances: Distances,
    references: u64,
    value_bytes: u64,
}

impl<'c> ExactCurves<'c> {
    pub fn new(config: &'c EngineConfig) -> ExactCurves<'c> {
        let classes = config.classes.count();
        let stacks = (0..classes).map(|_| StackDistances::default()).collect();
        ExactCurves { config, stacks, measured: vec![Measured::default(); classes] }
    }

    pub fn reference(&mut self, request: &Request, phase: Phase) {
        let class = class_of(request, self.config).index();
        let distance = self.stacks[class].reference(request.key);
        if phase == Phase::Measured {
            let measured = &mut self.measured[class];
            measured.distances.record(distance);
            measured.references += 1;
            measured.value_bytes += u64::from(request.value_len);
        }
    }

    /// Returns the curve of each class for the references measured since the last call, exact at whole pages.
    pub fn take(&mut self) -> Vec<ExactCurve> {
        let classes = self.measured.iter_mut().zip(self.config.classes.classes());
        let curve = |(measured, (_, chunk_size_bytes)): (&mut Measured, (ClassId, usize))| {
            let Measured { distances, references, value_bytes } = std::mem::take(measured);
            ExactCurve {
                mrc: distances.mrc(self.config.page_size_bytes / chunk_size_bytes),
                value_len_mean: value_bytes as f64 / references.max(1) as f64,
            }
        };
        classes.map(curve).collect()
    }
}

/// Returns the curves of the second half of a stream. The first half warms up the stacks.
pub fn of_second_half(
    requests: impl ExactSizeIterator<Item = Result<Request, ExperimentError>>,
    config: &EngineConfig,
) -> Result<Vec<Mrc>, ExperimentError> {
    let mut curves = ExactCurves::new(config);
    let warm_up = requests.len() / 2;
    for (at, request) in requests.enumerate() {
        curves.reference(&request?, if at < warm_up { Phase::WarmUp } else { Phase::Measured });
    }
    Ok(curves.take().into_iter().map(|curve| curve.mrc).collect())
}

fn class_of(request: &Request, config: &EngineConfig) -> ClassId {
    let size_bytes = BESIDE_VALUE_BYTES + request.value_len as usize;
    let class = config.classes.class_for(size_bytes);
    class.unwrap_or_else(|| panic!("an experiment's items fit its classes, not {size_bytes} bytes"))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    pub pages: Vec<u64>,
}

impl Partition {
    /// The partition of `pages` pages between two classes that has the fewest misses by their curves. Of equally good
    /// ones the first class has the most pages, so that no page moves without a gain.
    pub fn best_of_two(curves: [&Mrc; 2], chunks_per_page: [u64; 2], pages: u64) -> Partition {
        let misses = |first: u64| {
            let sizes = [first * chunks_per_page[0], (pages - first) * chunks_per_page[1]];
            curves[0].misses(sizes[0]) + curves[1].misses(sizes[1])
        };
        let by_misses = |a: &u64, b: &u64| misses(*a).total_cmp(&misses(*b));
        let first = (0..=pages).rev().min_by(by_misses).unwrap_or(pages);
        Partition { pages: vec![first, pages - first] }
    }

    /// The partition with the lowest miss cost. Each class with references has at least one page.
    pub fn best(
        curves: &[Mrc],
        chunks_per_page: &[u64],
        miss_costs: &[f64],
        pages: u64,
    ) -> Partition {
        let classes = curves.iter().zip(chunks_per_page).zip(miss_costs);
        let classes = classes.map(|((curve, &chunks_per_page), &miss_cost)| {
            let pages_min = u64::from(curve.references() > 0.0);
            ClassCurve { miss_cost, pages_min, ..ClassCurve::new(curve, chunks_per_page, 0) }
        });
        let mut pages_by_class = best_split(&classes.collect::<Vec<_>>(), pages);
        // Pages that would not save a miss go to the largest class.
        let spare = pages - pages_by_class.iter().sum::<u64>();
        if let Some(most) = pages_by_class.iter_mut().max() {
            *most += spare;
        }
        Partition { pages: pages_by_class }
    }

    /// The victim and receiver of a move that brings the engine closer to this partition, if any.
    pub fn next_move(&self, engine: &Engine, now: Now) -> Option<(ClassId, ClassId)> {
        let owned = pages_by_class(engine, now);
        let over = |class: &usize| owned[*class] as i64 - self.pages[*class] as i64;
        let givers = (0..owned.len()).filter(|&class| owned[class] > 1);
        let victim = givers.max_by_key(over).filter(|class| over(class) > 0)?;
        let receiver = (0..owned.len()).min_by_key(over).filter(|class| over(class) < 0)?;
        Some((ClassId(victim as u8), ClassId(receiver as u8)))
    }
}

/// The number of pages of each class. A draining page belongs to its victim.
pub fn pages_by_class(engine: &Engine, now: Now) -> Vec<u64> {
    engine.class_stats(now).iter().map(|class| class.pages).collect()
}

#[derive(Clone, Debug)]
pub struct ClassCurves {
    mrcs: Vec<Mrc>,
    /// The additional time of a miss compared with a hit, in microseconds, by class.
    miss_costs_us: Vec<f64>,
    chunks_per_page: Vec<u64>,
    hit_us: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub miss_ratio: f64,
    pub answer_us: f64,
}

impl ClassCurves {
    pub fn new(
        curves: Vec<ExactCurve>,
        config: &EngineConfig,
        answer: &AnswerSetup,
    ) -> ClassCurves {
        let chunks = |&size: &u32| config.page_size_bytes as u64 / u64::from(size);
        let cost = |curve: &ExactCurve| answer.of_miss_us(curve.value_len_mean) - answer.hit_us;
        ClassCurves {
            miss_costs_us: curves.iter().map(cost).collect(),
            mrcs: curves.into_iter().map(|curve| curve.mrc).collect(),
            chunks_per_page: config.classes.sizes().iter().map(chunks).collect(),
            hit_us: answer.hit_us,
        }
    }

    pub fn fewest_misses(&self, pages: u64) -> Partition {
        Partition::best(&self.mrcs, &self.chunks_per_page, &vec![1.0; self.mrcs.len()], pages)
    }

    /// The lowest miss ratio and response time that a partition of `pages` pages can have over these requests.
    pub fn bound(&self, pages: u64) -> Bound {
        let references: f64 = self.mrcs.iter().map(Mrc::references).sum();
        let cost = |partition: &Partition, costs: &[f64]| -> f64 {
            let classes =
                self.mrcs.iter().zip(&self.chunks_per_page).zip(&partition.pages).zip(costs);
            let cost =
                classes.map(|(((mrc, chunks), pages), cost)| mrc.misses(chunks * pages) * cost);
            cost.sum::<f64>() / references.max(1.0)
        };
        let ones = vec![1.0; self.mrcs.len()];
        let quickest =
            Partition::best(&self.mrcs, &self.chunks_per_page, &self.miss_costs_us, pages);
        Bound {
            miss_ratio: cost(&self.fewest_misses(pages), &ones),
            answer_us: self.hit_us + cost(&quickest, &self.miss_costs_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Partition;
    use slabwise_profile::{Distances, Mrc};

    /// The curve of a loop over `keys` keys: it hits always from that size, and never below.
    fn cliff(keys: u64, references: u64) -> Mrc {
        let mut distances = Distances::default();
        (0..references).for_each(|_| distances.record(Some(keys - 1)));
        distances.mrc(1)
    }

    #[test]
    fn the_best_partition_holds_the_loop_with_more_references() {
        // Ten pages of ten chunks have room for one loop; the second one has more references.
        let (first, second) = (cliff(60, 100), cliff(70, 150));
        let partition = Partition::best_of_two([&first, &second], [10, 10], 10);
        assert_eq!(partition.pages, [3, 7]);
        let by_table = Partition::best(&[first.clone(), second.clone()], &[10, 10], &[1.0; 2], 10);
        assert!(by_table.pages[1] >= 7 && by_table.pages.iter().sum::<u64>() == 10, "{by_table:?}");
        // With room for both, the first class keeps the pages that the second does not need.
        let partition = Partition::best_of_two([&first, &second], [10, 10], 20);
        assert_eq!(partition.pages, [13, 7]);
    }
}
