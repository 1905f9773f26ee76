//! The sizes of classes, which bound the number of keys, and the class of an access.

use super::{CLASS_KEYS_MIN, CLASS_REUSES_SIZE_BYTES, KEY_SIZE_BYTES, Profiler};
use crate::class_profile::Access;
use crate::class_size::ClassSize;
use slabwise_base::ClassId;

impl Profiler {
    /// Reports the current sizes of all classes, and the number of pages that belong to none of them. Before the first
    /// call, accesses to all classes are counted.
    ///
    /// If the class table has changed, the keys follow their items into the new classes, with their references
    /// (`table_change.rs`). A class is another class if its number, its chunk size or its number of chunks per page
    /// differs. The counts of a new class since the start begin at 0.
    pub fn set_sizes(&mut self, sizes: &[ClassSize], other_pages: u64) {
        self.other_pages = other_pages;
        if !self.has_sizes || !self.has_classes(sizes) {
            self.change_table(sizes);
        }
        for &size in sizes {
            self.stacks.class_mut(size.class).size = Some(size);
        }
        self.has_sizes = true;
        self.limit_keys();
        self.limit_histories();
        self.stacks.shrink();
    }

    /// Returns true if the profiler has these classes and no others.
    fn has_classes(&self, sizes: &[ClassSize]) -> bool {
        let is_known = |size: &ClassSize| {
            let known = self.stacks.class(size.class).and_then(|keys| keys.size);
            known.is_some_and(|known| known.is_of_same_class(size))
        };
        sizes.len() == self.stacks.classes().count() && sizes.iter().all(is_known)
    }

    /// Returns the class of an access: the class for the size of the item, if this size and the sizes of classes are
    /// known. The engine may report another class while it carries items to the classes of a new table.
    pub(super) fn class_of(&self, access: &Access) -> Option<ClassId> {
        self.classes.class_for(access.size_bytes.into()).or(access.class)
    }

    /// Counts a hit in the class that the engine reported, or, if that class is retired, in the class of the item's size.
    pub(super) fn count_hit(&mut self, reported: Option<ClassId>, of_size: Option<ClassId>) {
        let scale = self.scale;
        match (reported, of_size) {
            (Some(reported), _) if self.accepts(reported) => {
                self.stacks.class_mut(reported).hits_sampled += scale;
            }
            (Some(_), Some(class)) if self.accepts(class) => {
                self.stacks.class_mut(class).hits_in_retired += scale;
            }
            _ => {}
        }
    }

    /// Returns true if accesses to items of this class are counted.
    pub(super) fn accepts(&self, class: ClassId) -> bool {
        !self.has_sizes || self.stacks.class(class).is_some_and(|keys| keys.size.is_some())
    }

    /// Sets the maximum number of keys: the memory for reuse times and their curves is subtracted, but at least half of
    /// the keys remain.
    pub(super) fn limit_keys(&mut self) {
        let keys_max = self.options.keys_max;
        let usual_bytes = match self.reuses {
            Some(_) => self.stacks.classes().count() * CLASS_REUSES_SIZE_BYTES,
            None => 0,
        };
        let reuses_bytes = self.reuses_size_bytes().max(usual_bytes);
        let bytes = reuses_bytes + reuses_bytes / 2 + self.filters_size_bytes();
        let keys = bytes.div_ceil(KEY_SIZE_BYTES);
        self.keys_max = keys_max - keys.min(keys_max / 2);
    }

    /// Limits the number of keys of each class according to the current sizes, history factor and sampling rate.
    pub(super) fn limit_histories(&mut self) {
        let rate = self.rate();
        let pages = |size: ClassSize| size.chunks.div_ceil(size.chunks_per_page);
        let sizes = self.stacks.classes().filter_map(|(_, keys)| keys.size);
        let pages_all = sizes.map(pages).sum::<u64>() + self.other_pages;
        for keys in self.stacks.classes_mut() {
            if let Some(size) = keys.size {
                let chunks = self.history_factor * pages_all * size.chunks_per_page;
                keys.keys_max = ((chunks as f64 * rate).ceil() as usize).max(CLASS_KEYS_MIN);
            }
        }
        self.stacks.limit_all();
    }
}
