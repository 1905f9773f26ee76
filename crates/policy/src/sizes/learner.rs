//! When a cache that serves should change its class table, and to which.
//!
//! ```text
//!   SizeSnapshot --enough seen? at rest?--> exact_change --enough gained?--> Lesson: change, or why not
//! ```
//!
//! What is lost by the present table is measured on the items in the cache; the best table for them is
//! [`exact_change`](super::exact_change)'s, at a price for each byte that would have to move and for each class. The
//! rest is when to act on it:
//!
//! - *Evidence.* A table is learned from [`LearnerOptions::items_min`] items on, and not before this part of the
//!   memory holds them: until then memory is not scarce.
//! - *Rest.* While classes of an earlier table drain, what is in the cache is no evidence. After a change as many items
//!   must have been stored as there are: what the cache holds then was stored under the new table. And a table that fits
//!   what is about to change fits badly soon: while memory still fills, or a page policy still divides it anew, the sizes
//!   drift. How far, in a turn of the cache's items, is measured by the bytes of each class of the present table.
//! - *Gain.* A change must save [`LearnerOptions::gain_min`] of the bytes of all items, and each byte that moves its
//!   price. One that saves [`LearnerOptions::gain_sure`] does not wait for the drift to end.
//! - *Spare classes.* Numbers that the best table does not need go to its widest gaps: they cost nothing as long as they
//!   hold nothing, and what comes into a gap one day does not lie in a chunk twice its size.
//!
//! Laws: a steady cache comes to rest, because the best table for what it holds is then in force but for chance, and
//! gains that chance explains are below the price of moving; the learner answers from its snapshots alone.

use super::change::{Change, ChangePrices, exact_change};
use super::demand::Demand;
use super::error::SizesError;
use super::gaps::fill_gaps;
use super::layout::ChunkLayout;
use slabwise_base::ClassId;
use std::fmt;

/// Neighbours of a table lie at most so far apart, as long as there are numbers for classes between them.
const GAP_FACTOR: f64 = 1.25;

/// When a change pays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnerOptions {
    /// The least items to learn from.
    pub items_min: u64,
    /// The least part of the memory that is in use, from 0 to 1.
    pub filled_min: f64,
    /// The least gain, as a part of the bytes of all items.
    pub gain_min: f64,
    /// A gain that waits for no rest.
    pub gain_sure: f64,
    /// At rest so much of the memory is in use at least,
    pub filled_at_rest: f64,
    /// and of the bytes of all items as many go from one class's sizes to another's, at most, while all are stored once.
    pub drift_max: f64,
    /// What a byte costs whose chunk gets another size in a cache that is full, in bytes lost for good.
    pub moved_byte_price: f64,
    /// What a class costs, in pages.
    pub class_price_pages: f64,
}

impl Default for LearnerOptions {
    /// From a thousand items in an eighth of the memory on, for a hundredth of their bytes at rest, or a twentieth; a
    /// moved byte must save a fiftieth of itself, and a class leaves half a page unused.
    fn default() -> LearnerOptions {
        LearnerOptions {
            items_min: 1_000,
            filled_min: 0.125,
            gain_min: 0.01,
            gain_sure: 0.05,
            filled_at_rest: 0.9,
            drift_max: 0.03,
            moved_byte_price: 0.02,
            class_price_pages: 0.5,
        }
    }
}

/// The cache at a moment, as far as its table goes.
#[derive(Clone, Copy, Debug)]
pub struct SizeSnapshot<'s> {
    /// The items in it.
    pub demands: &'s [Demand],
    /// The chunk sizes in force, in bytes, ascending.
    pub present: &'s [usize],
    /// What chunks may be.
    pub layout: ChunkLayout,
    /// The part of the memory that is in use, from 0 to 1.
    pub filled: f64,
    /// Classes of earlier tables that still own pages.
    pub retired_classes: usize,
    /// Stores ever.
    pub stores: u64,
}

