//! Decides when a running cache should change its class table, and to which table.
//!
//! ```text
//!   SizeSnapshot --enough items? settled?--> exact_change --enough gain?--> SizeEvaluation: change, or why not
//! ```
//!
//! [`exact_change`](super::exact_change) finds the best table for the items in the cache, given a price for each byte
//! that would move and a price for each class. This module decides when to change to that table:
//!
//! - *Evidence.* The cache must have at least [`LearnerOptions::items_min`] items, and the share of the memory in use
//!   must be at least [`LearnerOptions::filled_min`]. With less memory in use, memory is not scarce.
//! - *Gain.* A change must save at least [`LearnerOptions::gain_min`] of the bytes of all items. In addition it must
//!   save more than the price of the bytes that move. This price is proportional to the memory in use: in a half-empty
//!   cache a move costs only processor time, in a full cache other items are evicted. So a cache that is not full
//!   changes its table for a small gain, a full cache only for a large gain.
//! - *Validation.* A table that is better for the current items may be worse for later items. So the best table is
//!   first a proposal. After one *turnover* (the number of stores equals the number of items) the proposal must still
//!   save enough on the items that are then in the cache. If it does, the table changes to the best table of that time.
//!   A gain of [`LearnerOptions::gain_certain`] needs no validation.
//! - *Backoff.* After each change a validation takes twice as many turnovers, up to [`LearnerOptions::turnovers_max`],
//!   so a cache whose sizes keep changing changes its table less and less often; a certain gain resets this. While
//!   classes of an earlier table drain, or before one turnover under the new table, the items in the cache are no
//!   evidence.
//! - *Method.* With [`Method::HillClimb`] the best table is the end of a climb from the current table, and has as many
//!   classes.
//! - *Reserve classes.* Class numbers that the best table does not use become sizes in its widest gaps, because an
//!   empty class costs no memory. Hill climbing adds no classes.
//!
//! Invariants: if the item sizes do not change, the table stops changing, because random gains are below the price of
//! moved bytes. Results depend only on the snapshots and on the calls of [`SizeLearner::note_change`].

use super::change::{Change, ChangePrices, climbed_change, exact_change};
use super::error::SizesError;
use super::gaps::fill_gaps;
use super::layout::ChunkLayout;
use super::method::Method;
use super::parts::{Demand, loss};
use slabwise_base::ClassId;
use thiserror::Error;

/// The maximum quotient of a size and the size below it, as long as there are unused class numbers.
const GAP_FACTOR: f64 = 1.25;

/// The limits and prices that decide when the table changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnerOptions {
    /// The method that computes the best table.
    pub method: Method,
    /// The minimum number of items in the cache.
    pub items_min: u64,
    /// The minimum share of the memory that is in use, from 0 to 1.
    pub filled_min: f64,
    /// The minimum gain, as a share of the bytes of all items.
    pub gain_min: f64,
    /// The gain that needs no validation, as a share of the bytes of all items.
    pub gain_certain: f64,
    /// The maximum number of turnovers that a validation takes, at least 1.
    pub turnovers_max: u64,
    /// The price of a byte of an item whose chunk size changes, in lost bytes, when the cache is full.
    pub moved_byte_price: f64,
    /// The price of a class, in pages, when the cache is full.
    pub class_price_pages: f64,
}

impl Default for LearnerOptions {
    /// Returns the defaults. The table may change when a thousand items are in the cache and an eighth of the memory is
    /// in use. The minimum gain is 1 %, and 5 % without validation. The price of a moved byte is 3 % of a byte. The
    /// price of a class is a quarter of a page, which is about the cost of a class in a cache with many pages
    /// (`slabwise lab run classes-vs-misses`).
    fn default() -> LearnerOptions {
        LearnerOptions {
            method: Method::Exact,
            items_min: 1_000,
            filled_min: 0.125,
            gain_min: 0.01,
            gain_certain: 0.05,
            turnovers_max: 64,
            moved_byte_price: 0.03,
            class_price_pages: 0.25,
        }
    }
}

/// The state of a cache at one moment, from which the learner decides about the class table.
#[derive(Clone, Copy, Debug)]
pub struct SizeSnapshot<'s> {
    /// The items in the cache.
    pub demands: &'s [Demand],
    /// The current chunk sizes in bytes, ascending.
    pub current_table: &'s [usize],
    /// The limits of chunk sizes.
    pub layout: ChunkLayout,
    /// The share of the memory that is in use, from 0 to 1.
    pub filled: f64,
    /// The number of retired classes: classes of earlier tables that still own pages.
    pub retired_classes: usize,
    /// The number of stores since the start.
    pub stores: u64,
}

