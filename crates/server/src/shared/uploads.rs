//! The budget for uploads: values that clients have not sent completely.
//!
//! An upload occupies chunks of the cache that hold no item yet. Without a limit, clients that start many uploads and
//! then stop sending would replace all items. So the server receives a value only after it has *admitted* the upload.
//! The others wait, and their connections are not read.
//!
//! ```text
//!   begin --- it fits -------------> admitted --- complete, refused or closed ---> ended
//!     |                                 ^
//!     '-- it does not fit --> queue ----'  admit_waiting, when others have ended
//! ```
//!
//! An upload fits if the values of all admitted uploads together are not larger than the *budget*, a part of `-m`, or than
//! the memory that they can take without an eviction.
//!
//! Invariants:
//! - The values of the admitted uploads fit, except one of any size, so that a value of any size can be stored. Such an
//!   upload is admitted if no other is, or if the queue stands still: no upload has ended for
//!   [`STANDSTILL_NANOS_MIN`], and no admitted upload exceeds the budget.
//! - While uploads wait, those that have been silent longest are refused, if they have been silent for
//!   [`SILENCE_NANOS`]: for less if many wait or have waited for long, so that the queue ends soon even if all
//!   uploads are silent. An admitted upload is *silent* since it last made progress: it was admitted, or received
//!   enough bytes ([`PROGRESS_BYTES`]).
//! - An admitted upload that receives no byte for `-o upload_timeout` seconds is refused.
//! - After [`WAIT_NANOS_MAX`] no smaller upload is admitted before the oldest one, except tiny ones. So a large upload does
//!   not wait forever.
//! - The upload that began to wait last is admitted first, except that every [`OLDEST_EVERY`]th admission is that of the
//!   oldest one, and every second one once that has waited for [`WAIT_NANOS_MAX`]. So a new upload does not wait for all
//!   older ones, which may all be silent, and the oldest does not wait forever.
//!
//! The worker of an upload refuses it: [`Uploads::mark_silent`] only marks it and names the worker. When the worker
//! comes to the upload, it has received what the client sent meanwhile, so the upload may no longer be silent. A pause of
//! the whole process therefore makes no upload silent.

use slab::Slab;
use slabwise_base::counts;
use slabwise_base::sync::{Mutex, lock};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The budget is the memory limit (`-m`) divided by this number.
const BUDGET_DIVISOR: u64 = 16;
/// An upload that has been silent for a time between these limits is refused while others wait, in nanoseconds.
const SILENCE_NANOS: std::ops::RangeInclusive<u64> = 50_000_000..=100_000_000;
/// If all uploads are silent, the oldest one in the queue is admitted after about this time, in nanoseconds.
const QUEUE_NANOS: u64 = 1_400_000_000;
/// An upload makes progress if it receives a hundredth of its size, within these limits in bytes. So an upload that
/// others wait for takes at most about ten seconds, or has a rate of 640 KB a second.
const PROGRESS_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=64 << 10;
/// Every admission from the queue whose number is a multiple of this number is that of the oldest upload.
const OLDEST_EVERY: u64 = 8;
/// If the oldest upload has waited for this time, in nanoseconds, no smaller upload is admitted before it.
const WAIT_NANOS_MAX: u64 = 1_000_000_000;
/// An upload is tiny if it is not larger than the budget divided by this number.
const TINY_DIVISOR: u64 = 64;
/// If no upload has ended for this time, in nanoseconds, an upload is admitted that does not fit. The time is longer than
/// the time until a silent upload is refused.
const STANDSTILL_NANOS_MIN: u64 = 1_000_000_000;

/// The uploads of all clients.
#[derive(Debug, Default)]
pub struct Uploads {
    budget_bytes: AtomicU64,
    state: Mutex<State>,
    /// The number of uploads that wait.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    entries: Slab<Entry>,
    /// The uploads that wait, in the order in which they began to wait.
    queue: VecDeque<usize>,
    /// The number of admissions from the queue.
    taken_count: u64,
    /// The memory that the items of all admitted uploads will take, in bytes.
    admitted_bytes: u64,
    /// The bytes of the values of these items that have arrived.
    received_bytes: u64,
    /// The upload that was admitted although it did not fit.
    exceeding: Option<usize>,
    /// The time at which an upload last ended or was admitted to an empty server, in nanoseconds of the clock.
    ended_at_nanos: u64,
    counts: UploadCounts,
}

