//! The sequence of trials: when a trial is open, when it is measured, and which classes are held afterwards.
//!
//! ```text
//!   Idle --round--> Filling --the receivers are full--> Measuring --a period later--> verdict --> Idle or Paused
//!                     ^  |
//!                     '--' more rounds: any in the first seconds, and those of the same direction
//! ```
//!
//! A trial that begins less than a period after the first reading cannot be measured: there is nothing to compare with.
//! It ends when its receivers are full. So the first rounds after a start follow one another without measurements.
//!
//! Invariants: at most one trial is open; a held class is released later after each trial that hurt; the pause is longer
//! after each trial that did not help, until one helps; the number of readings that are kept is limited.

use crate::split::{Order, Split};
use crate::trial::{Effect, Period, Verdict, judge};
use slabwise_base::ClassId;
use slabwise_observer::counters::Counters;
use std::collections::{HashMap, VecDeque};

/// The nanoseconds of a second.
pub const SECOND_NANOS: u64 = 1_000_000_000;
/// The length of the periods before and after a trial.
const PERIOD_NANOS: u64 = 20 * SECOND_NANOS;
/// A period before a trial that is shorter says too little.
const PERIOD_NANOS_MIN: u64 = 8 * SECOND_NANOS;
/// More rounds may join a trial for this long.
const JOIN_NANOS: u64 = 4 * SECOND_NANOS;
/// Rounds in which no class gives what it received, or receives what it gave, may join for this long: after a change of
/// the traffic, many pages move in one direction.
const JOIN_SAME_NANOS: u64 = 90 * SECOND_NANOS;
/// The longest time in which new pages fill.
const FILL_NANOS_MAX: u64 = 30 * SECOND_NANOS;
/// The first pause without rounds after a trial that did not help. Each further one doubles it, until a trial helps, so a
/// server whose load is steady and well divided is soon left alone.
const PAUSE_NANOS: u64 = 40 * SECOND_NANOS;
/// The number of times that the pause doubles: the longest pause is 43 minutes.
const PAUSE_DOUBLINGS_MAX: u32 = 6;
/// The first hold of the classes of a trial that hurt. Each further one doubles it.
const HOLD_NANOS: u64 = 300 * SECOND_NANOS;
/// The number of times that a hold doubles.
const HOLD_DOUBLINGS_MAX: u32 = 5;
/// The readings that are kept cover a period if the interval is at least a second; with a shorter interval, readings are
/// left out.
const READINGS_MAX: usize = 32;

/// The result of a reading.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// No trial has ended.
    Open,
    /// A trial has ended. The split is the one to return to, if the trial hurt.
    Measured(Effect, Option<Split>),
}

#[derive(Debug)]
struct Reading {
    nanos: u64,
    counters: Counters,
}

#[derive(Debug)]
struct Trial {
    split: Split,
    before: Option<Period>,
    opened_at_nanos: u64,
    moved_at_nanos: u64,
    /// The reading at which the period after the moves began.
    measured_from: Option<Reading>,
}

/// The open trial, the readings before it, and the held classes.
#[derive(Debug, Default)]
pub struct Trials {
    readings: VecDeque<Reading>,
    open: Option<Trial>,
    paused_until_nanos: u64,
    /// Number of trials since the last one that helped.
    unhelpful: u32,
    /// From the chunk size of a class to the end of its hold and the number of holds.
    holds: HashMap<usize, (u64, u32)>,
}

impl Trials {
    /// Returns true if there are readings of a period, with which a trial can be compared.
    pub fn has_history(&self) -> bool {
        let covered = self.readings.back().zip(self.readings.front());
        covered.is_some_and(|(last, first)| last.nanos - first.nanos >= PERIOD_NANOS_MIN)
    }

    /// Returns true if a round may begin now. `counters` are those before the round, and `orders` are its moves.
    pub fn may_begin(&self, counters: &Counters, orders: &[Order], nanos: u64) -> bool {
        let Some(trial) = &self.open else { return nanos >= self.paused_until_nanos };
        let age_nanos = nanos.saturating_sub(trial.opened_at_nanos);
        if age_nanos < JOIN_NANOS {
            return true;
        }
        let change = |id: ClassId| {
            let shown = counters.class(id).map(|class| class.shown).unwrap_or_default();
            shown.pages.cmp(&trial.split.pages(shown.chunk_size_bytes))
        };
        let is_same =
            |order: &Order| change(order.victim).is_le() && change(order.receiver).is_ge();
        age_nanos < JOIN_SAME_NANOS && orders.iter().all(is_same)
    }

