//! A trial: some rounds of page moves whose effect is measured.
//!
//! ```text
//!   period before | rounds of moves | new pages fill | period after --> verdict: helped, unclear, hurt
//! ```
//!
//! The traffic changes while a trial runs, so the misses before and after are not compared as such. The classes whose
//! pages did not change are the control group: a change of their misses per request is attributed to the traffic. The
//! excess of a trial is the number of misses of the other classes, minus the number that they would have had with their
//! former misses per request and the change of the control group (the difference in differences; D. Card, A. B.
//! Krueger, "Minimum Wages and Employment", American Economic Review 84, 1994).
//!
//! The control group can mislead: its misses may fall because its items now fit, while those of the other classes stay.
//! So a trial hurt only if the misses per request of its classes rose, too.
//!
//! Invariant: a trial without enough misses to exclude chance is unclear.

use crate::split::Split;
use slabwise_observer::counters::Counters;

/// The excess must be this many standard deviations of a Poisson-distributed number from 0.
const DEVIATIONS_MIN: f64 = 3.0;
/// The excess must be this share of all misses.
const EXCESS_SHARE_MIN: f64 = 0.01;
/// With fewer misses, the control group says nothing about the traffic.
const CONTROL_MISSES_MIN: f64 = 200.0;
/// The control group changes the expected misses at most by this factor, up or down.
const CONTROL_FACTOR_MAX: f64 = 2.0;

/// The judgement of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The classes have fewer misses than expected without the moves.
    Helped,
    /// The difference is small, or chance explains it.
    Unclear,
    /// The classes have more misses than expected without the moves.
    Hurt,
}

impl Verdict {
    /// Returns the word for logs and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Helped => "helped",
            Verdict::Unclear => "unclear",
            Verdict::Hurt => "hurt",
        }
    }
}

/// The measured effect of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The judgement.
    pub verdict: Verdict,
    /// The misses of the period after, minus those expected without the moves, per 1,000 gets.
    pub excess_per_thousand: f64,
    /// The misses per 1,000 gets in the period before.
    pub before_per_thousand: f64,
    /// The misses per 1,000 gets in the period after.
    pub after_per_thousand: f64,
}

/// The counters at the start and at the end of a period.
#[derive(Clone, Debug)]
pub struct Period {
    /// The start.
    pub from: Counters,
    /// The end.
    pub to: Counters,
}

/// The requests and misses of a group of classes in a period.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    misses: f64,
    /// The misses that the misses per request of the period before predict.
    expected: f64,
    /// The variance of `expected`.
    variance: f64,
}

impl Period {
    /// Returns the gets and the misses of all classes.
    fn totals(&self) -> (f64, f64) {
        let gets = self.to.gets.saturating_sub(self.from.gets);
        let misses = self.to.misses.saturating_sub(self.from.misses);
        (gets as f64, misses as f64)
    }

    fn misses_per_thousand(&self) -> f64 {
        let (gets, misses) = self.totals();
        1_000.0 * misses / gets.max(1.0)
    }

    /// Returns the requests and the misses of the class with this chunk size.
    fn class(&self, chunk_size_bytes: usize) -> (f64, f64) {
        let find = |counters: &Counters| {
            let mut classes = counters.classes.iter();
            let class = classes.find(|it| it.shown.chunk_size_bytes == chunk_size_bytes);
            class.map_or((0, 0), |class| (class.shown.hits, class.shown.sets))
        };
        let ((hits_from, sets_from), (hits_to, sets_to)) = (find(&self.from), find(&self.to));
        let misses = sets_to.saturating_sub(sets_from) as f64;
        (hits_to.saturating_sub(hits_from) as f64 + misses, misses)
    }
}

