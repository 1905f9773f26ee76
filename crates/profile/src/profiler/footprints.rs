//! Footprints of a profiler's classes, where somebody wants them.
//!
//! Each reference that is counted goes to the reuse times of its class, too; the key's record says when it was last
//! used, by the clock of the class that it is in. What they take, with two generations of their curves, is not there
//! for keys: as much as is usual from the first sizes on, as the table of keys does not shrink. So where they are
//! begun only when there are all the keys that there may be, memory is above its bound by as much.

use super::{KEY_SIZE_BYTES, Profiler};
use crate::mrc::Mrc;
use crate::reuse_windows::{ReuseWindows, UsedAt};
use slabwise_base::ClassId;
use slabwise_base::random::unit;

/// What the reuse times of a class usually take; their curves take up to half as much.
const CLASS_REUSES_SIZE_BYTES: usize = 6 << 10;

impl Profiler {
    /// Keeps reuse times of the last so many gets from here on, for
    /// [`footprint_curve`](crate::ClassProfile::footprint_curve); `None`: not any more.
    ///
    /// # Panics
    /// If the gets are none.
    pub fn keep_footprints(&mut self, window_gets: Option<u64>) {
        if window_gets == self.reuses.as_ref().map(ReuseWindows::window_gets) {
            return;
        }
        self.reuses = window_gets.map(ReuseWindows::new);
        // All clocks begin now.
        for number in self.keys.numbers_where(|record| record.used_at > 0) {
            self.keys.get_mut(number).used_at = 0;
        }
        self.limit_keys();
    }

    /// Leaves to the keys what reuse times and their curves do not take, and half of the memory at least.
    pub(super) fn limit_keys(&mut self) {
        let keys_max = self.options.keys_max;
        let usual_bytes = match self.reuses {
            Some(_) => self.classes.iter().flatten().count() * CLASS_REUSES_SIZE_BYTES,
            None => 0,
        };
        let reuses_bytes = self.reuses_size_bytes().max(usual_bytes);
        let keys = (reuses_bytes + reuses_bytes / 2).div_ceil(KEY_SIZE_BYTES);
        self.keys_max = keys_max - keys.min(keys_max / 2);
    }

    pub(super) fn reuses_size_bytes(&self) -> usize {
        self.reuses.as_ref().map_or(0, ReuseWindows::size_bytes)
    }

    /// Counts a reference by its reuse time; without the time of the use before, one that misses at every size.
    pub(super) fn count_reuse(&mut self, class: ClassId, used_at: Option<UsedAt>) {
        if let Some(reuses) = &mut self.reuses {
            reuses.reference(class, used_at, self.scale, unit(self.spread));
        }
    }

    /// A class's curve by footprints, empty where none are kept; `curve` is the one by distances. The sample has as
    /// many too few of the references of either, or too many.
    pub(super) fn footprint_curve(&self, class: ClassId, curve: &Mrc) -> Mrc {
        let curves = self.reuses.as_ref().zip(self.classes[class.index()].as_ref());
        let Some((reuses, keys)) = curves else { return Mrc::empty() };
        let by_sample = reuses.mrc(class);
        let sampled = keys.references() / self.fading.weight();
        let corrected = if sampled > 0.0 { curve.references() / sampled } else { 1.0 };
        let references = by_sample.references() * corrected;
        by_sample.with_references(references)
    }
}

#[cfg(test)]
#[path = "footprints_tests.rs"]
mod tests;
