//! Uploads: values that the server receives into reserved memory, in pieces.
//!
//! ```text
//!   begin --> Ready --fill, target/advance--> complete --> store
//!     |         ^ |
//!     |         | '--> Refused --> give_up     there is no memory, even if items are evicted
//!     '----> Waits                             the upload is not admitted yet
//! ```
//!
//! An upload has a ticket, and reserves memory when it is admitted ([`shared::uploads`](crate::shared::UploadTicket)). A
//! value that is complete in the input when its store begins needs no ticket, because it does not wait for its client.

use super::get::{Rules, before_lookup};
use super::hooks::{self, extends};
use crate::shared::{UploadTicket, WorkerContext};
use slabwise_base::HashedKey;
use slabwise_engine::{
    ItemMeta, Reservation, ReserveError, StoreConditions, StoreMode, StoreOutcome,
};

/// The minimum number of missing bytes for which a value is received directly into its memory. If fewer bytes are
/// missing, they are received into the connection's buffer together with the next commands, which saves a system call.
const DIRECT_READ_LEN_MIN: usize = 4 << 10;

/// A value that the session receives, with the conditions under which it is stored at the end.
pub(crate) struct Upload<'e> {
    memory: Memory<'e>,
    /// `None` if the whole value was in the input when the store began.
    ticket: Option<UploadTicket<'e>>,
    conditions: StoreConditions,
    rules: Rules,
    /// The reason why the engine has refused memory for the item, and has counted the store as refused.
    refusal: Option<ReserveError>,
}

/// The memory of an upload.
enum Memory<'e> {
    /// The upload waits until it is admitted.
    Awaited(Box<AwaitedItem>),
    /// The first chunk is reserved. A chained value gets more chunks while the session receives it.
    Reserved(Reservation<'e>),
}

/// An item for which an upload will reserve memory.
struct AwaitedItem {
    key: Box<[u8]>,
    value_len: usize,
    meta: ItemMeta,
}

/// Whether an upload has memory for the next bytes of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is memory for the next bytes, or the value is complete.
    Ready,
    /// The upload is not admitted yet. The caller tries again later.
    Waits,
    /// There is no memory, even if items are evicted. The caller ends the upload with [`Upload::give_up`].
    Refused,
}

