//! The last plan and its effect.
//!
//! ```text
//!   gets  ...|--- up to 100,000 ---| plan, moves |--- up to 100,000 ---|...
//!              miss ratio before                    miss ratio after
//! ```
//!
//! The miss ratio while pages move belongs to neither. A policy may carry out one decision in several plans: a plan for
//! the same reason within [`SERIES_GETS_MAX`] gets continues the last one, and both are one record. A plan for another
//! reason that follows sooner is measured on the gets in between.

use slabwise_base::{Ticks, counts};
use slabwise_policy::{Plan, Prediction};
use std::collections::VecDeque;

/// The maximum number of gets over which a miss ratio is measured.
pub const EFFECT_GETS_MAX: u64 = 100_000;
/// The number of gets without a move that ends a series of plans.
pub(crate) const SERIES_GETS_MAX: u64 = EFFECT_GETS_MAX / 4;
/// The number of times that gets and misses are noted in [`EFFECT_GETS_MAX`] gets.
const NOTES_MAX: usize = 16;

counts! {
    /// Gets since the start, or of a period.
    pub struct Effect {
        /// Gets.
        gets,
        /// Gets that missed.
        misses,
    }
}

impl Effect {
    /// Misses per 1,000 gets; 0 without gets.
    pub fn misses_per_thousand(self) -> f64 {
        1_000.0 * self.misses as f64 / self.gets.max(1) as f64
    }
}

/// The last plan that moved pages, or a series of plans for one reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanRecord {
    /// The time of the last plan of the series.
    pub at: Ticks,
    /// The number of planned moves.
    pub moves: usize,
    /// The number of moves that started.
    pub begun: usize,
    /// The number of moves that the engine refused because the cache had changed.
    pub refused: usize,
    /// The reason of the first move.
    pub reason: &'static str,
    /// The policy's prediction, if it makes one: misses before the first plan, and after the last.
    pub predicted: Option<Prediction>,
    /// Gets and misses before the first plan.
    pub before: Effect,
    /// Gets and misses after the last move, for up to [`EFFECT_GETS_MAX`] gets.
    pub after: Effect,
}

impl PlanRecord {
    fn is_continued_by(&self, new: &PlanRecord) -> bool {
        self.reason == new.reason && self.after.gets < SERIES_GETS_MAX
    }

    fn continued_by(&self, new: PlanRecord) -> PlanRecord {
        let misses_before = self.predicted.map(|predicted| predicted.misses_before);
        let predicted = new.predicted.map(|predicted| Prediction {
            misses_before: misses_before.unwrap_or(predicted.misses_before),
            ..predicted
        });
        PlanRecord {
            moves: self.moves + new.moves,
            begun: self.begun,
            refused: self.refused,
            predicted,
            before: self.before,
            ..new
        }
    }
}

/// The record of the last plan, and the counts that it is measured by.
#[derive(Debug, Default)]
pub(crate) struct Records {
    notes: VecDeque<Effect>,
    last: Option<PlanRecord>,
    settled: Option<Effect>,
}

impl Records {
    pub fn last(&self) -> Option<&PlanRecord> {
        self.last.as_ref()
    }

    pub fn note(&mut self, counts: Effect) {
        let step = EFFECT_GETS_MAX / NOTES_MAX as u64;
        if self.notes.back().is_none_or(|last| counts.gets - last.gets >= step) {
            self.notes.push_back(counts);
        }
        // If the second note is old enough, the first is no longer needed.
        while self.notes.get(1).is_some_and(|note| counts.gets - note.gets >= EFFECT_GETS_MAX) {
            self.notes.pop_front();
        }
        if let Some(last) = &mut self.last {
            let start = *self.settled.get_or_insert(counts);
            if last.after.gets < EFFECT_GETS_MAX {
                last.after = counts.since(&start);
            }
        }
    }

    pub fn plan(&mut self, plan: &Plan, counts: Effect, at: Ticks) {
        let Some(first) = plan.moves.first() else { return };
        let before = self.notes.front().map(|oldest| counts.since(oldest));
        // Gets before the last move of this plan are not counted before a later one.
        self.notes.clear();
        self.settled = None;
        let new = PlanRecord {
            at,
            moves: plan.moves.len(),
            begun: 0,
            refused: 0,
            reason: first.reason,
            predicted: plan.predicted,
            before: before.unwrap_or_default(),
            after: Effect::default(),
        };
        self.last = Some(match &self.last {
            Some(last) if last.is_continued_by(&new) => last.continued_by(new),
            _ => new,
        });
    }

