//! Ids are types of their own, so that a class can never be passed where a page is meant.

/// A class by its number: all chunks of one class have one size.
///
/// Numbered from 0 inside slabwise. memcached's wire numbers classes from 1 (0 is its global page
/// pool): [`ClassId::wire`] and [`ClassId::from_wire`] are the only two places that translate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// The most classes that a table may hold (memcached's limit, too).
    pub const COUNT_MAX: usize = 63;

    /// How many numbers there are: the classes of a table stand beside those of an earlier one, as long as
    /// these still hold items.
    pub const NUMBERS: usize = 2 * Self::COUNT_MAX;

    /// The number that memcached's commands and stats give this class.
    pub fn wire(self) -> u32 {
        u32::from(self.0) + 1
    }

    /// The class that a command's number names, or `None` for 0 and for numbers that no class can have.
    pub fn from_wire(number: u32) -> Option<ClassId> {
        let index = number.checked_sub(1)?;
        (index < Self::NUMBERS as u32).then_some(ClassId(index as u8))
    }

    /// The class as an index into per-class arrays.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A page of the arena, the unit of memory that moves between classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

impl PageId {
    /// The page as an index into the page table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
