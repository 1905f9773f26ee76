//! The bytes of the cache, and the only `unsafe` code of the engine.
//!
//! The arena is a reserved range of address space, divided into pages, and pages into chunks. A value of one of these
//! types is an access token: its type says what its holder may do with a chunk.
//!
//! ```text
//!   pool ---UnusedPage---> ClassToken::adopt                        in the class's lock
//!                             | take                    ^ give
//!                             v                         |
//!                          OwnedChunk <-----------------+-----------------.
//!                             | NewItem::begin                            | into_chunk, take_body
//!                             v                                           |
//!                          NewItem                                     Remains
//!                             | Entry::insert, replace                    ^ no pins are left: LAST-HOLDER
//!                             v                                           |
//!     in the stripe's lock  Entry --entered--> List::push_head            |
//!                             |  \--item--> Linked --pin--> ValuePin --unpin
//!                             | remove, replace                           |
//!                             v                                           |
//!                          Removed --------> List::unlink ----------------'
//!                                              in the class's lock
//! ```
//!
//! Moves of items and bodies to other chunks need the [`MoverToken`]. [`Restore`] recovers the items that another
//! process left in the arena.
//!
//! Types prevent misuse by safe code where that is free; elsewhere a check panics:
//!
//! - *Which stripe guards an item*: the one whose table holds it. Items enter a table only in `stripe.rs`, and an
//!   [`Entry`] holds the lock.
//! - *Which class guards an item or a page*: each class of a memory has one [`ClassToken`], inside the lock of the
//!   class. Each page records its class, and each list belongs to one class. An address from outside is checked
//!   against the page's class, the page's chunk boundaries and the chunk's state.
//! - *Which memory*: every access token carries the number of its memory.
//! - *Bounds*: an owned chunk knows its size, a value its length.
//!
//! One precondition is not checked: a memory file is written and shortened only through its mapping
//! ([`Arena::of_file`]). The lock on the file is advisory.
//!
//! Invariants, cited by name in the code:
//!
//! - ARENA-LIVE: the mapping lives as long as the `Arena`.
//! - HEADER-ATOMIC: the header words of a chunk are accessed only as atomics. So no misuse of them can be a data
//!   race; the locks that `state.rs` names protect what they *mean*.
//! - OWNED-ALONE: from the moment a chunk leaves a free list until it is published, there is exactly one
//!   [`OwnedChunk`] for it, and only its holder accesses the bytes past the header.
//! - READ-ACCESS: bytes past the header of a published chunk are read through a handle of `item.rs`, and written
//!   only under an access token that excludes every such reader: the value with the stripe locked exclusively and no
//!   pins but the writer's, expiry and rank with stripe and class locked exclusively.
//! - LAST-HOLDER: the step that leaves an item unlinked and without pins frees it (`state.rs`).
#[cfg(not(all(test, loom)))]
mod arena;
#[cfg(all(test, loom))]
#[path = "arena_loom.rs"]
mod arena;
mod chunk;
mod class_token;
mod item;
mod list;
mod memory;
mod restore;
mod state;
mod stripe;
mod table;

pub use arena::{Arena, MappingError, prefetch};
pub use chunk::{Copied, NewItem, OwnedChunk, Remains, UnusedPage, ValueShape};
pub use class_token::{ClassToken, HeadPin, MoverToken};
pub use item::{Exclusive, HeldValue, Item, Linked, Pin, Queued, ReadAccess, ReadsMeta, ValuePin};
pub use list::{List, Unqueued};
pub use memory::{Memory, Page, PageState};
pub use restore::{Broken, Restore, RestoredItem, ensure};
pub use state::{Kind, QueueKind, State};
pub use stripe::{Entered, Entry, Removed, Stripe, StripeGuard};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
