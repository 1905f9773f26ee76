//! Changes of the class table while the cache serves clients.
//!
//! ```text
//!   class number                     0     1     2      3     4 ...   [64]  in the table, chunks of 64 bytes
//!   before                          [64]  [96]  [512]   -     -         96   retired, its pages drain
//!   change_classes([64, 128, 512])  [64]   96   [512]  [128]  -        -    vacant: a new size may get the number
//!   all pages of 96 have drained    [64]   -    [512]  [128]  -
//! ```
//!
//! Each page stores the number of the class that owns it. So a change of the table writes no page and no item. A size
//! that is in the old and in the new table keeps its class and its items. A new size gets a vacant number. A class that
//! is not in the new table is *retired*: it accepts no item and no page. The mover empties its pages one after the
//! other, carries their items to the successor classes (`mover/kinds/retired.rs`), and adds the pages to the page pool,
//! from which the new classes take pages. When the retired class has no page left, its number is vacant. If its size
//! is in a new table before that, the class is *revived*.
//!
//! There are twice as many numbers as a table may have classes. So when all retired classes have drained, the current
//! table can be replaced by any other.
//!
//! The largest size never changes, because it is added to every new table. So chained items stay chained, and their
//! bodies in chunks of this size need not move.
//!
//! Invariants:
//!
//! - ONE-SIZE: a class changes its chunk size only while it owns no page. So a thread that owns or pins a chunk may
//!   read the chunk's size without a lock.
//! - LOCKED-CHOICE: a store looks up the class for the size of its item without a lock, so this class is a hint. An
//!   allocation that takes a chunk from the class locks the class and checks that it still has this chunk size and is
//!   not retired. If the check fails, the allocation reads the table again. A change publishes the new table before it
//!   retires the first class. So the second read finds the new table.
//! - If the chunk of an item was allocated or became spare before a change, the item may be published in its retired
//!   class. It is carried to a successor class later.
//! - A refused change has no effect.
//! - Counters never decrease. The counters of a number continue when a new class gets the number. The counts of one
//!   class are the difference between the number's counters and their values when the class was established
//!   ([`Tables::counted_before`]).
//!
//! Lock: a change holds the lock of the tables, which is above all other locks of the engine (`docs/locking.md`). A
//! store takes this lock only if its class has no memory left.

use super::shared::{Space, Tables};
use crate::class::{Class, ClassStatus};
use crate::layout::{CHUNK_ALIGN_BYTES, ClassTable, ClassTableError};
use crate::stats::ClassStats;
use slabwise_base::ClassId;
use slabwise_base::sync::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

/// The reason why a change of the class table is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassChangeError {
    /// The requested sizes are not a valid class table.
    #[error(transparent)]
    BadTable(#[from] ClassTableError),
    /// A requested size is above the largest size of the current table, which cannot change.
    #[error(
        "chunk size {size_bytes} is above the largest, {size_bytes_max} bytes, which cannot change: give \
         smaller sizes"
    )]
    AboveLargest {
        /// The requested chunk size, in bytes.
        size_bytes: usize,
        /// The largest chunk size of every table, in bytes.
        size_bytes_max: usize,
    },
    /// Another thread has changed the class table since the caller read it.
    #[error("the class table has changed in the meantime: read it again")]
    Superseded,
    /// The new sizes need more class numbers than are vacant, because retired classes still use numbers.
    #[error(
        "{new_count} new chunk sizes are too many while {retired_count} retired classes drain: give at most \
         {vacant_count} now, or try again when stats slabs shows fewer retired classes"
    )]
    Draining {
        /// The number of requested sizes that need a vacant class number.
        new_count: usize,
        /// The number of vacant class numbers.
        vacant_count: usize,
        /// The number of retired classes that still own pages.
        retired_count: usize,
    },
}

impl Space {
    /// Returns a copy of the current class table.
    pub fn class_table(&self) -> ClassTable {
        lock(&self.tables).table.clone()
    }

    /// Returns the number, chunk size in bytes and status of every class of the table and every retired class, in
    /// ascending order of chunk sizes. The caller holds the lock of the tables.
    pub fn non_vacant_classes(&self) -> Vec<(ClassId, usize, ClassStatus)> {
        let read = |class: &Class| {
            let state = class.lock_uncounted();
            (state.id(), state.chunk_size_bytes(), state.status())
        };
        let mut classes: Vec<_> = self.classes.iter().map(read).collect();
        classes.retain(|&(_, _, status)| status != ClassStatus::Vacant);
        classes.sort_unstable_by_key(|&(_, chunk_size_bytes, _)| chunk_size_bytes);
        classes
    }

