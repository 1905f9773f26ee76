//! The state word of a chunk: its kind, its pins, its queue and the marks and layout of its item.
//!
//! ```text
//!  31      24   23      22       21      20     19     18      17      16    15  13  12   11  10   0
//! +----------+-------+-------+---------+------+-----+------+-------+-------+------+----+----+------+
//! | key len  | stale |claimed| chained |expiry|flags|active|fetched| given | place|cost|rank| pins |
//! +----------+-------+-------+---------+------+-----+------+-------+-------+------+----+----+------+
//!
//! place: 000 not linked    001 linked, in no queue    1qq linked, in queue qq
//! ```
//!
//! The kind follows from the other fields: a free chunk's word is 0; an item has a key or, before its owner writes
//! the key, a pin; a body has neither, and is chained.
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
//! - The place changes, and chunks become FREE or are allocated, only under the lock of the class.
//! - LAST-HOLDER: the step that leaves a chunk unlinked and without pins, an unlink or an unpin, frees it. Both are
//!   read-modify-writes of this word, so exactly one of them sees that state.
//! - Only linked items can be pinned.
//! - An unlinked item is never linked again: a store always publishes a new chunk.

use crate::layout::{ItemFields, ItemLayout};
use slabwise_base::sync::{AtomicU32, Ordering};

/// The most pins that an item may have; further pins fail.
pub const PIN_COUNT_MAX: u32 = 2000;

const PINS_MASK: u32 = 0x7ff;
/// The pin count of an item that is being restored, minus the index of its queue. Other items never have this many.
const RESTORED_PINS: u32 = PINS_MASK - 3;
const HAS_RANK: u32 = 1 << 11;
const HAS_COST: u32 = 1 << 12;
const PLACE_SHIFT: u32 = 13;
const PLACE_MASK: u32 = 0b111 << PLACE_SHIFT;
/// Linked, in no queue: the item is being removed or moved.
const LOOSE: u32 = 0b001 << PLACE_SHIFT;
/// Linked, in the queue that the place's low bits name.
const QUEUED: u32 = 0b100 << PLACE_SHIFT;
const QUEUE_MASK: u32 = 0b11 << PLACE_SHIFT;
const GIVEN_CAS: u32 = 1 << 16;
const FETCHED: u32 = 1 << 17;
const ACTIVE: u32 = 1 << 18;
const HAS_FLAGS: u32 = 1 << 19;
const HAS_EXPIRY: u32 = 1 << 20;
const CHAINED: u32 = 1 << 21;
const CLAIMED: u32 = 1 << 22;
const STALE: u32 = 1 << 23;
const KEY_LEN_SHIFT: u32 = 24;
const KEY_LEN_MASK: u32 = 0xff << KEY_LEN_SHIFT;

/// The marks that a copy of an item keeps.
const CARRIED: u32 = GIVEN_CAS | FETCHED | CLAIMED | STALE;

const _: () =
    assert!(PIN_COUNT_MAX < PINS_MASK, "the pin count must not overflow into the next field");
const _: () = assert!(PIN_COUNT_MAX < RESTORED_PINS, "nobody pins an item that is being restored");
const _: () = {
    // The fields cover all bits, and no two overlap.
    let marks = GIVEN_CAS ^ FETCHED ^ ACTIVE ^ CLAIMED ^ STALE;
    let layout = HAS_FLAGS ^ HAS_EXPIRY ^ HAS_COST ^ HAS_RANK ^ CHAINED;
    let all = PINS_MASK ^ PLACE_MASK ^ KEY_LEN_MASK ^ marks ^ layout;
    assert!(all.count_ones() == u32::BITS);
    assert!(QUEUED ^ QUEUE_MASK == PLACE_MASK && LOOSE & QUEUED == 0);
};

/// The contents of a chunk. An unused page reads as zeros, so its chunks are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Free,
    /// An item, or the head of a chained one.
    Item,
    /// A part of a chained item's value.
    Body,
}

/// The queues of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// New items.
    Hot,
    /// Items that were hit more than once.
    Warm,
    /// Items that are evicted next.
    Cold,
    /// Items with short TTLs, which are not evicted.
    Temp,
}

impl QueueKind {
    /// All queues, in memcached's order.
    pub const ALL: [QueueKind; 4] =
        [QueueKind::Hot, QueueKind::Warm, QueueKind::Cold, QueueKind::Temp];

    pub fn index(self) -> usize {
        self as usize
    }
}

/// A reading of the state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u32);

impl State {
    pub const FREE: State = State(0);

    /// An allocated chunk whose item is not written yet: one pin. Its word differs from a free chunk's, so that a
    /// mover does not treat it as empty.
    pub const UNPUBLISHED: State = State(1);

