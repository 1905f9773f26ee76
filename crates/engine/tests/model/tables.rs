//! Changes of the class table: accepted ones, refused ones, and the classes that stay.

use crate::driver::Driver;
use crate::scenario;
use slabwise_engine::ClassChangeError;

impl Driver<'_> {
    /// Sets another class table, or an invalid one, or requests too many changes.
    pub(crate) fn change_classes(&mut self) {
        let before = self.engine.class_table();
        let mut sizes = scenario::chunk_sizes(&before, &mut self.random);
        let invalid = self.random.below(8) == 0;
        if invalid {
            sizes.push(sizes[self.random.below(sizes.len() as u64) as usize]);
        }
        let outcome = self.engine.change_classes(&sizes);
        self.note(format!("change_classes({sizes:?}) -> {outcome:?}"));
        let after = self.engine.class_table();
        match outcome {
            Ok(()) => {
                assert!(!invalid, "invariant TABLE: sizes that do not ascend are refused");
                let sizes = sizes.into_iter().chain([before.chunk_size_bytes_max()]);
                let mut wanted: Vec<u32> = sizes.map(|size| size as u32).collect();
                wanted.dedup();
                assert_eq!(
                    after.sizes(),
                    wanted,
                    "invariant TABLE: the new table has the requested sizes"
                );
                for (id, size) in before.classes() {
                    let kept = after.class_of_size(size);
                    assert!(
                        kept.is_none_or(|kept| kept == id),
                        "invariant TABLE: a size keeps its class"
                    );
                }
            }
            Err(error) => {
                let draining = matches!(error, ClassChangeError::Draining { .. });
                assert!(invalid || draining, "invariant TABLE: {sizes:?} are refused: {error}");
                assert_eq!(after, before, "invariant TABLE: a refused change changes nothing");
            }
        }
    }
}
