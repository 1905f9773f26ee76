//! Stamps: the order in which requests begin and end.
//!
//! A stamp is a number from one counter that all threads share. A client takes a stamp before it sends a request, and
//! another one after it has received the reply. If the second stamp of a request is lower than the first stamp of
//! another one, then the first request was complete before the other one began. Requests whose stamps overlap may have
//! taken effect in any order.
//!
//! Every client has a slot with the first stamp of its current batch. No open request began before the lowest stamp in
//! the slots, so the checker may forget versions that were superseded before that stamp.

use std::sync::atomic::{AtomicU64, Ordering};

/// A stamp: its value increases with time.
pub type Stamp = u64;

/// The stamp of an end that has not happened.
pub const NEVER: Stamp = u64::MAX;

/// The counter, and a slot for each client.
#[derive(Debug)]
pub struct Stamps {
    next: AtomicU64,
    slots: Box<[AtomicU64]>,
}

impl Stamps {
    /// Returns a counter with this number of slots.
    pub fn new(slots: usize) -> Stamps {
        Stamps {
            next: AtomicU64::new(1),
            slots: (0..slots).map(|_| AtomicU64::new(NEVER)).collect(),
        }
    }

    /// Returns a new stamp.
    pub fn take(&self) -> Stamp {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// Marks the slot as in use, and returns the first stamp of its requests.
    pub fn open(&self, slot: usize) -> Stamp {
        // The slot must be visible before the stamp is taken, so that `oldest` never exceeds the stamp.
        self.slots[slot].store(self.next.load(Ordering::SeqCst), Ordering::SeqCst);
        self.take()
    }

    /// Marks the slot as unused: all its requests have ended.
    pub fn close(&self, slot: usize) {
        self.slots[slot].store(NEVER, Ordering::SeqCst);
    }

    /// Returns a stamp that is not higher than the first stamp of any open request, now and in the future.
    pub fn oldest(&self) -> Stamp {
        let next = self.next.load(Ordering::SeqCst);
        self.slots.iter().map(|slot| slot.load(Ordering::SeqCst)).fold(next, Stamp::min)
    }
}

#[cfg(test)]
mod tests {
    use super::Stamps;

    #[test]
    fn oldest_is_the_first_stamp_of_the_oldest_open_slot() {
        let stamps = Stamps::new(2);
        let first = stamps.open(0);
        let second = stamps.open(1);
        assert!(first < second);
        assert_eq!(stamps.oldest(), first);
        stamps.close(0);
        assert_eq!(stamps.oldest(), second);
        stamps.close(1);
        assert!(stamps.oldest() > second);
    }
}
