//! Changing the class table while the cache serves.
//!
//! ```text
//!   numbers     0     1     2     3   4 ...          change_classes([64, 128, 512])
//!   before     [64]  [96]  [512]  -   -
//!   after      [64]   96   [512] [128] -             [ ] in the table   96: retired, its pages drain
//!   later      [64]   -    [512] [128] -              -  vacant: a new size may get the number
//! ```
//!
//! A class is identified by its number, which each of its pages stores, so a change touches no page and no item.
//! A size in both tables keeps its class and its items. A new size gets a vacant number. A class that the new
//! table lacks is *retired*: it accepts no item and no page, and the mover empties its pages, one after the
//! other, into the successor classes, which now hold items of these sizes (`mover/kinds/retired.rs`). Its pages
//! go to the pool, from which the new classes grow. When the last page has left, the number is vacant. If the size
//! returns to the table before that, the class is revived.
//!
//! There are twice as many numbers as a table may have classes, so any table can replace any other once all
//! retired classes have drained.
//!
//! The largest size never changes: it is added to every new table. So chained items stay chained, and their
//! bodies of the largest class need not move.
//!
//! Invariants:
//!
//! - ONE-SIZE: a class changes its chunk size only while it owns no page, so the user of one of its chunks may rely
//!   on the size without a lock.
//! - LOCKED-CHOICE: the class that is read from the table without a lock is a hint. An allocation verifies it
//!   under the class's lock, and chooses again if the class was retired. The new table is published before the
//!   first class is retired, so this ends.
//! - An upload whose chunk was allocated before the change is published in its class and carried later.
//! - A refused change has no effect.
//! - Counters never decrease: the counters of a number continue with its next class, and a class's own counts
//!   are the difference to its number's counters when the class began ([`Tables::counted_before`]).
//!
//! Lock: the tables' own, above all other locks of the engine (`docs/locking.md`). A store takes it only if its
//! class has no memory left.

use super::shared::{Space, Tables};
use crate::class::{Class, ClassStatus};
use crate::layout::{CHUNK_ALIGN_BYTES, ClassTable, ClassTableError};
use crate::stats::ClassStats;
use slabwise_base::ClassId;
use slabwise_base::sync::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

/// Why a change of the class table is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassChangeError {
    /// The sizes are not a valid table.
    #[error(transparent)]
    BadTable(#[from] ClassTableError),
    /// A size is above the largest, which cannot change.
    #[error(
        "chunk size {size_bytes} is above the largest, {size_bytes_max} bytes, which cannot change: give \
         smaller sizes"
    )]
    AboveLargest {
        /// The requested size.
        size_bytes: usize,
        /// The largest size of every table.
        size_bytes_max: usize,
    },
    /// The current table is not the one that the caller wants to change.
    #[error("the class table has changed in the meantime: read it again")]
    Superseded,
    /// Retired classes still have too many of the numbers.
    #[error(
        "{new_count} new chunk sizes are too many while {retired_count} retired classes drain: give at most \
         {vacant_count} now, or try again when stats slabs shows fewer retired classes"
    )]
    Draining {
        /// The number of new classes in the requested table.
        new_count: usize,
        /// The number of vacant numbers.
        vacant_count: usize,
        /// The number of retired classes.
        retired_count: usize,
    },
}

impl Space {
    pub fn class_table(&self) -> ClassTable {
        lock(&self.tables).table.clone()
    }

    /// Every class of the table and every retired class, smallest chunks first. The caller holds the tables'
    /// lock.
    pub fn non_vacant_classes(&self) -> Vec<(ClassId, usize, ClassStatus)> {
        let read = |class: &Class| {
            let state = class.lock();
            (state.id(), state.chunk_size_bytes(), state.status())
        };
        let mut classes: Vec<_> = self.classes.iter().map(read).collect();
        classes.retain(|&(_, _, status)| status != ClassStatus::Vacant);
        classes.sort_unstable_by_key(|&(_, chunk_size_bytes, _)| chunk_size_bytes);
        classes
    }

    /// Replaces the table by one of these chunk sizes, in bytes, ascending, if the current one `may_change`.
    pub fn change_classes(
        &self,
        may_change: impl FnOnce(&ClassTable) -> bool,
        sizes: &[usize],
    ) -> Result<(), ClassChangeError> {
        let wanted = self.wanted_table(sizes)?;
        let mut tables = lock(&self.tables);
        if !may_change(&tables.table) {
            return Err(ClassChangeError::Superseded);
        }
        let next = self.numbered(&tables.table, wanted)?;
        self.begin_new(&mut tables, &next);
        // Before any class is retired: LOCKED-CHOICE.
        self.size_map.set(&next);
        let before = std::mem::replace(&mut tables.table, next);
        for id in before.ids().filter(|&id| !tables.table.has(id)) {
            self.class(id).lock().retire();
        }
        self.retiring.store(true, Release);
        Ok(())
    }