/// Why the table stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Waiting {
    /// For more items.
    Items {
        /// Items in the cache.
        items: u64,
        /// The least.
        items_min: u64,
    },
    /// For more memory to be in use.
    Memory {
        /// The part that is.
        filled: f64,
        /// The least.
        filled_min: f64,
    },
    /// For classes of an earlier table to drain.
    Drain {
        /// How many.
        retired_classes: usize,
    },
    /// For more stores under the present table.
    Stores {
        /// Since the last change.
        stores: u64,
        /// The least.
        stores_min: u64,
    },
    /// For the sizes of what is stored to come to rest.
    Drift {
        /// The part of all bytes that went to another class's sizes in the last turn; `None` before a turn is over.
        drift: Option<f64>,
        /// The most of a cache at rest.
        drift_max: f64,
    },
    /// For a better table: the best one gains too little.
    Gain {
        /// As a part of the bytes of all items.
        gain: f64,
        /// The least.
        gain_min: f64,
    },
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Waiting::Items { items, items_min } => write!(f, "{items} of {items_min} items"),
            Waiting::Memory { filled, filled_min } => {
                let (filled, filled_min) = (filled * 100.0, filled_min * 100.0);
                write!(f, "{filled:.1} of {filled_min:.1} % of the memory in use")
            }
            Waiting::Drain { retired_classes } => {
                write!(f, "{retired_classes} classes of an earlier table drain")
            }
            Waiting::Stores { stores, stores_min } => {
                write!(f, "{stores} of {stores_min} stores since the last change")
            }
            Waiting::Drift { drift: None, .. } => {
                write!(f, "sizes to be watched for a turn of all items")
            }
            Waiting::Drift { drift: Some(drift), drift_max } => {
                let (drift, drift_max) = (drift * 100.0, drift_max * 100.0);
                write!(
                    f,
                    "sizes to rest: {drift:.1} % of the bytes drift in a turn, {drift_max:.1} % at rest"
                )
            }
            Waiting::Gain { gain, gain_min } => {
                let (gain, gain_min) = (gain * 100.0, gain_min * 100.0);
                write!(
                    f,
                    "a gain of {gain:.2} % of the bytes of all items, {gain_min:.2} % is the least"
                )
            }
        }
    }
}

/// What came of a look.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// The best table to change to, beside the present one; `None` where there was too little to go by.
    pub best: Option<Change>,
    /// Why not to change to it now; `None`: the table should be changed.
    pub waiting: Option<Waiting>,
}

/// The learner's memory.
#[derive(Clone, Debug)]
pub struct SizeLearner {
    options: LearnerOptions,
    /// Stores ever at the last change.
    changed_at_stores: Option<u64>,
    mark: Option<Mark>,
    /// Between the last two marks.
    drift: Option<f64>,
}

/// What was in the cache at a moment.
#[derive(Clone, Debug)]
struct Mark {
    at_stores: u64,
    present: Vec<usize>,
    shares: Vec<f64>,
}

impl SizeLearner {
    /// One that has seen nothing yet.
    pub fn new(options: LearnerOptions) -> SizeLearner {
        SizeLearner { options, changed_at_stores: None, mark: None, drift: None }
    }

    /// Notes that the table was changed, when so many stores had been made ever.
    pub fn note_change(&mut self, stores: u64) {
        self.changed_at_stores = Some(stores);
        (self.mark, self.drift) = (None, None);
    }

    /// Looks at the cache. What it says cannot be, as sizes beyond the layout's, is an error.
    pub fn look(&mut self, snapshot: &SizeSnapshot<'_>) -> Result<Lesson, SizesError> {
        if let Some(waiting) = self.evidence_missing(snapshot) {
            return Ok(Lesson { best: None, waiting: Some(waiting) });
        }
        self.note_drift(snapshot);
        let mut best = exact_change(
            snapshot.demands,
            &snapshot.layout,
            ClassId::COUNT_MAX,
            snapshot.present,
            &self.prices(snapshot),
        )?;
        let waiting = self.unsettled(snapshot).or_else(|| self.gain_missing(snapshot, &best));
        if waiting.is_none() {
            let (layout, class_count_max) = (&snapshot.layout, ClassId::COUNT_MAX);
            best.table = fill_gaps(&best.table, layout, GAP_FACTOR, class_count_max)?;
        }
        Ok(Lesson { best: Some(best), waiting })
    }

