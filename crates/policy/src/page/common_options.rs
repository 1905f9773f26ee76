//! Options that several policies have.

use crate::options::{COUNT_MAX, Choice, PolicyOption, TICKS_MAX};
use crate::split::Objective;

pub(crate) fn period_ticks(place: &mut u32) -> PolicyOption<'_> {
    PolicyOption::whole("period_ticks", place, 1..=TICKS_MAX, "ticks (1/64 s) between two steps")
}

pub(crate) fn period_gets(place: &mut u64) -> PolicyOption<'_> {
    PolicyOption::whole("period_gets", place, 1..=COUNT_MAX, "gets between two steps")
}

pub(crate) fn misses(place: &mut u64) -> PolicyOption<'_> {
    PolicyOption::whole("misses", place, 1..=COUNT_MAX, "gets that miss between two steps")
}

pub(crate) fn evictions(place: &mut u64) -> PolicyOption<'_> {
    let help = "allocations without a free chunk between two steps";
    PolicyOption::whole("evictions", place, 1..=COUNT_MAX, help)
}

pub(crate) fn moves_max(place: &mut usize) -> PolicyOption<'_> {
    let help = "pages that move in a step";
    let mut option = PolicyOption::whole("moves_max", place, 1..=usize::MAX, help);
    option.values = "a whole number from 1".to_string();
    option
}

pub(crate) fn gain_min(place: &mut f64) -> PolicyOption<'_> {
    let help = "the least gain to move for, in misses a get or their mean costs";
    PolicyOption::real("gain_min", place, 0.0..=1.0, help)
}

pub(crate) fn objective(place: &mut Objective) -> PolicyOption<'_> {
    PolicyOption::choice("objective", place, "what is made least")
}

impl Choice for Objective {
    const WORDS: &'static [(&'static str, Objective)] = &[
        ("miss_ratio", Objective::MissRatio),
        ("request_time", Objective::RequestTime),
        ("cost", Objective::Cost),
    ];
}
