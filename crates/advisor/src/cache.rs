//! The cache that the advice is for: what its chunks may be, and which `slab_sizes` it takes.

use slabwise_base::memcached::{self, CHUNK_ALIGN_BYTES};
use slabwise_policy::sizes::{Chaining, ChunkLayout, geometric};

const SLABWISE_HEADER_BYTES: usize = 29;
const SLABWISE_CHUNK_SIZE_BYTES_MIN: usize = 32;
/// A usual key; sizes of items do not tell.
const KEY_LEN: usize = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Memcached,
    Slabwise,
}

impl Program {
    pub fn name(self) -> &'static str {
        match self {
            Program::Memcached => "memcached",
            Program::Slabwise => "slabwise",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    pub program: Program,
    pub layout: ChunkLayout,
    /// The largest item (`-I`).
    pub item_size_bytes_max: usize,
    /// The least number that it takes in `slab_sizes`.
    pub listed_min: usize,
}

impl Cache {
    /// A cache with pages of this size and these chunks and items at most. `chunk_size` is memcached's `-n`: no
    /// chunk size may be below it.
    pub fn new(
        program: Program,
        page_size_bytes: usize,
        chunk_size_bytes_max: usize,
        item_size_bytes_max: usize,
        chunk_size: Option<usize>,
    ) -> Cache {
        let listed_min = match program {
            Program::Memcached => chunk_size.unwrap_or(memcached::ITEM_ROOM_BYTES_MIN),
            Program::Slabwise => SLABWISE_CHUNK_SIZE_BYTES_MIN,
        };
        let aligned_down = |size: usize| size / CHUNK_ALIGN_BYTES * CHUNK_ALIGN_BYTES;
        let largest = aligned_down(chunk_size_bytes_max);
        let chaining = match program {
            Program::Memcached => Chaining::memcached(KEY_LEN),
            Program::Slabwise => Chaining {
                head_size_bytes: SLABWISE_HEADER_BYTES + KEY_LEN + CHAIN_LINK,
                link_size_bytes: CHAIN_LINK,
                body_header_size_bytes: SLABWISE_HEADER_BYTES,
            },
        };
        let head_size_bytes = chaining.head_size_bytes.min(largest);
        let chaining = Chaining { head_size_bytes, ..chaining };
        let layout = ChunkLayout {
            page_size_bytes: Some(page_size_bytes),
            chunk_size_bytes_min: listed_min.next_multiple_of(CHUNK_ALIGN_BYTES).min(largest),
            chunk_size_bytes_max: largest,
            chunk_align_bytes: CHUNK_ALIGN_BYTES,
            // Where no item can be larger than a chunk, none is chained, however small chunks are.
            chaining: (item_size_bytes_max > largest).then_some(chaining),
        };
        Cache { program, layout, item_size_bytes_max, listed_min }
    }

    /// The table that memcached makes without `slab_sizes`, by `-f` and `-n`.
    pub fn geometric_table(&self, growth_factor: f64) -> Vec<usize> {
        let first = self.listed_min + memcached::HEADER_SIZE_BYTES;
        geometric(first, growth_factor, &self.layout)
    }

    pub fn page_size_bytes(&self) -> usize {
        self.layout.page_size_bytes.unwrap_or_else(|| unreachable!("caches have pages"))
    }
}

/// What slabwise's head of a chained item has besides: the length of the whole, and where the bodies begin.
const CHAIN_LINK: usize = 9;
