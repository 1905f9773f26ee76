//! Kinds of options that several policies have, and the values of `objective`.

use crate::options::{COUNT_MAX, Choice, PolicyOption, TICKS_MAX};
use crate::split::Objective;

impl<'p> PolicyOption<'p> {
    pub fn period_ticks(name: &'static str, place: &'p mut u32) -> PolicyOption<'p> {
        PolicyOption::whole(name, place, 1..=TICKS_MAX, "ticks (1/64 s) between two steps")
    }

    /// How many of these events lie between two steps.
    pub fn events(name: &'static str, place: &'p mut u64, help: &'static str) -> PolicyOption<'p> {
        PolicyOption::whole(name, place, 1..=COUNT_MAX, help)
    }

    pub fn moves_max(name: &'static str, place: &'p mut usize) -> PolicyOption<'p> {
        let values = "a whole number from 1".to_string();
        PolicyOption::number(values, name, place, 1..=usize::MAX, "pages that move in a step")
    }

    pub fn gain_min(name: &'static str, place: &'p mut f64) -> PolicyOption<'p> {
        let help = "the least gain to move for, in misses a get or their mean costs";
        PolicyOption::real(name, place, 0.0..=1.0, help)
    }
}

impl Choice for Objective {
    const WORDS: &'static [(&'static str, Objective)] = &[
        ("miss_ratio", Objective::MissRatio),
        ("request_time", Objective::RequestTime),
        ("cost", Objective::Cost),
    ];
}
