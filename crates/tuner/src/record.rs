//! The record of the last plan and of its effect on the miss ratio.
//!
//! ```text
//!   gets  ...|--- up to 100,000 ---| plan, moves |--- up to 100,000 ---|...
//!              miss ratio before                    miss ratio after
//! ```
//!
//! Gets while pages move do not count. A policy may carry out one decision in several plans. So a plan belongs to the
//! same record as the plan before if both have the same reason and fewer than [`SERIES_GAP_GETS`] gets are between
//! them. Any other plan starts a new record. For the miss ratio before this plan, only the gets since the last move of
//! the previous plan count.

use slabwise_base::{Ticks, counts};
use slabwise_policy::{Plan, Prediction};
use std::collections::VecDeque;
use std::sync::Arc;

/// The maximum number of gets over which a miss ratio is measured.
pub const EFFECT_GETS_MAX: u64 = 100_000;
/// A plan starts a new record if at least this number of gets is between it and the plan before.
pub(crate) const SERIES_GAP_GETS: u64 = EFFECT_GETS_MAX / 4;
/// The maximum number of records before the last one that are kept.
pub(crate) const OLDER_RECORDS_MAX: usize = 64;
/// The number of notes of gets and misses in [`EFFECT_GETS_MAX`] gets.
const NOTES_MAX: usize = 16;

counts! {
    /// The gets and misses of the cache, since the start or in a period.
    pub struct Effect {
        /// The number of gets.
        gets,
        /// The number of gets that missed.
        misses,
    }
}

impl Effect {
    /// Returns the number of misses per 1,000 gets; 0 if there are no gets.
    pub fn misses_per_thousand(self) -> f64 {
        1_000.0 * self.misses as f64 / self.gets.max(1) as f64
    }
}

/// The record of the last plan with moves, or of a series of plans for one reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanRecord {
    /// The time of the last plan of the series.
    pub at: Ticks,
    /// The number of planned moves in the series.
    pub moves: usize,
    /// The number of moves that started.
    pub started: usize,
    /// The number of moves that the engine refused because the cache had changed.
    pub refused: usize,
    /// The reason of the first move.
    pub reason: &'static str,
    /// The policy's prediction: the misses before the first plan of the series, and after the last. `None` if the
    /// policy makes no predictions.
    pub predicted: Option<Prediction>,
    /// The gets and misses before the first plan of the series, over up to [`EFFECT_GETS_MAX`] gets.
    pub before: Effect,
    /// The gets and misses after the last move of the series, over up to [`EFFECT_GETS_MAX`] gets.
    pub after: Effect,
}

impl PlanRecord {
    /// Returns true if a new plan belongs to the series of this record.
    fn is_continued_by(&self, new: &PlanRecord) -> bool {
        self.reason == new.reason && self.after.gets < SERIES_GAP_GETS
    }

    /// Returns the record of the series with a new plan.
    fn continued_by(&self, new: PlanRecord) -> PlanRecord {
        let misses_before = self.predicted.map(|predicted| predicted.misses_before);
        let predicted = new.predicted.map(|predicted| Prediction {
            misses_before: misses_before.unwrap_or(predicted.misses_before),
            ..predicted
        });
        PlanRecord {
            moves: self.moves + new.moves,
            started: self.started,
            refused: self.refused,
            predicted,
            before: self.before,
            ..new
        }
    }
}

/// The record of the last plan, and the counts from which its effect is computed.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The gets and misses since the start at some recent moments, oldest first.
    notes: VecDeque<Effect>,
    /// The record of the last plan; `None` before the first plan with moves.
    last: Option<PlanRecord>,
    /// The records before the last one, oldest first.
    older: Arc<[PlanRecord]>,
    /// The gets and misses since the start when the moves of the last plan had ended; `None` before that.
    settled: Option<Effect>,
}

impl Records {
    pub fn last(&self) -> Option<&PlanRecord> {
        self.last.as_ref()
    }

    /// Returns the records before the last one, oldest first. At most [`OLDER_RECORDS_MAX`] are kept.
    pub fn older(&self) -> &Arc<[PlanRecord]> {
        &self.older
    }

