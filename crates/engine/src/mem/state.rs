//! The state word of a chunk: what it is, who holds it, where it is queued.
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
//! What a chunk holds is not written down but follows: a free chunk's word is 0, every item has a key or,
//! while its owner is still to write it, a pin; a body has neither, and is chained.
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
//! - Between FREE and anything else, and the place: changed under the lock of the class.
//! - LAST-HOLDER: the one whose step leaves a chunk with no pins and unlinked frees it, nobody else.
//!   Both steps are read-modify-writes of this one word, so exactly one of them sees that.
//! - A pin is taken only on a linked item.
//! - There is no edge from unlinked back to linked: a store always publishes a new chunk.

use crate::layout::{ItemFields, ItemLayout};
use slabwise_base::sync::{AtomicU32, Ordering};

/// The most pins an item may have at once; who wants one more goes without.
pub const PIN_COUNT_MAX: u32 = 2000;

const PINS_MASK: u32 = 0x7ff;
/// Pins of an item that is being restored, and the number of its queue: more than anybody can have.
const RESTORED_PINS: u32 = PINS_MASK - 3;
const HAS_RANK: u32 = 1 << 11;
const HAS_COST: u32 = 1 << 12;
const PLACE_SHIFT: u32 = 13;
const PLACE_MASK: u32 = 0b111 << PLACE_SHIFT;
/// Linked, in no queue: on its way out, or passed over while it is carried.
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

/// What an item takes along when it is copied to another chunk.
const CARRIED: u32 = GIVEN_CAS | FETCHED | CLAIMED | STALE;

