//! A list of items through the items themselves, under the lock of their class.
//!
//! Invariants: a list holds items of one class, the one whose token it was first changed with; an item whose state
//! says that it is queued is linked in exactly one list of its class, or, between [`List::take`] and its return,
//! leads to itself; `count` items, of `bytes` in all, are linked from head to tail, and back the same way.
//!
//! An item leaves a list by the list that it is in. Taken out of another one of the class it is not noticed, but
//! harms only the counts: at an end of a list, where it would, it is refused.

use super::arena::Header;
use super::chunk::Remains;
use super::class_token::ClassToken;
use super::item::{Item, Pin, Queued};
use super::memory::Memory;
use super::state::QueueKind;
use super::stripe::{Entered, Entry, Removed};
use crate::layout::ChunkAddress;
use slabwise_base::Ticks;

/// How far from either end the place of an item is sought by its age.
const LOOKS_MAX: usize = 8;

/// The refusal of an item of another list of the class.
const NOT_HERE: &str = "an item is taken out of the list that it is in";

/// A doubly linked list of items, newest at the head.
#[derive(Debug, Default)]
pub struct List {
    /// The number of its class's token; 0 before its first change.
    class: u64,
    head: Option<ChunkAddress>,
    tail: Option<ChunkAddress>,
    count: u64,
    bytes: u64,
}

/// An item on its way from one list to another, or back. It borrows its class's token, so that nothing else is done
/// with the class meanwhile.
#[must_use = "an item that was taken out of a list is to be put into another"]
pub struct Unqueued<'c> {
    class: &'c mut ClassToken,
    address: ChunkAddress,
}

impl List {
    pub const EMPTY: List = List { class: 0, head: None, tail: None, count: 0, bytes: 0 };

