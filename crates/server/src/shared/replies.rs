//! The budgets for pending replies: those that clients have not read, and that the server therefore keeps.
//!
//! A pending reply takes memory in two ways. Its bytes are in buffers outside of `-m`. A large value in it is not copied,
//! but *pinned*: the value is part of `-m`, and cannot be evicted. Both kinds have a budget for all connections.
//!
//! ```text
//!   round begins: share() limits the bytes that the session may append in this round
//!                 large_values_wait() says whether the session may pin values
//!   round ends:   settle() counts what the connection still holds; nothing, if the socket has accepted every byte
//! ```
//!
//! Invariants:
//! - The counts contain replies that a socket has not accepted, and requests that the server has received but not
//!   served. So a reply that fits into its socket needs no budget. While a connection waits for its next round, it is
//!   counted only if it holds more than two minimum shares.
//! - A share is an eighth of the unused budget, within limits. So the first slow clients get much, and later ones always
//!   the minimum: buffers take at most the budget, plus two minimum shares (for requests and replies) and one value of
//!   less than 16 KiB for each connection. Replies to `stats` are written whole and can be longer.
//! - While the budget is exceeded, clients whose buffers are larger than [`BUFFERED_BYTES_MIN`] and that have made no
//!   progress for [`SLOW_NANOS_MIN`] are disconnected.
//! - Pinned values exceed their budget by at most the values that the workers pin in one round each.
//! - While a get of a large value waits for the budget, clients that hold pinned values and have made no progress
//!   for [`SLOW_NANOS_MIN`] are disconnected.
//! - NO-OVERTAKING: while a get of a large value waits, new ones wait too. A worker serves its waiting gets in the order
//!   of their tickets. A get waits only while its client has no unwritten output, so that a client that does not read
//!   delays no other.

use slabwise_base::counters;
use slabwise_base::sync::{Mutex, lock};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The budget for buffers of pending replies and of input that is not served, in bytes.
pub(crate) const BUFFERED_BYTES_MAX: usize = 32 << 20;
/// The minimum of the bytes that a session may append or receive in one round.
pub(crate) const SHARE_BYTES_MIN: usize = 8 << 10;
/// The minimum and maximum of the bytes that a session may append or receive in one round.
const SHARE_BYTES: std::ops::RangeInclusive<usize> = SHARE_BYTES_MIN..=1 << 20;
/// The minimum length, in bytes, of a value that is pinned and written from the arena. A shorter value is copied: the
/// copy of 16 KiB takes about a microsecond, which is less than the time for a pin and two more slices in the write.
pub(crate) const PINNED_VALUE_LEN_MIN: usize = 16 << 10;
/// The buffers that every connection may hold, in bytes: two minimum shares, and one value that is not pinned.
pub(crate) const BUFFERED_BYTES_MIN: usize = 2 * SHARE_BYTES_MIN + PINNED_VALUE_LEN_MIN;
/// The budget for pinned values is the memory limit (`-m`) divided by this number.
const PINNED_DIVISOR: u64 = 16;
/// A client that holds much and has made no progress for this time is disconnected while others wait or the budget is
/// exceeded, in nanoseconds.
pub const SLOW_NANOS_MIN: u64 = 2_000_000_000;

/// The memory that pending replies hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyBytes {
    /// The size of the buffers of one connection.
    pub buffered: usize,
    /// The lengths of its pinned values.
    pub pinned: usize,
}

impl ReplyBytes {
    pub fn is_empty(self) -> bool {
        self.buffered | self.pinned == 0
    }
}

/// The pending replies of all connections.
#[derive(Debug, Default)]
pub struct PendingReplies {
    /// True if shares are below their maximum, or gets of large values wait.
    is_scarce: AtomicBool,
    /// The number of bytes that a session may append or receive in one round.
    share_bytes: AtomicUsize,
    /// True if gets of large values must wait.
    large_values_wait: AtomicBool,
    /// True if the buffers of all connections exceed their budget.
    is_exceeded: AtomicBool,
    /// The memory that all connections hold.
    counted: Mutex<ReplyBytes>,
    pinned_bytes_max: AtomicUsize,
    counters: ReplyCounters,
}