#[derive(Debug)]
struct Entry {
    /// The number of the worker that serves the client.
    worker: usize,
    /// The memory that the item will take, in bytes.
    size_bytes: u64,
    /// The bytes of the value that have arrived.
    received_bytes: u64,
    is_admitted: bool,
    /// True if the worker should refuse the upload, unless the upload makes progress before.
    is_marked: bool,
    /// The time of the last progress, in nanoseconds of the clock.
    progress_at_nanos: u64,
    /// The value of `received_bytes` at this time.
    progress_bytes: u64,
    /// The time at which the last byte was received or the upload was admitted, in nanoseconds of the clock.
    active_at_nanos: u64,
}

counts! {
    /// Counts of uploads since the start of the server.
    pub struct UploadCounts {
        /// Uploads that waited for memory.
        waited,
        /// Uploads that were refused because they were silent while others waited.
        refused_silent,
        /// Uploads that were refused because they received no byte for `-o upload_timeout` seconds.
        refused_timeout,
    }
}

/// The uploads at one moment, and their counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadStats {
    /// The number of admitted uploads.
    pub admitted: usize,
    pub waiting: usize,
    /// The memory that the items of all admitted uploads will take, in bytes.
    pub admitted_bytes: u64,
    pub budget_bytes: u64,
    pub counts: UploadCounts,
}

impl Uploads {
    /// Makes a register without uploads, for a cache with this memory limit.
    pub fn new(memory_limit_bytes: u64) -> Uploads {
        let uploads = Uploads::default();
        uploads.set_memory_limit(memory_limit_bytes);
        uploads
    }

    /// Sets the budget for this memory limit. Admitted uploads stay admitted.
    pub fn set_memory_limit(&self, memory_limit_bytes: u64) {
        self.budget_bytes.store(memory_limit_bytes / BUDGET_DIVISOR, Relaxed);
    }

    /// Registers an upload, and admits it if it fits. `free_bytes` returns the memory that uploads can take without an
    /// eviction; it is called only if the budget is used up.
    pub fn begin(
        &self,
        worker: usize,
        size_bytes: u64,
        now_nanos: u64,
        free_bytes: impl FnOnce() -> u64,
    ) -> UploadTicket<'_> {
        let budget_bytes = self.budget_bytes.load(Relaxed);
        let mut state = lock(&self.state);
        let entry = Entry {
            worker,
            size_bytes,
            received_bytes: 0,
            is_admitted: false,
            is_marked: false,
            progress_at_nanos: now_nanos,
            progress_bytes: 0,
            active_at_nanos: now_nanos,
        };
        let id = state.entries.insert(entry);
        let is_empty = state.queue.is_empty();
        let fits = state.fits(size_bytes, budget_bytes)
            && !state.must_not_overtake(size_bytes, budget_bytes, now_nanos)
            || is_empty && state.fits(size_bytes, state.received_bytes + free_bytes());
        let is_admitted = fits || is_empty && state.admitted_bytes == 0;
        if is_admitted {
            state.admit(id, fits, now_nanos);
        } else {
            state.queue.push_back(id);
            state.counts.waited += 1;
            self.waiting.store(state.queue.len(), Relaxed);
        }
        UploadTicket { uploads: self, id, is_admitted: Cell::new(is_admitted) }
    }

    /// True if an upload waits.
    pub fn has_waiting(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Admits the uploads that fit now. Calls `wake` with the worker of each. `free_bytes` is the memory that uploads
    /// can take without an eviction.
    pub fn admit_waiting(&self, now_nanos: u64, free_bytes: u64, wake: impl FnMut(usize)) {
        let mut state = lock(&self.state);
        let budget_bytes = self.budget_bytes.load(Relaxed);
        let limits = (budget_bytes, budget_bytes.max(state.received_bytes + free_bytes));
        let mut workers = Vec::new();
        while let Some((id, fits)) = state.take_next(limits, now_nanos) {
            state.admit(id, fits, now_nanos);
            workers.push(state.entries[id].worker);
        }
        self.waiting.store(state.queue.len(), Relaxed);
        drop(state);
        workers.into_iter().for_each(wake);
    }

    /// Marks silent uploads for refusal: at most one for each upload that waits, those that were silent longest first.
    /// Calls `wake` with the worker of each.
    pub fn mark_silent(&self, now_nanos: u64, mut wake: impl FnMut(usize)) {
        let mut state = lock(&self.state);
        let silence_nanos = state.silence_nanos(self.budget_bytes.load(Relaxed), now_nanos);
        let mut silent: Vec<(u64, usize)> = state
            .entries
            .iter()
            .filter(|(_, entry)| entry.is_silent(now_nanos, silence_nanos))
            .map(|(id, entry)| (entry.progress_at_nanos, id))
            .collect();
        silent.sort_unstable();
        silent.truncate(state.queue.len());
        for (_, id) in silent {
            let entry = &mut state.entries[id];
            entry.is_marked = true;
            wake(entry.worker);
        }
    }

    pub fn stats(&self) -> UploadStats {
        let state = lock(&self.state);
        UploadStats {
            admitted: state.entries.len() - state.queue.len(),
            waiting: state.queue.len(),
            admitted_bytes: state.admitted_bytes,
            budget_bytes: self.budget_bytes.load(Relaxed),
            counts: state.counts,
        }
    }
}

