//! The limits of chunk sizes, the number of chunks on a page, and the division of chained items.

use super::error::{BadArgument, SizesError};
use slabwise_base::{ClassId, memcached};

/// The limits of chunk sizes, the page size, and the division of chained items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLayout {
    /// The size of a page; `None` if the unused ends of pages do not count as loss.
    pub page_size_bytes: Option<usize>,
    /// The size of the smallest possible chunk.
    pub chunk_size_bytes_min: usize,
    /// The size of the largest chunk. Every table ends with this size.
    pub chunk_size_bytes_max: usize,
    /// The number of which every chunk size is a multiple.
    pub chunk_align_bytes: usize,
    /// The division of items that are larger than the largest chunk; `None` if such items are an error.
    pub chaining: Option<Chaining>,
}

/// The division of an item that is larger than the largest chunk.
///
/// ```text
///   head                      body                  ...  last body, in the smallest chunk that holds it
///   [header, key | link]      [header | value    ]       [header | rest of the value]
///    \-- of the item --/       \--- the largest chunk --/
/// ```
///
/// memcached divides such items in the same way ([`Chaining::memcached`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chaining {
    /// The bytes of a head, including its link. The sizes of headers and keys are not known from item sizes, so the
    /// caller estimates this value. The estimate determines the class of the heads and has almost no other effect.
    pub head_size_bytes: usize,
    /// The bytes of the link in a head. Only a chained item has a link.
    pub link_size_bytes: usize,
    /// The bytes of the header in a body, before the body's part of the value.
    pub body_header_size_bytes: usize,
}

impl Chaining {
    /// Returns memcached's division for keys of this length. The struct `item_chunk` in `memcached.h` has 48 bytes. It
    /// is the header of a body, and it is in a head after the header, the CAS value, the key and the key's zero byte
    /// (`do_item_alloc` in memcached 1.6).
    pub fn memcached(key_size_bytes: usize) -> Chaining {
        let head_size_bytes = memcached::HEADER_SIZE_BYTES
            + memcached::CAS_SIZE_BYTES
            + key_size_bytes
            + 1
            + memcached::CHAIN_HEADER_SIZE_BYTES;
        Chaining {
            head_size_bytes,
            link_size_bytes: memcached::CHAIN_HEADER_SIZE_BYTES,
            body_header_size_bytes: memcached::CHAIN_HEADER_SIZE_BYTES,
        }
    }
}

impl ChunkLayout {
    /// Returns the layout of Jai and Das (2020): every number of bytes is a possible chunk size, and the unused ends of
    /// pages do not count as loss.
    pub fn published(chunk_size_bytes_max: usize) -> ChunkLayout {
        ChunkLayout {
            page_size_bytes: None,
            chunk_size_bytes_min: 1,
            chunk_size_bytes_max,
            chunk_align_bytes: 1,
            chaining: None,
        }
    }

    /// Returns the number of chunks of this size on a page; `None` if the layout has no page size.
    pub fn chunks_per_page(&self, chunk_size_bytes: usize) -> Option<usize> {
        self.page_size_bytes.map(|page| page / chunk_size_bytes)
    }

    /// Returns the bytes that a chunk takes, including its share of the page's unused end. A larger chunk never takes
    /// fewer bytes.
    pub fn taken_bytes(&self, chunk_size_bytes: usize) -> f64 {
        match self.page_size_bytes {
            Some(page) => page as f64 / (page / chunk_size_bytes) as f64,
            None => chunk_size_bytes as f64,
        }
    }

    /// Returns the smallest possible size of a chunk that holds this many bytes. `size_bytes` must be at most
    /// [`ChunkLayout::chunk_size_bytes_max`].
    pub(super) fn chunk_for(&self, size_bytes: usize) -> usize {
        size_bytes.next_multiple_of(self.chunk_align_bytes).max(self.chunk_size_bytes_min)
    }

    /// Returns the largest chunk size with the same number of chunks on a page as this size. Chunks of both sizes take
    /// the same memory.
    pub(super) fn stretched(&self, chunk_size_bytes: usize) -> usize {
        let Some(page) = self.page_size_bytes else { return chunk_size_bytes };
        let largest = page / (page / chunk_size_bytes);
        let aligned = largest / self.chunk_align_bytes * self.chunk_align_bytes;
        aligned.min(self.chunk_size_bytes_max)
    }

    pub(super) fn check(&self) -> Result<(), SizesError> {
        let ChunkLayout { chunk_size_bytes_min: min, chunk_size_bytes_max: max, .. } = *self;
        let align = self.chunk_align_bytes;
        let is_aligned = align > 0 && min.is_multiple_of(align) && max.is_multiple_of(align);
        if min == 0 || min > max || !is_aligned {
            return Err(BadArgument::Limits { min, max, align }.into());
        }
        if let Some(page_size_bytes) = self.page_size_bytes
            && max > page_size_bytes
        {
            return Err(
                BadArgument::PageTooSmall { chunk_size_bytes_max: max, page_size_bytes }.into()
            );
        }
        if let Some(Chaining { head_size_bytes, link_size_bytes, body_header_size_bytes }) =
            self.chaining
        {
            let largest = head_size_bytes.max(body_header_size_bytes + 1);
            if largest > max || link_size_bytes >= head_size_bytes {
                return Err(BadArgument::Chaining {
                    head_size_bytes,
                    link_size_bytes,
                    body_header_size_bytes,
                    chunk_size_bytes_max: max,
                }
                .into());
            }
        }
        Ok(())
    }

    pub(super) fn check_table(&self, table: &[usize]) -> Result<(), SizesError> {
        let chunk_size_bytes_max = self.chunk_size_bytes_max;
        check_class_count(table.len())?;
        self.check_sizes(table)?;
        if table.last() != Some(&chunk_size_bytes_max) {
            return Err(BadArgument::LargestMissing { chunk_size_bytes_max }.into());
        }
        Ok(())
    }

    pub(super) fn check_sizes(&self, sizes: &[usize]) -> Result<(), SizesError> {
        let range = self.chunk_size_bytes_min..=self.chunk_size_bytes_max;
        for (index, &size_bytes) in sizes.iter().enumerate() {
            if !range.contains(&size_bytes) {
                let (min, max) = (*range.start(), *range.end());
                return Err(BadArgument::SizeBeyondLimits { size_bytes, min, max }.into());
            }
            if !size_bytes.is_multiple_of(self.chunk_align_bytes) {
                let align = self.chunk_align_bytes;
                return Err(BadArgument::SizeNotAligned { size_bytes, align }.into());
            }
            if index > 0 && sizes[index - 1] >= size_bytes {
                return Err(
                    BadArgument::NotAscending { size_bytes, before: sizes[index - 1] }.into()
                );
            }
        }
        Ok(())
    }
}

pub(super) fn check_class_count(count: usize) -> Result<(), SizesError> {
    let max = ClassId::COUNT_MAX;
    if (1..=max).contains(&count) {
        Ok(())
    } else {
        Err(BadArgument::ClassCount { count, max }.into())
    }
}