/// The event that the learner waits for before it changes the table.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "the texts say what the fields are")]
pub enum Waiting {
    /// The cache has too few items.
    #[error("more items: {items} of {items_min}")]
    Items { items: u64, items_min: u64 },
    /// The cache uses too little of its memory.
    #[error("more memory in use: {:.1} of {:.1} %", .filled * 100.0, .filled_min * 100.0)]
    Memory { filled: f64, filled_min: f64 },
    /// Classes of an earlier table still own pages.
    #[error("{retired_classes} classes of an earlier table to drain")]
    Drain { retired_classes: usize },
    /// There were fewer stores than one turnover since the last change of the table.
    #[error("more stores since the last change: {stores} of {stores_min}")]
    Stores { stores: u64, stores_min: u64 },
    /// A better table is under validation.
    #[error("validation of a gain of {:.2} %: {stores} of {stores_min} stores", .gain * 100.0)]
    Validation { stores: u64, stores_min: u64, gain: f64 },
    /// The gain of the best table is too small.
    #[error(
        "a larger gain: {:.2} % of the bytes of all items, {:.2} % is the minimum",
        .gain * 100.0, .gain_min * 100.0
    )]
    Gain { gain: f64, gain_min: f64 },
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeEvaluation {
    /// The best table, compared with the current table; `None` if there was too little evidence.
    pub best: Option<Change>,
    /// The event that the learner waits for; `None` if the caller should change the table to `best` now.
    pub waiting: Option<Waiting>,
}

/// Decides when the class table changes; keeps its state between evaluations.
#[derive(Clone, Debug)]
pub struct SizeLearner {
    options: LearnerOptions,
    /// The stores since the start at the last change of the table; `None` if the table never changed.
    changed_at_stores: Option<u64>,
    /// The number of turnovers that a validation takes now.
    turnovers: u64,
    /// The number of turnovers that a validation takes after the next change of the table.
    turnovers_next: u64,
    /// The table under validation; `None` if there is none.
    proposal: Option<Proposal>,
}

#[derive(Clone, Debug)]
struct Proposal {
    table: Vec<usize>,
    /// The stores since the start at the beginning of the validation.
    at_stores: u64,
}

impl SizeLearner {
    /// Creates a learner for a cache whose table has not changed yet.
    pub fn new(options: LearnerOptions) -> SizeLearner {
        let (turnovers, turnovers_next) = (1, 1);
        SizeLearner { options, changed_at_stores: None, turnovers, turnovers_next, proposal: None }
    }

    /// Records that the table was changed after this many stores since the start.
    pub fn note_change(&mut self, stores: u64) {
        self.changed_at_stores = Some(stores);
        self.turnovers = self.turnovers_next;
        self.proposal = None;
    }

    /// Evaluates the cache. Returns an error if the snapshot is invalid, for example if an item exceeds the largest
    /// chunk of a layout without chained items.
    pub fn evaluate(&mut self, snapshot: &SizeSnapshot<'_>) -> Result<SizeEvaluation, SizesError> {
        if let Some(waiting) = self.missing_evidence(snapshot) {
            return Ok(SizeEvaluation { best: None, waiting: Some(waiting) });
        }
        let mut best = self.best_change(snapshot)?;
        let waiting = match self.incomplete_change(snapshot) {
            Some(waiting) => Some(waiting),
            None => self.missing_validation(snapshot, &best)?,
        };
        if waiting.is_none() {
            best.table = self.with_reserve_classes(&best.table, &snapshot.layout)?;
        }
        Ok(SizeEvaluation { best: Some(best), waiting })
    }

    /// Computes the best table by the learner's method.
    fn best_change(&self, snapshot: &SizeSnapshot<'_>) -> Result<Change, SizesError> {
        let SizeSnapshot { demands, current_table, layout, stores, .. } = *snapshot;
        let prices = self.prices(snapshot);
        match self.options.method {
            Method::Exact => {
                exact_change(demands, &layout, ClassId::COUNT_MAX, current_table, &prices)
            }
            // The steps of each climb differ, so that a later climb may find what an earlier one did not.
            Method::HillClimb => climbed_change(demands, &layout, current_table, &prices, stores),
        }
    }

