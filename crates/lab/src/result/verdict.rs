//! Classifies each published value: how the lab obtains its own value, and whether the two values agree.
//!
//! ```text
//!   experiments/NAME.toml: [[forced]], [[fitted]], [[not_measured]] --> Origin --.
//!                          [[explained]]                            --> Cause ---+--> Verdict --> VerdictCounts
//!                                   our value, published value at the scale -----'
//! ```
//!
//! Invariants:
//! - A value that is forced or fitted never counts as agreement. A fitted value that differs counts as a difference.
//! - A difference without a cause that an experiment shows is unexplained.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How the lab obtains its value of a published figure. The texts are reasons, without a full stop at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A run measures the value, and any value would be possible.
    #[default]
    Measured,
    /// The set-up of the experiment allows no other value.
    Forced(String),
    /// The experiment chooses an input so that this value, or one that determines it, equals the published value.
    Fitted(String),
    /// No run measures the value.
    NotMeasured(String),
}

impl Origin {
    /// Returns true for the origin of values that are evidence for or against the published value.
    pub fn is_measured(&self) -> bool {
        *self == Origin::Measured
    }

    /// Returns the origin with its reason, or `None` for a measured value.
    pub fn text(&self) -> Option<String> {
        match self {
            Origin::Measured => None,
            Origin::Forced(why) => Some(format!("forced: {why}")),
            Origin::Fitted(why) => Some(format!("fitted: {why}")),
            Origin::NotMeasured(why) => Some(format!("not measured: {why}")),
        }
    }
}

/// The cause of a difference between our value and the published value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The cause, without a full stop at the end.
    pub why: String,
    pub shown_by: ShownBy,
}

/// The row that shows the cause of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownBy {
    pub experiment: String,
    /// [`Measure::name`](super::Measure) of the row.
    pub measure: String,
    pub variant: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShownBy { experiment, measure, variant } = &self.shown_by;
        write!(f, "{} (shown by {experiment}: {measure} of {variant})", self.why)
    }
}

/// The largest difference between two values that agree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// In percent of the published value.
    Percent(f64),
    /// In the unit of the measure.
    Absolute(f64),
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance::Percent(10.0)
    }
}

impl Tolerance {
    /// Returns a text that names the tolerance, or `None` for the default.
    pub fn text(self, unit: &str) -> Option<String> {
        match self {
            _ if self == Tolerance::default() => None,
            Tolerance::Percent(percent) => Some(format!("tolerance {percent} %")),
            Tolerance::Absolute(points) if unit == "%" => {
                Some(format!("tolerance {points} percentage points"))
            }
            Tolerance::Absolute(difference) => Some(format!("tolerance {difference} {unit}")),
        }
    }

    fn includes(self, ours: f64, published: f64) -> bool {
        let maximum = match self {
            Tolerance::Percent(percent) => published.abs() * percent / 100.0,
            Tolerance::Absolute(difference) => difference,
        };
        (ours - published).abs() <= maximum
    }
}

/// What is known about a published value, apart from the value itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Classification {
    /// How the lab obtains its value.
    #[serde(default, skip_serializing_if = "Origin::is_measured")]
    pub origin: Origin,
    /// The cause of a difference between the values. `None` if no experiment shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    #[serde(default)]
    pub tolerance: Tolerance,
}

/// The result of the comparison of our value with the published value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The difference is within the tolerance.
    Agrees,
    /// The values differ, and an experiment shows the cause.
    CauseShown,
    /// The values differ, or the run never reached the measured event, and no experiment shows the cause.
    Unexplained,
    Forced,
    Fitted,
    NotMeasured,
}

impl Verdict {
    pub const ALL: [Verdict; 6] = [
        Verdict::Agrees,
        Verdict::CauseShown,
        Verdict::Unexplained,
        Verdict::Forced,
        Verdict::Fitted,
        Verdict::NotMeasured,
    ];

