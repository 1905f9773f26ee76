//! The state word of a chunk. Its 32 bits hold the number of pins of the chunk's item, the queue of the item, the marks
//! of the item (stale, claimed, active, fetched and given CAS), and the fields that determine the item's layout.
//!
//! ```text
//!  31      24   23      22       21      20     19     18      17       16     15    13  12   11  10   0
//! +----------+-------+-------+---------+------+-----+------+-------+---------+--------+----+----+------+
//! | key len  | stale |claimed| chained |expiry|flags|active|fetched|given CAS| member |cost|rank| pins |
//! +----------+-------+-------+---------+------+-----+------+-------+---------+--------+----+----+------+
//!
//! member (the membership of an item in a queue):
//!   000  the item is not linked
//!   001  the item is linked, but in no queue
//!   1qq  the item is linked and in queue qq
//! ```
//!
//! An item is *linked* if it is in the index. The bits expiry, flags, cost and rank are 1 if the item stores this
//! field.
//!
//! The kind of a chunk follows from its word. The word of a free chunk is 0. The word of an item has a key length or,
//! before the owner writes the key, a pin. The word of a body has neither, but it has the bit `chained`.
//!
//! A chunk that holds an item changes its state in these steps:
//!
//! ```text
//!   FREE --allocate--> item, pins 1 --publish--> linked, queued, pins 0 --unlink--> owned
//!                        |                          |        ^
//!                        |                      pin |        | unpin
//!                        |                          v        |
//!                        |                        linked, pins 1.. --unlink--> item, pins 1..
//!                        '--- drop ---> owned <------------------- last unpin ------'
//!
//!   owned --free--> FREE
//!   owned --reuse--> item, pins 1
//! ```
//!
//! - An owned chunk keeps the word of its last item, unlinked. Its owner frees the chunk, or keeps it as a spare chunk
//!   and uses it for another item. No other thread changes the word.
//! - Only a thread that holds the lock of the class queues an item, removes an item from a queue, takes a chunk from a
//!   free list or marks a chunk as FREE.
//! - LAST-HOLDER: the step after which an item is unlinked and has no pins frees the item. This step is either an
//!   unlink or an unpin. Both are read-modify-writes of this word, so exactly one of them finds that it is the last.
//! - Only a linked item can be pinned.
//! - An unlinked item is never linked again: a store always publishes a new chunk.

use crate::layout::{ItemFields, ItemLayout};
use slabwise_base::sync::{AtomicU32, Ordering};

/// The largest number of pins that [`StateWord::try_pin`] allows. [`StateWord::detach`] may add one more.
pub const PIN_COUNT_MAX: u32 = 2000;

const PINS_MASK: u32 = 0x7ff;
/// Marks an item that is being restored. The pins field of such an item holds this number plus the index of the item's
/// queue. Other items never have this number of pins.
const RESTORED_PINS: u32 = PINS_MASK - 3;
const HAS_RANK: u32 = 1 << 11;
const HAS_COST: u32 = 1 << 12;
const MEMBERSHIP_SHIFT: u32 = 13;
const MEMBERSHIP_MASK: u32 = 0b111 << MEMBERSHIP_SHIFT;
/// The membership of an item that is linked but in no queue, because it is being removed, moved or restored.
const LINKED_UNQUEUED: u32 = 0b001 << MEMBERSHIP_SHIFT;
/// Set if the item is linked and in a queue. The two bits of [`QUEUE_MASK`] hold the index of the queue.
const QUEUED: u32 = 0b100 << MEMBERSHIP_SHIFT;
const QUEUE_MASK: u32 = 0b11 << MEMBERSHIP_SHIFT;
/// Set if the CAS value is client-supplied.
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

/// The marks that [`StateWord::inherit`] copies from an item to the item that replaces it.
const COPIED_MARKS: u32 = GIVEN_CAS | FETCHED | CLAIMED | STALE;

const _: () = assert!(PIN_COUNT_MAX < PINS_MASK, "the largest pin count fits into the pins field");
const _: () =
    assert!(PIN_COUNT_MAX < RESTORED_PINS, "an item that is being restored cannot be pinned");
const _: () = {
    // With XOR, two fields that overlap would clear a bit, so `all` has all bits only if no two fields overlap.
    let marks = GIVEN_CAS ^ FETCHED ^ ACTIVE ^ CLAIMED ^ STALE;
    let layout = HAS_FLAGS ^ HAS_EXPIRY ^ HAS_COST ^ HAS_RANK ^ CHAINED;
    let all = PINS_MASK ^ MEMBERSHIP_MASK ^ KEY_LEN_MASK ^ marks ^ layout;
    assert!(all.count_ones() == u32::BITS, "the fields cover all bits and do not overlap");
    let is_split = QUEUED ^ QUEUE_MASK == MEMBERSHIP_MASK && LINKED_UNQUEUED & QUEUED == 0;
    assert!(is_split, "the membership is the queued bit and the index of the queue");
};