impl<'e> Upload<'e> {
    /// Begins to receive a value. `is_whole` is true if the input contains the whole value.
    #[inline]
    pub(super) fn begin(
        worker: &mut WorkerContext<'e>,
        key: HashedKey<'_>,
        (value_len, meta): (usize, ItemMeta),
        (conditions, rules): (StoreConditions, Rules),
        is_whole: bool,
    ) -> Result<Upload<'e>, ReserveError> {
        let ticket = (!is_whole).then(|| begin_ticket(worker, value_len));
        let memory = if ticket.as_ref().is_none_or(UploadTicket::is_admitted) {
            Memory::Reserved(worker.handle.reserve(key, value_len, meta, worker.now)?)
        } else {
            Memory::Awaited(Box::new(AwaitedItem { key: key.bytes().into(), value_len, meta }))
        };
        Ok(Upload { memory, ticket, conditions, rules, refusal: None })
    }

    /// Returns the key of the item.
    pub(crate) fn key(&self) -> &[u8] {
        match &self.memory {
            Memory::Awaited(item) => &item.key,
            Memory::Reserved(reservation) => reservation.key(),
        }
    }

    /// Returns the length of the whole value, in bytes.
    pub(crate) fn value_len(&self) -> usize {
        match &self.memory {
            Memory::Awaited(item) => item.value_len,
            Memory::Reserved(reservation) => reservation.value_len(),
        }
    }

    /// Returns the number of bytes of the value that have not arrived.
    pub(crate) fn remaining(&self) -> usize {
        match &self.memory {
            Memory::Awaited(item) => item.value_len,
            Memory::Reserved(reservation) => reservation.remaining(),
        }
    }

    /// True if the whole value is in its memory.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(&self.memory, Memory::Reserved(reservation) if reservation.remaining() == 0)
    }

    /// Copies more bytes of the value from `input`. Returns the number of copied bytes, and whether there is memory for
    /// the bytes after them.
    pub(crate) fn fill(&mut self, worker: &mut WorkerContext<'e>, input: &[u8]) -> (usize, Room) {
        if let Memory::Awaited(item) = &self.memory {
            if !self.ticket.as_ref().is_none_or(UploadTicket::is_admitted) {
                return (0, Room::Waits);
            }
            let key = worker.handle.hashed(&item.key);
            match worker.handle.reserve(key, item.value_len, item.meta, worker.now) {
                Ok(reservation) => self.memory = Memory::Reserved(reservation),
                Err(error) => {
                    self.refusal = Some(error);
                    return (0, Room::Refused);
                }
            }
        }
        let Memory::Reserved(reservation) = &mut self.memory else {
            unreachable!("the first chunk was reserved above");
        };
        reservation.set_now(worker.now);
        let count = reservation.fill(input);
        // This call allocates the next chunk, so that the session can receive into it.
        reservation.unfilled();
        let room = if reservation.is_starved() { Room::Refused } else { Room::Ready };
        self.note_received(worker, count);
        (count, room)
    }

    /// Returns the memory into which the socket's next bytes should be read. Returns `None` if they should be read into
    /// the connection's buffer, because fewer than 4 KiB are missing. Call this function after [`Upload::fill`] has
    /// returned [`Room::Ready`].
    pub(crate) fn target(&mut self) -> Option<&mut [u8]> {
        match &mut self.memory {
            Memory::Reserved(reservation) if reservation.remaining() >= DIRECT_READ_LEN_MIN => {
                Some(reservation.unfilled())
            }
            _ => None,
        }
    }

    /// Records that `count` bytes were written to the start of [`Upload::target`].
    pub(crate) fn advance(&mut self, worker: &WorkerContext<'e>, count: usize) {
        let Memory::Reserved(reservation) = &mut self.memory else {
            panic!("advance({count}) was called for an upload without memory");
        };
        reservation.set_now(worker.now);
        reservation.advance(count);
        self.note_received(worker, count);
    }

    fn note_received(&mut self, worker: &WorkerContext<'e>, count: usize) {
        let is_complete = self.remaining() == 0;
        if let Some(ticket) = self.ticket.as_mut().filter(|_| count > 0) {
            ticket.note_received(count, is_complete, worker.shared.clock.nanos());
        }
    }

    /// Stores the complete value if the conditions hold.
    pub(crate) fn store(self, worker: &mut WorkerContext<'e>) -> StoreOutcome {
        let Memory::Reserved(mut reservation) = self.memory else {
            panic!("a value is stored only when it is complete");
        };
        let offered = hooks::before_store(worker, &mut reservation);
        let outcome = match worker.handle.store_if(reservation, &self.conditions, worker.now) {
            // The appended or prepended value has arrived, but the extended value does not fit. The engine keeps the
            // old item.
            StoreOutcome::TooLarge | StoreOutcome::OutOfMemory if extends(self.conditions.mode) => {
                StoreOutcome::NotStored
            }
            outcome => outcome,
        };
        if let Some(offered) = offered {
            hooks::after_store(worker, offered, &self.conditions, outcome);
        }
        outcome
    }

    /// True if the upload must be refused now, because it was silent for too long.
    pub(crate) fn is_refused(&mut self, worker: &WorkerContext<'e>) -> bool {
        let timeout = worker.shared.settings.upload_timeout_seconds;
        let timeout_nanos = timeout.map(|seconds| u64::from(seconds) * 1_000_000_000);
        let now_nanos = worker.shared.clock.nanos();
        self.ticket.as_mut().is_some_and(|ticket| ticket.refuse(now_nanos, timeout_nanos))
    }

    /// Ends the store because it gets no memory for the rest of the value.
    pub(crate) fn give_up(self, worker: &mut WorkerContext<'e>) -> StoreOutcome {
        let key = self.key().to_vec();
        drop(self.memory);
        if self.refusal.is_none() {
            worker.handle.count_no_memory();
        }
        let key = worker.handle.hashed(&key);
        let error = self.refusal.unwrap_or(ReserveError::OutOfMemory);
        discard_and_report(worker, key, self.conditions.mode, self.rules, error);
        error.into()
    }
}

/// Registers an upload for a value of this length.
fn begin_ticket<'e>(worker: &WorkerContext<'e>, value_len: usize) -> UploadTicket<'e> {
    let shared = worker.shared;
    let now_nanos = shared.clock.nanos();
    let free_bytes = || shared.engine.free_bytes(value_len);
    let size_bytes = shared.engine.item_bytes_max(value_len);
    shared.uploads.begin(worker.index, size_bytes, now_nanos, free_bytes)
}

/// Reports to watchers a store whose value is too large or has no memory. Removes the existing item if `rules` require
/// the removal.
#[cold]
pub(super) fn discard_and_report(
    worker: &mut WorkerContext<'_>,
    key: HashedKey<'_>,
    mode: StoreMode,
    rules: Rules,
    error: ReserveError,
) {
    hooks::report_refused_store(worker, key.bytes(), mode, error);
    if rules.discards(mode) {
        before_lookup(worker, key);
        worker.handle.discard(key, worker.now);
    }
}