/// The pending replies at one moment, and their counts since the start of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyStats {
    pub buffered_bytes: u64,
    pub buffered_bytes_max: u64,
    pub pinned_bytes: u64,
    pub pinned_bytes_max: u64,
    pub waiting: u64,
    pub counts: ReplyCounts,
}

counters! {
    /// Counts of pending replies since the start of the server.
    pub struct ReplyCounters read as ReplyCounts {
        /// Gets of large values that waited.
        waits,
        /// Clients that were disconnected because they did not read while others waited.
        disconnected,
    }
    gauges {
        /// The number of connections on which a get of a large value waits.
        waiting: AtomicU64,
    }
}

impl PendingReplies {
    /// Makes a register without pending replies, for a cache with this memory limit.
    pub fn new(memory_limit_bytes: u64) -> PendingReplies {
        let replies = PendingReplies::default();
        replies.set_memory_limit(memory_limit_bytes);
        replies
    }

    /// Sets the budget of pinned values for this memory limit.
    pub fn set_memory_limit(&self, memory_limit_bytes: u64) {
        let bytes_max = (memory_limit_bytes / PINNED_DIVISOR).max(1);
        self.pinned_bytes_max.store(bytes_max as usize, Relaxed);
        self.set_limits(*lock(&self.counted));
    }

    /// True if the rounds of connections have limits.
    #[inline]
    pub fn is_scarce(&self) -> bool {
        self.is_scarce.load(Relaxed)
    }

    /// Returns the number of bytes that the session of a connection may append or receive in one round.
    #[inline]
    pub fn share_bytes(&self) -> usize {
        self.share_bytes.load(Relaxed)
    }

    /// True if new gets of large values must wait: clients hold too many pinned values, or other gets wait.
    #[inline]
    pub fn large_values_wait(&self) -> bool {
        self.large_values_wait.load(Relaxed)
    }

    /// True if a get that waits may be served: the budget of pinned values is not used up.
    pub fn may_pin(&self) -> bool {
        self.has_room_for_pins(*lock(&self.counted))
    }

    fn has_room_for_pins(&self, counted: ReplyBytes) -> bool {
        counted.pinned < self.pinned_bytes_max.load(Relaxed)
    }

