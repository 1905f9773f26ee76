//! A doubly linked list of items. The links are in the headers of the items' chunks. The lock of the class protects
//! them.
//!
//! Invariants: a list holds items of one class only. An item whose state is queued is in exactly one list of its class.
//! The exception is an item that an [`Unqueued`] holds: both links of this item are the item's own address. The items
//! from head to tail link to their neighbours in both directions. `count` is the number of these items, and `bytes` is
//! the sum of their sizes.
//!
//! A caller must remove an item from the list that the item is in. If the caller removes it from another list of the
//! same class, the counts of both lists become wrong or, if the item is at an end of its own list, the removal panics.

use super::arena::Header;
use super::chunk::UnlinkedChunks;
use super::class_token::ClassToken;
use super::item::{Item, Pin, Queued};
use super::memory::Memory;
use super::state::QueueKind;
use super::stripe::{Entry, Inserted, Removed};
use crate::layout::ChunkAddress;
use slabwise_base::WorkTime;

/// The number of items at each end of a list with which [`List::insert_by_age`] compares the age of an item.
const COMPARISONS_MAX: usize = 8;

/// The panic text for the removal of an item from a list that does not hold the item.
const OTHER_LIST: &str = "an item is removed from the list that it is in";

/// A doubly linked list of items, newest at the head.
#[derive(Debug, Default)]
pub struct List {
    /// The number of the token of the list's class ([`ClassToken::number`]), or 0 before the first item.
    class: u64,
    /// The first chunk of the item at the head, or `None` if the list is empty.
    head: Option<ChunkAddress>,
    /// The first chunk of the item at the tail, or `None` if the list is empty.
    tail: Option<ChunkAddress>,
    /// The number of items.
    count: u64,
    /// The sum of the items' sizes, as the callers counted them.
    bytes: u64,
}

/// A list as numbers, for a process that maps the same arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListImage {
    pub head: Option<ChunkAddress>,
    pub tail: Option<ChunkAddress>,
    pub count: u64,
    pub bytes: u64,
}

/// An item that was removed from one list and is to be put into another list or back. It borrows the token of the
/// class, so that no other list of the class can change in between.
#[must_use = "an item that was removed from a list must be put into a list again"]
pub struct Unqueued<'c> {
    class: &'c mut ClassToken,
    address: ChunkAddress,
}

impl List {
    pub const EMPTY: List = List { class: 0, head: None, tail: None, count: 0, bytes: 0 };

    /// Returns a list of items that already link to each other.
    ///
    /// # Safety
    ///
    /// The `count` items from `head` to `tail` link to their neighbours in both directions. All these items are of this
    /// class, their states are queued, and they are in no other list.
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