    /// A list of items that are linked already.
    ///
    /// # Safety
    ///
    /// From head to tail, and back, `count` items of this class are linked, which say that they are queued and are
    /// in no other list.
    pub(super) unsafe fn linked(
        class: &ClassToken,
        (head, tail): (Option<ChunkAddress>, Option<ChunkAddress>),
        count: u64,
        bytes: u64,
    ) -> List {
        List { class: class.number(), head, tail, count, bytes }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Counted bytes of the items in the list.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the item is that leaves next.
    pub fn tail_address(&self) -> Option<ChunkAddress> {
        self.tail
    }

    /// The item that leaves next.
    #[inline]
    pub fn tail<'c>(&self, class: &'c ClassToken) -> Option<Queued<'c>> {
        let tail = self.tail?;
        self.check_class(class);
        // SAFETY: what a list leads to is queued in its class, whose lock is held as long as the token is borrowed.
        Some(unsafe { Item::new(class.memory(), tail) })
    }

    /// Every item from the tail to the head.
    pub fn iter_from_tail<'c>(&self, class: &'c ClassToken) -> impl Iterator<Item = Queued<'c>> {
        // SAFETY: as for the tail; the lists of a class change only with its token borrowed exclusively.
        let queued = |at| unsafe { Item::new(class.memory(), at) };
        let next = move |item: &Queued<'c>| item.header().prev().map(queued);
        std::iter::successors(self.tail(class), next)
    }

    /// Queues an item that has just entered its table, as the newest.
    #[inline]
    pub fn push_head(
        &mut self,
        class: &mut ClassToken,
        item: Entered<'_>,
        queue: QueueKind,
        size_bytes: u64,
    ) {
        self.admit(class, &item);
        // SAFETY: it was just seen to be of this class, and is in no list.
        unsafe { self.link_head(class.memory(), item.address(), size_bytes) };
        item.item().header().state().publish(queue);
    }

    /// Queues an item that has just entered its table where its age belongs, near the tail or near the head: what
    /// belongs farther from both counts as newer.
    pub fn insert_by_age(
        &mut self,
        class: &mut ClassToken,
        item: Entered<'_>,
        queue: QueueKind,
        size_bytes: u64,
    ) {
        self.admit(class, &item);
        let (prev, next) = self.place_by_age(class.memory(), item.item().time());
        // SAFETY: it was just seen to be of this class, and is in no list; the others are neighbours in this one.
        unsafe { self.link_between(class.memory(), item.address(), prev, next) };
        item.item().header().state().publish(queue);
        self.count_in(size_bytes);
    }

    /// Queues a copy in the place of the item that it stands for by now, which is unlinked; both are of one size.
    /// `Some`: nobody pins the old one (LAST-HOLDER).
    pub fn take_place(
        &mut self,
        class: &mut ClassToken,
        old: Removed,
        new: Entered<'_>,
    ) -> Option<Remains> {
        self.admit(class, &new);
        let memory = class.memory();
        let state = old.queued(class).expect("the old item is queued in this class").state();
        // SAFETY: the old item is in a list of this class.
        unsafe { self.check_ends(memory, old.address()) };
        // SAFETY: the old item is in a chunk of this memory.
        let from = unsafe { header(memory, old.address()) };
        assert!(from.prev() != Some(old.address()), "the old item is in a list");
        let (prev, next) = (from.prev(), from.next());
        // SAFETY: the neighbours of an item of a list are in it, too.
        unsafe { self.link_between(memory, new.address(), prev, next) };
        new.item().header().state().publish(state.queue());
        // SAFETY: the list leads to the copy instead.
        unsafe { old.unlink_unqueued(memory) }
    }

    /// Takes the last item out, of as many bytes as it came in with, to put it into another list or back.
    #[inline]
    pub fn take_tail<'c>(
        &mut self,
        class: &'c mut ClassToken,
        size_bytes: u64,
    ) -> Option<Unqueued<'c>> {
        self.check_class(class);
        // SAFETY: what a list leads to is queued in its class.
        Some(unsafe { self.take_unchecked(class, self.tail?, size_bytes) })
    }

    /// Takes the item that a stripe's entry leads to out, to put it into another list or back.
    pub fn take_entry<'c>(
        &mut self,
        class: &'c mut ClassToken,
        entry: &Entry<'_>,
        size_bytes: u64,
    ) -> Unqueued<'c> {
        let item = entry.item();
        assert!(std::ptr::eq(item.memory(), class.memory()), "an item is queued in its own memory");
        let here = item.state().queued() && item.queue_class() == class.class();
        self.check_class(class);
        assert!(here, "an item is taken out of a list of its class");
        // SAFETY: the item is queued in this class.
        unsafe { self.take_unchecked(class, item.address(), size_bytes) }
    }

    /// # Safety
    ///
    /// The list is of this class, and so is the item, which is queued.
    #[inline]
    unsafe fn take_unchecked<'c>(
        &mut self,
        class: &'c mut ClassToken,
        address: ChunkAddress,
        size_bytes: u64,
    ) -> Unqueued<'c> {
        // SAFETY: as the caller says.
        unsafe { self.unlink_node(class.memory(), address, size_bytes) };
        // SAFETY: a queued item is in a chunk of its class's memory.
        let header = unsafe { header(class.memory(), address) };
        // Should it never come back, taking it out again must lead nowhere else.
        header.set_prev(Some(address));
        header.set_next(Some(address));
        Unqueued { class, address }
    }

    /// Takes the last item out and pins it, so that it can be removed without this lock.
    #[inline]
    pub fn detach_tail(&mut self, class: &mut ClassToken, size_bytes: u64) -> Option<Pin> {
        self.check_class(class);
        // SAFETY: what a list leads to is queued in its class.
        Some(unsafe { self.detach_unchecked(class, self.tail?, size_bytes) })
    }

    /// Takes a pinned item out and pins it once more.
    pub fn detach_pinned(&mut self, class: &mut ClassToken, pin: &Pin, size_bytes: u64) -> Pin {
        self.check_class(class);
        assert!(class.queued_pinned(pin).is_some(), "an item is taken out of a list of its class");
        // SAFETY: the item is queued in this class.
        unsafe { self.detach_unchecked(class, pin.address(), size_bytes) }
    }

    /// # Safety
    ///
    /// The list is of this class, and so is the item, which is queued.
    #[inline]
    unsafe fn detach_unchecked(
        &mut self,
        class: &mut ClassToken,
        address: ChunkAddress,
        size_bytes: u64,
    ) -> Pin {
        // SAFETY: as the caller says.
        unsafe { self.unlink_node(class.memory(), address, size_bytes) };
        // SAFETY: a queued item is in a chunk of its class's memory.
        unsafe { header(class.memory(), address) }.state().detach();
        // SAFETY: the pin was just counted.
        unsafe { Pin::new(class.memory(), address) }
    }

    /// Takes an item out that has left its table, and ends it. `Some`: nobody pins it (LAST-HOLDER).
    #[inline]
    pub fn unlink(
        &mut self,
        class: &mut ClassToken,
        item: Removed,
        size_bytes: u64,
    ) -> Option<Remains> {
        assert!(item.queued(class).is_some(), "an item is unlinked by a list of its class");
        self.check_class(class);
        // SAFETY: the item is queued in this class.
        unsafe { self.unlink_node(class.memory(), item.address(), size_bytes) };
        // SAFETY: the table leads to it no more, and no list does.
        unsafe { item.unlink_unqueued(class.memory()) }
    }

    /// Panics with the invariant's name if the links of the list do not lead both ways.
    pub fn check(&self, class: &ClassToken) {
        let mut toward_tail = None;
        for item in self.iter_from_tail(class) {
            assert_eq!(item.header().next(), toward_tail, "a queue's links lead both ways");
            toward_tail = Some(item.address());
        }
        assert_eq!(self.head, toward_tail, "a queue ends at its head");
    }

    /// Refuses a token that is not of this list's class.
    #[inline]
    fn check_class(&self, class: &ClassToken) {
        assert_eq!(self.class, class.number(), "a list is used with its own class's token");
    }

    /// The first token that changes a list is that of its class.
    #[inline]
    fn bind(&mut self, class: &ClassToken) {
        if self.class == 0 {
            self.class = class.number();
        }
        self.check_class(class);
    }

    /// Refuses an item of another class.
    #[inline]
    fn admit(&mut self, class: &ClassToken, item: &Entered<'_>) {
        self.bind(class);
        let memory = item.item().memory();
        assert!(std::ptr::eq(memory, class.memory()), "an item is queued in its own memory");
        assert_eq!(item.queue_class(), class.class(), "an item is queued in its own class");
    }

    #[inline]
    fn count_in(&mut self, size_bytes: u64) {
        self.count += 1;
        self.bytes += size_bytes;
    }

    /// The neighbours that an item which was last accessed at `time` belongs between, on the head's side first.
    fn place_by_age(
        &self,
        memory: &Memory,
        time: Ticks,
    ) -> (Option<ChunkAddress>, Option<ChunkAddress>) {
        // SAFETY: what a list leads to are chunks of this memory.
        let of = |address: ChunkAddress| unsafe { header(memory, address) };
        let is_newer = |other: &ChunkAddress| of(*other).time().is_after(time);
        let from_tail = std::iter::successors(self.tail, |&at| of(at).prev());
        if let Some(newer) = from_tail.take(LOOKS_MAX).find(is_newer) {
            return (Some(newer), of(newer).next());
        }
        let from_head = std::iter::successors(self.head, |&at| of(at).next()).take(LOOKS_MAX);
        let mut behind = None;
        for other in from_head {
            behind = Some(other);
            if !is_newer(&other) {
                break;
            }
        }
        (behind.map_or(self.tail, |behind| of(behind).prev()), behind)
    }

    /// # Safety
    ///
    /// The item is of this list's class, and in no list.
    #[inline]
    unsafe fn link_head(&mut self, memory: &Memory, address: ChunkAddress, size_bytes: u64) {
        // SAFETY: the head, if there is one, is in this list.
        unsafe { self.link_between(memory, address, None, self.head) };
        self.count_in(size_bytes);
    }

    /// # Safety
    ///
    /// The item is of this list's class, and in no list; the others are neighbours in this one, or an end and
    /// nothing, or neighbours of an item that this one takes the place of.
    #[inline]
    unsafe fn link_between(
        &mut self,
        memory: &Memory,
        address: ChunkAddress,
        prev: Option<ChunkAddress>,
        next: Option<ChunkAddress>,
    ) {
        // SAFETY: all are chunks of this memory.
        let of = |address: ChunkAddress| unsafe { header(memory, address) };
        of(address).set_prev(prev);
        of(address).set_next(next);
        match prev {
            Some(prev) => of(prev).set_next(Some(address)),
            None => self.head = Some(address),
        }
        match next {
            Some(next) => of(next).set_prev(Some(address)),
            None => self.tail = Some(address),
        }
    }

    /// Refuses an item at an end of another list.
    ///
    /// # Safety
    ///
    /// The item is in a list of this class.
    #[inline]
    unsafe fn check_ends(&self, memory: &Memory, address: ChunkAddress) {
        // SAFETY: a queued item is in a chunk of this memory.
        let header = unsafe { header(memory, address) };
        let is_first = header.prev().is_none() && self.head != Some(address);
        let is_last = header.next().is_none() && self.tail != Some(address);
        assert!(!is_first && !is_last, "{NOT_HERE}");
    }

    /// # Safety
    ///
    /// The item is in a list of this class, or leads to itself.
    #[inline]
    unsafe fn unlink_node(&mut self, memory: &Memory, address: ChunkAddress, size_bytes: u64) {
        // SAFETY: all are chunks of this memory.
        let of = |address: ChunkAddress| unsafe { header(memory, address) };
        let (prev, next) = (of(address).prev(), of(address).next());
        match prev {
            Some(prev) => of(prev).set_next(next),
            None => {
                assert_eq!(self.head, Some(address), "{NOT_HERE}");
                self.head = next;
            }
        }
        match next {
            Some(next) => of(next).set_prev(prev),
            None => {
                assert_eq!(self.tail, Some(address), "{NOT_HERE}");
                self.tail = prev;
                // The next to leave writes to the one before it.
                if let Some(tail) = prev {
                    memory.arena.prefetch_neighbours(of(tail));
                }
            }
        }
        self.count -= 1;
        self.bytes -= size_bytes;
    }
}

impl Unqueued<'_> {
    /// Puts it at the head of a list of its class. A change of queue forgets the hits that earned it.
    #[inline]
    pub fn push_head(self, list: &mut List, queue: QueueKind, size_bytes: u64) {
        list.bind(self.class);
        let memory = self.class.memory();
        // SAFETY: it is of this class, and was taken out of its list.
        unsafe { list.link_head(memory, self.address, size_bytes) };
        // SAFETY: a queued item is in a chunk of its class's memory.
        unsafe { header(memory, self.address) }.state().requeue(queue);
    }
}

/// # Safety
///
/// A chunk of this memory starts at `address`.
#[inline]
unsafe fn header(memory: &Memory, address: ChunkAddress) -> Header<'_> {
    // SAFETY: as the caller says.
    unsafe { memory.arena.header_of(address) }
}
