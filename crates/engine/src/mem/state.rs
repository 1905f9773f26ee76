//! The state word of a chunk: what it is, who holds it, where it is queued.
//!
//! ```text
//!  31      24 23  22   21       20      19     18       17     16   15   14       13    12      0
//! +----------+------+---------+-------+------+--------+-------+-------+-------+--------+--------+
//! | key len  | kind | chained | expiry| flags| active |fetched| queue |queued | linked |  pins  |
//! +----------+------+---------+-------+------+--------+-------+-------+-------+--------+--------+
//! ```
//!
//! The life of a chunk that holds an item:
//!
//! ```text
//!   FREE --allocate--> item, pins 1 --publish--> linked, queued, pins 0 --unlink--> FREE
//!                        |                          |        ^
//!                        |                      pin |        | unpin
//!                        |                          v        |
//!                        |                        linked, pins 1.. --unlink--> item, pins 1..
//!                        '--- drop ---> FREE  <------------------- last unpin ------'
//! ```
//!
//! - Between FREE and anything else, and `linked` and `queued`: changed under the lock of the class.
//! - LAST-HOLDER: the one whose step leaves a chunk with no pins and unlinked frees it, nobody else.
//!   Both steps are read-modify-writes of this one word, so exactly one of them sees that.
//! - A pin is taken only on a linked item.
//! - There is no edge from unlinked back to linked: a store always publishes a new chunk.

use slabwise_base::sync::{AtomicU32, Ordering};

/// The most pins an item may have at once; who wants one more goes without.
pub const PIN_COUNT_MAX: u32 = 8000;

const PINS_MASK: u32 = 0x1fff;
const LINKED: u32 = 1 << 13;
const QUEUED: u32 = 1 << 14;
const QUEUE_SHIFT: u32 = 15;
const QUEUE_MASK: u32 = 0b11 << QUEUE_SHIFT;
const FETCHED: u32 = 1 << 17;
const ACTIVE: u32 = 1 << 18;
const HAS_FLAGS: u32 = 1 << 19;
const HAS_EXPIRY: u32 = 1 << 20;
const CHAINED: u32 = 1 << 21;
const KIND_SHIFT: u32 = 22;
const KIND_MASK: u32 = 0b11 << KIND_SHIFT;
const KEY_LEN_SHIFT: u32 = 24;

const _: () = assert!(PIN_COUNT_MAX < PINS_MASK, "a pin must never carry into the next field");
const _: () = {
    // The fields tile: no two overlap.
    let single = LINKED ^ QUEUED ^ FETCHED ^ ACTIVE ^ HAS_FLAGS ^ HAS_EXPIRY ^ CHAINED;
    let all = PINS_MASK ^ QUEUE_MASK ^ KIND_MASK ^ (0xff << KEY_LEN_SHIFT) ^ single;
    assert!(all.count_ones() == u32::BITS);
};

/// What a chunk holds. A page that was never used reads as zeros, and so as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Free,
    /// An item, or the head of a chained one.
    Item,
    /// A part of a chained item's value.
    Body,
}

/// The queues of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// New items.
    Hot,
    /// Items that were hit more than once.
    Warm,
    /// Items that leave next.
    Cold,
    /// Items with short lives, which only expiry removes.
    Temp,
}

impl QueueKind {
    /// All of them, in memcached's order.
    pub const ALL: [QueueKind; 4] =
        [QueueKind::Hot, QueueKind::Warm, QueueKind::Cold, QueueKind::Temp];

    /// The queue as an index into per-queue arrays.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A reading of the state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u32);

impl State {
    /// The state of a free chunk.
    pub const FREE: State = State(0);

    /// An item that its owner is still writing: one pin, not linked.
    pub fn new_item(key_len: u8, has_flags: bool, has_expiry: bool, chained: bool) -> State {
        let mut word = (1 << KIND_SHIFT) | (u32::from(key_len) << KEY_LEN_SHIFT) | 1;
        word |= if has_flags { HAS_FLAGS } else { 0 };
        word |= if has_expiry { HAS_EXPIRY } else { 0 };
        word |= if chained { CHAINED } else { 0 };
        State(word)
    }

    /// A chunk that its owner has not begun to write. It must not read as free, or a mover would take it for
    /// empty.
    pub fn in_hand() -> State {
        State::new_item(0, false, false, false)
    }

    /// A part of a chained item's value.
    pub fn new_body() -> State {
        State(2 << KIND_SHIFT)
    }

    /// The word of a moved item: everything but the pins and the queue membership of the old chunk.
    pub fn moved(self) -> State {
        State((self.0 & !(PINS_MASK | LINKED | QUEUED)) | 1)
    }

    /// Whether these bits could have been written here: of bits that come from a file, to be asked before
    /// anything else.
    pub fn is_sound(self) -> bool {
        (self.0 & KIND_MASK) >> KIND_SHIFT <= 2
    }

    /// The word once nobody holds the item beside the index.
    pub fn unpinned(self) -> State {
        State(self.0 & !PINS_MASK)
    }

    /// What the chunk holds.
    pub fn kind(self) -> Kind {
        match (self.0 & KIND_MASK) >> KIND_SHIFT {
            0 => Kind::Free,
            1 => Kind::Item,
            2 => Kind::Body,
            kind => unreachable!("chunk kind {kind} was never written"),
        }
    }

    /// How many hold the item beside the index.
    pub fn pins(self) -> u32 {
        self.0 & PINS_MASK
    }

    /// Whether the index leads to it.
    pub fn linked(self) -> bool {
        self.0 & LINKED != 0
    }

