//! Periodic Slab Allocation (D. Carra and P. Michiardi, "Memory Partitioning in Memcached: An Experimental Performance
//! Analysis", ICC 2014).
//!
//! Every M misses (M is the option `misses`) one page moves. The receiver is the class with the most misses since the
//! last step. The victim is the class with the least *risk* among the others: the fewest requests per page since the
//! last step. Misses are counted by the class's [profile](crate::ClassProfile). Without a profile, stores are counted
//! instead, because a look-aside cache has about one store for each miss.
//!
//! Weaknesses: a class whose keys are used once has the most misses and receives page after page, and none of them
//! saves a miss; the authors' later policy [`cost_partition`](super::cost_partition) avoids this weakness. Pages never
//! stop moving.
//!
//! Invariants: at most one move a step, even if the step is late; a class keeps one page.

use crate::history::changes::{Changes, Counts};
use crate::options::options;
use crate::policy::Policy;
use crate::{ClassSnapshot, Inputs, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::Random;

options! {
    /// The paper gives no value for M (the option `misses`). The default is about the number of items on a page of 1
    /// MiB. So the items that a move drops cause at most about as many misses as triggered the move.
    pub struct PsaOptions of Psa {
        misses: u64 = 10_000, events, "number of get misses between two steps";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Psa {
    options: PsaOptions,
    changes: Changes,
}

impl Policy for Psa {
    fn trigger(&self) -> Trigger {
        Trigger::EveryMisses(self.options.misses)
    }

    fn inputs(&self) -> Inputs {
        Inputs::OptionalProfiles
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        let changes = self.changes.since_last(snapshot);
        least_risk_to_most_misses(
            snapshot,
            &changes,
            |index| changes[index].misses(),
            |index| requests_per_page(&snapshot.classes[index], &changes[index]),
            "from the class with the fewest requests per page to the class with the most misses",
        )
        .into_iter()
        .collect()
    }
}

/// Plans the move of both policies by Carra and Michiardi, `psa` and `cost_partition`. The receiver is the class with
/// the most `misses`; if no class has misses, the function returns `None`. The victim is the class with the least
/// `risk` among the other classes that own two pages or more; if risks are equal, the class with the fewest requests
/// per page gives. `misses` and `risk` receive the index of a class in the snapshot.
pub(crate) fn least_risk_to_most_misses(
    snapshot: &Snapshot,
    changes: &[Counts],
    misses: impl Fn(usize) -> f64,
    risk: impl Fn(usize) -> f64,
    reason: &'static str,
) -> Option<PageMove> {
    if !snapshot.is_divided() {
        return None;
    }
    let classes = &snapshot.classes;
    let (receiver, most) = (0..classes.len())
        .map(|index| (index, misses(index)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    if most == 0.0 {
        return None;
    }
    let (victim, _) = (0..classes.len())
        .filter(|&index| index != receiver && classes[index].pages > 1)
        .map(|index| (index, [risk(index), requests_per_page(&classes[index], &changes[index])]))
        .min_by(|(_, a), (_, b)| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])))?;
    Some(PageMove::between(snapshot, victim, receiver, reason))
}

fn requests_per_page(class: &ClassSnapshot, change: &Counts) -> f64 {
    change.gets() / class.pages as f64
}

#[cfg(test)]
mod tests {
    use super::{Psa, PsaOptions};
    use crate::policy::Policy;
    use crate::testing;
    use crate::{ClassProfile, ClassSnapshot, Snapshot, Trigger};
    use slabwise_base::ClassId;

    /// The pages of a class and its events between two steps.
    #[derive(Clone, Copy)]
    struct Class {
        pages: u64,
        hits: u64,
        sets: u64,
    }

    /// Returns the victim and the receiver of the move that a step plans after the events of `classes`. `misses` has
    /// the misses of the classes' profiles; `None` if there are no profiles.
    fn step(classes: &[Class], misses: Option<&[f64]>) -> Option<(u8, u8)> {
        let snapshot = |times: u64| {
            let class = |(index, class): (usize, &Class)| ClassSnapshot {
                pages: class.pages,
                used_chunks: class.pages * 10,
                hits: times * class.hits,
                sets: times * class.sets,
                ..ClassSnapshot::empty(ClassId(index as u8), 96, 10)
            };
            let profile = |&misses: &f64| ClassProfile {
                misses: times as f64 * misses,
                ..ClassProfile::default()
            };
            Snapshot {
                memory_full: true,
                classes: classes.iter().enumerate().map(class).collect(),
                profiles: misses.unwrap_or(&[]).iter().map(profile).collect(),
                ..Snapshot::default()
            }
        };
        let mut psa = Psa::default();
        let plan = testing::step(&mut psa, &snapshot(3));
        assert!(plan.moves.is_empty(), "events before the first step move no page");
        let moves = testing::step(&mut psa, &snapshot(4)).moves;
        assert!(moves.len() <= 1, "a step moves at most one page");
        moves.first().map(|m| (m.victim.0, m.receiver.expect("a class receives the page").0))
    }

    const BUSY: Class = Class { pages: 10, hits: 1_000, sets: 10 };
    const IDLE: Class = Class { pages: 10, hits: 10, sets: 0 };
    const MISSING: Class = Class { pages: 2, hits: 10, sets: 500 };

    #[test]
    fn a_page_moves_from_the_fewest_requests_per_page_to_the_most_misses() {
        assert_eq!(step(&[BUSY, IDLE, MISSING], None), Some((1, 2)));
        let small_but_idle = Class { pages: 1, hits: 0, sets: 0 };
        let found = step(&[BUSY, small_but_idle, MISSING], None);
        assert_eq!(found, Some((0, 2)), "a class with one page keeps it");
        assert_eq!(step(&[MISSING], None), None, "no page moves in a cache of one class");
        let without_misses = Class { sets: 0, ..BUSY };
        assert_eq!(step(&[without_misses, IDLE], None), None, "no page moves without misses");
    }

    #[test]
    fn misses_of_profiles_are_counted_instead_of_stores() {
        assert_eq!(step(&[BUSY, IDLE, MISSING], Some(&[600.0, 0.0, 0.0])), Some((1, 0)));
    }

    #[test]
    fn weakness_keys_used_once_take_all_pages_but_one() {
        let mut classes = [BUSY, Class { pages: 10, hits: 0, sets: 2_000 }];
        while let Some((victim, receiver)) = step(&classes, None) {
            assert_eq!((victim, receiver), (0, 1));
            classes[0].pages -= 1;
            classes[1].pages += 1;
        }
        assert_eq!(classes[0].pages, 1, "class 0 loses its pages although it had few misses");
    }

    #[test]
    fn a_step_follows_misses_and_moves_no_page_while_the_pool_has_pages() {
        let mut psa = Psa { options: PsaOptions { misses: 7 }, ..Psa::default() };
        assert_eq!(psa.trigger(), Trigger::EveryMisses(7));
        let class = |index, sets| ClassSnapshot {
            pages: 9,
            sets,
            ..ClassSnapshot::empty(ClassId(index), 96, 10)
        };
        let mut snapshot = Snapshot {
            memory_full: true,
            pages_free: 1,
            classes: vec![class(0, 0), class(1, 0)],
            ..Snapshot::default()
        };
        testing::step(&mut psa, &snapshot);
        snapshot.classes[1].sets = 100;
        assert!(testing::step(&mut psa, &snapshot).moves.is_empty());
        snapshot.pages_free = 0;
        snapshot.classes[1].sets = 200;
        assert_eq!(testing::step(&mut psa, &snapshot).moves.len(), 1);
    }
}