    /// Adds reserve classes to a table, unless the number of classes stays.
    fn with_reserve_classes(
        &self,
        table: &[usize],
        layout: &ChunkLayout,
    ) -> Result<Vec<usize>, SizesError> {
        match self.options.method {
            Method::Exact => fill_gaps(table, layout, GAP_FACTOR, ClassId::COUNT_MAX),
            Method::HillClimb => Ok(table.to_vec()),
        }
    }

    fn prices(&self, snapshot: &SizeSnapshot<'_>) -> ChangePrices {
        let page_size_bytes = snapshot.layout.page_size_bytes.unwrap_or(0) as f64;
        // Moved bytes evict items, and unused pages cause misses, only if memory is full.
        let filled = snapshot.filled.clamp(0.0, 1.0);
        ChangePrices {
            moved_byte_price: self.options.moved_byte_price * filled,
            class_price_bytes: self.options.class_price_pages * page_size_bytes * filled,
        }
    }

    /// Returns the event to wait for if there is too little evidence.
    fn missing_evidence(&self, snapshot: &SizeSnapshot<'_>) -> Option<Waiting> {
        let LearnerOptions { items_min, filled_min, .. } = self.options;
        let (items, filled) = (items(snapshot), snapshot.filled);
        if items < items_min.max(1) {
            return Some(Waiting::Items { items, items_min });
        }
        (filled < filled_min).then_some(Waiting::Memory { filled, filled_min })
    }

    /// Returns the event to wait for if the last change of the table is not yet complete.
    fn incomplete_change(&self, snapshot: &SizeSnapshot<'_>) -> Option<Waiting> {
        if snapshot.retired_classes > 0 {
            return Some(Waiting::Drain { retired_classes: snapshot.retired_classes });
        }
        let stores = snapshot.stores.saturating_sub(self.changed_at_stores?);
        let stores_min = items(snapshot);
        (stores < stores_min).then_some(Waiting::Stores { stores, stores_min })
    }

    /// Returns the event to wait for if the gain is too small or not yet validated; `None` if the table should change.
    fn missing_validation(
        &mut self,
        snapshot: &SizeSnapshot<'_>,
        best: &Change,
    ) -> Result<Option<Waiting>, SizesError> {
        let LearnerOptions { gain_min, gain_certain, .. } = self.options;
        let gain = best.gain_bytes(&self.prices(snapshot)) / valued_bytes(snapshot);
        if best.table == snapshot.current_table || gain < gain_min {
            self.proposal = None;
            return Ok(Some(Waiting::Gain { gain, gain_min }));
        }
        if gain >= gain_certain {
            self.turnovers_next = 1;
            return Ok(None);
        }
        let Some(proposal) = &self.proposal else {
            return self.propose(snapshot, best, gain);
        };
        let stores = snapshot.stores.saturating_sub(proposal.at_stores);
        let stores_min = self.turnovers * items(snapshot);
        let lost = |table: &[usize]| -> Result<f64, SizesError> {
            Ok(loss(snapshot.demands, table, &snapshot.layout)?.total_bytes())
        };
        let saved = lost(snapshot.current_table)? - lost(&proposal.table)?;
        let gain_validated = saved / valued_bytes(snapshot);
        if stores < stores_min {
            return Ok(Some(Waiting::Validation { stores, stores_min, gain: gain_validated }));
        }
        if gain_validated < gain_min {
            return self.propose(snapshot, best, gain);
        }
        self.turnovers_next = (2 * self.turnovers).min(self.options.turnovers_max);
        Ok(None)
    }

    /// Starts the validation of the best table.
    fn propose(
        &mut self,
        snapshot: &SizeSnapshot<'_>,
        best: &Change,
        gain: f64,
    ) -> Result<Option<Waiting>, SizesError> {
        let table = self.with_reserve_classes(&best.table, &snapshot.layout)?;
        self.proposal = Some(Proposal { table, at_stores: snapshot.stores });
        let stores_min = self.turnovers * items(snapshot);
        Ok(Some(Waiting::Validation { stores: 0, stores_min, gain }))
    }
}

/// Returns the number of items in the cache.
fn items(snapshot: &SizeSnapshot<'_>) -> u64 {
    snapshot.demands.iter().map(|demand| demand.items).sum()
}

/// Returns the bytes of all items, each multiplied by its value.
fn valued_bytes(snapshot: &SizeSnapshot<'_>) -> f64 {
    let valued_bytes =
        |demand: &Demand| (demand.size_bytes as u64 * demand.items) as f64 * demand.byte_value;
    snapshot.demands.iter().map(valued_bytes).sum()
}

#[cfg(test)]
#[path = "learner_tests.rs"]
mod tests;