    /// True if the buffers of all connections exceed their budget.
    fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Relaxed)
    }

    /// True if clients that hold much memory and make no progress must be disconnected.
    pub fn needs_memory(&self) -> bool {
        self.has_waiting() || self.is_exceeded()
    }

    /// True if a client that holds this memory and makes no progress must be disconnected.
    pub fn must_end(&self, held: ReplyBytes) -> bool {
        held.pinned > 0 && self.has_waiting()
            || held.buffered > BUFFERED_BYTES_MIN && self.is_exceeded()
    }

    /// Replaces the memory that a connection held by the memory that it holds now. Returns true if other limits
    /// apply to the rounds of all connections from now on.
    pub fn settle(&self, before: ReplyBytes, after: ReplyBytes) -> bool {
        let mut counted = lock(&self.counted);
        counted.buffered = counted.buffered - before.buffered + after.buffered;
        counted.pinned = counted.pinned - before.pinned + after.pinned;
        let before = [self.is_scarce(), self.large_values_wait()];
        self.set_limits(*counted);
        let after = [self.is_scarce(), self.large_values_wait()];
        (!before[0] && after[0]) || (!before[1] && after[1])
    }

    /// Sets the limits of the next rounds.
    fn set_limits(&self, counted: ReplyBytes) {
        let unused = BUFFERED_BYTES_MAX.saturating_sub(counted.buffered);
        let share_bytes = (unused / 8).clamp(*SHARE_BYTES.start(), *SHARE_BYTES.end());
        self.share_bytes.store(share_bytes, Relaxed);
        self.is_exceeded.store(counted.buffered > BUFFERED_BYTES_MAX, Relaxed);
        let waits = !self.has_room_for_pins(counted) || self.has_waiting();
        self.large_values_wait.store(waits, Relaxed);
        let is_scarce = waits || share_bytes < *SHARE_BYTES.end();
        self.is_scarce.store(is_scarce, Relaxed);
    }

    /// Records that a get of a large value waits. Returns its ticket, and true if no other get waited before. A later
    /// ticket is larger.
    pub fn begin_wait(&self) -> (u64, bool) {
        let counted = lock(&self.counted);
        let ticket = self.counters.waits.fetch_add(1, Relaxed);
        let is_first = self.counters.waiting.fetch_add(1, Relaxed) == 0;
        self.set_limits(*counted);
        (ticket, is_first)
    }

    /// Records that a get of a large value no longer waits.
    pub fn end_wait(&self) {
        let counted = lock(&self.counted);
        self.counters.waiting.fetch_sub(1, Relaxed);
        self.set_limits(*counted);
    }

    /// True if a get of a large value waits.
    fn has_waiting(&self) -> bool {
        self.counters.waiting.load(Relaxed) > 0
    }

    /// Counts a client that was disconnected because it did not read.
    pub fn count_disconnected(&self) {
        self.counters.disconnected.fetch_add(1, Relaxed);
    }

    pub fn stats(&self) -> ReplyStats {
        let counted = *lock(&self.counted);
        ReplyStats {
            buffered_bytes: counted.buffered as u64,
            buffered_bytes_max: BUFFERED_BYTES_MAX as u64,
            pinned_bytes: counted.pinned as u64,
            pinned_bytes_max: self.pinned_bytes_max.load(Relaxed) as u64,
            waiting: self.counters.waiting.load(Relaxed),
            counts: self.counters.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        BUFFERED_BYTES_MAX, BUFFERED_BYTES_MIN, PINNED_DIVISOR, PendingReplies, ReplyBytes,
        SHARE_BYTES,
    };

    #[test]
    fn shares_decrease_to_the_minimum_and_all_shares_together_little_exceed_the_budget() {
        const CONNECTIONS: usize = 10_000;
        let replies = PendingReplies::new(1 << 30);
        let mut last = replies.share_bytes();
        assert_eq!(last, *SHARE_BYTES.end());
        let mut sum = 0;
        for _ in 0..CONNECTIONS {
            let share = replies.share_bytes();
            assert!(share <= last);
            replies.settle(ReplyBytes::default(), ReplyBytes { buffered: share, pinned: 0 });
            (sum, last) = (sum + share, share);
        }
        let bytes_min = *SHARE_BYTES.start();
        assert_eq!(last, bytes_min);
        assert!(sum <= BUFFERED_BYTES_MAX + CONNECTIONS * bytes_min, "{sum}");
        replies.settle(ReplyBytes { buffered: sum, pinned: 0 }, ReplyBytes::default());
        assert_eq!(replies.share_bytes(), *SHARE_BYTES.end());
    }

    #[test]
    fn while_the_budget_is_exceeded_clients_with_more_than_the_minimum_are_disconnected() {
        let replies = PendingReplies::new(1 << 30);
        let held = |buffered| ReplyBytes { buffered, pinned: 0 };
        let must_end = || [0, 1].map(|more| replies.must_end(held(BUFFERED_BYTES_MIN + more)));
        replies.settle(held(0), held(BUFFERED_BYTES_MAX));
        assert_eq!(must_end(), [false, false], "the budget is used up, but not exceeded");
        replies.settle(held(0), held(1));
        assert_eq!(must_end(), [false, true]);
        assert!(!replies.must_end(ReplyBytes { buffered: 0, pinned: 1 }), "no get waits");
        replies.settle(held(1), held(0));
        assert_eq!(must_end(), [false, false]);
    }

    #[test]
    fn gets_of_large_values_wait_while_the_budget_of_pinned_values_is_used_up() {
        let replies = PendingReplies::new(1_000 * PINNED_DIVISOR);
        let held = |pinned| ReplyBytes { buffered: 0, pinned };
        assert!(!replies.large_values_wait());
        replies.settle(held(0), held(999));
        assert!(!replies.large_values_wait(), "one byte is left");
        replies.settle(held(0), held(5_000));
        assert!(replies.large_values_wait());
        assert_eq!(replies.begin_wait(), (0, true), "no other get waits");
        assert_eq!(replies.begin_wait(), (1, false));
        assert!(!replies.may_pin());
        replies.settle(held(5_000), held(0));
        assert!(replies.may_pin());
        assert!(replies.large_values_wait(), "a new get must not overtake those that wait");
        replies.end_wait();
        assert!(replies.large_values_wait(), "one get still waits");
        replies.end_wait();
        assert!(!replies.large_values_wait());
        assert_eq!((replies.stats().pinned_bytes, replies.stats().counts.waits), (999, 2));
    }
}