    /// Compares our value with the published value. `ours` is `None` if the run never reached the measured event.
    pub fn of(of_value: &Classification, ours: Option<f64>, published: f64) -> Verdict {
        let agrees = |ours: f64| of_value.tolerance.includes(ours, published);
        match &of_value.origin {
            Origin::Forced(_) => Verdict::Forced,
            Origin::NotMeasured(_) => Verdict::NotMeasured,
            Origin::Fitted(_) if ours.is_some_and(agrees) => Verdict::Fitted,
            Origin::Measured if ours.is_some_and(agrees) => Verdict::Agrees,
            Origin::Fitted(_) | Origin::Measured if of_value.cause.is_some() => Verdict::CauseShown,
            Origin::Fitted(_) | Origin::Measured => Verdict::Unexplained,
        }
    }

    /// Returns the label of the verdict in tables.
    pub fn label(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::CauseShown => "differs, cause shown",
            Verdict::Unexplained => "differs, unexplained",
            Verdict::Forced => "forced",
            Verdict::Fitted => "fitted",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// The number of published values by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictCounts([usize; Verdict::ALL.len()]);

impl VerdictCounts {
    pub fn of(verdicts: impl IntoIterator<Item = Verdict>) -> VerdictCounts {
        let mut counts = VerdictCounts::default();
        verdicts.into_iter().for_each(|verdict| counts.0[verdict as usize] += 1);
        counts
    }

    pub fn count(&self, verdict: Verdict) -> usize {
        self.0[verdict as usize]
    }

    /// Returns the number of published values.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    pub fn add(&mut self, other: &VerdictCounts) {
        self.0.iter_mut().zip(other.0).for_each(|(count, other)| *count += other);
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, Classification, Origin, ShownBy, Tolerance, Verdict, VerdictCounts};

    #[test]
    fn values_within_the_tolerance_agree() {
        let verdict = |ours, published| Verdict::of(&Classification::default(), ours, published);
        for (ours, expected) in [
            (110.0, Verdict::Agrees),
            (90.0, Verdict::Agrees),
            (110.1, Verdict::Unexplained),
            (89.9, Verdict::Unexplained),
            (-100.0, Verdict::Unexplained),
        ] {
            assert_eq!(verdict(Some(ours), 100.0), expected, "{ours}");
        }
        assert_eq!(verdict(Some(-6.0), -6.2), Verdict::Agrees);
        assert_eq!(verdict(Some(0.1), 0.0), Verdict::Unexplained);
        assert_eq!(verdict(None, 5.0), Verdict::Unexplained);
        for (tolerance, ours, expected) in [
            (Tolerance::Percent(1.0), 101.0, Verdict::Agrees),
            (Tolerance::Percent(1.0), 101.1, Verdict::Unexplained),
            (Tolerance::Absolute(0.5), 99.5, Verdict::Agrees),
            (Tolerance::Absolute(0.5), 99.4, Verdict::Unexplained),
        ] {
            let of_value = Classification { tolerance, ..Classification::default() };
            assert_eq!(Verdict::of(&of_value, Some(ours), 100.0), expected, "{ours}");
        }
    }

    #[test]
    fn a_shown_cause_settles_a_difference_and_nothing_settles_a_forced_value() {
        let why = || "chosen".to_owned();
        let shown_by = ShownBy {
            experiment: "two-phase".to_owned(),
            measure: "rank".to_owned(),
            variant: "base".to_owned(),
        };
        let of_origin = |origin| {
            let cause = Some(Cause { why: why(), shown_by: shown_by.clone() });
            Classification { origin, cause, tolerance: Tolerance::default() }
        };
        let verdicts = [
            Verdict::of(&of_origin(Origin::Measured), Some(2.0), 2.0),
            Verdict::of(&of_origin(Origin::Measured), Some(1.0), 2.0),
            Verdict::of(&of_origin(Origin::Measured), None, 2.0),
            Verdict::of(&of_origin(Origin::Forced(why())), Some(2.0), 2.0),
            Verdict::of(&of_origin(Origin::Fitted(why())), Some(2.0), 2.0),
            Verdict::of(&of_origin(Origin::Fitted(why())), Some(1.0), 2.0),
            Verdict::of(&of_origin(Origin::NotMeasured(why())), None, 2.0),
        ];
        let counts = VerdictCounts::of(verdicts);
        assert_eq!(Verdict::ALL.map(|verdict| counts.count(verdict)), [1, 3, 0, 1, 1, 1]);
        assert_eq!(counts.total(), 7);
    }
}
