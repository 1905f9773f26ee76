//! The texts of log lines.

use crate::goal::{GoalEnd, Purpose};
use crate::shift::Shift;
use crate::split::{Order, Split};
use crate::steerer::Round;
use crate::trial::Effect;
use slabwise_base::ClassId;
use slabwise_observer::counters::Counters;

/// Describes a move with the pages of both classes before and after it, and updates the pages.
pub fn describe(order: Order, counters: &Counters, pages: &mut Split) -> String {
    let size = |id: ClassId| counters.class(id).map_or(0, |class| class.shown.chunk_size_bytes);
    let (from, to) = (size(order.victim), size(order.receiver));
    let (from_pages, to_pages) = (pages.pages(from), pages.pages(to));
    pages.move_page(order, counters);
    format!(
        "a page from class {} ({from} bytes, {from_pages} pages) to class {} ({to} bytes, {to_pages} pages)",
        order.victim.wire(),
        order.receiver.wire(),
    )
}

/// Describes a shift of the traffic.
pub fn describe_shift(shift: Shift) -> String {
    match shift {
        Shift::Mix(share) => {
            format!("{:.0} % of the requests are for other classes", 100.0 * share)
        }
        Shift::Misses(before, now) => {
            let (before, now) = (1_000.0 * before, 1_000.0 * now);
            format!("{before:.2} misses per 1,000 gets before, {now:.2} now")
        }
    }
}

/// Describes the predicted saving of a round.
pub fn saving(round: &Round) -> String {
    match round.predicted_saving {
        Some(saving) => format!("; the round saves {:.2} misses per 1,000 gets", saving * 1_000.0),
        None => String::new(),
    }
}

/// Describes a measured effect.
pub fn describe_effect(effect: Effect) -> String {
    format!(
        "trial {}: {:+.2} misses per 1,000 gets against the expectation ({:.2} before, {:.2} after)",
        effect.verdict.word(),
        effect.excess_per_thousand,
        effect.before_per_thousand,
        effect.after_per_thousand,
    )
}

/// Describes the end of a goal.
pub fn describe_end(purpose: Purpose, end: GoalEnd) -> String {
    let split = match purpose {
        Purpose::Undo => "the split of before the moves",
        Purpose::Reapply | Purpose::Policy => "the last split",
    };
    match end {
        GoalEnd::Reached => format!("{split} is reached"),
        GoalEnd::NoPages => {
            format!("{split} is reached, as far as classes have pages")
        }
        GoalEnd::Stalled(left) => format!(
            "{split} is given up: no page has moved for two minutes, although {left} moves are left"
        ),
    }
}