    /// Replaces the class table by a table of these chunk sizes, which are in bytes and in ascending order. Changes
    /// nothing if `may_change` returns false for the current table.
    pub fn change_classes(
        &self,
        may_change: impl FnOnce(&ClassTable) -> bool,
        sizes: &[usize],
    ) -> Result<(), ClassChangeError> {
        let requested = self.requested_table(sizes)?;
        let mut tables = lock(&self.tables);
        if !may_change(&tables.table) {
            return Err(ClassChangeError::Superseded);
        }
        let next = self.assign_numbers(&tables.table, requested)?;
        self.establish_classes(&mut tables, &next);
        // The invariant LOCKED-CHOICE requires that stores can read the new table before any class is retired.
        self.size_map.set(&next);
        let before = std::mem::replace(&mut tables.table, next);
        for id in before.ids().filter(|&id| !tables.table.has(id)) {
            let mut state = self.class(id).lock();
            state.retire();
            self.recall_into(&mut state, |_| true);
        }
        self.retiring.store(true, Release);
        Ok(())
    }

    /// Returns the table of these sizes and the largest size. The classes do not have their final numbers yet.
    fn requested_table(&self, sizes: &[usize]) -> Result<ClassTable, ClassChangeError> {
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

    /// Assigns a class number to every size of the requested table: the number of the current class of this size, or of
    /// a retired class of this size, or else a vacant number.
    fn assign_numbers(
        &self,
        present: &ClassTable,
        requested: ClassTable,
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
            requested.sizes().iter().map(|&size| kept(size as usize)).collect();
        let new_count = kept.iter().filter(|id| id.is_none()).count();
        let (vacant_count, retired_count) = (vacant.len(), retired.len());
        if new_count > vacant_count {
            return Err(ClassChangeError::Draining { new_count, vacant_count, retired_count });
        }
        let mut vacant = vacant.into_iter();
        let numbered = kept.into_iter().map(|id| id.or_else(|| vacant.next()));
        let ids = numbered.map(|id| id.expect("the vacant numbers were counted before")).collect();
        Ok(requested.renumbered(ids))
    }

    /// Establishes or revives the classes that are in the next table and not in the current one.
    fn establish_classes(&self, tables: &mut Tables, next: &ClassTable) {
        let Tables { table, counted_before } = tables;
        for (id, chunk_size_bytes) in next.classes().filter(|&(id, _)| !table.has(id)) {
            let registry = lock(&self.registry);
            let mut state = self.class(id).lock();
            match state.status() {
                ClassStatus::Present => {
                    unreachable!("a class that is not in the current table is not present")
                }
                ClassStatus::Retired => state.revive(),
                // The number was vacant before, or a retired class has lost its last page in the meantime.
                ClassStatus::Vacant => {
                    // A vacant class has no item, so no thread changes its counters while they are read here.
                    let counters = state.counters;
                    let mut counted = ClassStats { counters, ..ClassStats::default() };
                    registry.iter().for_each(|handle| counted.add_tallies(handle.class(id)));
                    counted_before.insert(id, Arc::new(counted));
                    state.establish(chunk_size_bytes);
                }
            }
        }
    }

    /// Restores the class table and the retired classes of an earlier process. The classes of the configured table own
    /// no page at this time, so they become vacant first.
    pub fn restore_classes(&self, table: ClassTable, retired: &[(ClassId, usize)]) {
        self.config.classes.ids().for_each(|id| self.class(id).lock().retire());
        for (id, chunk_size_bytes) in table.classes().chain(retired.iter().copied()) {
            self.class(id).lock().establish(chunk_size_bytes);
        }
        self.size_map.set(&table);
        lock(&self.tables).table = table;
    }

    /// Retires the classes that were retired in an earlier process. The caller has restored their pages.
    pub fn retire_restored(&self, retired: &[(ClassId, usize)]) {
        retired.iter().for_each(|&(id, _)| self.class(id).lock().retire());
        self.retiring.store(true, Release);
    }
}