    /// Records the gets and misses since the start. The caller calls this only while no planned move waits.
    pub fn note_counts(&mut self, counts: Effect) {
        let step = EFFECT_GETS_MAX / NOTES_MAX as u64;
        if self.notes.back().is_none_or(|last| counts.gets - last.gets >= step) {
            self.notes.push_back(counts);
        }
        // The first note is not needed if the second note is at least EFFECT_GETS_MAX gets old.
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

    /// Records a plan. `counts` are the gets and misses since the start.
    pub fn note_plan(&mut self, plan: &Plan, counts: Effect, at: Ticks) {
        let Some(first) = plan.moves.first() else { return };
        let before = self.notes.front().map(|oldest| counts.since(oldest));
        // For the next plan, only gets after the last move of this plan count.
        self.notes.clear();
        self.settled = None;
        let new = PlanRecord {
            at,
            moves: plan.moves.len(),
            started: 0,
            refused: 0,
            reason: first.reason,
            predicted: plan.predicted,
            before: before.unwrap_or_default(),
            after: Effect::default(),
        };
        let continued = self.last.filter(|last| last.is_continued_by(&new));
        if let (None, Some(last)) = (continued, self.last) {
            let kept = self.older.len().saturating_sub(OLDER_RECORDS_MAX - 1);
            self.older = self.older[kept..].iter().copied().chain([last]).collect();
        }
        self.last = Some(continued.map_or(new, |last| last.continued_by(new)));
    }

    /// Records that a planned move was requested from the engine, and whether it started.
    pub fn note_request(&mut self, has_started: bool) {
        if let Some(last) = &mut self.last {
            last.started += usize::from(has_started);
            last.refused += usize::from(!has_started);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EFFECT_GETS_MAX, Effect, OLDER_RECORDS_MAX, Records, SERIES_GAP_GETS};
    use slabwise_base::{ClassId, Ticks};
    use slabwise_policy::{PageMove, Plan, Prediction};

    #[test]
    fn gets_before_a_plan_and_after_its_moves_are_counted() {
        let mut records = Records::default();
        let page_move = PageMove { victim: ClassId(0), page: None, receiver: None, reason: "test" };
        let plan = Plan { moves: vec![page_move; 2], ..Plan::default() };
        let mut counts = Effect::default();
        let mut serve = |records: &mut Records, gets: u64, one_in: u64, is_settled: bool| {
            for _ in 0..gets / 1_000 {
                counts.gets += 1_000;
                counts.misses += 1_000 / one_in;
                if is_settled {
                    records.note_counts(counts);
                }
            }
            counts
        };
        serve(&mut records, 500_000, 2, true);
        let counts = serve(&mut records, EFFECT_GETS_MAX + 10_000, 4, true);
        records.note_plan(&Plan::default(), counts, Ticks(5));
        assert_eq!(records.last(), None, "a plan without moves has no record");
        records.note_plan(&plan, counts, Ticks(6));
        let before = records.last().expect("the plan has a record").before;
        assert_eq!(before.misses_per_thousand(), 250.0);
        assert!(
            before.gets.abs_diff(EFFECT_GETS_MAX) <= EFFECT_GETS_MAX / 16,
            "about 100,000 gets count before the plan: {before:?}"
        );
        records.note_request(true);
        serve(&mut records, 50_000, 1, false);
        records.note_request(false);
        serve(&mut records, 1_000, 1, true);
        serve(&mut records, EFFECT_GETS_MAX, 5, true);
        serve(&mut records, 500_000, 1, true);
        let last = records.last().expect("the plan has a record");
        assert_eq!((last.moves, last.started, last.refused, last.at), (2, 1, 1, Ticks(6)));
        assert_eq!(last.after, Effect { gets: EFFECT_GETS_MAX, misses: EFFECT_GETS_MAX / 5 });
    }

    /// The counts of a cache, and the records of its plans.
    #[derive(Default)]
    struct Scenario {
        records: Records,
        counts: Effect,
    }

    impl Scenario {
        /// Counts this many gets. Of `one_in` gets, one misses.
        fn serve(&mut self, gets: u64, one_in: u64) {
            for _ in 0..gets / 1_000 {
                self.counts.gets += 1_000;
                self.counts.misses += 1_000 / one_in;
                self.records.note_counts(self.counts);
            }
        }

        /// Records a plan of eight moves, which all start.
        fn plan(&mut self, reason: &'static str, predicted: [f64; 2], at: u32) {
            let page_move = PageMove { victim: ClassId(0), page: None, receiver: None, reason };
            let [misses_before, misses_after] = predicted;
            let predicted = Some(Prediction { misses_before, misses_after });
            let plan = Plan { moves: vec![page_move; 8], predicted, ..Plan::default() };
            self.records.note_plan(&plan, self.counts, Ticks(at));
            (0..8).for_each(|_| self.records.note_request(true));
        }
    }

    #[test]
    fn plans_for_one_reason_in_quick_succession_have_one_record() {
        let mut scenario = Scenario::default();
        scenario.serve(2 * EFFECT_GETS_MAX, 2);
        for step in 0..5u32 {
            scenario.plan("one", [500.0 - f64::from(step), 200.0 - f64::from(step)], step);
            scenario.serve(SERIES_GAP_GETS - 1_000, 4);
        }
        let last = *scenario.records.last().expect("the plans have a record");
        assert_eq!((last.moves, last.started, last.at), (40, 40, Ticks(4)));
        assert_eq!(last.before.misses_per_thousand(), 500.0);
        assert!(last.before.gets >= EFFECT_GETS_MAX);
        assert_eq!(last.predicted, Some(Prediction { misses_before: 500.0, misses_after: 196.0 }));
        scenario.serve(2 * EFFECT_GETS_MAX, 5);
        let after = scenario.records.last().expect("the plans have a record").after;
        assert!(
            (200.0..225.0).contains(&after.misses_per_thousand()),
            "about a fifth of the gets miss: {after:?}"
        );
        // A plan after many gets starts a new record, and so does a plan for another reason.
        for (reason, gets) in [("one", SERIES_GAP_GETS + 1_000), ("two", 10_000)] {
            scenario.serve(gets, 5);
            scenario.plan(reason, [300.0, 200.0], 9);
            let last = *scenario.records.last().expect("the plan has a record");
            assert_eq!((last.moves, last.reason), (8, reason));
            let older = scenario.records.older().last().expect("the record before is kept");
            assert_eq!(older.reason, "one");
            assert_eq!(
                last.before.misses_per_thousand(),
                200.0,
                "reason {reason}: a fifth of the gets miss"
            );
        }
    }
    #[test]
    fn the_last_records_are_kept() {
        let mut scenario = Scenario::default();
        for number in 0..2 * OLDER_RECORDS_MAX as u32 {
            scenario.plan("one", [300.0, 200.0], number);
            scenario.serve(SERIES_GAP_GETS + 1_000, 4);
        }
        let older = scenario.records.older();
        let newest = 2 * OLDER_RECORDS_MAX as u32 - 2;
        assert_eq!(older.len(), OLDER_RECORDS_MAX);
        assert_eq!(older.last().map(|record| record.at), Some(Ticks(newest)));
        assert!(older.is_sorted_by_key(|record| record.at.0));
    }
}
