//! Counts of the commands and replies of a run, and the report of a difference.

use crate::differences::LISTED;
use crate::player::{End, Reply};
use crate::run::Difference;
use crate::step::{Dialect, Family, Step, excerpt};
use std::collections::BTreeMap;
use std::fmt;

/// Counts of the steps of a run.
#[derive(Default)]
pub struct Counts {
    /// The number of steps for each command and kind of reply.
    replies: BTreeMap<(Family, String), BTreeMap<String, u64>>,
    /// The number of differences for each row of [`LISTED`].
    listed: BTreeMap<usize, u64>,
}

impl Counts {
    /// Counts a step with equal replies.
    pub fn add(&mut self, step: &Step, reply: &Reply) {
        let kinds = self.replies.entry((step.family, step.command())).or_default();
        *kinds.entry(kind(step.family.dialect(), reply)).or_default() += 1;
    }

    /// Counts a listed difference.
    pub fn add_listed(&mut self, listed: usize) {
        *self.listed.entry(listed).or_default() += 1;
    }

    /// Returns the number of all steps.
    pub fn steps(&self) -> u64 {
        let equal: u64 = self.replies.values().flat_map(BTreeMap::values).sum();
        equal + self.listed.values().sum::<u64>()
    }
}

impl fmt::Display for Counts {
    /// Writes one line for each command, one for each listed difference, and the totals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut families: BTreeMap<Family, u64> = BTreeMap::new();
        for ((family, command), kinds) in &self.replies {
            let total: u64 = kinds.values().sum();
            *families.entry(*family).or_default() += total;
            let kinds: Vec<String> =
                kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            writeln!(f, "{family:?} {command} {total}: {}", kinds.join(", "))?;
        }
        for (index, count) in &self.listed {
            let row = &LISTED[*index];
            writeln!(f, "listed difference, {}: {}: {count}", row.heading, row.row)?;
        }
        for (family, total) in families {
            writeln!(f, "{family:?}: {total} equal replies")?;
        }
        writeln!(
            f,
            "{} commands, {} listed differences",
            self.steps(),
            self.listed.values().sum::<u64>()
        )
    }
}

/// Returns the first word of a reply, or the status of its first packet.
fn kind(dialect: Dialect, reply: &Reply) -> String {
    let text = match (dialect, &reply.bytes[..]) {
        (_, []) => "nothing".to_owned(),
        (Dialect::Binary, [_, _, _, _, _, _, high, low, ..]) => {
            format!("status {:#x}", u16::from_be_bytes([*high, *low]))
        }
        (_, bytes) => {
            let word = bytes.split(|&byte| byte == b' ' || byte == b'\r' || byte == b'\n').next();
            let word = word.unwrap_or_default();
            match word.first() {
                Some(b'0'..=b'9') => "a number".to_owned(),
                _ => word.escape_ascii().to_string(),
            }
        }
    };
    match reply.end {
        End::Marker => text,
        end => format!("{text} ({end:?})"),
    }
}

/// The number of steps of a difference that are printed.
const STEPS_SHOWN_MAX: usize = 30;

/// Prints the steps of a difference, and both replies to the last one.
pub fn print_difference(steps: &[Step], difference: &Difference) {
    println!("\n--- unlisted difference: {:?} ---", difference.mismatch);
    let shown = &steps[steps.len().saturating_sub(STEPS_SHOWN_MAX)..];
    if shown.len() < steps.len() {
        println!("  ... {} earlier steps", steps.len() - shown.len());
    }
    for step in shown {
        println!("  {step}");
    }
    for (name, reply) in ["first ", "second"].into_iter().zip(&difference.replies) {
        println!("{name} {:?}: {}", reply.end, excerpt(&reply.bytes));
    }
}
