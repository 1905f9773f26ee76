//! An intrusive doubly linked list of items, under the lock of their class.
//!
//! Invariants: a list holds items of one class, the one whose token first changed it; an item whose state is queued is
//! in exactly one list of its class, or, while an [`Unqueued`] holds it, its links lead to itself; `count` items of
//! `bytes` in all are linked from head to tail and back.
//!
//! An item must be removed from the list that it is in. Removal from another list of the class only makes the counts
//! wrong, except at an end of a list, where it panics.

use super::arena::Header;
use super::chunk::Remains;
use super::class_token::ClassToken;
use super::item::{Item, Pin, Queued};
use super::memory::Memory;
use super::state::QueueKind;
use super::stripe::{Entered, Entry, Removed};
use crate::layout::ChunkAddress;
use slabwise_base::Ticks;

/// The most items from either end that are compared to find the place of an item by its age.
const COMPARISONS_MAX: usize = 8;

const NOT_HERE: &str = "an item is removed from the list that it is in";

/// A doubly linked list of items, newest at the head.
#[derive(Debug, Default)]
pub struct List {
    /// The number of the class's token; 0 before the first change.
    class: u64,
    head: Option<ChunkAddress>,
    tail: Option<ChunkAddress>,
    count: u64,
    bytes: u64,
}

/// An item that is being moved between lists. It borrows the class's token, so that the class cannot change meanwhile.
#[must_use = "an item that was removed from a list must be put into another"]
pub struct Unqueued<'c> {
    class: &'c mut ClassToken,
    address: ChunkAddress,
}

impl List {
    pub const EMPTY: List = List { class: 0, head: None, tail: None, count: 0, bytes: 0 };

    /// A list of items that are already linked.
    ///
    /// # Safety
    ///
    /// From head to tail, and back, `count` items of this class are linked, whose states are queued and which are in
    /// no other list.
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