    /// An item that its owner is writing: one pin, not linked. The key must not be empty.
    pub fn new_item(key_len: u8, fields: ItemFields, chained: bool) -> State {
        let bits = [
            (fields.flags, HAS_FLAGS),
            (fields.expiry, HAS_EXPIRY),
            (fields.cost, HAS_COST),
            (fields.rank, HAS_RANK),
            (chained, CHAINED),
        ];
        let stored = bits.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit);
        State((u32::from(key_len) << KEY_LEN_SHIFT) | 1 | stored.sum::<u32>())
    }

    /// A part of a chained item's value.
    pub fn new_body() -> State {
        State(CHAINED)
    }

    /// The word of a moved item: the old chunk's without its pins and its place, and one pin.
    pub fn moved(self) -> State {
        State((self.0 & !(PINS_MASK | PLACE_MASK)) | 1)
    }

    /// The word of an item that is being restored, until its queue is restored: it is linked, in no queue, and cannot
    /// be pinned.
    pub(super) fn restored(self) -> State {
        let queue = (self.0 & QUEUE_MASK) >> PLACE_SHIFT;
        State((self.0 & !(PINS_MASK | PLACE_MASK)) | LOOSE | (RESTORED_PINS + queue))
    }

    /// The queue of an item that is being restored.
    pub(super) fn restored_queue(self) -> Option<QueueKind> {
        let queue = self.pins().checked_sub(RESTORED_PINS)?;
        QueueKind::ALL.get(queue as usize).copied().filter(|_| self.0 & PLACE_MASK == LOOSE)
    }

    /// The word of a restored item in its queue.
    pub(super) fn requeued(self, queue: QueueKind) -> State {
        State((self.0 & !(PINS_MASK | PLACE_MASK)) | place_in(queue))
    }

    /// True if this module could have written these bits. Bits from a file must be checked before any other use.
    pub fn is_sound(self) -> bool {
        let place = self.0 & PLACE_MASK;
        match self.kind() {
            Kind::Free => true,
            Kind::Item => place == 0 || place == LOOSE || self.queued(),
            Kind::Body => self == State::new_body(),
        }
    }

    pub fn kind(self) -> Kind {
        match self.0 {
            0 => Kind::Free,
            word if word & (KEY_LEN_MASK | CHAINED) == CHAINED => Kind::Body,
            _ => Kind::Item,
        }
    }

    pub fn pins(self) -> u32 {
        self.0 & PINS_MASK
    }

    /// True if the item is in the index.
    pub fn linked(self) -> bool {
        self.0 & PLACE_MASK != 0
    }

    pub fn queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// The item's queue, or [`QueueKind::Cold`] if it is in none.
    pub fn queue(self) -> QueueKind {
        if !self.queued() {
            return QueueKind::Cold;
        }
        QueueKind::ALL[((self.0 & QUEUE_MASK) >> PLACE_SHIFT) as usize]
    }

    pub fn fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    /// True if the item was hit again since it entered its queue.
    pub fn active(self) -> bool {
        self.0 & ACTIVE != 0
    }

    /// True if the item is out of date. Meta gets report this to clients.
    pub fn stale(self) -> bool {
        self.0 & STALE != 0
    }

    /// True if a client has won the right to recompute the item.
    pub fn claimed(self) -> bool {
        self.0 & CLAIMED != 0
    }

    /// True if the CAS value is client-supplied, so that it does not show the item's age.
    pub fn has_given_cas(self) -> bool {
        self.0 & GIVEN_CAS != 0
    }

    /// The fields that the item stores.
    pub fn fields(self) -> ItemFields {
        ItemFields {
            flags: self.0 & HAS_FLAGS != 0,
            expiry: self.0 & HAS_EXPIRY != 0,
            cost: self.0 & HAS_COST != 0,
            rank: self.0 & HAS_RANK != 0,
        }
    }

    /// True if items in both states have the same layout: the same fields and key length.
    pub(super) fn has_layout_of(self, other: State) -> bool {
        const LAYOUT: u32 = KEY_LEN_MASK | HAS_FLAGS | HAS_EXPIRY | HAS_COST | HAS_RANK | CHAINED;
        (self.0 ^ other.0) & LAYOUT == 0
    }

    #[inline(always)]
    pub fn layout(self) -> ItemLayout {
        ItemLayout::new(self.key_len(), self.fields(), self.chained())
    }

    /// True if the value is in bodies.
    pub fn chained(self) -> bool {
        self.0 & CHAINED != 0
    }

    pub fn key_len(self) -> usize {
        (self.0 >> KEY_LEN_SHIFT) as usize
    }
}

