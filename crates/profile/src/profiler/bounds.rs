//! What a profiler forgets: the keys of classes that are gone, those beyond a history's reach, those that are too
//! many.

use super::{ABSENT_KEYS_MIN, ABSENT_SHARE, CLASS_KEYS_MIN, Profiler};
use crate::class_keys::ClassSize;
use crate::key_table::{Place, Record};
use slabwise_base::ClassId;
use slabwise_base::sampling::is_sampled;

impl Profiler {
    /// Tells the present sizes of all classes. Others are forgotten, and so is what was known of a class that
    /// has another number of chunks a page: it has other chunks. The first call may come late: until then every
    /// class is taken in.
    pub fn set_sizes(&mut self, sizes: &[ClassSize]) {
        for index in 0..self.classes.len() {
            let Some(keys) = &self.classes[index] else { continue };
            let class = ClassId(index as u8);
            let same = |size: &&ClassSize| {
                let chunks_per_page = keys.size.map(|known| known.chunks_per_page);
                size.class == class
                    && chunks_per_page.is_none_or(|known| known == size.chunks_per_page)
            };
            if !sizes.iter().any(|size| same(&size)) {
                self.forget_class(class);
            }
        }
        for &size in sizes {
            self.class_mut(size.class).size = Some(size);
        }
        self.has_sizes = true;
        self.limit_keys();
        self.limit_histories();
        self.fit_stacks();
    }

    /// Looks at an eighth fewer keys from here on, and forgets those: as it does by itself where there are too
    /// many, so whoever has not the time for so many accesses.
    pub fn lower_threshold(&mut self) {
        self.threshold = self.threshold / 8 * 7;
        self.scale = 1.0 / self.rate();
        let threshold = self.threshold;
        let above = |record: &Record| !is_sampled(record.hash, threshold);
        self.keys.numbers_where(above).into_iter().for_each(|number| self.forget(number));
        self.limit_histories();
    }

    /// Keys leave one class for another, and where they were memory is left.
    fn fit_stacks(&mut self) {
        let stacks = self.classes.iter_mut().flatten().map(|class| &mut class.stack);
        for stack in stacks.chain([&mut self.absent]) {
            stack.fit(|number, slot| self.keys.get_mut(number).slot = slot);
        }
    }

    fn forget_class(&mut self, class: ClassId) {
        let of_class = |record: &Record| match record.place {
            Place::Stacked(place) | Place::Deleted(place) => place == class,
            Place::Nowhere => false,
        };
        self.keys.numbers_where(of_class).into_iter().for_each(|number| self.forget(number));
        self.classes[class.index()] = None;
        if let Some(reuses) = &mut self.reuses {
            reuses.forget(class);
        }
    }

    /// How many keys of each class the history reaches back to, by the sizes and the rate of the moment.
    pub(super) fn limit_histories(&mut self) {
        let rate = self.rate();
        let pages = |size: ClassSize| size.chunks.div_ceil(size.chunks_per_page);
        let sizes = self.classes.iter().flatten().filter_map(|keys| keys.size);
        let pages_all: u64 = sizes.map(pages).sum();
        for keys in self.classes.iter_mut().flatten() {
            if let Some(size) = keys.size {
                let chunks = self.history_factor * pages_all * size.chunks_per_page;
                keys.keys_max = ((chunks as f64 * rate).ceil() as usize).max(CLASS_KEYS_MIN);
            }
        }
        for index in 0..self.classes.len() {
            if self.classes[index].is_some() {
                self.limit_history(Place::Stacked(ClassId(index as u8)));
            }
        }
        self.limit_history(Place::Nowhere);
    }

    /// Forgets the keys used longest ago of a stack that has too many.
    pub(super) fn limit_history(&mut self, place: Place) {
        let keys_max = match place {
            Place::Stacked(class) => self.class_mut(class).keys_max,
            Place::Nowhere | Place::Deleted(_) => {
                (self.options.keys_max / ABSENT_SHARE).max(ABSENT_KEYS_MIN)
            }
        };
        while self.stack_mut(place).count() > keys_max {
            let oldest = self.stack_mut(place).oldest();
            self.forget(oldest.expect("a stack of several keys has an oldest"));
        }
    }
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
