//! Changing the class table while the cache serves.
//!
//! ```text
//!   numbers     0     1     2     3   4 ...          change_classes([64, 128, 512])
//!   before     [64]  [96]  [512]  -   -
//!   after      [64]   96   [512] [128] -             [ ] in the table   96: retired, its pages drain
//!   later      [64]   -    [512] [128] -              -  vacant: the next new size may have the number
//! ```
//!
//! A class is known by its number, which is written into the entry of each of its pages; so a change
//! touches no page and no item. A size that both tables have keeps its class, with all it holds. A new
//! size gets a vacant number. A class that the new table lacks is *retired*: it takes no item and no page
//! from then on, and the mover empties its pages, one after the other, into the classes that now hold such
//! sizes (`mover/retired.rs`); the pages go to the pool, from which the new classes grow. With its last page the
//! number is vacant. A size that comes back before that revives its class.
//!
//! There are twice as many numbers as a table may have classes, so that any table can follow any other once
//! all that was retired has drained.
//!
//! The largest size never changes: a table that is asked for ends with it, named or not. So what is chained
//! stays chained, and its largest parts stay where they are.
//!
//! Invariants:
//!
//! - ONE-SIZE: a class changes its chunk size only while it owns no page, so the user of one of its chunks may rely
//!   on the size without a lock.
//! - LOCKED-CHOICE: what was read of the table is a hint. An allocation compares it with the class under the
//!   class's lock, and chooses anew if the class was retired. The new table is in force before the first class is
//!   retired, so this ends.
//! - An upload whose chunk was taken before the change is published there and carried later.
//! - A refused change changes nothing.
//! - Counts never fall: a number goes on counting where its last class left off, and a class's own counts begin
//!   at what its number had counted before it ([`Tables::counted_before`]).
//!
//! Lock: the tables' own, above all others of the engine (`docs/locking.md`). A store takes it only
//! where its class has nothing left.

use super::shared::{Space, Tables};
use crate::class::{Class, Standing};
use crate::layout::{CHUNK_ALIGN_BYTES, ClassTable, ClassTableError};
use crate::stats::ClassStats;
use slabwise_base::ClassId;
use slabwise_base::sync::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

/// Why a change of the class table is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassChangeError {
    /// The sizes make no table.
    #[error(transparent)]
    BadTable(#[from] ClassTableError),
    /// A size is above the largest, which stays.
    #[error(
        "chunk size {size_bytes} is above the largest, {size_bytes_max} bytes, which stays as it is: give \
         smaller sizes"
    )]
    AboveLargest {
        /// The size as given.
        size_bytes: usize,
        /// The largest.
        size_bytes_max: usize,
    },
    /// Another table is in force by now than the one to be changed.
    #[error("the class table has been changed meanwhile: look at it again")]
    Superseded,
    /// Too many numbers are still those of retired classes.
    #[error(
        "{new_count} new chunk sizes are too many while {retired_count} retired classes drain: give at most \
         {vacant_count} now, or try again when stats slabs shows fewer retired classes"
    )]
    Draining {
        /// New classes that the table asks for.
        new_count: usize,
        /// Vacant numbers.
        vacant_count: usize,
        /// Retired classes.
        retired_count: usize,
    },
}

impl Space {
    pub fn class_table(&self) -> ClassTable {
        lock(&self.tables).table.clone()
    }

    /// Every class that may hold items, those of the table and retired ones, smallest chunks first. The caller holds
    /// the tables' lock.
    pub fn standing_classes(&self) -> Vec<(ClassId, usize, Standing)> {
        let read = |class: &Class| {
            let state = class.lock();
            (state.id(), state.chunk_size_bytes(), state.standing())
        };
        let mut standing: Vec<_> = self.classes.iter().map(read).collect();
        standing.retain(|&(_, _, standing)| standing != Standing::Vacant);
        standing.sort_unstable_by_key(|&(_, chunk_size_bytes, _)| chunk_size_bytes);
        standing
    }

    /// Puts a table of these chunk sizes in force, in bytes, ascending, if the present one `may_change`.
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
        // LOCKED-CHOICE: in force first.
        self.size_map.set(&next);
        let before = std::mem::replace(&mut tables.table, next);
        for id in before.ids().filter(|&id| !tables.table.has(id)) {
            self.class(id).lock().retire();
        }
        self.retiring.store(true, Release);
        Ok(())
    }

    /// The table that these sizes make, under the numbers of none.
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

    /// Gives every size of the table that is wanted its number: that of its present class, that of a
    /// retired one of the same size, or else a vacant one.
    fn numbered(
        &self,
        present: &ClassTable,
        wanted: ClassTable,
    ) -> Result<ClassTable, ClassChangeError> {
        let (mut vacant, mut retired) = (Vec::new(), Vec::new());
        for class in &self.classes {
            let state = class.lock();
            match state.standing() {
                Standing::Present => {}
                Standing::Vacant => vacant.push(state.id()),
                Standing::Retired => retired.push((state.chunk_size_bytes(), state.id())),
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
        let ids = numbered.map(|id| id.expect("there are enough of them")).collect();
        Ok(wanted.renumbered(ids))
    }

    /// Lets the numbers that the next table has beyond the present one stand for its classes.
    fn begin_new(&self, tables: &mut Tables, next: &ClassTable) {
        let Tables { table, counted_before } = tables;
        for (id, chunk_size_bytes) in next.classes().filter(|&(id, _)| !table.has(id)) {
            let registry = lock(&self.registry);
            let mut state = self.class(id).lock();
            match state.standing() {
                Standing::Present => unreachable!("a number stands for one class of a table"),
                Standing::Retired => state.revive(),
                // Perhaps only since its last page left a moment ago.
                Standing::Vacant => {
                    // It has no item, so nothing is counted meanwhile.
                    let counters = state.counters;
                    let mut counted = ClassStats { counters, ..ClassStats::default() };
                    registry.iter().for_each(|handle| counted.add_tallies(handle.class(id)));
                    counted_before.insert(id, Arc::new(counted));
                    state.establish(chunk_size_bytes);
                }
            }
        }
    }

    /// Takes over the table that an earlier process came to, and the sizes of what that one had retired. No
    /// class owns a page yet, so those of the configured table make way.
    pub fn restore_classes(&self, table: ClassTable, retired: &[(ClassId, usize)]) {
        self.config.classes.ids().for_each(|id| self.class(id).lock().retire());
        for (id, chunk_size_bytes) in table.classes().chain(retired.iter().copied()) {
            self.class(id).lock().establish(chunk_size_bytes);
        }
        self.size_map.set(&table);
        lock(&self.tables).table = table;
    }

    /// Goes on to drain what was retired, once its pages are back.
    pub fn retire_restored(&self, retired: &[(ClassId, usize)]) {
        retired.iter().for_each(|&(id, _)| self.class(id).lock().retire());
        self.retiring.store(true, Release);
    }
}
