//! Random changes of the class table, and the checks of their outcome.

use crate::driver::Driver;
use crate::scenario;
use slabwise_engine::ClassChangeError;

impl Driver<'_> {
    /// Requests a change of the class table, sometimes to an invalid table. Checks that the change has the right
    /// effect, or that it was refused for a good reason and had no effect.
    pub(crate) fn change_classes(&mut self) {
        let before = self.engine.class_table();
        let mut sizes = scenario::chunk_sizes(&before, &mut self.random);
        let invalid = self.random.below(8) == 0;
        if invalid {
            sizes.push(sizes[self.random.below(sizes.len() as u64) as usize]);
        }
        let outcome = self.engine.change_classes(&sizes);
        self.log_line(format!("change_classes({sizes:?}) -> {outcome:?}"));
        let after = self.engine.class_table();
        match outcome {
            Ok(()) => {
                assert!(
                    !invalid,
                    "invariant TABLE: a table whose sizes do not ascend was accepted"
                );
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
                        "invariant TABLE: a size that is in both tables keeps its class"
                    );
                }
            }
            Err(error) => {
                let draining = matches!(error, ClassChangeError::Draining { .. });
                assert!(
                    invalid || draining,
                    "invariant TABLE: the valid table {sizes:?} was refused: {error}"
                );
                assert_eq!(after, before, "invariant TABLE: a refused change changes nothing");
            }
        }
    }
}
