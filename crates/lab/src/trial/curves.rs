//! Exact stack distances over the requests of an experiment: each class's curve, the best split of the pages by those
//! curves, and what it misses.

use super::error::ExperimentError;
use super::setup::AnswerSetup;
use slabwise_base::{ClassId, Now, memcached};
use slabwise_engine::{Engine, EngineConfig};
use slabwise_policy::split::{ClassCurve, best_split};
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    pub pages: Vec<u64>,
}

impl Split {
    /// The split of `pages` pages with the fewest misses by the curves of two classes; `chunks_per_page`
    /// for each. Of equal ones the one that gives the first class most: nothing moves without a gain.
    pub fn best_of_two(curves: [&Mrc; 2], chunks_per_page: [u64; 2], pages: u64) -> Split {
        let misses = |first: u64| {
            let sizes = [first * chunks_per_page[0], (pages - first) * chunks_per_page[1]];
            curves[0].misses(sizes[0]) + curves[1].misses(sizes[1])
        };
        let by_misses = |a: &u64, b: &u64| misses(*a).total_cmp(&misses(*b));
        let first = (0..=pages).rev().min_by(by_misses).unwrap_or(pages);
        Split { pages: vec![first, pages - first] }
    }

    /// The split of `pages` pages with the least cost by the classes' curves; with `miss_costs`, what a miss
    /// of each costs. A class keeps a page if there are any references to it.
    pub fn best(curves: &[Mrc], chunks_per_page: &[u64], miss_costs: &[f64], pages: u64) -> Split {
        let classes = curves.iter().zip(chunks_per_page).zip(miss_costs);
        let classes = classes.map(|((curve, &chunks_per_page), &miss_cost)| {
            let pages_min = u64::from(curve.references() > 0.0);
            ClassCurve { miss_cost, pages_min, ..ClassCurve::new(curve, chunks_per_page, 0) }
        });
        let mut pages_by_class = best_split(&classes.collect::<Vec<_>>(), pages);
        // Pages that no curve has a use for stay where most of the memory is.
        let spare = pages - pages_by_class.iter().sum::<u64>();
        if let Some(most) = pages_by_class.iter_mut().max() {
            *most += spare;
        }
        Split { pages: pages_by_class }
    }

    /// The move that brings the engine nearer to this split; `None` where none does. No class gives its last
    /// page: the engine keeps it there.
    pub fn next_move(&self, engine: &Engine, now: Now) -> Option<(ClassId, ClassId)> {
        let owned = pages_by_class(engine, now);
        let over = |class: &usize| owned[*class] as i64 - self.pages[*class] as i64;
        let givers = (0..owned.len()).filter(|&class| owned[class] > 1);
        let victim = givers.max_by_key(over).filter(|class| over(class) > 0)?;
        let receiver = (0..owned.len()).min_by_key(over).filter(|class| over(class) < 0)?;
        Some((ClassId(victim as u8), ClassId(receiver as u8)))
    }
}

/// Pages by class, a draining one still its victim's.
pub fn pages_by_class(engine: &Engine, now: Now) -> Vec<u64> {
    engine.class_stats(now).iter().map(|class| class.pages).collect()
}

#[derive(Clone, Debug)]
pub struct ClassCurves {
    mrcs: Vec<Mrc>,
    /// What a miss takes more than a hit, in microseconds, by class.
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

    pub fn fewest_misses(&self, pages: u64) -> Split {
        Split::best(&self.mrcs, &self.chunks_per_page, &vec![1.0; self.mrcs.len()], pages)
    }

    /// What no division of `pages` pages can do better over these requests.
    pub fn bound(&self, pages: u64) -> Bound {
        let references: f64 = self.mrcs.iter().map(Mrc::references).sum();
        let cost = |split: &Split, costs: &[f64]| -> f64 {
            let classes = self.mrcs.iter().zip(&self.chunks_per_page).zip(&split.pages).zip(costs);
            let cost =
                classes.map(|(((mrc, chunks), pages), cost)| mrc.misses(chunks * pages) * cost);
            cost.sum::<f64>() / references.max(1.0)
        };
        let ones = vec![1.0; self.mrcs.len()];
        let quickest = Split::best(&self.mrcs, &self.chunks_per_page, &self.miss_costs_us, pages);
        Bound {
            miss_ratio: cost(&self.fewest_misses(pages), &ones),
            answer_us: self.hit_us + cost(&quickest, &self.miss_costs_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Split;
    use slabwise_profile::{Distances, Mrc};

    /// A loop over `keys` keys: all hits from that size on, none below.
    fn cliff(keys: u64, references: u64) -> Mrc {
        let mut distances = Distances::default();
        (0..references).for_each(|_| distances.record(Some(keys - 1)));
        distances.mrc(1)
    }

    #[test]
    fn the_best_split_sees_beyond_a_cliff() {
        // Ten pages of ten chunks: the second loop is worth more, and both do not fit.
        let (first, second) = (cliff(60, 100), cliff(70, 150));
        let split = Split::best_of_two([&first, &second], [10, 10], 10);
        assert_eq!(split.pages, [3, 7]);
        let by_table = Split::best(&[first.clone(), second.clone()], &[10, 10], &[1.0; 2], 10);
        assert!(by_table.pages[1] >= 7 && by_table.pages.iter().sum::<u64>() == 10, "{by_table:?}");
        // With room for both, nothing moves that need not.
        let split = Split::best_of_two([&first, &second], [10, 10], 20);
        assert_eq!(split.pages, [13, 7]);
    }
}
