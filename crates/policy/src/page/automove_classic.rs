//! memcached's first automover (`slab_automove=1` of memcached 1.4).
//!
//! Every ten seconds (a *window*) the policy compares the numbers of items that the classes evicted:
//!
//! - The *winner* of a window is the class that evicted most. A class that wins three windows in a row receives a page,
//!   and another page for each further window that it wins.
//! - A class can give a page if it evicted nothing in three windows in a row and owned three pages or more in each. If
//!   several classes can give a page, the class with the smallest chunks gives.
//!
//! A page moves if a class receives and another class can give, so at most six pages move in a minute. Weaknesses: a
//! class that evicts one item in half a minute gives no page; if two classes win in turn, neither receives a page. Li
//! and Cox (EuroSys 2015) call the policy ineffective; Hu and others (ATC 2015) found no effect on misses.

use crate::history::per_class::PerClass;
use crate::options::{TICKS_MAX, options};
use crate::policy::Policy;
use crate::{PageMove, Plan, Snapshot, Trigger};
use slabwise_base::{ClassId, Random, Ticks};

/// A class must own more pages than this number to give a page.
const VICTIM_PAGES_KEPT: u64 = 2;

options! {
    /// The defaults are memcached's values: three windows of ten seconds.
    pub struct AutomoveClassicOptions of AutomoveClassic {
        window_ticks: u32 = 10 * Ticks::PER_SECOND, whole(1..=TICKS_MAX),
            "length in ticks (1/64 s) of the windows whose evictions are compared";
        windows: u32 = 3, whole(1..=1_000),
            "a page moves after one class evicted most and another class nothing in this many windows in a row";
    }
}

#[derive(Clone, Debug, Default)]
pub struct AutomoveClassic {
    options: AutomoveClassicOptions,
    states: PerClass<ClassState>,
    /// The class that evicted most in the last window; `None` if no class evicted.
    winner: Option<ClassId>,
    /// The number of windows in a row that `winner` has won.
    wins: u32,
}

#[derive(Clone, Copy, Debug)]
struct ClassState {
    /// The evictions since the start, at the end of the last window.
    evicted: u64,
    /// The number of windows in a row in which the class evicted nothing and owned enough pages to give one.
    quiet_windows: u32,
}

impl Policy for AutomoveClassic {
    fn trigger(&self) -> Trigger {
        Trigger::EveryTicks(self.options.window_ticks)
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        // The first step only records counts.
        let is_first = self.states.is_empty();
        self.states
            .follow(snapshot, |class| ClassState { evicted: class.evicted, quiet_windows: 0 });
        if is_first {
            return Plan::default();
        }
        let mut victim = None;
        let mut highest: Option<(ClassId, u64)> = None;
        for (class, state) in snapshot.classes.iter().zip(self.states.iter_mut()) {
            let evicted = class.evicted.saturating_sub(state.evicted);
            state.evicted = class.evicted;
            if evicted == 0 && class.pages > VICTIM_PAGES_KEPT {
                state.quiet_windows += 1;
                if state.quiet_windows >= self.options.windows {
                    victim = victim.or(Some(class.class));
                }
                continue;
            }
            state.quiet_windows = 0;
            if evicted > highest.map_or(0, |(_, evicted)| evicted) {
                highest = Some((class.class, evicted));
            }
        }
        let receiver = self.receiver(highest.map(|(class, _)| class));
        let reason =
            "the victim evicted nothing and the receiver evicted most in several windows in a row";
        let both = victim.zip(receiver).into_iter();
        both.map(|(victim, receiver)| PageMove {
            victim,
            page: None,
            receiver: Some(receiver),
            reason,
        })
        .collect()
    }
}

impl AutomoveClassic {
    /// Records the winner of this window. Returns the winner if it has won enough windows in a row.
    fn receiver(&mut self, winner: Option<ClassId>) -> Option<ClassId> {
        self.wins = if winner.is_some() && winner == self.winner { self.wins + 1 } else { 1 };
        self.winner = winner;
        winner.filter(|_| self.wins >= self.options.windows)
    }
}

#[cfg(test)]
mod tests {
    use super::AutomoveClassic;
    use crate::policy::Policy;
    use crate::testing;
    use crate::{ClassSnapshot, Snapshot, Trigger};
    use slabwise_base::ClassId;

    /// Returns the victim and the receiver of the move after each window. `pages` has the pages of each class; each
    /// window has the number of items that each class evicts.
    fn moves<const N: usize>(pages: &[u64; N], windows: &[[u64; N]]) -> Vec<Option<(u8, u8)>> {
        let mut policy = AutomoveClassic::default();
        let class = |(index, &pages): (usize, &u64)| ClassSnapshot {
            pages,
            ..ClassSnapshot::empty(ClassId(index as u8), 96, 100)
        };
        let classes = pages.iter().enumerate().map(class).collect();
        let mut snapshot = Snapshot { memory_full: true, classes, ..Snapshot::default() };
        assert!(
            testing::step(&mut policy, &snapshot).moves.is_empty(),
            "the first step ends no window"
        );
        let window = |evicted: &[u64; N]| {
            for (class, evicted) in snapshot.classes.iter_mut().zip(evicted) {
                class.evicted += evicted;
            }
            let plan = testing::step(&mut policy, &snapshot);
            plan.moves
                .first()
                .map(|m| (m.victim.0, m.receiver.expect("a class receives the page").0))
        };
        windows.iter().map(window).collect()
    }

    #[test]
    fn the_third_win_in_a_row_and_each_further_win_moves_a_page() {
        assert_eq!(
            moves(&[9, 9], &[[0, 5]; 5]),
            [None, None, Some((0, 1)), Some((0, 1)), Some((0, 1))]
        );
        let policy = AutomoveClassic::default();
        assert_eq!(policy.trigger(), Trigger::EveryTicks(640), "a window lasts ten seconds");
    }

    #[test]
    fn the_first_class_with_three_pages_and_no_evictions_gives_a_page() {
        assert_eq!(moves(&[2, 3, 9, 1], &[[0, 0, 0, 5]; 3]).last(), Some(&Some((1, 3))));
        assert_eq!(moves(&[2, 2, 2, 9], &[[0, 0, 0, 5]; 9]), [None; 9]);
    }

    #[test]
    fn weakness_two_classes_that_win_in_turn_receive_no_page() {
        let (first, second) = ([0, 1_000, 999], [0, 999, 1_000]);
        assert_eq!(moves(&[9, 9, 9], &[first, first, second].repeat(20)), [None; 60]);
    }

    #[test]
    fn weakness_a_class_with_one_eviction_in_three_windows_gives_no_page() {
        let (busy, quiet) = ([1, 1_000_000], [0, 1_000_000]);
        assert_eq!(moves(&[1_000, 1], &[busy, quiet, quiet].repeat(20)), [None; 60]);
    }

    #[test]
    fn windows_without_evictions_have_no_winner() {
        assert_eq!(moves(&[9, 9], &[[0, 0]; 9]), [None; 9]);
    }
}