/// The kind of data that a chunk holds. A page that was never used reads as zeros, so all its chunks are `Free`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The chunk is free.
    Free,
    /// An item, or the head of a chained item.
    Item,
    /// A body, which holds a part of a chained item's value.
    Body,
}

/// The kind of a queue. A class has one queue of each kind in each of its lanes. The descriptions are those of
/// memcached's segmented LRU. Other eviction kinds may leave some of the queues empty, or use `Temp` for other items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// The queue of new items.
    Hot,
    /// The queue of items that were hit more than once.
    Warm,
    /// The queue whose items are evicted before those of the other queues.
    Cold,
    /// The queue of items with short TTLs. Such an item is evicted only if the other queues are empty.
    Temp,
}

impl QueueKind {
    /// All kinds of queues, in the order in which memcached numbers them.
    pub const ALL: [QueueKind; 4] =
        [QueueKind::Hot, QueueKind::Warm, QueueKind::Cold, QueueKind::Temp];

    pub fn index(self) -> usize {
        self as usize
    }
}

/// The value of a state word at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u32);

impl State {
    pub const FREE: State = State(0);

    /// The state of a chunk that is neither free nor holds an item: no item was written to it yet, or its item was
    /// removed and the chunk will be freed. The state has one pin, so that it differs from the state of a free chunk
    /// and the mover does not treat the chunk as empty.
    pub const UNPUBLISHED: State = State(1);

    /// Returns the state of an item that its owner is writing: it has one pin and is not linked. `key_len` must not be
    /// 0.
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

    /// Returns the state of a body, which holds a part of a chained item's value.
    pub fn new_body() -> State {
        State(CHAINED)
    }

    /// Returns the state for an unpublished copy of an item in this state: the same marks and layout, one pin, not
    /// linked.
    pub fn moved(self) -> State {
        State((self.0 & !(PINS_MASK | MEMBERSHIP_MASK)) | 1)
    }

    /// Returns the state of an item that a restore has checked, and whose queue is not restored yet. In this state the
    /// item is linked, but is in no queue and cannot be pinned. Its pins field records its queue.
    pub(super) fn restored(self) -> State {
        let queue = (self.0 & QUEUE_MASK) >> MEMBERSHIP_SHIFT;
        State((self.0 & !(PINS_MASK | MEMBERSHIP_MASK)) | LINKED_UNQUEUED | (RESTORED_PINS + queue))
    }

    /// Returns the queue that [`State::restored`] recorded, or `None` for any other state.
    pub(super) fn restored_queue(self) -> Option<QueueKind> {
        let queue = self.pins().checked_sub(RESTORED_PINS)?;
        QueueKind::ALL
            .get(queue as usize)
            .copied()
            .filter(|_| self.0 & MEMBERSHIP_MASK == LINKED_UNQUEUED)
    }

    /// Returns the state of a restored item that is in `queue` and has no pins.
    pub(super) fn requeued(self, queue: QueueKind) -> State {
        State((self.0 & !(PINS_MASK | MEMBERSHIP_MASK)) | queued_in(queue))
    }

    /// Returns this state without pins.
    pub(super) fn unpinned(self) -> State {
        State(self.0 & !PINS_MASK)
    }

    /// Returns this state with the pins of another state.
    pub(super) fn with_pins_of(self, other: State) -> State {
        State((self.0 & !PINS_MASK) | (other.0 & PINS_MASK))
    }