    /// The table of these sizes, whose classes have no final numbers yet.
    fn wanted_table(&self, sizes: &[usize]) -> Result<ClassTable, ClassChangeError> {
        let size_bytes_max = self.config.classes.chunk_size_bytes_max();
        if let Some(&size_bytes) = sizes.iter().find(|&&size| size > size_bytes_max) {
            return Err(ClassChangeError::AboveLargest { size_bytes, size_bytes_max });
        }
        let has_largest =
            |&last: &usize| last.next_multiple_of(CHUNK_ALIGN_BYTES) == size_bytes_max;
        let mut sizes = sizes.to_vec();
        if !sizes.is_empty() && !sizes.last().is_some_and(has_largest) {
            sizes.push(size_bytes_max);
        }
        ClassTable::explicit(&sizes, self.config.page_size_bytes)
            .map_err(ClassChangeError::BadTable)
    }

    /// Assigns a number to every size of the new table: that of the current class or of a retired class of the
    /// same size, or else a vacant one.
    fn numbered(
        &self,
        present: &ClassTable,
        wanted: ClassTable,
    ) -> Result<ClassTable, ClassChangeError> {
        let (mut vacant, mut retired) = (Vec::new(), Vec::new());
        for class in &self.classes {
            let state = class.lock();
            match state.status() {
                ClassStatus::Present => {}
                ClassStatus::Vacant => vacant.push(state.id()),
                ClassStatus::Retired => retired.push((state.chunk_size_bytes(), state.id())),
            }
        }
        let kept = |size_bytes: usize| {
            let of_size = |&&(size, _): &&(usize, ClassId)| size == size_bytes;
            let revived = || retired.iter().find(of_size).map(|&(_, id)| id);
            present.class_of_size(size_bytes).or_else(revived)
        };
        let kept: Vec<Option<ClassId>> =
            wanted.sizes().iter().map(|&size| kept(size as usize)).collect();
        let new_count = kept.iter().filter(|id| id.is_none()).count();
        let (vacant_count, retired_count) = (vacant.len(), retired.len());
        if new_count > vacant_count {
            return Err(ClassChangeError::Draining { new_count, vacant_count, retired_count });
        }
        let mut vacant = vacant.into_iter();
        let numbered = kept.into_iter().map(|id| id.or_else(|| vacant.next()));
        let ids = numbered.map(|id| id.expect("there are enough vacant numbers")).collect();
        Ok(wanted.renumbered(ids))
    }

    /// Establishes or revives the classes of the next table that the current one lacks.
    fn begin_new(&self, tables: &mut Tables, next: &ClassTable) {
        let Tables { table, counted_before } = tables;
        for (id, chunk_size_bytes) in next.classes().filter(|&(id, _)| !table.has(id)) {
            let registry = lock(&self.registry);
            let mut state = self.class(id).lock();
            match state.status() {
                ClassStatus::Present => unreachable!("a number belongs to one class of a table"),
                ClassStatus::Retired => state.revive(),
                // A class that was to be revived may have become vacant in the meantime.
                ClassStatus::Vacant => {
                    // The class has no item, so its counters cannot change here.
                    let counters = state.counters;
                    let mut counted = ClassStats { counters, ..ClassStats::default() };
                    registry.iter().for_each(|handle| counted.add_tallies(handle.class(id)));
                    counted_before.insert(id, Arc::new(counted));
                    state.establish(chunk_size_bytes);
                }
            }
        }
    }

    /// Restores the table of an earlier process and the sizes of its retired classes. No class owns a page yet,
    /// so the classes of the configured table become vacant.
    pub fn restore_classes(&self, table: ClassTable, retired: &[(ClassId, usize)]) {
        self.config.classes.ids().for_each(|id| self.class(id).lock().retire());
        for (id, chunk_size_bytes) in table.classes().chain(retired.iter().copied()) {
            self.class(id).lock().establish(chunk_size_bytes);
        }
        self.size_map.set(&table);
        lock(&self.tables).table = table;
    }

    /// Retires the classes of an earlier process that were draining, once their pages are restored.
    pub fn retire_restored(&self, retired: &[(ClassId, usize)]) {
        retired.iter().for_each(|&(id, _)| self.class(id).lock().retire());
        self.retiring.store(true, Release);
    }
}