    fn prices(&self, snapshot: &SizeSnapshot<'_>) -> ChangePrices {
        let page_size_bytes = snapshot.layout.page_size_bytes.unwrap_or(0) as f64;
        // What a table saves and what its classes leave unused are weighed as they will be when memory is full.
        let filled = snapshot.filled.clamp(0.0, 1.0);
        ChangePrices {
            moved_byte: self.options.moved_byte_price * filled,
            class_bytes: self.options.class_price_pages * page_size_bytes * filled,
        }
    }

    fn evidence_missing(&self, snapshot: &SizeSnapshot<'_>) -> Option<Waiting> {
        let LearnerOptions { items_min, filled_min, .. } = self.options;
        let (items, filled) = (items(snapshot), snapshot.filled);
        if items < items_min.max(1) {
            return Some(Waiting::Items { items, items_min });
        }
        (filled < filled_min).then_some(Waiting::Memory { filled, filled_min })
    }

    /// Holds what is in the cache against what was there a turn of its items ago.
    fn note_drift(&mut self, snapshot: &SizeSnapshot<'_>) {
        let shares = shares(snapshot);
        if let Some(mark) = self.mark.as_ref().filter(|mark| mark.present == snapshot.present) {
            if snapshot.stores.saturating_sub(mark.at_stores) < items(snapshot) {
                return;
            }
            let moved = mark.shares.iter().zip(&shares).map(|(before, now)| (now - before).abs());
            self.drift = Some(moved.sum::<f64>() / 2.0);
        }
        let present = snapshot.present.to_vec();
        self.mark = Some(Mark { at_stores: snapshot.stores, present, shares });
    }

    fn unsettled(&self, snapshot: &SizeSnapshot<'_>) -> Option<Waiting> {
        if snapshot.retired_classes > 0 {
            return Some(Waiting::Drain { retired_classes: snapshot.retired_classes });
        }
        let stores = snapshot.stores.saturating_sub(self.changed_at_stores?);
        let stores_min = items(snapshot);
        (stores < stores_min).then_some(Waiting::Stores { stores, stores_min })
    }

    fn gain_missing(&self, snapshot: &SizeSnapshot<'_>, best: &Change) -> Option<Waiting> {
        let LearnerOptions { gain_min, gain_sure, filled_at_rest, drift_max, .. } = self.options;
        let gain = best.gain_bytes(&self.prices(snapshot)) / worth(snapshot);
        if best.table == snapshot.present || gain < gain_min {
            return Some(Waiting::Gain { gain, gain_min });
        }
        let filled = snapshot.filled;
        if gain >= gain_sure {
            return None;
        }
        if filled < filled_at_rest {
            return Some(Waiting::Memory { filled, filled_min: filled_at_rest });
        }
        let drift = self.drift;
        let is_at_rest = drift.is_some_and(|drift| drift <= drift_max);
        (!is_at_rest).then_some(Waiting::Drift { drift, drift_max })
    }
}

/// Of all bytes, those of each class's sizes.
fn shares(snapshot: &SizeSnapshot<'_>) -> Vec<f64> {
    let mut bytes = vec![0.0; snapshot.present.len()];
    for demand in snapshot.demands {
        let place = snapshot.present.partition_point(|&size| size < demand.size_bytes);
        // What is larger than the largest chunk lies in chunks of that size.
        let place = place.min(bytes.len().saturating_sub(1));
        if let Some(bytes) = bytes.get_mut(place) {
            *bytes += (demand.size_bytes as u64 * demand.items) as f64;
        }
    }
    let all: f64 = bytes.iter().sum();
    bytes.iter().map(|bytes| bytes / all.max(1.0)).collect()
}

fn items(snapshot: &SizeSnapshot<'_>) -> u64 {
    snapshot.demands.iter().map(|demand| demand.items).sum()
}

/// What the bytes of all items are worth.
fn worth(snapshot: &SizeSnapshot<'_>) -> f64 {
    let worth =
        |demand: &Demand| (demand.size_bytes as u64 * demand.items) as f64 * demand.byte_value;
    snapshot.demands.iter().map(worth).sum()
}

#[cfg(test)]
#[path = "learner_tests.rs"]
mod tests;
