//! The size of a class, as its owner reports it.

use slabwise_base::ClassId;

/// The current size of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSize {
    /// The number of the class.
    pub class: ClassId,
    /// The number of chunks on the class's pages.
    pub chunks: u64,
    /// The number of chunks on a page; at least 1.
    pub chunks_per_page: u64,
    /// The size of a chunk, in bytes; at least 1.
    pub chunk_size_bytes: u64,
}

impl ClassSize {
    /// Returns true if both are sizes of the same class. Another class may have the same number at another time.
    pub fn is_of_same_class(&self, other: &ClassSize) -> bool {
        let identity = |it: &ClassSize| (it.class, it.chunk_size_bytes, it.chunks_per_page);
        identity(self) == identity(other)
    }
}
