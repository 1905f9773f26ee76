//! What the operator can do, and what it would bring.

use crate::estimate::Estimate;
use crate::gains::FEWER_MISSES_MIN;
use crate::gains::memory::Worth;
use serde::Serialize;

/// A change of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Action {
    /// The change.
    pub change: Change,
    /// How to make it: a command or an option.
    pub how: String,
    /// The miss ratio after it.
    pub miss_ratio: Estimate,
    /// The share of the present misses that it saves. Negative if it costs misses.
    pub fewer_misses: Estimate,
    /// The memory that would save as many misses.
    pub worth: Worth,
    /// Whether it saves misses.
    pub verdict: Verdict,
}

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The present pages are divided better. The server runs on.
    Pages,
    /// The server is restarted with other chunk sizes.
    ChunkSizes,
    /// Both.
    Together,
    /// A slabwise replaces the server.
    Slabwise,
}

/// Whether a change saves misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole band is below the present misses.
    Saves,
    /// The estimate is below, but the band is not.
    Unclear,
    /// The estimate is not below the present misses by at least 1 %.
    Nothing,
}

impl Change {
    /// Returns the change as words.
    pub fn words(self) -> &'static str {
        match self {
            Change::Pages => "divide the pages better",
            Change::ChunkSizes => "use other chunk sizes",
            Change::Together => "other chunk sizes and a better division",
            Change::Slabwise => "run slabwise instead",
        }
    }

    /// Returns what the change needs.
    pub fn effort(self) -> &'static str {
        match self {
            Change::Pages => "without a restart",
            Change::ChunkSizes => "needs a restart with this option",
            Change::Together => "needs a restart with the option, then the command",
            Change::Slabwise => "replaces the server; same protocol, options and memory",
        }
    }
}

impl Action {
    /// Returns the action that leads to this miss ratio. `now` is the present one.
    pub fn new(
        change: Change,
        how: String,
        now: f64,
        miss_ratio: Estimate,
        worth: Worth,
    ) -> Action {
        let fewer_misses = fewer(miss_ratio, now);
        let verdict = match fewer_misses {
            it if it.value < FEWER_MISSES_MIN => Verdict::Nothing,
            it if it.low > 0.0 => Verdict::Saves,
            _ => Verdict::Unclear,
        };
        Action { change, how, miss_ratio, fewer_misses, worth, verdict }
    }
}

/// Returns the share of the present misses that are saved.
fn fewer(then: Estimate, now: f64) -> Estimate {
    let share = |then: f64| if now > 0.0 { 1.0 - then / now } else { 0.0 };
    Estimate { value: share(then.value), low: share(then.high), high: share(then.low) }
}

#[cfg(test)]
mod tests {
    use super::fewer;
    use crate::estimate::Estimate;

    #[test]
    fn the_saved_share_has_the_band_of_the_misses() {
        let then = Estimate { value: 0.15, low: 0.1, high: 0.22 };
        let found = fewer(then, 0.2);
        let expected = [0.25, -0.1, 0.5];
        let off = [found.value - expected[0], found.low - expected[1], found.high - expected[2]];
        assert!(off.iter().all(|off| off.abs() < 1e-9), "{found:?}");
    }
}