impl Entry {
    /// True if the upload has been silent for this time.
    fn is_silent(&self, now_nanos: u64, silence_nanos: u64) -> bool {
        let silent_nanos = now_nanos.saturating_sub(self.progress_at_nanos);
        self.is_admitted && silent_nanos >= silence_nanos
    }
}

impl State {
    /// True if one more value of this size fits into this memory, together with those of the admitted uploads.
    fn fits(&self, size_bytes: u64, capacity_bytes: u64) -> bool {
        self.admitted_bytes + size_bytes <= capacity_bytes
    }

    /// Admits an upload. `fits` is false if it exceeds the budget.
    fn admit(&mut self, id: usize, fits: bool, now_nanos: u64) {
        if !fits {
            self.exceeding = Some(id);
        }
        let entry = &mut self.entries[id];
        entry.is_admitted = true;
        (entry.progress_at_nanos, entry.active_at_nanos) = (now_nanos, now_nanos);
        if self.admitted_bytes == 0 {
            self.ended_at_nanos = now_nanos;
        }
        self.admitted_bytes += entry.size_bytes;
    }

    /// Returns the time after which a silent upload is refused, in nanoseconds. The uploads of the queue are admitted in
    /// groups of about the budget, and each group may be silent for this time. The oldest upload should not wait for
    /// longer than [`QUEUE_NANOS`].
    fn silence_nanos(&self, budget_bytes: u64, now_nanos: u64) -> u64 {
        let Some(&oldest) = self.queue.front() else { return *SILENCE_NANOS.end() };
        let waited_nanos = now_nanos.saturating_sub(self.entries[oldest].active_at_nanos);
        let queue_bytes: u64 = self.queue.iter().map(|&id| self.entries[id].size_bytes).sum();
        let groups = queue_bytes / budget_bytes.max(1) + 1;
        (QUEUE_NANOS.saturating_sub(waited_nanos) / groups)
            .clamp(*SILENCE_NANOS.start(), *SILENCE_NANOS.end())
    }

    /// True if the oldest upload of the queue has waited for long.
    fn oldest_is_late(&self, now_nanos: u64) -> bool {
        self.queue.front().is_some_and(|&oldest| {
            now_nanos.saturating_sub(self.entries[oldest].active_at_nanos) >= WAIT_NANOS_MAX
        })
    }

    /// True if an upload of this size must not be admitted before the oldest one, because that one is larger and has
    /// waited for long. Tiny uploads may overtake it.
    fn must_not_overtake(&self, size_bytes: u64, budget_bytes: u64, now_nanos: u64) -> bool {
        let is_smaller =
            self.queue.front().is_some_and(|&oldest| size_bytes < self.entries[oldest].size_bytes);
        let is_tiny = size_bytes <= budget_bytes / TINY_DIVISOR;
        is_smaller && !is_tiny && self.oldest_is_late(now_nanos)
    }

