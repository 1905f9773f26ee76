//! How many pages each class should have: the split with the fewest misses by exact curves.

use super::error::ExperimentError;
use crate::replay::KEY_SIZE_BYTES;
use crate::workload::Request;
use slabwise_base::{ClassId, Now};
use slabwise_engine::{Engine, EngineConfig};
use slabwise_profile::{Distances, Mrc, StackDistances};

/// memcached's header, with the CAS value.
const MEMCACHED_HEADER_BYTES: usize = 48 + 8;
/// The zero byte behind a key, and the line end behind a value.
const MEMCACHED_ENDS_BYTES: usize = 3;

/// A split of the pages over the classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Pages by class.
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

    /// The move that brings the engine nearer to this split; `None` where none does.
    pub fn next_move(&self, engine: &Engine, now: Now) -> Option<(ClassId, ClassId)> {
        let owned = pages_by_class(engine, now);
        let over = |class: &usize| owned[*class] as i64 - self.pages[*class] as i64;
        let victim = (0..owned.len()).max_by_key(over).filter(|class| over(class) > 0)?;
        let receiver = (0..owned.len()).min_by_key(over).filter(|class| over(class) < 0)?;
        Some((ClassId(victim as u8), ClassId(receiver as u8)))
    }
}

/// Pages by class, a draining one still its victim's.
pub fn pages_by_class(engine: &Engine, now: Now) -> Vec<u64> {
    engine.class_stats(now).iter().map(|class| class.pages).collect()
}

/// Each class's curve from exact stack distances: the first half of the requests fills the stacks, the
/// second half counts.
pub fn exact_curves(
    requests: impl ExactSizeIterator<Item = Result<Request, ExperimentError>>,
    config: &EngineConfig,
) -> Result<Vec<Mrc>, ExperimentError> {
    let classes = config.classes.count();
    let mut stacks: Vec<StackDistances> = (0..classes).map(|_| StackDistances::default()).collect();
    let mut distances = vec![Distances::default(); classes];
    let warm_up = requests.len() / 2;
    for (at, request) in requests.enumerate() {
        let request = request?;
        let class = class_of(&request, config).index();
        let distance = stacks[class].reference(request.key);
        if at >= warm_up {
            distances[class].record(distance);
        }
    }
    let curve = |(distances, class): (&Distances, ClassId)| {
        let chunk_size_bytes = config.classes.chunk_size_bytes(class);
        distances.mrc(config.page_size_bytes / chunk_size_bytes)
    };
    Ok(distances.iter().zip(config.classes.ids()).map(curve).collect())
}

/// The class of a request's item, counted as memcached counts it.
fn class_of(request: &Request, config: &EngineConfig) -> ClassId {
    let beside_value = MEMCACHED_HEADER_BYTES + KEY_SIZE_BYTES + MEMCACHED_ENDS_BYTES;
    let size_bytes = beside_value + request.value_len as usize;
    let class = config.classes.class_for(size_bytes);
    class.unwrap_or_else(|| panic!("an experiment's items fit its classes, not {size_bytes} bytes"))
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
        // With room for both, nothing moves that need not.
        let split = Split::best_of_two([&first, &second], [10, 10], 20);
        assert_eq!(split.pages, [13, 7]);
    }
}