    /// Returns true if these bits are a state that this module can write. Bits from a memory file must be checked
    /// before any other use.
    pub fn is_valid(self) -> bool {
        let place = self.0 & MEMBERSHIP_MASK;
        match self.kind() {
            Kind::Free => true,
            Kind::Item => place == 0 || place == LINKED_UNQUEUED || self.queued(),
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

    /// Returns true if the item is in the index.
    pub fn linked(self) -> bool {
        self.0 & MEMBERSHIP_MASK != 0
    }

    /// Returns true if the item is in a queue.
    pub fn queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Returns true if the chunk holds an item that is in a queue, and the item is not chained. Only items are in queues.
    #[inline]
    pub fn is_queued_whole_item(self) -> bool {
        self.0 & (QUEUED | CHAINED) == QUEUED
    }

    /// Returns the item's queue, or [`QueueKind::Cold`] if the item is in no queue.
    pub fn queue(self) -> QueueKind {
        if !self.queued() {
            return QueueKind::Cold;
        }
        QueueKind::ALL[((self.0 & QUEUE_MASK) >> MEMBERSHIP_SHIFT) as usize]
    }

    /// Returns true if the item was hit since it was stored.
    pub fn fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    /// Returns true if the item was marked active since it entered its queue: by a hit other than the item's first one,
    /// or by [`StateWord::mark_active`].
    pub fn active(self) -> bool {
        self.0 & ACTIVE != 0
    }

    /// Returns true if a client has marked the item as out of date. Meta gets report this mark to clients.
    pub fn stale(self) -> bool {
        self.0 & STALE != 0
    }

    /// Returns true if a client has the right to recompute the item. Meta gets give this right to one client only.
    pub fn claimed(self) -> bool {
        self.0 & CLAIMED != 0
    }

    /// Returns true if a client supplied the CAS value. Such a value does not show when the item was stored.
    pub fn has_given_cas(self) -> bool {
        self.0 & GIVEN_CAS != 0
    }

    /// Returns the optional fields that the item stores.
    pub fn fields(self) -> ItemFields {
        ItemFields {
            flags: self.0 & HAS_FLAGS != 0,
            expiry: self.0 & HAS_EXPIRY != 0,
            cost: self.0 & HAS_COST != 0,
            rank: self.0 & HAS_RANK != 0,
        }
    }

    /// Returns true if items in these two states have the same layout: the same optional fields, the same key length,
    /// and both or neither chained.
    pub(super) fn has_layout_of(self, other: State) -> bool {
        const LAYOUT: u32 = KEY_LEN_MASK | HAS_FLAGS | HAS_EXPIRY | HAS_COST | HAS_RANK | CHAINED;
        (self.0 ^ other.0) & LAYOUT == 0
    }

    #[inline(always)]
    pub fn layout(self) -> ItemLayout {
        ItemLayout::new(self.key_len(), self.fields(), self.chained())
    }

    /// Returns true if the item is chained, so that its value is in bodies.
    pub fn chained(self) -> bool {
        self.0 & CHAINED != 0
    }

    pub fn key_len(self) -> usize {
        (self.0 >> KEY_LEN_SHIFT) as usize
    }
}

/// The state word of a chunk in memory, with its transitions. All transitions are atomic.
#[repr(transparent)]
#[derive(Debug)]
pub struct StateWord(AtomicU32);

impl StateWord {
    #[cfg(any(test, loom))]
    pub(super) fn for_test(state: State) -> StateWord {
        StateWord(AtomicU32::new(state.0))
    }

    /// Returns the current state. With Acquire ordering, because a thread that reads `linked` must also see the bytes
    /// that were written before the item was published.
    #[inline]
    pub(super) fn load(&self) -> State {
        State(self.0.load(Ordering::Acquire))
    }

    /// Overwrites the word. The caller owns the chunk or frees it.
    pub(super) fn store(&self, state: State) {
        self.0.store(state.0, Ordering::Release);
    }

    /// Publishes the item: removes the owner's pin, and marks the item as linked and as queued in `queue`.
    pub(super) fn publish(&self, queue: QueueKind) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(
            word & (PINS_MASK | MEMBERSHIP_MASK) == 1,
            "an unpublished item has the pin of its owner and is not linked"
        );
        self.0.store((word & !PINS_MASK) | queued_in(queue), Ordering::Release);
    }

    /// Sets the item's queue and clears its active mark. The caller holds the lock of the class.
    pub(super) fn requeue(&self, queue: QueueKind) {
        let set = |word: u32| Some((word & !(MEMBERSHIP_MASK | ACTIVE)) | queued_in(queue));
        let updated = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, set);
        debug_assert!(updated.is_ok(), "an update without a condition succeeds");
    }