    pub fn requested(&mut self, has_started: bool) {
        if let Some(last) = &mut self.last {
            last.begun += usize::from(has_started);
            last.refused += usize::from(!has_started);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EFFECT_GETS_MAX, Effect, Records, SERIES_GETS_MAX};
    use slabwise_base::{ClassId, Ticks};
    use slabwise_policy::{PageMove, Plan, Prediction};

    #[test]
    fn a_plan_is_measured_before_it_and_after_its_moves() {
        let mut records = Records::default();
        let page_move = PageMove { victim: ClassId(0), receiver: None, reason: "test" };
        let plan = Plan { moves: vec![page_move; 2], ..Plan::default() };
        let mut counts = Effect::default();
        let mut serve = |records: &mut Records, gets: u64, one_in: u64, is_settled: bool| {
            for _ in 0..gets / 1_000 {
                counts.gets += 1_000;
                counts.misses += 1_000 / one_in;
                if is_settled {
                    records.note(counts);
                }
            }
            counts
        };
        serve(&mut records, 500_000, 2, true);
        let counts = serve(&mut records, EFFECT_GETS_MAX + 10_000, 4, true);
        records.plan(&Plan::default(), counts, Ticks(5));
        assert_eq!(records.last(), None, "nothing was planned");
        records.plan(&plan, counts, Ticks(6));
        let before = records.last().expect("there is a plan").before;
        assert_eq!(before.misses_per_thousand(), 250.0);
        assert!(before.gets.abs_diff(EFFECT_GETS_MAX) <= EFFECT_GETS_MAX / 16, "{before:?}");
        records.requested(true);
        serve(&mut records, 50_000, 1, false);
        records.requested(false);
        serve(&mut records, 1_000, 1, true);
        serve(&mut records, EFFECT_GETS_MAX, 5, true);
        serve(&mut records, 500_000, 1, true);
        let last = records.last().expect("there is a plan");
        assert_eq!((last.moves, last.begun, last.refused, last.at), (2, 1, 1, Ticks(6)));
        assert_eq!(last.after, Effect { gets: EFFECT_GETS_MAX, misses: EFFECT_GETS_MAX / 5 });
    }

    /// Records of a cache in which one in `one_in` gets misses.
    #[derive(Default)]
    struct Scene {
        records: Records,
        counts: Effect,
    }

    impl Scene {
        fn serve(&mut self, gets: u64, one_in: u64) {
            for _ in 0..gets / 1_000 {
                self.counts.gets += 1_000;
                self.counts.misses += 1_000 / one_in;
                self.records.note(self.counts);
            }
        }

        fn plan(&mut self, reason: &'static str, predicted: [f64; 2], at: u32) {
            let page_move = PageMove { victim: ClassId(0), receiver: None, reason };
            let [misses_before, misses_after] = predicted;
            let predicted = Some(Prediction { misses_before, misses_after });
            let plan = Plan { moves: vec![page_move; 8], predicted };
            self.records.plan(&plan, self.counts, Ticks(at));
            (0..8).for_each(|_| self.records.requested(true));
        }
    }

    #[test]
    fn plans_that_continue_each_other_are_one_record() {
        let mut scene = Scene::default();
        scene.serve(2 * EFFECT_GETS_MAX, 2);
        for step in 0..5u32 {
            scene.plan("one", [500.0 - f64::from(step), 200.0 - f64::from(step)], step);
            scene.serve(SERIES_GETS_MAX - 1_000, 4);
        }
        let last = *scene.records.last().expect("there is a plan");
        assert_eq!((last.moves, last.begun, last.at), (40, 40, Ticks(4)));
        assert_eq!(last.before.misses_per_thousand(), 500.0);
        assert!(last.before.gets >= EFFECT_GETS_MAX);
        assert_eq!(last.predicted, Some(Prediction { misses_before: 500.0, misses_after: 196.0 }));
        scene.serve(2 * EFFECT_GETS_MAX, 5);
        let after = scene.records.last().expect("there is a plan").after;
        assert!((200.0..225.0).contains(&after.misses_per_thousand()), "{after:?}");
        // A later plan, or one for another reason, starts a new record.
        for (reason, gets) in [("one", SERIES_GETS_MAX + 1_000), ("two", 10_000)] {
            scene.serve(gets, 5);
            scene.plan(reason, [300.0, 200.0], 9);
            let last = *scene.records.last().expect("there is a plan");
            assert_eq!((last.moves, last.reason), (8, reason));
            assert_eq!(last.before.misses_per_thousand(), 200.0, "{reason}");
        }
    }
}