/// The state word in a chunk, with its transitions.
#[repr(transparent)]
#[derive(Debug)]
pub struct StateWord(AtomicU32);

impl StateWord {
    #[cfg(any(test, loom))]
    pub(super) fn for_test(state: State) -> StateWord {
        StateWord(AtomicU32::new(state.0))
    }

    /// The current state. Acquire: a reader that sees `linked` sees the bytes that were published with it.
    pub(super) fn load(&self) -> State {
        State(self.0.load(Ordering::Acquire))
    }

    /// Overwrites the word; for the chunk's owner and for freeing.
    pub(super) fn store(&self, state: State) {
        self.0.store(state.0, Ordering::Release);
    }

    /// Publishes the item: drops the owner's pin, and links and queues the item.
    pub(super) fn publish(&self, queue: QueueKind) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(
            word & (PINS_MASK | PLACE_MASK) == 1,
            "an item is published once, by its owner"
        );
        self.0.store((word & !PINS_MASK) | place_in(queue), Ordering::Release);
    }

    /// Moves the item to another queue and clears its active mark. Class lock held.
    pub(super) fn requeue(&self, queue: QueueKind) {
        let set = |word: u32| Some((word & !(PLACE_MASK | ACTIVE)) | place_in(queue));
        let updated = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, set);
        debug_assert!(updated.is_ok());
    }

    /// Removes the item from its queue and pins it in one step, so that no other thread frees it in between.
    /// Class lock held; the item is queued.
    pub(super) fn detach(&self) -> State {
        let word = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            debug_assert!(word & QUEUED != 0);
            debug_assert!(word & PINS_MASK < PIN_COUNT_MAX + 1);
            Some(((word & !PLACE_MASK) | LOOSE) + 1)
        });
        State(word.unwrap_or_else(|word| word))
    }

    /// Unlinks the item, which has left its queue. Returns true if nobody pins it: the caller is the LAST-HOLDER and
    /// frees it. Class lock held if it was queued.
    pub(super) fn unlink(&self) -> bool {
        let before = self.0.fetch_and(!PLACE_MASK, Ordering::AcqRel);
        debug_assert!(before & PLACE_MASK != 0, "an item is unlinked once");
        before & PINS_MASK == 0
    }

    /// Pins a linked item; returns false if it is no longer linked or has too many pins.
    pub(super) fn try_pin(&self) -> bool {
        let pin = |word: u32| {
            (word & PLACE_MASK != 0 && word & PINS_MASK < PIN_COUNT_MAX).then_some(word + 1)
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, pin).is_ok()
    }

    /// Drops a pin. Returns true if it was the last and the item is unlinked: the caller is the LAST-HOLDER and frees
    /// it.
    pub(super) fn unpin(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        assert!(before & PINS_MASK > 0, "each pin is dropped once");
        before & (PINS_MASK | PLACE_MASK) == 1
    }

    /// Marks a hit: the first makes the item fetched, the next active. Returns the state before. Does not write if the
    /// mark is already set, so that the cache line stays shared.
    pub fn mark_hit(&self) -> State {
        let word = self.0.load(Ordering::Relaxed);
        let bit = if word & FETCHED == 0 { FETCHED } else { ACTIVE };
        if word & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
        State(word)
    }

    /// Marks the item as active without a hit.
    pub fn mark_active(&self) {
        if !self.load().active() {
            self.0.fetch_or(ACTIVE, Ordering::Relaxed);
        }
    }

    /// Marks the item stale and unclaimed. Stripe locked, or owner.
    pub fn mark_stale(&self) {
        self.0.fetch_or(STALE, Ordering::Relaxed);
        self.0.fetch_and(!CLAIMED, Ordering::Relaxed);
    }

    /// Gives one client the right to recompute the item. Returns false if another client already has it.
    pub fn claim(&self) -> bool {
        self.0.fetch_or(CLAIMED, Ordering::Relaxed) & CLAIMED == 0
    }

    /// Records whether the CAS value is client-supplied. Stripe locked, or owner. Release: a reader that sees the mark
    /// sees the time or the CAS value that was set before it.
    pub fn set_given_cas(&self, given: bool) {
        if self.load().has_given_cas() != given {
            self.0.fetch_xor(GIVEN_CAS, Ordering::Release);
        }
    }

    /// Copies the marks of the original to its copy. Owner.
    pub fn inherit(&self, from: State) {
        self.0.fetch_or(from.0 & CARRIED, Ordering::Relaxed);
    }
}

