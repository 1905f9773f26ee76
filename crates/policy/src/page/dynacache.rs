//! Dynacache: the best partition if miss curves were convex.
//!
//! Source: A. Cidon, A. Eisenman, M. Alizadeh, S. Katti, "Dynacache: Dynamic Cloud Caching", HotCloud 2015.
//!
//! ```text
//!   stack distances in bins --> hit ratios h_i as concave, piecewise linear fits
//!                              --> maximise sum f_i h_i(m_i) subject to sum m_i <= M
//! ```
//!
//! f_i is the class's share of gets. The fit is the concave hull of the curve at the ends of the bins. Taking the
//! steepest of the concave pieces first gives the maximum, so no solver is needed. As in the paper there is no
//! threshold, and one round partitions all memory, up to about a thousand page moves.
//!
//! Strength: it takes little time for any number of pages. Weakness: it does not see cliffs. If memory ends within a
//! hull segment that spans a cliff, the pages there bring no hit.
//!
//! Invariants: at most `moves_max` moves a round; a class that holds items keeps a page; while the pool has pages
//! nothing moves.

use crate::options::options;
use crate::policy::Policy;
use crate::split::{ClassCurve, Moves, Size, class_curves, hull, hull_split, predict};
use crate::{Plan, Snapshot, Trigger, Wants};
use slabwise_base::Random;

options! {
    /// The paper partitions memory once for a trace and gives no values for a server.
    pub struct DynacacheOptions of Dynacache {
        moves_max: usize = 1_024, moves_max;
        period_gets: u64 = 1_000_000, events, "gets between two steps";
        buckets: u64 = 100, whole(1..=1_000_000),
            "bins of a class's stack-distance histogram";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Dynacache {
    options: DynacacheOptions,
}

impl Policy for Dynacache {
    fn trigger(&self) -> Trigger {
        Trigger::EveryGets(self.options.period_gets)
    }

    fn wants(&self) -> Wants {
        Wants::Profiles
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        let classes = class_curves(snapshot);
        if !snapshot.is_divided() || classes.is_empty() {
            return Plan::default();
        }
        let present: Vec<u64> = classes.iter().map(|class| class.pages).collect();
        let pages: u64 = present.iter().sum();
        let fits = classes.iter().map(|class| self.fit(class));
        let mut greedy = hull_split(&fits.collect::<Vec<_>>(), pages);
        if let Some((class, _)) = greedy.next {
            greedy.split[class] += greedy.pages_left;
        }
        let moves = Moves {
            classes: &classes,
            target: &greedy.split,
            moves_max: self.options.moves_max,
            reason: "towards the partition with most hits by concave fits of the curves",
        };
        let moves = moves.of(snapshot, |place, pages| moves.slope(place, pages));
        let predicted = predict(snapshot, &classes, &present, &greedy.split);
        Plan { predicted: (!moves.is_empty()).then_some(predicted), moves }
    }
}

impl Dynacache {
    /// The concave fit of a class's hits, computed as the convex fit of its miss costs.
    fn fit(&self, class: &ClassCurve) -> Vec<Size> {
        let end = class.pages_max(u64::MAX);
        let bucket = end.div_ceil(self.options.buckets).max(1);
        let ends = (class.pages_min..end).step_by(bucket as usize).chain([end]);
        let sizes = ends.map(|pages| Size { pages, cost: class.cost(pages) });
        hull(&sizes.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::{Dynacache, DynacacheOptions};
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
    fn convex_curves_end_at_equal_slopes() {
        // Slopes of logarithms are equal if pages are proportional to references.
        let of = |references| (5_000, zipf(20_000, references, 2_000));
        let options = DynacacheOptions { moves_max: usize::MAX, ..DynacacheOptions::default() };
        let cache = snapshot(1, vec![of(3_000.0), of(1_000.0)]);
        let plan = testing::step(&mut Dynacache { options }, &cache);
        let pages = pages_after(&plan, vec![5_000, 5_000]);
        assert!((7_300..=7_700).contains(&pages[0]), "{pages:?}");
        let predicted = plan.predicted.expect("a plan has a prediction");
        assert!(predicted.misses_after < predicted.misses_before);
    }

    #[test]
    fn weakness_cliffs_are_not_seen() {
        // One of the two loops would fit. The hull of the second is steeper, so it receives all pages, but they
        // are too few for a single hit.
        let plan = step(vec![(50, cliff(80, 800.0)), (50, cliff(120, 1_500.0))]);
        assert_eq!(pages_after(&plan, vec![50, 50]), [1, 99]);
        assert_eq!(plan.predicted.map(|it| it.misses_after), Some(1_000.0));
    }

    #[test]
    fn a_large_cache_is_partitioned_in_several_rounds() {
        let moves_max = DynacacheOptions::default().moves_max;
        let plan = step(vec![(5_000, scan(10.0)), (5_000, cliff(8_000, 20.0))]);
        assert_eq!(plan.moves.len(), moves_max);
        let cache = snapshot(1, vec![(4_000, scan(10.0)), (6_000, cliff(6_500, 20.0))]);
        let moves = testing::step(&mut Dynacache::default(), &cache).moves.len();
        assert!((500..510).contains(&moves), "{moves}");
    }

    #[test]
    fn nothing_moves_without_gain_or_while_the_pool_has_pages() {
        assert_eq!(step(vec![(5, scan(10.0)), (5, scan(20.0))]), Plan::default());
        let cache = snapshot(1, vec![(5, scan(10.0)), (5, cliff(8, 20.0))]);
        let mut dynacache = Dynacache::default();
        assert_eq!(testing::step(&mut dynacache, &cache).moves.len(), 3);
        assert_eq!(
            testing::step(&mut dynacache, &Snapshot { pages_free: 1, ..cache }),
            Plan::default()
        );
    }
}