    /// The counted bytes of the items in the list.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn tail_address(&self) -> Option<ChunkAddress> {
        self.tail
    }

    #[inline]
    pub fn tail<'c>(&self, class: &'c ClassToken) -> Option<Queued<'c>> {
        let tail = self.tail?;
        self.check_class(class);
        // SAFETY: an item of a list is queued in its class, whose lock is held as long as the token is borrowed.
        Some(unsafe { Item::new(class.memory(), tail) })
    }

    pub fn iter_from_tail<'c>(&self, class: &'c ClassToken) -> impl Iterator<Item = Queued<'c>> {
        // SAFETY: as for the tail; the lists of a class change only with its token borrowed exclusively.
        let queued = |at| unsafe { Item::new(class.memory(), at) };
        let next = move |item: &Queued<'c>| item.header().prev().map(queued);
        std::iter::successors(self.tail(class), next)
    }

    /// Queues an item that has just entered its table at the head.
    #[inline]
    pub fn push_head(
        &mut self,
        class: &mut ClassToken,
        item: Entered<'_>,
        queue: QueueKind,
        size_bytes: u64,
    ) {
        self.admit(class, &item);
        // SAFETY: it was just checked to be of this class, and is in no list.
        unsafe { self.link_head(class.memory(), item.address(), size_bytes) };
        item.item().header().state().publish(queue);
    }

    /// Queues an item that has just entered its table at the place of its age, if this is near the tail or the head.
    /// Otherwise it places the item near the head, as if it were newer.
    pub fn insert_by_age(
        &mut self,
        class: &mut ClassToken,
        item: Entered<'_>,
        queue: QueueKind,
        size_bytes: u64,
    ) {
        self.admit(class, &item);
        let (prev, next) = self.place_by_age(class.memory(), item.item().time());
        // SAFETY: it was just checked to be of this class, and is in no list; the others are neighbours in this one.
        unsafe { self.link_between(class.memory(), item.address(), prev, next) };
        item.item().header().state().publish(queue);
        self.count_in(size_bytes);
    }

    /// Queues a copy in the place of the item that it has replaced, and unlinks the old item. Both have the same size.
    /// Returns the remains of the old item if nobody pins it (LAST-HOLDER).
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
        // SAFETY: the list links the copy instead.
        unsafe { old.unlink_unqueued(memory) }
    }

    /// Removes the item at the tail, to put it into another list or back. `size_bytes` must be the value at which the
    /// item entered the list.
    #[inline]
    pub fn take_tail<'c>(
        &mut self,
        class: &'c mut ClassToken,
        size_bytes: u64,
    ) -> Option<Unqueued<'c>> {
        self.check_class(class);
        // SAFETY: an item of a list is queued in its class.
        Some(unsafe { self.take_unchecked(class, self.tail?, size_bytes) })
    }

    /// Removes the item of a stripe's entry, to put it into another list or back.
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
        assert!(here, "an item is removed from a list of its class");
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
        // If the item never enters a list again, a second removal must not change other items.
        header.set_prev(Some(address));
        header.set_next(Some(address));
        Unqueued { class, address }
    }

    /// Removes the item at the tail and pins it, so that it can be evicted without this lock.
    #[inline]
    pub fn detach_tail(&mut self, class: &mut ClassToken, size_bytes: u64) -> Option<Pin> {
        self.check_class(class);
        // SAFETY: an item of a list is queued in its class.
        Some(unsafe { self.detach_unchecked(class, self.tail?, size_bytes) })
    }

    /// Removes a pinned item and adds a second pin.
    pub fn detach_pinned(&mut self, class: &mut ClassToken, pin: &Pin, size_bytes: u64) -> Pin {
        self.check_class(class);
        assert!(class.queued_pinned(pin).is_some(), "an item is removed from a list of its class");
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

    /// Unlinks an item that has left its table. Returns its remains if nobody pins it (LAST-HOLDER).
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
        // SAFETY: the item is no longer in its table, and in no list.
        unsafe { item.unlink_unqueued(class.memory()) }
    }

    /// Panics if the links from head to tail and back differ.
    pub fn check(&self, class: &ClassToken) {
        let mut toward_tail = None;
        for item in self.iter_from_tail(class) {
            assert_eq!(item.header().next(), toward_tail, "a queue's links lead both ways");
            toward_tail = Some(item.address());
        }
        assert_eq!(self.head, toward_tail, "a queue ends at its head");
    }

    #[inline]
    fn check_class(&self, class: &ClassToken) {
        assert_eq!(self.class, class.number(), "a list is used with its own class's token");
    }

    /// Binds a new list to the class whose token first changes it.
    #[inline]
    fn bind(&mut self, class: &ClassToken) {
        if self.class == 0 {
            self.class = class.number();
        }
        self.check_class(class);
    }

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

    /// The neighbours, towards the head and towards the tail, between which an item last accessed at `time` belongs.
    fn place_by_age(
        &self,
        memory: &Memory,
        time: Ticks,
    ) -> (Option<ChunkAddress>, Option<ChunkAddress>) {
        // SAFETY: the items of a list are in chunks of this memory.
        let of = |address: ChunkAddress| unsafe { header(memory, address) };
        let is_newer = |other: &ChunkAddress| of(*other).time().is_after(time);
        let from_tail = std::iter::successors(self.tail, |&at| of(at).prev());
        if let Some(newer) = from_tail.take(COMPARISONS_MAX).find(is_newer) {
            return (Some(newer), of(newer).next());
        }
        let from_head = std::iter::successors(self.head, |&at| of(at).next()).take(COMPARISONS_MAX);
        let mut next = None;
        for other in from_head {
            next = Some(other);
            if !is_newer(&other) {
                break;
            }
        }
        (next.map_or(self.tail, |next| of(next).prev()), next)
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
    /// `None`, or neighbours of an item whose place this one takes.
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

    /// Panics for an item at an end of another list.
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
    /// The item is in a list of this class, or its links lead to itself.
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
                // The next removal from the tail writes to this item's neighbours.
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
    /// Puts the item at the head of a list of its class and clears its active mark.
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