fn place_in(queue: QueueKind) -> u32 {
    QUEUED | (queue as u32) << PLACE_SHIFT
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::{QueueKind, State, StateWord};
    use crate::layout::ItemFields;
    use loom::sync::Arc;
    use loom::thread;

    /// Runs `other` on a linked item while another thread unlinks it. Both return whether they free the chunk; exactly
    /// one must.
    fn one_frees(pins: u32, other: fn(&StateWord) -> bool) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let word =
                Arc::new(StateWord::for_test(State::new_item(3, ItemFields::default(), false)));
            word.publish(QueueKind::Hot);
            (0..pins).for_each(|_| assert!(word.try_pin()));
            let unlinker = {
                let word = Arc::clone(&word);
                thread::spawn(move || word.unlink())
            };
            let frees = other(&word);
            let freed = [unlinker.join().expect("no panic"), frees];
            assert_eq!(freed.iter().filter(|&&frees| frees).count(), 1, "LAST-HOLDER");
        });
    }

    #[test]
    fn loom_unlink_or_last_unpin_frees_the_chunk_once() {
        one_frees(1, |word| word.unpin());
    }

    #[test]
    fn loom_a_late_pin_fails_or_frees_the_chunk() {
        one_frees(0, |word| word.try_pin() && word.unpin());
    }

    #[test]
    fn loom_marks_do_not_change_pins() {
        one_frees(0, |word| {
            let pinned = word.try_pin();
            word.mark_hit();
            word.set_given_cas(true);
            pinned && word.unpin()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, QueueKind, State, StateWord};
    use crate::layout::ItemFields;

    const ALL: ItemFields = ItemFields { flags: true, expiry: true, cost: true, rank: true };
    const WITH_FLAGS: ItemFields =
        ItemFields { flags: true, expiry: false, cost: false, rank: false };

    #[test]
    fn the_last_holder_frees_the_item() {
        let word = StateWord::for_test(State::new_item(3, WITH_FLAGS, false));
        word.publish(QueueKind::Hot);
        assert!(word.try_pin());
        assert!(!word.unlink(), "a pin is held");
        assert!(!word.try_pin(), "an unlinked item cannot be pinned");
        assert!(word.unpin(), "the last pin of an unlinked item");
    }

    #[test]
    fn fields_change_independently() {
        let word = StateWord::for_test(State::new_item(250, ALL, true));
        word.publish(QueueKind::Temp);
        word.mark_hit();
        assert!(word.load().fetched() && !word.load().active());
        word.mark_hit();
        let state = word.load();
        assert!(state.active() && state.queued() && state.linked());
        assert_eq!((state.kind(), state.queue()), (Kind::Item, QueueKind::Temp));
        assert_eq!((state.key_len(), state.pins()), (250, 0));
        assert!(state.fields() == ALL && state.chained());
        word.requeue(QueueKind::Warm);
        assert!(!word.load().active() && word.load().fetched());
        assert_eq!(word.load().queue(), QueueKind::Warm);
        word.mark_stale();
        assert!(word.claim() && !word.claim());
        word.set_given_cas(true);
        let state = word.detach();
        assert!(state.stale() && state.claimed() && state.has_given_cas() && state.queued());
        let state = word.load();
        assert!(state.linked() && !state.queued() && state.pins() == 1);
        assert_eq!((state.key_len(), state.kind()), (250, Kind::Item));
        assert!(!word.unlink() && word.unpin());
    }

    #[test]
    fn the_kind_follows_from_the_word() {
        assert_eq!(State::FREE.kind(), Kind::Free);
        assert_eq!(State::UNPUBLISHED.kind(), Kind::Item);
        assert_eq!(State::new_body().kind(), Kind::Body);
        assert_eq!(State::new_item(1, ItemFields::default(), true).kind(), Kind::Item);
    }

    #[test]
    fn a_copy_keeps_the_marks_and_a_new_item_has_none() {
        let old = StateWord::for_test(State::new_item(3, WITH_FLAGS, false));
        old.publish(QueueKind::Hot);
        assert!(!old.load().stale() && !old.load().claimed() && !old.load().has_given_cas());
        old.mark_stale();
        old.claim();
        old.mark_hit();
        old.set_given_cas(true);
        let copy = StateWord::for_test(State::new_item(3, ALL, false));
        copy.inherit(old.load());
        let state = copy.load();
        assert!(state.stale() && state.claimed() && state.fetched() && state.has_given_cas());
        assert!(state.fields().expiry && state.pins() == 1 && !state.linked());
        old.mark_stale();
        assert!(!old.load().claimed(), "a new invalidation allows a new claim");
        let moved = old.load().moved();
        assert!(moved.stale() && moved.has_given_cas() && moved.pins() == 1 && !moved.linked());
    }
}