/// Judges the trial that changed the split `before`. The present split is that at the end of the period `after`.
pub fn judge(split: &Split, before: &Period, after: &Period) -> Effect {
    let (mut moved, mut control) = (Sum::default(), Sum::default());
    for class in &after.to.classes {
        let chunk_size_bytes = class.shown.chunk_size_bytes;
        let has_moved = split.pages(chunk_size_bytes) != class.shown.pages;
        let sum = if has_moved { &mut moved } else { &mut control };
        let (requests_before, misses_before) = before.class(chunk_size_bytes);
        let (requests, misses) = after.class(chunk_size_bytes);
        let factor = requests / requests_before.max(1.0);
        sum.misses += misses;
        sum.expected += misses_before * factor;
        sum.variance += misses_before * factor * factor;
    }
    let traffic = match control.misses.min(control.expected) >= CONTROL_MISSES_MIN {
        true => control.misses / control.expected,
        false => 1.0,
    };
    let traffic = traffic.clamp(1.0 / CONTROL_FACTOR_MAX, CONTROL_FACTOR_MAX);
    let excess = moved.misses - moved.expected * traffic;
    let deviation = (moved.misses + moved.variance * traffic * traffic).sqrt();
    let (gets, misses) = after.totals();
    let limit = (DEVIATIONS_MIN * deviation).max(EXCESS_SHARE_MIN * misses);
    let verdict = match excess {
        _ if excess.min(moved.misses - moved.expected) > limit => Verdict::Hurt,
        _ if excess < -limit => Verdict::Helped,
        _ => Verdict::Unclear,
    };
    Effect {
        verdict,
        excess_per_thousand: 1_000.0 * excess / gets.max(1.0),
        before_per_thousand: before.misses_per_thousand(),
        after_per_thousand: after.misses_per_thousand(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Effect, Period, Verdict, judge};
    use crate::split::Split;
    use crate::testing::{counters, move_page, request};

    const CLASSES: [(usize, u64); 3] = [(100, 5), (200, 5), (300, 5)];

    /// Judges the move of a page from class 0 to class 1. `before` and `after` are the misses of 10,000 gets of each
    /// class.
    fn judged(before: [u64; 3], after: [u64; 3]) -> Effect {
        let from = counters(&CLASSES);
        let split = Split::of(&from);
        let mut to = from.clone();
        (0..3).for_each(|class| request(&mut to, class, 10_000 - before[class], before[class], 0));
        let period = Period { from, to: to.clone() };
        move_page(&mut to, 0, 1);
        let moved = to.clone();
        (0..3).for_each(|class| request(&mut to, class, 10_000 - after[class], after[class], 0));
        judge(&split, &period, &Period { from: moved, to })
    }

    #[test]
    fn a_trial_that_costs_misses_hurt() {
        let effect = judged([500, 500, 500], [900, 450, 500]);
        assert_eq!(effect.verdict, Verdict::Hurt);
        assert!((effect.excess_per_thousand - 350.0 / 30.0).abs() < 1e-9, "{effect:?}");
        assert_eq!(effect.before_per_thousand, 50.0);
        assert_eq!(judged([500, 500, 500], [600, 100, 500]).verdict, Verdict::Helped);
    }

    #[test]
    fn a_change_of_the_traffic_is_not_an_effect_of_the_moves() {
        // All classes have 60 % more misses.
        assert_eq!(judged([500, 500, 500], [800, 800, 800]).verdict, Verdict::Unclear);
        // Only the classes of the trial have.
        assert_eq!(judged([500, 500, 500], [800, 800, 500]).verdict, Verdict::Hurt);
    }

    #[test]
    fn fewer_misses_of_the_control_group_alone_are_no_harm() {
        assert_eq!(judged([500, 500, 1_000], [480, 450, 500]).verdict, Verdict::Unclear);
        assert_eq!(judged([500, 500, 1_000], [800, 450, 500]).verdict, Verdict::Hurt);
    }

    #[test]
    fn chance_decides_nothing() {
        assert_eq!(judged([50, 50, 5_000], [70, 55, 5_000]).verdict, Verdict::Unclear);
        assert_eq!(judged([0, 0, 0], [0, 0, 0]).verdict, Verdict::Unclear);
    }
}
