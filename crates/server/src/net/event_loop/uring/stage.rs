//! The outputs that are sent in the next wait, within limits.

use crate::os::uring::Ring;
use crate::out::{STAGED_BYTES_MAX, STAGED_OUTPUTS_MAX};
use std::io::IoSlice;

/// The limits of staged outputs, and the buffers for them.
#[derive(Default)]
pub(super) struct Stage {
    /// The number of staged outputs.
    outputs: usize,
    /// Unused buffers.
    spare: Vec<Vec<u8>>,
}

impl Stage {
    /// True if no output is staged.
    pub fn is_empty(&self) -> bool {
        self.outputs == 0
    }

    /// True if the staged outputs must be sent before others are staged.
    pub fn is_full(&self) -> bool {
        self.outputs == STAGED_OUTPUTS_MAX
    }

    /// Records that all staged outputs are submitted.
    pub fn clear(&mut self) {
        self.outputs = 0;
    }

    /// Stages a buffer, and replaces it by an empty one. Returns the index of the send, or `None` if there is no room. A
    /// small output in a large buffer is not staged, because the stage would hold the memory of the buffer.
    pub fn add_buffer(
        &mut self,
        ring: &mut Ring,
        file: u32,
        key: u64,
        buffer: &mut Vec<u8>,
    ) -> Option<usize> {
        if buffer.len() > STAGED_BYTES_MAX || buffer.capacity() > 2 * STAGED_BYTES_MAX {
            return None;
        }
        self.outputs += 1;
        let bytes = std::mem::replace(buffer, self.spare.pop().unwrap_or_default());
        Some(ring.send(file, key, bytes))
    }

    /// Appends slices of this total length to the send with this index, or stages them as a new send. Returns the index, or
    /// `None` if there is no room.
    pub fn append(
        &mut self,
        ring: &mut Ring,
        staged: Option<usize>,
        (file, key): (u32, u64),
        slices: &[IoSlice<'_>],
        len: usize,
    ) -> Option<usize> {
        let staged_len = staged.map_or(0, |index| ring.bytes_to_send(index).len());
        if staged_len + len > STAGED_BYTES_MAX {
            return None;
        }
        let index = staged.unwrap_or_else(|| {
            self.outputs += 1;
            ring.send(file, key, self.spare.pop().unwrap_or_default())
        });
        let bytes = ring.bytes_to_send(index);
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        Some(index)
    }

    /// Keeps a buffer for the next output.
    pub fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < STAGED_OUTPUTS_MAX && bytes.capacity() <= STAGED_BYTES_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