    /// Returns the sum of the items' sizes in bytes, as the callers counted them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn image(&self) -> ListImage {
        let &List { class: _, head, tail, count, bytes } = self;
        ListImage { head, tail, count, bytes }
    }

    pub fn tail_address(&self) -> Option<ChunkAddress> {
        self.tail
    }

    /// Returns the item at the tail, or `None` if the list is empty. Panics if `class` is not the token of the list's
    /// class.
    #[inline]
    pub fn tail<'c>(&self, class: &'c ClassToken) -> Option<Queued<'c>> {
        let tail = self.tail?;
        self.check_class(class);
        // SAFETY: an item of this list is in a queue of the class, whose lock is held as long as the token is borrowed.
        Some(unsafe { Item::new(class.memory(), tail) })
    }

    /// Returns all items, from the tail to the head.
    pub fn iter_from_tail<'c>(&self, class: &'c ClassToken) -> impl Iterator<Item = Queued<'c>> {
        // SAFETY: the items of this list are in a queue of the class. No list of the class changes as long as the token
        // of the class is borrowed.
        let queued = |at| unsafe { Item::new(class.memory(), at) };
        let next = move |item: &Queued<'c>| item.header().prev().map(queued);
        std::iter::successors(self.tail(class), next)
    }

    /// Publishes an item that has just entered its table, at the head of the list. `queue` is the kind of the list's
    /// queue. `size_bytes` is the size of the item as the caller counts it.
    #[inline]
    pub fn push_head(
        &mut self,
        class: &mut ClassToken,
        item: Inserted<'_>,
        queue: QueueKind,
        size_bytes: u64,
    ) {
        self.check_entering(class, &item);
        // SAFETY: `check_entering` has checked that the item is of this class. An `Inserted` item is in no list.
        unsafe { self.link_head(class.memory(), item.address(), size_bytes) };
        item.item().header().state().publish(queue);
    }

    /// Publishes an item that has just entered its table, at the position that its age has in the list. The function
    /// finds this position only near the tail and near the head. An item whose position is farther from both ends is
    /// put near the head, among newer items. `queue` is the kind of the list's queue. `size_bytes` is the size of the
    /// item as the caller counts it.
    pub fn insert_by_age(
        &mut self,
        class: &mut ClassToken,
        item: Inserted<'_>,
        queue: QueueKind,
        size_bytes: u64,
    ) {
        self.check_entering(class, &item);
        let (prev, next) = self.neighbours_by_age(class.memory(), item.item().time());
        // SAFETY: `check_entering` has checked that the item is of this class. An `Inserted` item is in no list. `prev`
        // and `next` are neighbours in this list.
        unsafe { self.link_between(class.memory(), item.address(), prev, next) };
        item.item().header().state().publish(queue);
        self.count_added(size_bytes);
    }

    /// Publishes an item between the neighbours of an old item, and removes and unlinks the old item. The sizes are those of
    /// the old item, with which it entered the list, and of the new one. Returns the chunks of the old item, which the
    /// caller must free, or `None` if the old item still has pins (LAST-HOLDER).
    pub fn take_place(
        &mut self,
        class: &mut ClassToken,
        old: Removed,
        new: Inserted<'_>,
        (old_size_bytes, new_size_bytes): (u64, u64),
    ) -> Option<UnlinkedChunks> {
        self.check_entering(class, &new);
        let memory = class.memory();
        let state = old.queued(class).expect("the old item is queued in this class").state();
        // SAFETY: the old item's state is queued, so the item is in a chunk of this memory.
        unsafe { self.check_not_at_end_of_other(memory, old.address()) };
        // SAFETY: the old item is in a chunk of this memory.
        let from = unsafe { header(memory, old.address()) };
        assert!(from.prev() != Some(old.address()), "the old item is in a list");
        let (prev, next) = (from.prev(), from.next());
        // SAFETY: the new item is in no list, and takes the position of the old item between the old item's neighbours.
        unsafe { self.link_between(memory, new.address(), prev, next) };
        new.item().header().state().publish(state.queue());
        // Without this condition, threads that store in the class would fetch this cache line from each other.
        if old_size_bytes != new_size_bytes {
            self.bytes = self.bytes - old_size_bytes + new_size_bytes;
        }
        // SAFETY: the list now links to the new item and no longer to the old one.
        unsafe { old.unlink_unqueued(memory) }
    }

    /// Removes the item at the tail, for the caller to put it into another list or back. `size_bytes` must be the size
    /// with which the item entered the list.
    #[inline]
    pub fn take_tail<'c>(
        &mut self,
        class: &'c mut ClassToken,
        size_bytes: u64,
    ) -> Option<Unqueued<'c>> {
        self.check_class(class);
        // SAFETY: the list is of this class, and the state of an item in a list is queued.
        Some(unsafe { self.take_unchecked(class, self.tail?, size_bytes) })
    }

    /// Removes the item of an entry, for the caller to put it into another list or back. `size_bytes` must be the size
    /// with which the item entered the list.
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
        // SAFETY: the list and the item are of this class, and the item's state is queued.
        unsafe { self.take_unchecked(class, item.address(), size_bytes) }
    }

    /// Removes the item at `address`, without a check of its class.
    ///
    /// # Safety
    ///
    /// The list and the item are of this class, and the item's state is queued.
    #[inline]
    unsafe fn take_unchecked<'c>(
        &mut self,
        class: &'c mut ClassToken,
        address: ChunkAddress,
        size_bytes: u64,
    ) -> Unqueued<'c> {
        // SAFETY: the caller guarantees that the item is of this class and that its state is queued.
        unsafe { self.unlink_node(class.memory(), address, size_bytes) };
        // SAFETY: the item is queued, so it is in a chunk of the class's memory.
        let header = unsafe { header(class.memory(), address) };
        // The item's state stays queued. If the caller drops the `Unqueued`, a later removal of the item must not
        // change other items, so the item links to itself.
        header.set_prev(Some(address));
        header.set_next(Some(address));
        Unqueued { class, address }
    }

    /// Removes the item at the tail and pins it, so that the caller can evict the item after the class is unlocked.
    /// `size_bytes` must be the size with which the item entered the list.
    #[inline]
    pub fn detach_tail(&mut self, class: &mut ClassToken, size_bytes: u64) -> Option<Pin> {
        self.check_class(class);
        // SAFETY: the list is of this class, and the state of an item in a list is queued.
        Some(unsafe { self.detach_unchecked(class, self.tail?, size_bytes) })
    }

    /// Removes a pinned item and pins it a second time. Returns the second pin. `size_bytes` must be the size with
    /// which the item entered the list.
    pub fn detach_pinned(&mut self, class: &mut ClassToken, pin: &Pin, size_bytes: u64) -> Pin {
        self.check_class(class);
        assert!(class.queued_pinned(pin).is_some(), "an item is removed from a list of its class");
        // SAFETY: the list and the item are of this class, and the item's state is queued.
        unsafe { self.detach_unchecked(class, pin.address(), size_bytes) }
    }

    /// Removes the item at `address` and pins it, without a check of its class.
    ///
    /// # Safety
    ///
    /// The list and the item are of this class, and the item's state is queued.
    #[inline]
    unsafe fn detach_unchecked(
        &mut self,
        class: &mut ClassToken,
        address: ChunkAddress,
        size_bytes: u64,
    ) -> Pin {
        // SAFETY: the caller guarantees that the item is of this class and that its state is queued.
        unsafe { self.unlink_node(class.memory(), address, size_bytes) };
        // SAFETY: the item is queued, so it is in a chunk of the class's memory.
        unsafe { header(class.memory(), address) }.state().detach();
        // SAFETY: `detach` has just added a pin for this `Pin`.
        unsafe { Pin::new(class.memory(), address) }
    }

    /// Removes an item that was removed from its table, and unlinks it. Returns the item's chunks, which the caller
    /// must free, or `None` if the item still has pins (LAST-HOLDER). `size_bytes` must be the size with which the item
    /// entered the list.
    #[inline]
    pub fn unlink(
        &mut self,
        class: &mut ClassToken,
        item: Removed,
        size_bytes: u64,
    ) -> Option<UnlinkedChunks> {
        assert!(item.queued(class).is_some(), "an item is unlinked by a list of its class");
        self.check_class(class);
        // SAFETY: the item is of this class, and its state is queued.
        unsafe { self.unlink_node(class.memory(), item.address(), size_bytes) };
        // SAFETY: the item was just removed from its list.
        unsafe { item.unlink_unqueued(class.memory()) }
    }

    /// Panics if two neighbours do not link to each other, or if the last item toward the head is not the head.
    pub fn check(&self, class: &ClassToken) {
        let mut toward_tail = None;
        for item in self.iter_from_tail(class) {
            let next = item.header().next();
            assert_eq!(next, toward_tail, "two neighbours in a list link to each other");
            toward_tail = Some(item.address());
        }
        assert_eq!(self.head, toward_tail, "the links from the tail end at the head of the list");
    }

    /// Panics if `class` is not the token of the list's class.
    #[inline]
    fn check_class(&self, class: &ClassToken) {
        assert_eq!(self.class, class.number(), "a list is used with the token of its own class");
    }

    /// Makes this class the list's class, if the list has none yet. Panics if the list has another class.
    #[inline]
    fn bind(&mut self, class: &ClassToken) {
        if self.class == 0 {
            self.class = class.number();
        }
        self.check_class(class);
    }

    /// Makes this class the list's class, if the list has none yet. Panics if the list or the item is of another class.
    #[inline]
    fn check_entering(&mut self, class: &ClassToken, item: &Inserted<'_>) {
        self.bind(class);
        let memory = item.item().memory();
        assert!(std::ptr::eq(memory, class.memory()), "an item is queued in its own memory");
        assert_eq!(item.queue_class(), class.class(), "an item is queued in its own class");
    }

    /// Counts an item that was added to the list.
    #[inline]
    fn count_added(&mut self, size_bytes: u64) {
        self.count += 1;
        self.bytes += size_bytes;
    }

    /// Returns the two neighbours between which an item that was last accessed at `time` is to be put: first the
    /// neighbour toward the head, then the neighbour toward the tail.
    fn neighbours_by_age(
        &self,
        memory: &Memory,
        time: WorkTime,
    ) -> (Option<ChunkAddress>, Option<ChunkAddress>) {
        // SAFETY: the items of a list are in chunks of this memory.
        let header_of = |address: ChunkAddress| unsafe { header(memory, address) };
        // True if the other item was accessed after `time`.
        let is_newer = |other: &ChunkAddress| header_of(*other).time().is_after(time);
        let from_tail = std::iter::successors(self.tail, |&at| header_of(at).prev());
        if let Some(newer) = from_tail.take(COMPARISONS_MAX).find(is_newer) {
            return (Some(newer), header_of(newer).next());
        }
        let from_head =
            std::iter::successors(self.head, |&at| header_of(at).next()).take(COMPARISONS_MAX);
        let mut next = None;
        for other in from_head {
            next = Some(other);
            if !is_newer(&other) {
                break;
            }
        }
        (next.map_or(self.tail, |next| header_of(next).prev()), next)
    }

    /// Adds the item at `address` at the head of the list, and counts it.
    ///
    /// # Safety
    ///
    /// The item is of the list's class and in no list.
    #[inline]
    unsafe fn link_head(&mut self, memory: &Memory, address: ChunkAddress, size_bytes: u64) {
        // SAFETY: the caller guarantees that the item is in no list. The head of this list has no neighbour before it.
        unsafe { self.link_between(memory, address, None, self.head) };
        self.count_added(size_bytes);
    }

    /// Links the item at `address` between `prev`, its neighbour toward the head, and `next`, its neighbour toward the
    /// tail. `None` means that the item becomes the head or the tail of the list. Does not count the item.
    ///
    /// # Safety
    ///
    /// The item is of the list's class and in no list. `prev` and `next` are neighbours in this list, or they are the
    /// neighbours of an item whose position the new item takes.
    #[inline]
    unsafe fn link_between(
        &mut self,
        memory: &Memory,
        address: ChunkAddress,
        prev: Option<ChunkAddress>,
        next: Option<ChunkAddress>,
    ) {
        // SAFETY: the caller guarantees that the three addresses are of items, which are in chunks of this memory.
        let header_of = |address: ChunkAddress| unsafe { header(memory, address) };
        header_of(address).set_prev(prev);
        header_of(address).set_next(next);
        match prev {
            Some(prev) => header_of(prev).set_next(Some(address)),
            None => self.head = Some(address),
        }
        match next {
            Some(next) => header_of(next).set_prev(Some(address)),
            None => self.tail = Some(address),
        }
    }

    /// Panics if the item at `address` is the head or the tail of another list.
    ///
    /// # Safety
    ///
    /// An item is in a chunk at `address` of this memory.
    #[inline]
    unsafe fn check_not_at_end_of_other(&self, memory: &Memory, address: ChunkAddress) {
        // SAFETY: the caller guarantees that an item is in a chunk at the address.
        let header = unsafe { header(memory, address) };
        let is_other_head = header.prev().is_none() && self.head != Some(address);
        let is_other_tail = header.next().is_none() && self.tail != Some(address);
        assert!(!is_other_head && !is_other_tail, "{OTHER_LIST}");
    }

    /// Removes the item at `address` from the list: its neighbours link to each other. The item's own links and its
    /// state do not change.
    ///
    /// # Safety
    ///
    /// The item is in a list of this list's class, or its links are its own address.
    #[inline]
    unsafe fn unlink_node(&mut self, memory: &Memory, address: ChunkAddress, size_bytes: u64) {
        // SAFETY: the caller guarantees that the item is in a list, so the item and its neighbours are in chunks of
        // this memory.
        let header_of = |address: ChunkAddress| unsafe { header(memory, address) };
        let (prev, next) = (header_of(address).prev(), header_of(address).next());
        match prev {
            Some(prev) => header_of(prev).set_next(next),
            None => {
                assert_eq!(self.head, Some(address), "{OTHER_LIST}");
                self.head = next;
            }
        }
        match next {
            Some(next) => header_of(next).set_prev(prev),
            None => {
                assert_eq!(self.tail, Some(address), "{OTHER_LIST}");
                self.tail = prev;
                // The next removal from the tail will write the headers of the new tail's neighbours.
                if let Some(tail) = prev {
                    memory.arena.prefetch_neighbours(header_of(tail));
                }
            }
        }
        self.count -= 1;
        self.bytes -= size_bytes;
    }
}

impl Unqueued<'_> {
    /// Puts the item at the head of a list of its class, and clears the item's active mark. `queue` is the kind of the
    /// list's queue. `size_bytes` is the size of the item as the caller counts it.
    #[inline]
    pub fn push_head(self, list: &mut List, queue: QueueKind, size_bytes: u64) {
        list.bind(self.class);
        let memory = self.class.memory();
        // SAFETY: the item is of this class and was removed from its list.
        unsafe { list.link_head(memory, self.address, size_bytes) };
        // SAFETY: the item's state is queued, so the item is in a chunk of its class's memory.
        unsafe { header(memory, self.address) }.state().requeue(queue);
    }
}

/// Returns the header of the chunk at `address`.
///
/// # Safety
///
/// A chunk of this memory starts at `address`.
#[inline]
unsafe fn header(memory: &Memory, address: ChunkAddress) -> Header<'_> {
    // SAFETY: the caller guarantees that a chunk of this memory starts at the address.
    unsafe { memory.arena.header_of(address) }
}
