//! memcached's first automover (`slab_automove=1` of memcached 1.4).
//!
//! Every ten seconds (a *window*) it compares how many items each class evicted:
//!
//! - the *winner* of a window is the class that evicted most. A class that wins three windows in a row needs a page,
//!   and needs another one for each further window that it wins;
//! - a class can give a page if it evicted nothing in three windows in a row and owned three pages or more in each. The
//!   one with the smallest chunks gives.
//!
//! A page moves if there are both, so at most six move in a minute. Weaknesses: a class that evicts a single item in
//! half a minute gives nothing, and if two classes alternate as winners neither receives a page. Li and Cox (EuroSys
//! 2015) call it ineffective; Hu and others (ATC 2015) found no effect on misses.

use crate::history::per_class::PerClass;
use crate::options::{TICKS_MAX, options};
use crate::policy::Policy;
use crate::{PageMove, Plan, Snapshot, Trigger};
use slabwise_base::{ClassId, Random, Ticks};

/// A class must own more pages than this to give one.
const VICTIM_PAGES_KEPT: u64 = 2;

options! {
    /// memcached's values: three windows of ten seconds.
    pub struct AutomoveClassicOptions of AutomoveClassic {
        window_ticks: u32 = 10 * Ticks::PER_SECOND, whole(1..=TICKS_MAX),
            "length in ticks (1/64 s) of the windows whose evictions are compared";
        windows: u32 = 3, whole(1..=1_000),
            "windows in a row in which one class evicts most and another nothing, before a page moves";
    }
}

#[derive(Clone, Debug, Default)]
pub struct AutomoveClassic {
    options: AutomoveClassicOptions,
    memory: PerClass<Memory>,
    winner: Option<ClassId>,
    wins: u32,
}

#[derive(Clone, Copy, Debug)]
struct Memory {
    evicted: u64,
    /// Windows in a row in which the class could have given a page.
    quiet_windows: u32,
}

impl Policy for AutomoveClassic {
    fn trigger(&self) -> Trigger {
        Trigger::EveryTicks(self.options.window_ticks)
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        // The first step only records counts.
        let is_first = self.memory.is_empty();
        self.memory.follow(snapshot, |class| Memory { evicted: class.evicted, quiet_windows: 0 });
        if is_first {
            return Plan::default();
        }
        let mut victim = None;
        let mut highest: Option<(ClassId, u64)> = None;
        for (class, memory) in snapshot.classes.iter().zip(self.memory.iter_mut()) {
            let evicted = class.evicted.saturating_sub(memory.evicted);
            memory.evicted = class.evicted;
            if evicted == 0 && class.pages > VICTIM_PAGES_KEPT {
                memory.quiet_windows += 1;
                if memory.quiet_windows >= self.options.windows {
                    victim = victim.or(Some(class.class));
                }
                continue;
            }
            memory.quiet_windows = 0;
            if evicted > highest.map_or(0, |(_, evicted)| evicted) {
                highest = Some((class.class, evicted));
            }
        }
        let receiver = self.receiver(highest.map(|(class, _)| class));
        let reason = "from a class without evictions to the one with most, for several windows";
        let both = victim.zip(receiver).into_iter();
        both.map(|(victim, receiver)| PageMove { victim, receiver: Some(receiver), reason })
            .collect()
    }
}

impl AutomoveClassic {
    /// Counts this window's winner; returns the class if it has won enough windows.
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

    /// The moves of each window, given what each class evicts in it.
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
            plan.moves.first().map(|m| (m.victim.0, m.receiver.expect("never to the pool").0))
        };
        windows.iter().map(window).collect()
    }

    #[test]
    fn the_third_and_each_further_win_moves_a_page() {
        assert_eq!(
            moves(&[9, 9], &[[0, 5]; 5]),
            [None, None, Some((0, 1)), Some((0, 1)), Some((0, 1))]
        );
        let policy = AutomoveClassic::default();
        assert_eq!(policy.trigger(), Trigger::EveryTicks(640), "ten seconds");
    }

    #[test]
    fn the_first_class_of_three_pages_without_evictions_gives() {
        assert_eq!(moves(&[2, 3, 9, 1], &[[0, 0, 0, 5]; 3]).last(), Some(&Some((1, 3))));
        assert_eq!(moves(&[2, 2, 2, 9], &[[0, 0, 0, 5]; 9]), [None; 9]);
    }

    #[test]
    fn weakness_alternating_winners_receive_nothing() {
        let (first, second) = ([0, 1_000, 999], [0, 999, 1_000]);
        assert_eq!(moves(&[9, 9, 9], &[first, first, second].repeat(20)), [None; 60]);
    }

    #[test]
    fn weakness_a_single_eviction_keeps_all_pages() {
        let (busy, quiet) = ([1, 1_000_000], [0, 1_000_000]);
        assert_eq!(moves(&[1_000, 1], &[busy, quiet, quiet].repeat(20)), [None; 60]);
    }

    #[test]
    fn windows_without_evictions_have_no_winner() {
        assert_eq!(moves(&[9, 9], &[[0, 0]; 9]), [None; 9]);
    }
}