const _: () = assert!(PIN_COUNT_MAX < PINS_MASK, "a pin must never carry into the next field");
const _: () = assert!(PIN_COUNT_MAX < RESTORED_PINS, "nobody pins an item that is being restored");
const _: () = {
    // The fields tile: no two overlap.
    let marks = GIVEN_CAS ^ FETCHED ^ ACTIVE ^ CLAIMED ^ STALE;
    let layout = HAS_FLAGS ^ HAS_EXPIRY ^ HAS_COST ^ HAS_RANK ^ CHAINED;
    let all = PINS_MASK ^ PLACE_MASK ^ KEY_LEN_MASK ^ marks ^ layout;
    assert!(all.count_ones() == u32::BITS);
    assert!(QUEUED ^ QUEUE_MASK == PLACE_MASK && LOOSE & QUEUED == 0);
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub const FREE: State = State(0);

    /// A chunk in somebody's hand, its item not begun: one pin. It must not read as free, or a mover would
    /// take it for empty.
    pub const IN_HAND: State = State(1);

    /// An item that its owner is still writing: one pin, not linked. Keys are not empty.
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

    /// The word of a moved item: everything but the pins and the place of the old chunk.
    pub fn moved(self) -> State {
        State((self.0 & !(PINS_MASK | PLACE_MASK)) | 1)
    }

    /// The word of an item that is taken over from another process, until its queue is restored: it counts as
    /// linked and in no queue, and nobody can pin it.
    pub(super) fn restored(self) -> State {
        let queue = (self.0 & QUEUE_MASK) >> PLACE_SHIFT;
        State((self.0 & !(PINS_MASK | PLACE_MASK)) | LOOSE | (RESTORED_PINS + queue))
    }

    /// The queue that such an item is to be met in.
    pub(super) fn restored_queue(self) -> Option<QueueKind> {
        let queue = self.pins().checked_sub(RESTORED_PINS)?;
        QueueKind::ALL.get(queue as usize).copied().filter(|_| self.0 & PLACE_MASK == LOOSE)
    }

    /// The word of such an item in its queue.
    pub(super) fn requeued(self, queue: QueueKind) -> State {
        State((self.0 & !(PINS_MASK | PLACE_MASK)) | place_in(queue))
    }

    /// Whether these bits could have been written here: of bits that come from a file, to be asked before
    /// anything else.
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

    /// How many hold the item beside the index.
    pub fn pins(self) -> u32 {
        self.0 & PINS_MASK
    }

    /// Whether the index leads to it.
    pub fn linked(self) -> bool {
        self.0 & PLACE_MASK != 0
    }

    /// Whether it is in a queue.
    pub fn queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// The queue it is in; of an item in no queue, the one that items leave from.
    pub fn queue(self) -> QueueKind {
        if !self.queued() {
            return QueueKind::Cold;
        }
        QueueKind::ALL[((self.0 & QUEUE_MASK) >> PLACE_SHIFT) as usize]
    }

    pub fn fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    /// Whether it was hit again since it was queued where it is.
    pub fn active(self) -> bool {
        self.0 & ACTIVE != 0
    }

    /// Whether it is out of date, which readers are shown.
    pub fn stale(self) -> bool {
        self.0 & STALE != 0
    }

    /// Whether a client has been given the right to store it anew.
    pub fn claimed(self) -> bool {
        self.0 & CLAIMED != 0
    }

    /// Whether a client chose its CAS value, which then says nothing of its age.
    pub fn has_given_cas(self) -> bool {
        self.0 & GIVEN_CAS != 0
    }

    /// The fields that it stores.
    pub fn fields(self) -> ItemFields {
        ItemFields {
            flags: self.0 & HAS_FLAGS != 0,
            expiry: self.0 & HAS_EXPIRY != 0,
            cost: self.0 & HAS_COST != 0,
            rank: self.0 & HAS_RANK != 0,
        }
    }

    /// Whether an item in this state lies in memory as one in the other does: the same fields, as long a key.
    pub(super) fn lies_like(self, other: State) -> bool {
        const LAYOUT: u32 = KEY_LEN_MASK | HAS_FLAGS | HAS_EXPIRY | HAS_COST | HAS_RANK | CHAINED;
        (self.0 ^ other.0) & LAYOUT == 0
    }

    /// Where the parts of an item in this state lie.
    #[inline(always)]
    pub fn layout(self) -> ItemLayout {
        ItemLayout::new(self.key_len(), self.fields(), self.chained())
    }

    /// Whether its value goes on in other chunks.
    pub fn chained(self) -> bool {
        self.0 & CHAINED != 0
    }

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
    pub(super) fn for_test(state: State) -> StateWord {
        StateWord(AtomicU32::new(state.0))
    }

    /// The present state. Acquire: who sees `linked` sees the bytes that were published with it.
    pub(super) fn load(&self) -> State {
        State(self.0.load(Ordering::Acquire))
    }

    /// Overwrites the word; for the chunk's owner and for freeing.
    pub(super) fn store(&self, state: State) {
        self.0.store(state.0, Ordering::Release);
    }

    /// Publishes: the owner's pin goes, the item is linked and queued.
    pub(super) fn publish(&self, queue: QueueKind) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & (PINS_MASK | PLACE_MASK) == 1, "published once, by its owner");
        self.0.store((word & !PINS_MASK) | place_in(queue), Ordering::Release);
    }

    /// Moves to another queue and forgets the hits that earned it. Class lock held.
    pub(super) fn requeue(&self, queue: QueueKind) {
        let set = |word: u32| Some((word & !(PLACE_MASK | ACTIVE)) | place_in(queue));
        let updated = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, set);
        debug_assert!(updated.is_ok());
    }

    /// Takes it out of its queue and pins it in one step, so that nobody else frees it meanwhile.
    /// Class lock held; the item is queued.
    pub(super) fn detach(&self) -> State {
        let word = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            debug_assert!(word & QUEUED != 0);
            debug_assert!(word & PINS_MASK < PIN_COUNT_MAX + 1);
            Some(((word & !PLACE_MASK) | LOOSE) + 1)
        });
        State(word.unwrap_or_else(|word| word))
    }

    /// Takes the link away, and the note of its queue, which it has left. True: nobody pins it, so the
    /// caller is the LAST-HOLDER and frees it. Class lock held if it was queued.
    pub(super) fn unlink(&self) -> bool {
        let before = self.0.fetch_and(!PLACE_MASK, Ordering::AcqRel);
        debug_assert!(before & PLACE_MASK != 0, "unlinked once");
        before & PINS_MASK == 0
    }

    /// Pins a linked item; false if it is not linked any more, or pinned too often.
    pub(super) fn try_pin(&self) -> bool {
        let pin = |word: u32| {
            (word & PLACE_MASK != 0 && word & PINS_MASK < PIN_COUNT_MAX).then_some(word + 1)
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, pin).is_ok()
    }

    /// Drops a pin. True: it was the last and the item is unlinked, so the caller is the LAST-HOLDER
    /// and frees it.
    pub(super) fn unpin(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        assert!(before & PINS_MASK > 0, "a pin is dropped by who took it");
        before & (PINS_MASK | PLACE_MASK) == 1
    }

    /// Marks a hit: the first makes it fetched, the next active. Returns the state before; writes only
    /// a change.
    pub fn mark_hit(&self) -> State {
        let word = self.0.load(Ordering::Relaxed);
        let bit = if word & FETCHED == 0 { FETCHED } else { ACTIVE };
        if word & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
        State(word)
    }

    /// Marks it as in use where it is queued, without a hit.
    pub fn mark_active(&self) {
        if !self.load().active() {
            self.0.fetch_or(ACTIVE, Ordering::Relaxed);
        }
    }

    /// Marks it stale, for anyone to claim. Stripe locked, or owner.
    pub fn mark_stale(&self) {
        self.0.fetch_or(STALE, Ordering::Relaxed);
        self.0.fetch_and(!CLAIMED, Ordering::Relaxed);
    }

    /// Notes that a client may store it anew. True: it was not noted before.
    pub fn claim(&self) -> bool {
        self.0.fetch_or(CLAIMED, Ordering::Relaxed) & CLAIMED == 0
    }

    /// Notes whether a client chose its CAS value. Stripe locked, or owner. Release: who sees it sees the
    /// time or the CAS value that was set before it.
    pub fn set_given_cas(&self, given: bool) {
        if self.load().has_given_cas() != given {
            self.0.fetch_xor(GIVEN_CAS, Ordering::Release);
        }
    }

    /// Takes over the marks of the item that it is a copy of. Owner.
    pub fn inherit(&self, from: State) {
        self.0.fetch_or(from.0 & CARRIED, Ordering::Relaxed);
    }
}

