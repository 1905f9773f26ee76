//! The bytes of the cache, and the only `unsafe` code of the engine.
//!
//! The arena is one reserved range of address space. It is divided into pages, and each page is divided into chunks.
//! The types in this diagram are access tokens: the type of a token says what its holder may do with a chunk. An arrow
//! is a function that turns one token into another.
//!
//! ```text
//!   page pool --UnusedPage--> ClassToken::adopt                     under the class's lock
//!                             | take                    ^ give
//!                             v                         |
//!                          OwnedChunk <-----------------+-----------------.
//!                             | NewItem::begin                            | try_into_chunk, take_body
//!                             v                                           |
//!                          NewItem                                     UnlinkedChunks
//!                             | Entry::insert, replace                    ^ the item has no pins (LAST-HOLDER)
//!                             v                                           |
//!  under the stripe's lock  Entry --entered--> List::push_head            |
//!                             |  \--item--> Linked --pin--> ValuePin --unpin
//!                             | remove, replace                           |
//!                             v                                           |
//!                          Removed --------> List::unlink ----------------'
//!                                              under the class's lock
//! ```
//!
//! Only the holder of the [`MoverToken`] can move items and bodies to other chunks. [`Restore`] recovers the items that
//! an earlier process wrote to the memory file, which is the file of `-e`. [`Takeover`] makes the tables, page entries and
//! lists of a process that hands its arena over.
//!
//! Misuse of these types by safe code cannot break memory safety: misuse that could break it either does not compile or
//! panics. The rules are:
//!
//! - *Stripe*: an item is guarded by the stripe whose table holds the item. Items enter a table only in `stripe.rs`,
//!   and an [`Entry`] holds the lock of its stripe.
//! - *Class*: each class of a memory has one [`ClassToken`], which is stored inside the lock of the class. Each page
//!   records its class, and each list belongs to one class. The functions of `ClassToken` check an address that a
//!   caller passes in: against the page's class, the page's chunk boundaries and the chunk's state.
//! - *Memory*: every access token records its memory, and a function that gets a token of another memory panics.
//! - *Bounds*: every access is checked against the size of the chunk or the length of the value.
//!
//! One precondition is not checked: while an arena maps a memory file, no program shortens the file, and only this
//! arena writes the mapped bytes ([`Arena::of_file`]). The lock on the file is only advisory, so another program can
//! ignore it. `takeover.rs` has a similar precondition.
//!
//! The code cites these invariants by name:
//!
//! - ARENA-LIVE: the mapping exists as long as its `Arena`.
//! - BUCKETS-ALONE: each stripe has one [`Buckets`](buckets::Buckets), and only it accesses the stripe's buckets.
//! - HEADER-ATOMIC: the words of a chunk's header are accessed only as atomics, so no access to them is a data race.
//!   The locks that `arena.rs` and `state.rs` name protect the *meaning* of these words.
//! - OWNED-ALONE: from the allocation of a chunk until the chunk is published or freed, there is exactly one
//!   [`OwnedChunk`] for the chunk, and only the holder of the `OwnedChunk` accesses the bytes after the header.
//! - READ-ACCESS: a thread reads the bytes after the header of a published chunk only through an [`Item`]. It writes
//!   these bytes only under an access token that excludes all readers. To write a value, the thread borrows the locked
//!   stripe exclusively (`&mut`), and finds no pin except its own. To write an expiry or a rank, it borrows the locked
//!   stripe and the locked class exclusively.
//! - LAST-HOLDER: the step after which an item is unlinked and has no pins frees the item (`state.rs`).
mod access;
#[cfg(not(all(test, loom)))]
mod arena;
#[cfg(all(test, loom))]
#[path = "arena_loom.rs"]
mod arena;
mod buckets;
mod chunk;
mod class_token;
mod item;
mod list;
mod mapping;
mod memory;
mod restore;
mod spare;
mod state;
mod stripe;
mod table;
mod takeover;

pub use arena::{Arena, prefetch};
pub use buckets::BucketSpace;
pub use chunk::{Copied, NewItem, OwnedChunk, UnlinkedChunks, UnusedPage, ValueShape};
pub use class_token::{ClassToken, MoverToken, PinOutcome, Slot, SlotRun};
pub use item::{Exclusive, HeldValue, Item, Linked, Pin, Queued, ReadAccess, ReadsMeta, ValuePin};
pub use list::{List, ListImage, Unqueued};
pub use mapping::{FileAccess, HugePages, MappingError};
pub use memory::{Memory, Page, PageState, page_entries_size_bytes};
pub use restore::{Broken, Restore, RestoredItem, ensure};
pub use spare::{SPARES_MAX, SpareSlots};
pub use state::{Kind, QueueKind, State};
pub use stripe::{Entry, Inserted, Removed, Stripe, StripeGuard};
pub use table::{TableCounts, buckets_max, home_of};
pub use takeover::{LockedTables, PageImage, Takeover};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
