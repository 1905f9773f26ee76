//! How many pages each class should have: the split with the fewest misses by exact curves.

use slabwise_base::{ClassId, Now};
use slabwise_engine::Engine;
use slabwise_policy::split::{ClassCurve, best_split};
use slabwise_profile::Mrc;

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
