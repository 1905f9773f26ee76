//! The present class table for stores: read without a lock, and without a line that anybody
//! writes but for a change of the table.
//!
//! ```text
//!   version 6 --> [64: class 0] [96: class 1] [512: class 2]            <-- readers are here
//!                 [64: class 0] [128: class 3] [512: class 2]           <-- the next change writes here,
//!                                                                           then sets the version to 7
//! ```
//!
//! Two copies take turns; the version's last bit says which is in force. A reader that finds the same
//! version before and after has read one table, whole; nobody ever waits for a writer.
//!
//! What is read here is a choice, not a right: a change may come the moment after. Who takes a chunk
//! compares its choice with the class once more, under the class's lock (`class.rs`).

use crate::layout::{CHUNK_ALIGN_BYTES, ClassTable};
use slabwise_base::ClassId;
// loom would try every stale value of every cell; for it a table does not change.
use Ordering::{Acquire, Relaxed, Release};
#[cfg(not(loom))]
use slabwise_base::sync::{AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(loom)]
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

/// A class, as it was when the table was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub id: ClassId,
    pub chunk_size_bytes: usize,
}

const ID_BITS: u32 = 8;
const _: () = assert!(ClassId::NUMBERS <= 1 << ID_BITS);
const _: () = assert!((16 << 20) / CHUNK_ALIGN_BYTES < 1 << (u32::BITS - ID_BITS));

impl Choice {
    fn pack(self) -> u32 {
        ((self.chunk_size_bytes / CHUNK_ALIGN_BYTES) as u32) << ID_BITS | u32::from(self.id.0)
    }

    fn unpack(bits: u32) -> Choice {
        let chunk_size_bytes = (bits >> ID_BITS) as usize * CHUNK_ALIGN_BYTES;
        Choice { id: ClassId(bits as u8), chunk_size_bytes }
    }
}

#[derive(Debug)]
struct Copy {
    count: AtomicUsize,
    /// Ascending by size; those behind `count` mean nothing.
    classes: [AtomicU32; ClassId::COUNT_MAX],
}

impl Copy {
    fn new() -> Copy {
        let classes = std::array::from_fn(|_| AtomicU32::new(0));
        Copy { count: AtomicUsize::new(0), classes }
    }

    fn write(&self, table: &ClassTable) {
        for (cell, (id, chunk_size_bytes)) in self.classes.iter().zip(table.classes()) {
            cell.store(Choice { id, chunk_size_bytes }.pack(), Relaxed);
        }
        self.count.store(table.count(), Relaxed);
    }
}

/// See the module's documentation.
#[derive(Debug)]
#[repr(align(128))]
pub struct SizeMap {
    version: AtomicUsize,
    copies: [Copy; 2],
}

impl SizeMap {
    pub fn new(table: &ClassTable) -> SizeMap {
        let map = SizeMap { version: AtomicUsize::new(0), copies: [Copy::new(), Copy::new()] };
        map.copies[0].write(table);
        map
    }

    /// Puts another table in force. One thread at a time: the caller holds the table's lock.
    pub fn set(&self, table: &ClassTable) {
        let version = self.version.load(Relaxed);
        // A reader that sees what is written now sees the version that the last change set, too, and so
        // that it reads a copy which is out of force.
        fence(Release);
        self.copies[(version + 1) % 2].write(table);
        self.version.store(version + 1, Release);
    }

    /// The class with the least chunks that hold `size_bytes`; `None` if no chunk does.
    #[inline]
    pub fn class_for(&self, size_bytes: usize) -> Option<Choice> {
        loop {
            let version = self.version.load(Acquire);
            let copy = &self.copies[version % 2];
            let classes = &copy.classes[..copy.count.load(Relaxed)];
            let is_less =
                |cell: &AtomicU32| Choice::unpack(cell.load(Relaxed)).chunk_size_bytes < size_bytes;
            let found = classes.get(classes.partition_point(is_less));
            let choice = found.map(|cell| Choice::unpack(cell.load(Relaxed)));
            fence(Acquire);
            if self.version.load(Relaxed) == version {
                return choice;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SizeMap;
    use crate::layout::ClassTable;
    use slabwise_base::ClassId;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    fn table(sizes: &[usize], ids: &[u8]) -> ClassTable {
        let table = ClassTable::explicit(sizes, 4096).expect("a valid table");
        table.renumbered(ids.iter().copied().map(ClassId).collect())
    }

    #[test]
    fn it_answers_as_the_table_that_was_set_last() {
        let tables = [table(&[64, 96, 512], &[0, 1, 2]), table(&[72, 512], &[1, 2])];
        let map = SizeMap::new(&tables[0]);
        for turn in 0..4 {
            let table = &tables[turn % 2];
            map.set(table);
            for size in 0..600 {
                let choice = map.class_for(size);
                assert_eq!(choice.map(|choice| choice.id), table.class_for(size));
                if let Some(choice) = choice {
                    assert_eq!(choice.chunk_size_bytes, table.chunk_size_bytes(choice.id));
                }
            }
        }
    }

    #[test]
    fn a_reader_sees_one_table_while_they_change() {
        // In the one, sizes up to 100 are in class 0; in the other, which has more classes, in class 9.
        let tables =
            [table(&[104, 512], &[0, 2]), table(&[56, 64, 72, 104, 512], &[5, 6, 7, 9, 2])];
        let map = SizeMap::new(&tables[0]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..20_000).for_each(|turn| map.set(&tables[turn % 2]));
                done.store(true, Relaxed);
            });
            while !done.load(Relaxed) {
                let choice = map.class_for(100).expect("both tables hold it");
                assert_eq!(choice.chunk_size_bytes, 104, "{choice:?} is of neither table");
                assert!([0, 9].contains(&choice.id.0), "{choice:?} is of neither table");
            }
        });
    }
}
