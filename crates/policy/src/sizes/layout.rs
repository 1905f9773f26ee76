//! The limits of chunk sizes, the chunks on a page, and the parts of items larger than a chunk.

use super::error::{BadArgument, SizesError};
use slabwise_base::{ClassId, memcached};

/// The limits of chunk sizes, the page size and how larger items are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLayout {
    /// Bytes on a page; `None` if the loss at the ends of pages does not count.
    pub page_size_bytes: Option<usize>,
    /// The smallest chunk.
    pub chunk_size_bytes_min: usize,
    /// The largest chunk; every table ends with it.
    pub chunk_size_bytes_max: usize,
    /// Chunk sizes are multiples of this.
    pub chunk_align_bytes: usize,
    /// How items larger than the largest chunk are divided; `None` if they are an error.
    pub chaining: Option<Chaining>,
}

/// How an item that is larger than the largest chunk is divided.
///
/// ```text
///   head                      body                  ...  last body, in the smallest chunk that holds it
///   [header, key | link]      [header | value    ]       [header | rest of the value]
///    \-- of the item --/       \--- the largest chunk --/
/// ```
///
/// memcached divides them in the same way ([`Chaining::memcached`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chaining {
    /// Bytes of a head, including its link. Item sizes do not include the key sizes separately, so this is the
    /// caller's estimate; it affects little but the class of the heads.
    pub head_size_bytes: usize,
    /// The bytes of a head that only a chained item has.
    pub link_size_bytes: usize,
    /// Bytes in a body before its part of the value.
    pub body_header_size_bytes: usize,
}

impl Chaining {
    /// memcached's layout for keys of this length. Its `item_chunk` (`memcached.h`) has 48 bytes and is also in heads,
    /// after the header, the CAS value and the key with its zero byte (`do_item_alloc`, 1.6).
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
    /// The layout of Jai and Das (2020): every number of bytes is a size, and the ends of pages do not count.
    pub fn published(chunk_size_bytes_max: usize) -> ChunkLayout {
        ChunkLayout {
            page_size_bytes: None,
            chunk_size_bytes_min: 1,
            chunk_size_bytes_max,
            chunk_align_bytes: 1,
            chaining: None,
        }
    }

    /// The number of chunks of this size on a page; `None` if pages do not count.
    pub fn chunks_per_page(&self, chunk_size_bytes: usize) -> Option<usize> {
        self.page_size_bytes.map(|page| page / chunk_size_bytes)
    }

    /// The bytes that a chunk takes, including its share of the page's end. It never falls as the size rises.
    pub fn taken_bytes(&self, chunk_size_bytes: usize) -> f64 {
        match self.page_size_bytes {
            Some(page) => page as f64 / (page / chunk_size_bytes) as f64,
            None => chunk_size_bytes as f64,
        }
    }

    /// The smallest chunk size for this many bytes, which are at most [`ChunkLayout::chunk_size_bytes_max`].
    pub(super) fn chunk_for(&self, size_bytes: usize) -> usize {
        size_bytes.next_multiple_of(self.chunk_align_bytes).max(self.chunk_size_bytes_min)
    }

    /// The largest chunk size with the same number of chunks on a page; it takes no more memory than this one.
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
