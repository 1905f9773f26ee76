//! One-line answers of the classic text protocol.

use super::narration;
use crate::context::WorkerContext;
use crate::out::Out;
use std::os::fd::RawFd;

/// Where a one-line answer goes, if it is wanted.
pub(crate) struct Reply<'o> {
    pub(crate) out: &'o mut Vec<u8>,
    pub(crate) noreply: bool,
    descriptor: RawFd,
}

impl<'o> Reply<'o> {
    pub(crate) fn new(
        worker: &WorkerContext<'_>,
        out: &'o mut Out<'_>,
        noreply: bool,
    ) -> Reply<'o> {
        Reply { out: out.bytes(), noreply, descriptor: worker.descriptor }
    }

    #[inline]
    pub(crate) fn line(&mut self, line: &[u8]) {
        if !self.noreply {
            self.out.extend_from_slice(line);
        } else if narration::is_on() {
            narration::unwanted_reply(self.descriptor, line);
        }
    }
}
