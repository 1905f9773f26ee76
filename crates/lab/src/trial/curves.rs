//! Computes the exact miss-ratio curve of each class from stack distances, and from the curves the best partition of
//! the pages and its misses.

use super::error::ExperimentError;
use super::setup::ResponseSetup;
use serde::{Deserialize, Serialize};
use slabwise_base::{ClassId, Now, memcached};
use slabwise_engine::{Engine, EngineConfig};
use slabwise_policy::partition::{ClassCurve, best_partition};
use slabwise_profile::{Distances, Mrc, StackDistances};
use slabwise_replay::KEY_SIZE_BYTES;
use slabwise_replay::workload::Request;

/// The bytes that memcached counts for an item in addition to its value: the header, the CAS number, the key, and the
/// ends of key and value.
pub const BESIDE_VALUE_BYTES: usize = memcached::beside_value_bytes(KEY_SIZE_BYTES);

/// The hit ratio with the working set of a class is at most this number of percentage points below the hit ratio of an
/// unlimited cache.
pub const WORKING_SET_POINTS: f64 = 0.1;

/// The phase of a reference to [`ExactCurves`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The reference changes the stack, but does not count in the curve.
    WarmUp,
    /// The reference changes the stack and counts in the curve.
    Measured,
}

/// The exact curve of a class.
#[derive(Clone, Debug)]
pub struct ExactCurve {
    pub mrc: Mrc,
    /// Mean value length of the measured references, in bytes. 0 if no reference was measured.
    pub value_len_mean: f64,
    /// The smallest number of items whose hit ratio is at most [`WORKING_SET_POINTS`] below that of an unlimited cache.
    /// Unlike the curve, it is exact.
    pub working_set: u64,
}

/// The stack distances of all classes of an engine.
#[derive(Debug)]
pub struct ExactCurves<'c> {
    /// Selects the class of each reference.
    config: &'c EngineConfig,
    /// One stack per class.
    stacks: Vec<StackDistances>,
    /// One element per class: the references since the last call of [`ExactCurves::take`].
    measured: Vec<Measured>,
}

/// Totals of the measured references of a class.
#[derive(Clone, Debug, Default)]
struct Measured {
    distances: Distances,
    /// Number of references.
    references: u64,
    /// Sum of the value lengths.
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

    /// Returns the curve of each class for the references that were measured since the last call. The curves are exact
    /// at whole numbers of pages.
    pub fn take(&mut self) -> Vec<ExactCurve> {
        let classes = self.measured.iter_mut().zip(self.config.classes.classes());
        let curve = |(measured, (_, chunk_size_bytes)): (&mut Measured, (ClassId, usize))| {
            let Measured { distances, references, value_bytes } = std::mem::take(measured);
            let misses_allowed = references as f64 * WORKING_SET_POINTS / 100.0;
            ExactCurve {
                mrc: distances.mrc(self.config.page_size_bytes / chunk_size_bytes),
                value_len_mean: value_bytes as f64 / references.max(1) as f64,
                working_set: distances.chunks_for(misses_allowed as u64),
            }
        };
        classes.map(curve).collect()
    }
}

/// Returns the curve of each class for the second half of a stream. The first half warms up the stacks.
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
    class.unwrap_or_else(|| panic!("the class table has a chunk for an item of {size_bytes} bytes"))
}

/// The number of pages of each class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// One element per class.
    pub pages: Vec<u64>,
}

impl Partition {
    /// Returns the partition of `pages` pages between two classes that has the fewest misses according to the curves.
    /// If several partitions have the fewest misses, returns the partition with the most pages in the first class. The
    /// first class owns all pages until the first page moves, so no page moves without a gain.
    pub fn best_of_two(curves: [&Mrc; 2], chunks_per_page: [u64; 2], pages: u64) -> Partition {
        let misses = |first: u64| {
            let sizes = [first * chunks_per_page[0], (pages - first) * chunks_per_page[1]];
            curves[0].misses(sizes[0]) + curves[1].misses(sizes[1])
        };
        let by_misses = |a: &u64, b: &u64| misses(*a).total_cmp(&misses(*b));
        let first = (0..=pages).rev().min_by(by_misses).unwrap_or(pages);
        Partition { pages: vec![first, pages - first] }
    }

    /// Returns the partition of `pages` pages with the lowest total miss cost. `miss_costs` has the cost of a miss in
    /// each class. Each class with references has at least one page.
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
        let mut pages_by_class = best_partition(&classes.collect::<Vec<_>>(), pages);
        // The largest class gets the pages that save no miss in any class.
        let spare = pages - pages_by_class.iter().sum::<u64>();
        if let Some(largest) = pages_by_class.iter_mut().max() {
            *largest += spare;
        }
        Partition { pages: pages_by_class }
    }

    /// Returns the victim and the receiver of the next move towards this partition: the class with the most surplus
    /// pages, and the class with the most missing pages. Returns `None` if the engine has this partition.
    pub fn next_move(&self, engine: &Engine, now: Now) -> Option<(ClassId, ClassId)> {
        let owned = pages_by_class(engine, now);
        let surplus = |class: &usize| owned[*class] as i64 - self.pages[*class] as i64;
        // A class keeps its last page.
        let victims = (0..owned.len()).filter(|&class| owned[class] > 1);
        let victim = victims.max_by_key(surplus).filter(|class| surplus(class) > 0)?;
        let receiver = (0..owned.len()).min_by_key(surplus).filter(|class| surplus(class) < 0)?;
        Some((ClassId(victim as u8), ClassId(receiver as u8)))
    }
}

