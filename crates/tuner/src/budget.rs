//! How much of the machine page moves may take.

use crate::load::Load;
use std::time::Duration;

/// How much of the machine page moves may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveBudget {
    /// Chunks that the mover visits in one step while clients are served; at least 1.
    pub chunks_per_step: usize,
    /// Pages that may move in a second while clients are served; at least 1. When nobody is, pages move as
    /// fast as they can.
    pub pages_per_second: u32,
}

impl MoveBudget {
    /// A step is some ten microseconds' work: a request that has to wait for it is not among the slow ones.
    pub const CHUNKS_PER_STEP_DEFAULT: usize = 32;

    /// When nobody has to wait.
    const CHUNKS_PER_STEP_IDLE: usize = 256;

    /// Bytes of pages that move in a second by default. At a millisecond a mebibyte, and twice that for small
    /// chunks, few requests in a hundred meet a step.
    const BYTES_PER_SECOND_DEFAULT: usize = 16 << 20;

    /// The default for pages of this size.
    pub fn for_pages_of(page_size_bytes: usize) -> MoveBudget {
        let pages_per_second = (Self::BYTES_PER_SECOND_DEFAULT / page_size_bytes).max(1) as u32;
        MoveBudget { chunks_per_step: Self::CHUNKS_PER_STEP_DEFAULT, pages_per_second }
    }

    /// Bytes that a step may have to copy: of large chunks it visits fewer.
    const STEP_SIZE_BYTES_MAX: usize = 32 << 10;

    pub(crate) fn chunks(
        &self,
        load: Load,
        chunks_per_page: usize,
        page_size_bytes: usize,
    ) -> usize {
        let chunk_size_bytes = page_size_bytes / chunks_per_page;
        let few = (MoveBudget::STEP_SIZE_BYTES_MAX / chunk_size_bytes).max(1);
        match load {
            Load::Idle => MoveBudget::CHUNKS_PER_STEP_IDLE.max(self.chunks_per_step),
            Load::Serving => self.chunks_per_step.min(few),
        }
    }

    pub(crate) fn rest(&self, chunks: usize, chunks_per_page: usize) -> Duration {
        let share = chunks as f64 / chunks_per_page as f64;
        Duration::from_secs_f64(share.min(1.0) / f64::from(self.pages_per_second))
    }
}