    /// Marks a queued item as being in no queue and pins it. Both happen in one atomic step, so that no other thread
    /// can free the item in between. Returns the state before this step. The caller holds the lock of the class.
    pub(super) fn detach(&self) -> State {
        let word = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            debug_assert!(word & QUEUED != 0, "the detached item is in a queue");
            debug_assert!(word & PINS_MASK < PIN_COUNT_MAX + 1, "the pins field has room");
            Some(((word & !MEMBERSHIP_MASK) | LINKED_UNQUEUED) + 1)
        });
        State(word.unwrap_or_else(|word| word))
    }

    /// Marks the item as unlinked. The caller has removed it from its queue. Returns true if the item has no pins: then
    /// the caller must free the item (LAST-HOLDER). If the item's state is queued, the caller holds the lock of the
    /// class.
    pub(super) fn unlink(&self) -> bool {
        let before = self.0.fetch_and(!MEMBERSHIP_MASK, Ordering::AcqRel);
        debug_assert!(before & MEMBERSHIP_MASK != 0, "an item that is unlinked is linked before");
        before & PINS_MASK == 0
    }

    /// Adds a pin to a linked item. Returns false, and adds none, if the item is not linked or has [`PIN_COUNT_MAX`]
    /// pins.
    pub(super) fn try_pin(&self) -> bool {
        let pin = |word: u32| {
            (word & MEMBERSHIP_MASK != 0 && word & PINS_MASK < PIN_COUNT_MAX).then_some(word + 1)
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, pin).is_ok()
    }

    /// Removes a pin. Returns true if it was the last pin of an unlinked item: then the caller must free the item
    /// (LAST-HOLDER).
    pub(super) fn unpin(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        assert!(before & PINS_MASK > 0, "an item from which a pin is removed has a pin");
        before & (PINS_MASK | MEMBERSHIP_MASK) == 1
    }

    /// Records a hit. The first hit of an item marks it as fetched, each later hit marks it as active. Returns the
    /// state before this hit. If the mark is already set, the function does not write, so that the cache line stays
    /// shared between CPUs.
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

    /// Marks the item as stale and not claimed. The caller holds the lock of the stripe, or owns the item.
    pub fn mark_stale(&self) {
        self.0.fetch_or(STALE, Ordering::Relaxed);
        self.0.fetch_and(!CLAIMED, Ordering::Relaxed);
    }

    /// Marks the item as claimed: one client has the right to recompute it. Returns false if another client already has
    /// this right.
    pub fn claim(&self) -> bool {
        self.0.fetch_or(CLAIMED, Ordering::Relaxed) & CLAIMED == 0
    }

    /// Records whether the CAS value is client-supplied. The caller holds the lock of the stripe, or owns the item.
    /// With Release ordering, because a thread that reads the mark must also see the time or CAS value that was set
    /// before it.
    pub fn set_given_cas(&self, given: bool) {
        if self.load().has_given_cas() != given {
            self.0.fetch_xor(GIVEN_CAS, Ordering::Release);
        }
    }

    /// Adds the marks of a replaced item, whose state is `from`, to the item that replaces it. The caller owns the new
    /// item.
    pub fn inherit(&self, from: State) {
        self.0.fetch_or(from.0 & COPIED_MARKS, Ordering::Relaxed);
    }
}

/// Returns the membership bits of an item in `queue`.
fn queued_in(queue: QueueKind) -> u32 {
    QUEUED | (queue as u32) << MEMBERSHIP_SHIFT
}

#[cfg(test)]
mod tests {
    use super::{Kind, QueueKind, State, StateWord};
    use crate::layout::ItemFields;

    const ALL_FIELDS: ItemFields = ItemFields { flags: true, expiry: true, cost: true, rank: true };
    const WITH_FLAGS: ItemFields =
        ItemFields { flags: true, expiry: false, cost: false, rank: false };

    #[test]
    fn the_last_unpin_of_an_unlinked_item_frees_it() {
        let word = StateWord::for_test(State::new_item(3, WITH_FLAGS, false));
        word.publish(QueueKind::Hot);
        assert!(word.try_pin());
        assert!(!word.unlink(), "the unlinking thread does not free a pinned item");
        assert!(!word.try_pin(), "an unlinked item cannot be pinned");
        assert!(word.unpin(), "the last unpin of an unlinked item frees it");
    }

    #[test]
    fn a_change_of_one_field_of_the_word_keeps_the_others() {
        let word = StateWord::for_test(State::new_item(250, ALL_FIELDS, true));
        word.publish(QueueKind::Temp);
        word.mark_hit();
        assert!(word.load().fetched() && !word.load().active());
        word.mark_hit();
        let state = word.load();
        assert!(state.active() && state.queued() && state.linked());
        assert_eq!((state.kind(), state.queue()), (Kind::Item, QueueKind::Temp));
        assert_eq!((state.key_len(), state.pins()), (250, 0));
        assert!(state.fields() == ALL_FIELDS && state.chained());
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
    fn a_new_item_has_no_marks_and_a_copy_has_those_of_its_original() {
        let old = StateWord::for_test(State::new_item(3, WITH_FLAGS, false));
        old.publish(QueueKind::Hot);
        assert!(!old.load().stale() && !old.load().claimed() && !old.load().has_given_cas());
        old.mark_stale();
        old.claim();
        old.mark_hit();
        old.set_given_cas(true);
        let copy = StateWord::for_test(State::new_item(3, ALL_FIELDS, false));
        copy.inherit(old.load());
        let state = copy.load();
        assert!(state.stale() && state.claimed() && state.fetched() && state.has_given_cas());
        assert!(state.fields().expiry && state.pins() == 1 && !state.linked());
        old.mark_stale();
        assert!(!old.load().claimed(), "an item that is marked stale again can be claimed again");
        let moved = old.load().moved();
        assert!(moved.stale() && moved.has_given_cas() && moved.pins() == 1 && !moved.linked());
    }
}