    /// Returns true if the class with this chunk size is held.
    pub fn is_held(&self, chunk_size_bytes: usize, nanos: u64) -> bool {
        self.holds.get(&chunk_size_bytes).is_some_and(|&(until, _)| nanos < until)
    }

    /// Forgets the readings and the open trial, because counts were reset.
    pub fn forget_readings(&mut self) {
        self.readings.clear();
        self.open = None;
    }

    /// Ends the pause, the holds and the open trial, because the traffic has shifted: what was measured says nothing about
    /// the present traffic.
    pub fn shifted(&mut self) {
        *self = Trials::default();
    }

    /// Records that a round has moved pages. `before` are the counters before the round, and `nanos` is the time after it.
    pub fn moved(&mut self, before: &Counters, nanos: u64) {
        if let Some(trial) = &mut self.open {
            trial.moved_at_nanos = nanos;
            // A round that joins during the measurement starts it again.
            trial.measured_from = None;
            return;
        }
        // The period ends with the reading before the round, and the round may have taken long.
        let end_nanos = self.readings.back().map_or(nanos, |last| last.nanos);
        let first = self.readings.iter().find(|it| it.nanos + PERIOD_NANOS >= end_nanos);
        let period = first.filter(|first| first.nanos + PERIOD_NANOS_MIN <= end_nanos);
        let period =
            period.map(|first| Period { from: first.counters.clone(), to: before.clone() });
        self.open = Some(Trial {
            split: Split::of(before),
            before: period,
            opened_at_nanos: nanos,
            moved_at_nanos: nanos,
            measured_from: None,
        });
    }

    /// Receives one reading, while the server moves no page.
    pub fn observe(&mut self, counters: &Counters, nanos: u64) -> Progress {
        self.remember(counters, nanos);
        let Some(trial) = &mut self.open else { return Progress::Open };
        let is_joined = nanos < trial.opened_at_nanos + JOIN_NANOS;
        let is_filled = is_filled(&trial.split, counters);
        if trial.measured_from.is_none() {
            let waits = !is_filled && nanos < trial.moved_at_nanos + FILL_NANOS_MAX;
            if is_joined || waits {
                return Progress::Open;
            }
            trial.measured_from = Some(Reading { nanos, counters: counters.clone() });
        }
        let Some((before, from)) = trial.before.as_ref().zip(trial.measured_from.as_ref()) else {
            // Without a period before, there is nothing to measure.
            self.open = None;
            return Progress::Open;
        };
        if nanos < from.nanos + PERIOD_NANOS {
            return Progress::Open;
        }
        let after = Period { from: from.counters.clone(), to: counters.clone() };
        let effect = judge(&trial.split, before, &after);
        let split = trial.split.clone();
        self.open = None;
        let undo = self.conclude(effect.verdict, split, counters, nanos);
        Progress::Measured(effect, undo)
    }

    /// Pauses or holds classes, as the verdict demands. Returns the split to return to.
    fn conclude(
        &mut self,
        verdict: Verdict,
        split: Split,
        counters: &Counters,
        nanos: u64,
    ) -> Option<Split> {
        if verdict == Verdict::Helped {
            self.unhelpful = 0;
            return None;
        }
        self.paused_until_nanos = nanos + (PAUSE_NANOS << self.unhelpful);
        self.unhelpful = (self.unhelpful + 1).min(PAUSE_DOUBLINGS_MAX);
        if verdict == Verdict::Unclear {
            return None;
        }
        for class in &counters.classes {
            let chunk_size_bytes = class.shown.chunk_size_bytes;
            if split.pages(chunk_size_bytes) != class.shown.pages {
                let (until, holds) = self.holds.entry(chunk_size_bytes).or_default();
                *until = nanos + (HOLD_NANOS << *holds);
                *holds = (*holds + 1).min(HOLD_DOUBLINGS_MAX);
            }
        }
        Some(split)
    }

    /// Keeps the reading, at most [`READINGS_MAX`] of the last period.
    fn remember(&mut self, counters: &Counters, nanos: u64) {
        let spacing = PERIOD_NANOS / READINGS_MAX as u64;
        if self.readings.back().is_some_and(|last| nanos < last.nanos + spacing) {
            return;
        }
        self.readings.push_back(Reading { nanos, counters: counters.clone() });
        while self.readings.len() > READINGS_MAX {
            self.readings.pop_front();
        }
    }
}

/// Returns true if every class that received pages since this split has filled them.
fn is_filled(split: &Split, counters: &Counters) -> bool {
    counters.classes.iter().all(|class| {
        let shown = &class.shown;
        let received = shown.pages > split.pages(shown.chunk_size_bytes);
        !received || shown.free_chunks < shown.chunks_per_page as u64
    })
}

#[cfg(test)]
mod tests;
