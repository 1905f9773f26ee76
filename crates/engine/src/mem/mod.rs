//! The bytes of the cache, and the only `unsafe` code of the engine.
//!
//! The arena is a reserved range of address space, cut into pages, and pages into chunks. What a holder may do
//! with a chunk is a value; each is made where the right to it arises, and ended where the right ends:
//!
//! ```text
//!   pool ---UnusedPage---> ClassToken::adopt                        in the class's lock
//!                             | take                    ^ give
//!                             v                         |
//!                          OwnedChunk <-----------------+-----------------.
//!                             | NewItem::begin                            | into_chunk, take_body
//!                             v                                           |
//!                          NewItem                                     Remains
//!                             | Entry::insert, replace                    ^ nobody pins it: LAST-HOLDER
//!                             v                                           |
//!     in the stripe's lock  Entry --entered--> List::push_head            |
//!                             |  \--item--> Linked --pin--> ValuePin --unpin
//!                             | remove, replace                           |
//!                             v                                           |
//!                          Removed --------> List::unlink ----------------'
//!                                              in the class's lock
//! ```
//!
//! Items change their chunks, and chains their bodies, under the [`MoverToken`]; what another process left in the
//! arena becomes items by way of [`Restore`].
//!
//! Misuse by safe code is ruled out by types where that costs nothing, and
//! otherwise by a check that panics:
//!
//! - *Which stripe guards an item*: the one whose table leads to it. Items enter a table only here
//!   (`stripe.rs`), and an [`Entry`] holds the lock.
//! - *Which class guards an item or a page*: a [`ClassToken`] lies inside the lock of its class, and there is
//!   one for each class of a memory. Pages know their class; lists are bound to one; an address from outside is
//!   compared with the page's class, its grid of chunks and the chunk's state.
//! - *Which memory*: every right carries the number of its memory.
//! - *How far*: an owned chunk knows its size, a value its length.
//!
//! One thing is taken on trust: that nobody writes to a memory file or shortens it by other means than its mapping
//! ([`Arena::of_file`]). A lock on the file is all that can be had against it.
//!
//! Invariants, cited by name in the code:
//!
//! - ARENA-LIVE: the mapping lives as long as the `Arena`.
//! - HEADER-ATOMIC: the header words of a chunk are only reached as atomics, by everybody. So no misuse of them can
//!   be a data race; what they *mean* is protected by the locks that `state.rs` names.
//! - OWNED-ALONE: from the moment a chunk leaves a free list until it is published, its holder has the
//!   one [`OwnedChunk`] for it, and only that holder touches its bytes past the header.
//! - READ-RIGHT: bytes past the header of a published chunk are read under a handle of `item.rs`, and written
//!   only under a right that excludes every such reader: the value with the stripe locked exclusively and no pins
//!   but the writer's, expiry and rank with stripe and class locked exclusively.
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
pub use item::{HeldValue, InHand, Item, Linked, Pin, Queued, ReadsMeta, Right, ValuePin};
pub use list::{List, Unqueued};
pub use memory::{Memory, Page, PageState};
pub use restore::{Broken, Restore, RestoredItem, ensure};
pub use state::{Kind, QueueKind, State};
pub use stripe::{Entered, Entry, Removed, Stripe, StripeGuard};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