/// The place of an item in this queue.
fn place_in(queue: QueueKind) -> u32 {
    QUEUED | (queue as u32) << PLACE_SHIFT
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::{QueueKind, State, StateWord};
    use crate::layout::ItemFields;
    use loom::sync::Arc;
    use loom::thread;

    /// Runs what one thread does with a linked item while the other unlinks it; each says whether it is to
    /// free the chunk.
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
            let freed = [unlinker.join().expect("it ends"), frees];
            assert_eq!(freed.iter().filter(|&&frees| frees).count(), 1, "LAST-HOLDER");
        });
    }

    #[test]
    fn loom_who_unlinks_or_who_lets_go_frees() {
        one_frees(1, |word| word.unpin());
    }

    #[test]
    fn loom_who_pins_too_late_gets_no_pin_and_frees_nothing() {
        one_frees(0, |word| word.try_pin() && word.unpin());
    }

    #[test]
    fn loom_marks_and_a_new_queue_disturb_no_pin() {
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
    fn the_last_holder_is_told_so_once() {
        let word = StateWord::for_test(State::new_item(3, WITH_FLAGS, false));
        word.publish(QueueKind::Hot);
        assert!(word.try_pin());
        assert!(!word.unlink(), "a pin is held");
        assert!(!word.try_pin(), "nobody pins what is unlinked");
        assert!(word.unpin(), "the last pin of an unlinked item");
    }

    #[test]
    fn fields_do_not_disturb_each_other() {
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
    fn what_a_chunk_holds_follows_from_its_word() {
        assert_eq!(State::FREE.kind(), Kind::Free);
        assert_eq!(State::IN_HAND.kind(), Kind::Item);
        assert_eq!(State::new_body().kind(), Kind::Body);
        assert_eq!(State::new_item(1, ItemFields::default(), true).kind(), Kind::Item);
    }

    #[test]
    fn a_copy_takes_the_marks_along_and_a_new_item_has_none() {
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
        assert!(!old.load().claimed(), "invalidated again, it can be claimed again");
        let moved = old.load().moved();
        assert!(moved.stale() && moved.has_given_cas() && moved.pins() == 1 && !moved.linked());
    }
}
