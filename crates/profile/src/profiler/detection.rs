//! Data that a profiler keeps only if a policy needs them: reuse times, from which footprints are computed, and the keys
//! that were stored before.

use super::Profiler;
use crate::class_profile::Access;
use crate::mrc::Mrc;
use crate::reuse_windows::ReuseWindows;
use crate::stored_before::StoredBefore;
use slabwise_base::{AccessKind, ClassId};

impl Profiler {
    /// Keeps the reuse times of at least the last `window_gets` gets from now on, for
    /// [`footprint_curve`](crate::ClassProfile::footprint_curve). With `None` no reuse times are kept.
    ///
    /// # Panics
    /// Panics if `window_gets` is 0.
    pub fn keep_footprints(&mut self, window_gets: Option<u64>) {
        if window_gets == self.reuses.as_ref().map(ReuseWindows::window_gets) {
            return;
        }
        self.reuses = window_gets.map(ReuseWindows::new);
        // The clocks, which count the references of each class, start at 0 now.
        for number in self.stacks.keys.numbers_where(|record| record.used_at > 0) {
            self.stacks.keys.get_mut(number).used_at = 0;
        }
        self.limit_keys();
    }

    /// Returns a class's curve computed from footprints; an empty curve if footprints are not kept. `curve` is the
    /// curve computed from distances. Its number of references was corrected by the reported hits; the same correction
    /// applies to the curve computed from footprints.
    pub(super) fn footprint_curve(&self, class: ClassId, curve: &Mrc) -> Mrc {
        let curves = self.reuses.as_ref().zip(self.stacks.class(class));
        let Some((reuses, keys)) = curves else { return Mrc::empty() };
        let by_sample = reuses.mrc(class);
        let sampled = keys.references() / self.decay.weight();
        let corrected = if sampled > 0.0 { curve.references() / sampled } else { 1.0 };
        let references = by_sample.references() * corrected;
        by_sample.with_references(references)
    }

    /// Starts or stops to detect stores of keys that were stored before
    /// ([`ClassProfile::stored_before`](crate::ClassProfile::stored_before)).
    pub fn detect_stored_before(&mut self, detects: bool) {
        if detects != self.stored.is_some() {
            self.stored = detects.then(|| StoredBefore::new(self.options.keys_max));
            self.limit_keys();
        }
    }

    /// Counts a store of a key that was stored before.
    pub(super) fn note_stored(&mut self, access: &Access) {
        let (Some(stored), Some(class)) = (&mut self.stored, access.class) else { return };
        if access.kind == AccessKind::Store && stored.store(access.hash) {
            self.stacks.class_mut(class).stored_before += self.scale;
        }
    }

    pub(super) fn filters_size_bytes(&self) -> usize {
        self.stored.as_ref().map_or(0, |_| StoredBefore::size_bytes_of(self.options.keys_max))
    }
}

#[cfg(test)]
mod tests {
    use super::Profiler;
    use crate::profiler::ProfilerOptions;
    use crate::profiler::tests::{EXACT, access};
    use slabwise_base::{AccessKind, ClassId};

    #[test]
    fn stores_of_keys_that_were_stored_before_are_counted_while_they_are_detected() {
        let mut profiler = Profiler::new(ProfilerOptions { keys_max: 1_000, ..EXACT });
        let store = |profiler: &mut Profiler, key| {
            profiler.access(&access(key, AccessKind::Store, Some(0)));
        };
        store(&mut profiler, 1);
        store(&mut profiler, 1);
        assert_eq!(profiler.profile(ClassId(0)).stored_before, 0.0, "nothing is detected yet");
        let size_bytes = profiler.size_bytes();
        profiler.detect_stored_before(true);
        assert!(profiler.size_bytes() > size_bytes, "the filters take memory");
        for key in [1, 2, 1, 3, 2] {
            store(&mut profiler, key);
        }
        profiler.access(&access(1, AccessKind::Touch, Some(0)));
        assert_eq!(
            profiler.profile(ClassId(0)).stored_before,
            2.0,
            "keys 1 and 2 are stored again"
        );
        profiler.detect_stored_before(false);
        assert_eq!(profiler.size_bytes(), size_bytes);
    }
}
