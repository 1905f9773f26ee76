//! The recall of spare chunks (`spares.rs`), and the limits of spare chunks that follow from the state of the cache.

use super::shared::{Space, Tables};
use crate::class::{ClassState, TABLE_NUMBERS};
use crate::layout::ChunkAddress;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, PageId};
use std::sync::atomic::Ordering::Relaxed;

impl Space {
    /// Returns all spare chunks of a class to the class. Returns their number. The caller holds no lock of a class.
    pub fn recall(&self, class: ClassId) -> usize {
        self.recall_if(class, |_| true)
    }

    /// Returns the spare chunks on a page of `class` to the class. The caller holds no lock of a class.
    pub fn recall_page(&self, class: ClassId, page: PageId) {
        self.recall_if(class, |address| self.memory.page_of(address) == page);
    }

    /// Returns all spare chunks to their classes. The caller holds no lock of a class.
    pub fn recall_all(&self) {
        if !self.spares.is_disabled() {
            (0..TABLE_NUMBERS as u8).for_each(|number| _ = self.recall(ClassId(number)));
        }
    }

    fn recall_if(&self, class: ClassId, is_wanted: impl Fn(ChunkAddress) -> bool) -> usize {
        let (mut count, mut state) = (0, None);
        self.spares.take_all(class, is_wanted, |chunk| {
            state.get_or_insert_with(|| self.class(class).lock()).pages.give(chunk);
            count += 1;
        });
        count
    }

    /// Returns the number of chunks in use that hold no item of the class's queues, without spare chunks.
    pub fn unqueued_count(&self, state: &ClassState) -> u64 {
        state.unqueued_count().saturating_sub(self.spares.count(state.id()))
    }

    /// Sets the limits of spare chunks for the current class table and memory limit, and recalls all spare chunks.
    /// Nothing may be spare if the configuration or the present order requires exactly one eviction for a store that
    /// finds no free chunk: with an exact order, with an eviction kind that ranks or divides items, with a mover that
    /// withdraws free chunks, and with memcached's limit.
    pub fn set_spare_limits(&self) {
        if self.spares.is_disabled() {
            return;
        }
        self.set_spare_limits_for(&lock(&self.tables));
        self.recall_all();
    }

    /// Sets the limits of spare chunks for a class table. The caller recalls spare chunks.
    pub fn set_spare_limits_for(&self, tables: &Tables) {
        let config = &self.config;
        let is_exact = self.exact_order.load(Relaxed)
            || !config.eviction.info().evicts_in_batches
            || config.mover.withdraws_chunks()
            || config.first_page_beyond_limit;
        if is_exact {
            return self.spares.forbid();
        }
        let page_count = u64::from(self.lock_pool().limit);
        self.spares.set_limits(&tables.table, page_count * config.page_size_bytes as u64);
    }
}
