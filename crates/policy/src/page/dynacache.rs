//! Dynacache: the partition that would be the best if all miss-ratio curves were convex.
//!
//! Source: A. Cidon, A. Eisenman, M. Alizadeh, S. Katti, "Dynacache: Dynamic Cloud Caching", HotCloud 2015.
//!
//! ```text
//!   stack distances in bins --> hit ratios h_i as concave, piecewise linear fits
//!                              --> maximise sum f_i h_i(m_i) subject to sum m_i <= M
//! ```
//!
//! *Miss entropy.* The shares of the classes in all misses are a probability distribution. If one class has most misses,
//! its entropy is near 0, and a better partition can save many of them. If the misses are spread evenly, the entropy is
//! at its maximum, and there is little to gain. The paper computes the entropy for each application of a cache service,
//! and optimizes those with a low entropy. Here a server is one application: a step plans no moves if the entropy of the
//! misses since the last step is above `entropy_max`. The entropy is divided by its maximum, the logarithm of the number
//! of classes with gets.
//!
//! For class i, f_i is the share of gets, h_i the hit ratio and m_i the memory; M is all memory. The fit is the concave
//! hull of the hit-ratio curve at the ends of the bins. The maximum is found without a solver: memory goes to the
//! segments of the hulls in descending order of slopes. As in the paper there is no minimum gain, and one step
//! partitions all memory, with up to `moves_max` page moves.
//!
//! Differences here: the authors estimate stack distances with a queue of buckets of keys (Mimir; Saemundsson and others,
//! SoCC 2014). Here the distances are those of the profile, which are exact for the sampled keys, and are divided into as
//! many bins. The paper gives no threshold of the entropy that could be a default, so by default every step partitions.
//!
//! Strength: a step takes little time for any number of pages. Weakness: the fits hide cliffs. If the last pages fill
//! only a part of a segment that spans a cliff, these pages save no miss.
//!
//! Invariants: at most `moves_max` moves a step; a class that holds items keeps a page; while the pool has pages no
//! page moves.

use crate::history::changes::{Changes, Counts};
use crate::options::options;
use crate::partition::{ClassCurve, Moves, Size, class_curves, hull, hull_partition, predict};
use crate::policy::Policy;
use crate::{Inputs, Plan, Snapshot, Trigger};
use slabwise_base::Random;

