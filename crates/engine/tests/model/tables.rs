//! Changes of the class table: what is granted, what is refused, and what stays.

use crate::driver::Driver;
use crate::scenario;
use slabwise_engine::ClassChangeError;

impl Driver<'_> {
    /// Puts another table in force, or one that is no table, or too much of one.
    pub(crate) fn change_classes(&mut self) {
        let before = self.engine.class_table();
        let mut sizes = scenario::chunk_sizes(&before, &mut self.random);
        let spoilt = self.random.below(8) == 0;
        if spoilt {
            sizes.push(sizes[self.random.below(sizes.len() as u64) as usize]);
        }
        let outcome = self.engine.change_classes(&sizes);
        self.note(format!("change_classes({sizes:?}) -> {outcome:?}"));
        let after = self.engine.class_table();
        match outcome {
            Ok(()) => {
                assert!(!spoilt, "law TABLE: sizes that do not ascend are no table");
                let sizes = sizes.into_iter().chain([before.chunk_size_bytes_max()]);
                let mut wanted: Vec<u32> = sizes.map(|size| size as u32).collect();
                wanted.dedup();
                assert_eq!(after.sizes(), wanted, "law TABLE: it is the one asked for");
                for (id, size) in before.classes() {
                    let kept = after.class_of_size(size);
                    assert!(
                        kept.is_none_or(|kept| kept == id),
                        "law TABLE: a size keeps its class"
                    );
                }
            }
            Err(error) => {
                let draining = matches!(error, ClassChangeError::Draining { .. });
                assert!(spoilt || draining, "law TABLE: {sizes:?} are refused: {error}");
                assert_eq!(after, before, "law TABLE: a refused change changes nothing");
            }
        }
    }
}
