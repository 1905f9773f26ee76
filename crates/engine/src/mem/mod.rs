//! The bytes of the cache, and the only `unsafe` code of the engine.
//!
//! The arena is a reserved range of address space, cut into pages, and pages into chunks. Everything
//! outside this module names a chunk by its [`ChunkAddress`] and reaches its bytes only through the
//! safe functions here.
//!
//! Laws, cited by name in the code:
//!
//! - ARENA-LIVE: the mapping lives as long as the `Arena`; every `ChunkAddress` that is used was made
//!   by the allocator for this arena, and is checked against its bounds on each use.
//! - HEADER-ATOMIC: the header words of a chunk are only reached as atomics, by everybody, for ever.
//!   So no misuse of them can be a data race; what they *mean* is protected by the locks that
//!   `state.rs` names.
//! - OWNED-ALONE: from the moment a chunk leaves a free list until it is published, its holder has the
//!   one [`OwnedChunk`] for it, and only that holder touches its bytes past the header.
//! - READ-PROOF: bytes past the header of a published chunk are read under a [`ReadProof`] and written
//!   only under a right that excludes every such reader: a [`ValueRight`] (the stripe, and no pins
//!   but the writer's), or an [`MetaRight`] (stripe and class).
//!
//! Rights are values, made from the guards that give them (`proof.rs`).
#[cfg(not(loom))]
mod arena;
#[cfg(loom)]
#[path = "arena_loom.rs"]
mod arena;
#[cfg_attr(loom, expect(dead_code, reason = "models have memory of their own"))]
mod mapping;
mod pages;
mod prefetch;
mod proof;
mod state;
mod table;

pub use arena::{Arena, Header};
pub use mapping::MappingError;
pub use pages::{Page, PageState, PageTable};
pub use prefetch::prefetch;
pub use proof::{
    AtRest, LockedClass, MetaRight, OwnedChunk, Pin, ReadProof, UnusedPage, ValueRight,
};
pub use state::{Kind, QueueKind, State};
pub use table::{Slot, StripeGuard, Table};