    /// Whether it is in a queue.
    pub fn queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// The queue it is in, or was in last.
    pub fn queue(self) -> QueueKind {
        QueueKind::ALL[((self.0 & QUEUE_MASK) >> QUEUE_SHIFT) as usize]
    }

    /// Whether it was ever hit.
    pub fn fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    /// Whether it was hit again since it was queued where it is.
    pub fn active(self) -> bool {
        self.0 & ACTIVE != 0
    }

    /// Whether it stores client flags (others have 0).
    pub fn has_flags(self) -> bool {
        self.0 & HAS_FLAGS != 0
    }

    /// Whether it stores an expiry (others have none).
    pub fn has_expiry(self) -> bool {
        self.0 & HAS_EXPIRY != 0
    }

    /// Whether its value goes on in other chunks.
    pub fn chained(self) -> bool {
        self.0 & CHAINED != 0
    }

    /// Bytes of key.
    pub fn key_len(self) -> usize {
        (self.0 >> KEY_LEN_SHIFT) as usize
    }
}

/// The state word as it stands in a chunk, with its transitions.
#[repr(transparent)]
#[derive(Debug)]
pub struct StateWord(AtomicU32);

impl StateWord {
    /// A word of its own, for tests; the engine's words live in chunks.
    #[cfg(any(test, loom))]
    pub fn for_test(state: State) -> StateWord {
        StateWord(AtomicU32::new(state.0))
    }

    /// The present state. Acquire: who sees `linked` sees the bytes that were published with it.
    pub fn load(&self) -> State {
        State(self.0.load(Ordering::Acquire))
    }

    /// Overwrites the word; for the chunk's owner and for freeing.
    pub(super) fn store(&self, state: State) {
        self.0.store(state.0, Ordering::Release);
    }

    /// Publishes: the owner's pin goes, the item is linked and queued.
    pub(super) fn publish(&self, queue: QueueKind) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & PINS_MASK == 1 && word & LINKED == 0, "published once, by its owner");
        let cleared = word & !(PINS_MASK | QUEUE_MASK);
        let queue = (queue as u32) << QUEUE_SHIFT;
        self.0.store(cleared | queue | LINKED | QUEUED, Ordering::Release);
    }

    /// Moves to another queue and forgets the hits that earned it. Class lock held.
    pub fn requeue(&self, queue: QueueKind) {
        let queue = (queue as u32) << QUEUE_SHIFT;
        let set = |word: u32| Some((word & !(QUEUE_MASK | ACTIVE)) | queue | QUEUED);
        let updated = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, set);
        debug_assert!(updated.is_ok());
    }

    /// Takes it out of its queue and pins it in one step, so that nobody else frees it meanwhile.
    /// Class lock held; the item is queued.
    pub(super) fn detach(&self) -> State {
        let word = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            debug_assert!(word & (QUEUED | LINKED) == QUEUED | LINKED);
            debug_assert!(word & PINS_MASK < PIN_COUNT_MAX + 1);
            Some((word & !QUEUED) + 1)
        });
        State(word.unwrap_or_else(|word| word))
    }

    /// Notes that it left its queue. Class lock held.
    pub fn clear_queued(&self) {
        self.0.fetch_and(!QUEUED, Ordering::AcqRel);
    }

    /// Takes the link away. True: nobody pins it, so the caller is the LAST-HOLDER and frees it.
    pub(super) fn unlink(&self) -> bool {
        let before = self.0.fetch_and(!LINKED, Ordering::AcqRel);
        debug_assert!(before & LINKED != 0, "unlinked once");
        before & PINS_MASK == 0
    }

    /// Pins a linked item; false if it is not linked any more, or pinned too often.
    pub(super) fn try_pin(&self) -> bool {
        let pin = |word: u32| {
            (word & LINKED != 0 && word & PINS_MASK < PIN_COUNT_MAX).then_some(word + 1)
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, pin).is_ok()
    }

    /// Drops a pin. True: it was the last and the item is unlinked, so the caller is the LAST-HOLDER
    /// and frees it.
    pub(super) fn unpin(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        assert!(before & PINS_MASK > 0, "a pin is dropped by who took it");
        before & (PINS_MASK | LINKED) == 1
    }

    /// Marks a hit: the first makes it fetched, the next active. Writes only when that changes.
    pub fn mark_hit(&self) -> State {
        let word = self.0.load(Ordering::Relaxed);
        let bit = if word & FETCHED == 0 { FETCHED } else { ACTIVE };
        if word & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
        State(word)
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, QueueKind, State, StateWord};

    #[test]
    fn the_last_holder_is_told_so_once() {
        let word = StateWord::for_test(State::new_item(3, true, false, false));
        word.publish(QueueKind::Hot);
        assert!(word.try_pin());
        assert!(!word.unlink(), "a pin is held");
        assert!(!word.try_pin(), "nobody pins what is unlinked");
        assert!(word.unpin(), "the last pin of an unlinked item");
    }

    #[test]
    fn fields_do_not_disturb_each_other() {
        let word = StateWord::for_test(State::new_item(250, true, true, true));
        word.publish(QueueKind::Temp);
        word.mark_hit();
        assert!(word.load().fetched() && !word.load().active());
        word.mark_hit();
        let state = word.load();
        assert!(state.active() && state.queued() && state.linked());
        assert_eq!((state.kind(), state.queue()), (Kind::Item, QueueKind::Temp));
        assert_eq!((state.key_len(), state.pins()), (250, 0));
        assert!(state.has_flags() && state.has_expiry() && state.chained());
        word.requeue(QueueKind::Warm);
        assert!(!word.load().active() && word.load().fetched());
        assert_eq!(word.load().queue(), QueueKind::Warm);
    }
}