/// Returns the number of pages that each class owns. A draining page still belongs to its victim.
pub fn pages_by_class(engine: &Engine, now: Now) -> Vec<u64> {
    engine.class_stats(now).iter().map(|class| class.pages).collect()
}

/// The exact curves of all classes, with their response times. All vectors have one element per class.
#[derive(Clone, Debug)]
pub struct ClassCurves {
    mrcs: Vec<Mrc>,
    /// Mean response time of a miss minus the response time of a hit.
    miss_costs_us: Vec<f64>,
    chunks_per_page: Vec<u64>,
    working_sets: Vec<u64>,
    /// Response time of a hit.
    hit_us: f64,
}

/// The theoretical upper bound of the performance of all page policies.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Miss ratio of the partition with the fewest misses, as a fraction of all references.
    pub miss_ratio: f64,
    /// Mean response time of the partition with the lowest mean response time.
    pub response_us: f64,
}

impl ClassCurves {
    /// Combines the curves with the response times of the set-up. `curves` has one element per class.
    pub fn new(
        curves: Vec<ExactCurve>,
        config: &EngineConfig,
        response: &ResponseSetup,
    ) -> ClassCurves {
        let chunks = |&size: &u32| config.page_size_bytes as u64 / u64::from(size);
        let cost =
            |curve: &ExactCurve| response.miss_response_us(curve.value_len_mean) - response.hit_us;
        ClassCurves {
            miss_costs_us: curves.iter().map(cost).collect(),
            working_sets: curves.iter().map(|curve| curve.working_set).collect(),
            mrcs: curves.into_iter().map(|curve| curve.mrc).collect(),
            chunks_per_page: config.classes.sizes().iter().map(chunks).collect(),
            hit_us: response.hit_us,
        }
    }

    /// Returns [`ExactCurve::working_set`] of each class.
    pub fn working_sets(&self) -> &[u64] {
        &self.working_sets
    }

    /// Returns the partition of `pages` pages with the fewest misses.
    pub fn fewest_misses(&self, pages: u64) -> Partition {
        Partition::best(&self.mrcs, &self.chunks_per_page, &vec![1.0; self.mrcs.len()], pages)
    }

    /// Returns the lowest miss ratio and the lowest mean response time that a partition of `pages` pages can have over
    /// the measured requests.
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
            response_us: self.hit_us + cost(&quickest, &self.miss_costs_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClassCurves, ExactCurves, Partition, Phase};
    use crate::experiment::policies::PoliciesSetup;
    use crate::registry;
    use slabwise_profile::{Distances, Mrc};
    use slabwise_replay::workload::{Op, Request};

    /// Returns the curve of a loop over `keys` keys: with at least `keys` chunks all references hit, with fewer chunks
    /// all references miss.
    fn cliff(keys: u64, references: u64) -> Mrc {
        let mut distances = Distances::default();
        (0..references).for_each(|_| distances.record(Some(keys - 1)));
        distances.mrc(1)
    }

    #[test]
    fn the_working_set_of_a_loop_is_its_number_of_keys() {
        let (_, setup) = registry::parsed::<PoliciesSetup>("multi-tenant");
        let config = setup.cache.engine_config(0.01, 1);
        let mut exact = ExactCurves::new(&config);
        // The first loop has fewer keys than a page of its class has chunks, and the second more.
        let loops = [(0, 60, 100), (1_000_000, 70_000, 200)];
        for (first, keys, value_len) in loops {
            for at in 0..2 * keys {
                let request =
                    Request { key: first + at % keys, value_len, op: Op::Get, cost: None };
                let phase = if at < keys { Phase::WarmUp } else { Phase::Measured };
                exact.reference(&request, phase);
            }
        }
        let curves = ClassCurves::new(exact.take(), &config, &setup.response);
        assert_eq!(curves.working_sets(), [60, 70_000, 0, 0, 0, 0]);
    }

    #[test]
    fn the_best_partition_holds_the_loop_with_more_references() {
        // Ten pages of ten chunks are enough for one of the two loops. The second loop has more references.
        let (first, second) = (cliff(60, 100), cliff(70, 150));
        let partition = Partition::best_of_two([&first, &second], [10, 10], 10);
        assert_eq!(partition.pages, [3, 7]);
        let by_table = Partition::best(&[first.clone(), second.clone()], &[10, 10], &[1.0; 2], 10);
        assert!(by_table.pages[1] >= 7 && by_table.pages.iter().sum::<u64>() == 10, "{by_table:?}");
        // Twenty pages are enough for both loops. The first class keeps the pages that the second class does not need.
        let partition = Partition::best_of_two([&first, &second], [10, 10], 20);
        assert_eq!(partition.pages, [13, 7]);
    }
}
