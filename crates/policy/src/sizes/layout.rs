//! What chunks may be, how they lie on pages, and how an item too large for one is cut.

use super::error::{BadArgument, SizesError};
use slabwise_base::{ClassId, memcached};

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLayout {
    /// Bytes a page. `None`: what is lost at the ends of pages does not count.
    pub page_size_bytes: Option<usize>,
    /// The least chunk.
    pub chunk_size_bytes_min: usize,
    /// The largest chunk; every table ends with it.
    pub chunk_size_bytes_max: usize,
    /// Chunk sizes are multiples of this.
    pub chunk_align_bytes: usize,
    /// `None`: an item larger than the largest chunk is an error.
    pub chaining: Option<Chaining>,
}

/// How an item that is larger than the largest chunk is cut.
///
/// ```text
///   head                      body                  ...  last body, in the least chunk that holds it
///   [header, key | link]      [header | value    ]       [header | rest of the value]
///    \-- of the item --/       \--- the largest chunk --/
/// ```
///
/// memcached cuts them in the same way ([`Chaining::memcached`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chaining {
    /// Bytes of a head, its link included. Sizes of items do not tell those of their keys, so this is the caller's
    /// guess of a usual one; little hangs on it but the class of the heads.
    pub head_size_bytes: usize,
    /// Of these, the bytes that only a chained item has.
    pub link_size_bytes: usize,
    /// Bytes of a body before its part of the value.
    pub body_header_size_bytes: usize,
}

impl Chaining {
    /// memcached's, for keys of this length: `item_chunk` of `memcached.h` is 48 bytes and lies in heads, too, behind
    /// the header, the CAS value and the key with its zero byte (`do_item_alloc`, 1.6).
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
    /// As Jai and Das (2020) count: every byte is a size, and the ends of pages are free.
    pub fn published(chunk_size_bytes_max: usize) -> ChunkLayout {
        ChunkLayout {
            page_size_bytes: None,
            chunk_size_bytes_min: 1,
            chunk_size_bytes_max,
            chunk_align_bytes: 1,
            chaining: None,
        }
    }

    /// How many chunks of this size a page holds; `None` where pages do not count.
    pub fn chunks_per_page(&self, chunk_size_bytes: usize) -> Option<usize> {
        self.page_size_bytes.map(|page| page / chunk_size_bytes)
    }

    /// Bytes that a chunk takes, its share of the page's end included. It never falls with the size.
    pub fn taken_bytes(&self, chunk_size_bytes: usize) -> f64 {
        match self.page_size_bytes {
            Some(page) => page as f64 / (page / chunk_size_bytes) as f64,
            None => chunk_size_bytes as f64,
        }
    }

    /// The least chunk that holds so many bytes, at most [`ChunkLayout::chunk_size_bytes_max`].
    pub(super) fn chunk_for(&self, size_bytes: usize) -> usize {
        size_bytes.next_multiple_of(self.chunk_align_bytes).max(self.chunk_size_bytes_min)
    }

    /// The largest chunk of which a page holds as many: it takes no more than this one.
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
        for (place, &size_bytes) in sizes.iter().enumerate() {
            if !range.contains(&size_bytes) {
                let (min, max) = (*range.start(), *range.end());
                return Err(BadArgument::SizeBeyondLimits { size_bytes, min, max }.into());
            }
            if !size_bytes.is_multiple_of(self.chunk_align_bytes) {
                let align = self.chunk_align_bytes;
                return Err(BadArgument::SizeNotAligned { size_bytes, align }.into());
            }
            if place > 0 && sizes[place - 1] >= size_bytes {
                return Err(
                    BadArgument::NotAscending { size_bytes, before: sizes[place - 1] }.into()
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