options! {
    /// The defaults are slabwise's: the paper partitions memory once for a whole trace, so it gives no values.
    pub struct DynacacheOptions of Dynacache {
        moves_max: usize = 1_024, moves_max;
        period_gets: u64 = 1_000_000, events, "gets between two steps";
        buckets: u64 = 100, whole(1..=1_000_000),
            "bins of a class's stack-distance histogram";
        entropy_max: f64 = 1.0, real(0.0..=1.0),
            "maximum miss entropy, as a share of its maximum, at which pages move";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Dynacache {
    options: DynacacheOptions,
    changes: Changes,
}

impl Policy for Dynacache {
    fn trigger(&self) -> Trigger {
        Trigger::EveryGets(self.options.period_gets)
    }

    fn inputs(&self) -> Inputs {
        Inputs::FreshProfiles
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        let changes = self.changes.since_last(snapshot);
        let classes = class_curves(snapshot);
        let is_even = miss_entropy(&changes) > self.options.entropy_max;
        if !snapshot.is_divided() || classes.is_empty() || is_even {
            return Plan::default();
        }
        let current: Vec<u64> = classes.iter().map(|class| class.pages).collect();
        let pages: u64 = current.iter().sum();
        let fits = classes.iter().map(|class| self.fit(class));
        let mut greedy = hull_partition(&fits.collect::<Vec<_>>(), pages);
        if let Some((class, _)) = greedy.next {
            greedy.partition[class] += greedy.pages_left;
        }
        let moves = Moves {
            classes: &classes,
            target: &greedy.partition,
            moves_max: self.options.moves_max,
            received_max: None,
            reason: "towards the partition with the most hits according to concave fits",
        };
        let moves = moves.of(snapshot, |place, pages| moves.slope(place, pages));
        let predicted = predict(snapshot, &classes, &current, &greedy.partition);
        Plan { predicted: (!moves.is_empty()).then_some(predicted), moves, ..Plan::default() }
    }
}

impl Dynacache {
    /// Returns the corners of the convex fit of a class's miss costs, which corresponds to the concave fit of its hits.
    fn fit(&self, class: &ClassCurve) -> Vec<Size> {
        let end = class.pages_max(u64::MAX);
        let bucket = end.div_ceil(self.options.buckets).max(1);
        let ends = (class.pages_min..end).step_by(bucket as usize).chain([end]);
        let sizes = ends.map(|pages| Size { pages, cost: class.cost(pages) });
        hull(&sizes.collect::<Vec<_>>())
    }
}

/// Returns the entropy of the shares of the classes in all misses, divided by its maximum; 0 if no class has misses, or if
/// only one class has gets.
fn miss_entropy(changes: &[Counts]) -> f64 {
    let misses: f64 = changes.iter().map(Counts::misses).sum();
    let classes = changes.iter().filter(|it| it.gets() > 0.0).count();
    if misses <= 0.0 || classes < 2 {
        return 0.0;
    }
    let term = |share: f64| if share > 0.0 { -share * share.ln() } else { 0.0 };
    let entropy: f64 = changes.iter().map(|it| term(it.misses() / misses)).sum();
    // A sum of equal shares may exceed the maximum by a rounding error.
    (entropy / (classes as f64).ln()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::{Dynacache, DynacacheOptions, miss_entropy};
    use crate::history::changes::{Counts, Profiled};
    use crate::testing;
    use crate::testing::curves::{cliff, scan, snapshot, zipf};
    use crate::{Plan, Snapshot};
    use slabwise_profile::Mrc;

    fn step(classes: Vec<(u64, Mrc)>) -> Plan {
        testing::step(&mut Dynacache::default(), &snapshot(1, classes))
    }

    fn pages_after(plan: &Plan, mut pages: Vec<u64>) -> Vec<u64> {
        for page_move in &plan.moves {
            pages[page_move.victim.index()] -= 1;
            page_move.receiver.into_iter().for_each(|class| pages[class.index()] += 1);
        }
        pages
    }

    #[test]
    fn classes_with_convex_curves_end_at_equal_slopes() {
        // The misses fall with the logarithm of the size, so the slopes are equal if pages are proportional to
        // references.
        let of = |references| (5_000, zipf(20_000, references, 2_000));
        let options = DynacacheOptions { moves_max: usize::MAX, ..DynacacheOptions::default() };
        let cache = snapshot(1, vec![of(3_000.0), of(1_000.0)]);
        let plan = testing::step(&mut Dynacache { options, ..Dynacache::default() }, &cache);
        let pages = pages_after(&plan, vec![5_000, 5_000]);
        assert!((7_300..=7_700).contains(&pages[0]), "class 0 has about 7,500 pages: {pages:?}");
        let predicted = plan.predicted.expect("a plan has a prediction");
        assert!(predicted.misses_after < predicted.misses_before);
    }

    #[test]
    fn weakness_all_pages_go_to_a_loop_that_does_not_fit() {
        // The first loop would fit into memory. The hull of the second loop is steeper, so the second loop receives all
        // pages. But it needs more pages for its first hit than the cache has.
        let plan = step(vec![(50, cliff(80, 800.0)), (50, cliff(120, 1_500.0))]);
        assert_eq!(pages_after(&plan, vec![50, 50]), [1, 99]);
        assert_eq!(plan.predicted.map(|it| it.misses_after), Some(1_000.0));
    }

    #[test]
    fn a_large_cache_is_partitioned_in_several_steps() {
        let moves_max = DynacacheOptions::default().moves_max;
        let plan = step(vec![(5_000, scan(10.0)), (5_000, cliff(8_000, 20.0))]);
        assert_eq!(plan.moves.len(), moves_max);
        let cache = snapshot(1, vec![(4_000, scan(10.0)), (6_000, cliff(6_500, 20.0))]);
        let moves = testing::step(&mut Dynacache::default(), &cache).moves.len();
        assert!((500..510).contains(&moves), "about 500 pages still move, not {moves}");
    }

    #[test]
    fn no_page_moves_without_gain_or_while_the_pool_has_pages() {
        assert_eq!(step(vec![(5, scan(10.0)), (5, scan(20.0))]), Plan::default());
        let cache = snapshot(1, vec![(5, scan(10.0)), (5, cliff(8, 20.0))]);
        let mut dynacache = Dynacache::default();
        assert_eq!(testing::step(&mut dynacache, &cache).moves.len(), 3);
        assert_eq!(
            testing::step(&mut dynacache, &Snapshot { pages_free: 1, ..cache }),
            Plan::default()
        );
    }

    #[test]
    fn the_miss_entropy_is_low_if_one_class_has_most_misses() {
        let entropy = |misses: &[f64]| {
            let counts = misses.iter().map(|&misses| Counts {
                hits: 100,
                profiled: Some(Profiled { misses, ..Profiled::default() }),
                ..Counts::default()
            });
            miss_entropy(&counts.collect::<Vec<_>>())
        };
        assert_eq!(entropy(&[10.0, 0.0, 0.0]), 0.0);
        assert_eq!(entropy(&[5.0, 5.0, 5.0, 5.0]), 1.0);
        assert!((entropy(&[9.0, 9.0, 0.0, 0.0]) - 0.5).abs() < 1e-12);
        assert_eq!(entropy(&[]), 0.0);
        assert_eq!(entropy(&[7.0]), 0.0, "there is nothing to partition");
        assert!(entropy(&[90.0, 5.0, 5.0]) < entropy(&[50.0, 25.0, 25.0]));
    }

    #[test]
    fn no_page_moves_if_the_misses_are_spread_more_evenly_than_allowed() {
        let moves = |entropy_max, misses: [f64; 2]| {
            let options = DynacacheOptions { entropy_max, ..DynacacheOptions::default() };
            let mut dynacache = Dynacache { options, ..Dynacache::default() };
            let mut cache = snapshot(1, vec![(5, scan(10.0)), (5, cliff(8, 20.0))]);
            testing::step(&mut dynacache, &cache);
            for ((class, profile), misses) in
                cache.classes.iter_mut().zip(&mut cache.profiles).zip(misses)
            {
                class.hits += 10;
                profile.misses += misses;
            }
            testing::step(&mut dynacache, &cache).moves.len()
        };
        assert_eq!(moves(0.5, [100.0, 100.0]), 0);
        assert_eq!(moves(0.5, [100.0, 1.0]), 3);
        assert_eq!(moves(1.0, [100.0, 100.0]), 3);
    }
}