    /// Removes the next upload to admit from the queue, if any. Returns it, and true if it fits.
    fn take_next(
        &mut self,
        (budget_bytes, capacity_bytes): (u64, u64),
        now_nanos: u64,
    ) -> Option<(usize, bool)> {
        let (oldest, newest) = (*self.queue.front()?, *self.queue.back()?);
        let newest_bytes = self.entries[newest].size_bytes;
        let oldest_every = if self.oldest_is_late(now_nanos) { 2 } else { OLDEST_EVERY };
        let takes_oldest = (self.taken_count + 1).is_multiple_of(oldest_every)
            || self.must_not_overtake(newest_bytes, budget_bytes, now_nanos);
        let next = if takes_oldest { oldest } else { newest };
        let stands_still = now_nanos.saturating_sub(self.ended_at_nanos) >= STANDSTILL_NANOS_MIN;
        let fits = self.fits(self.entries[next].size_bytes, capacity_bytes);
        let may_exceed = self.admitted_bytes == 0 || stands_still && self.exceeding.is_none();
        if !fits && !may_exceed {
            return None;
        }
        self.taken_count += 1;
        let taken = if takes_oldest { self.queue.pop_front() } else { self.queue.pop_back() };
        Some((taken?, fits))
    }
}

/// The registration of one upload. Dropping it ends the upload.
#[derive(Debug)]
pub struct UploadTicket<'e> {
    uploads: &'e Uploads,
    id: usize,
    /// True if the upload is known to be admitted. An admitted upload stays admitted.
    is_admitted: Cell<bool>,
}

impl UploadTicket<'_> {
    /// True if the server may receive the value.
    pub fn is_admitted(&self) -> bool {
        if !self.is_admitted.get() {
            self.is_admitted.set(lock(&self.uploads.state).entries[self.id].is_admitted);
        }
        self.is_admitted.get()
    }

    /// Records that bytes of the value arrived. `is_last` is true if the value is complete.
    pub fn note_received(&mut self, count: usize, is_last: bool, now_nanos: u64) {
        let mut state = lock(&self.uploads.state);
        state.received_bytes += count as u64;
        let entry = &mut state.entries[self.id];
        entry.received_bytes += count as u64;
        entry.active_at_nanos = now_nanos;
        let progress_bytes =
            (entry.size_bytes / 100).clamp(*PROGRESS_BYTES.start(), *PROGRESS_BYTES.end());
        if is_last || entry.received_bytes - entry.progress_bytes >= progress_bytes {
            entry.progress_bytes = entry.received_bytes;
            entry.progress_at_nanos = now_nanos;
            entry.is_marked = false;
        }
    }

    /// Returns true if the upload must be refused now, and counts the refusal. `timeout_nanos` is the value of
    /// `-o upload_timeout`; `None`: there is no timeout.
    pub fn refuse(&mut self, now_nanos: u64, timeout_nanos: Option<u64>) -> bool {
        let mut state = lock(&self.uploads.state);
        let entry = &state.entries[self.id];
        let idle_nanos = now_nanos.saturating_sub(entry.active_at_nanos);
        let is_over = timeout_nanos.is_some_and(|timeout| idle_nanos >= timeout);
        if entry.is_admitted && is_over {
            state.counts.refused_timeout += 1;
        } else if entry.is_marked && !state.queue.is_empty() {
            state.counts.refused_silent += 1;
        } else {
            return false;
        }
        state.ended_at_nanos = now_nanos;
        true
    }
}

impl Drop for UploadTicket<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.uploads.state);
        let entry = state.entries.remove(self.id);
        if entry.is_admitted {
            state.admitted_bytes -= entry.size_bytes;
            state.received_bytes -= entry.received_bytes;
            state.ended_at_nanos = state.ended_at_nanos.max(entry.active_at_nanos);
            state.exceeding = state.exceeding.filter(|&id| id != self.id);
        } else {
            state.queue.retain(|&other| other != self.id);
            self.uploads.waiting.store(state.queue.len(), Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "uploads_tests.rs"]
mod tests;
