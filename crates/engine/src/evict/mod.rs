//! Eviction kinds. An eviction kind is a rule that selects the item of a class that is evicted next.
//!
//! ```text
//!   registry    the list of all kinds, one line each; defines EvictionKind, and ClassOrder, the order of one class
//!      |
//!   density  segmented  lru  cost_bands  reserved  greedydual_size  gd_wheel        one kind per file
//!      |
//!   ranking     ranks and GreedyDual's inflation, for the kinds that rank items
//!      |
//!   order       the trait Order that a kind implements, its input and decisions, and the moves between
//!      |        hot, warm, cold and temp
//!   lanes       the queues of a class
//! ```
//!
//! An order reads its class through a [`View`] and returns a decision, which the class applies. An order takes no lock
//! and changes no item, so it can be read and tested without the rest of the engine.
//!
//! A new kind needs a file that implements [`Order`], a `mod` line in this file, and a line in `registry.rs`. If the
//! kind has options, they become a field of [`EvictionOptions`], which the kind's line in `registry.rs` names.

mod cost_bands;
mod density;
mod gd_wheel;
mod greedydual_size;
mod lanes;
mod lru;
mod order;
mod ranking;
mod registry;
mod reserved;
mod segmented;
mod split_lru;

pub use gd_wheel::GdWheelConfig;
pub use lanes::{ItemCosts, ItemSizes, Lane, Lanes, Place};
pub use order::{
    COLDEST_FIRST, Entry, Hit, LruConfig, Move, Order, Position, QueueSplit, Segments, Victim, View,
};
pub(crate) use registry::dispatch;
pub use registry::{ClassOrder, EvictionKind, EvictionOptions};
pub use reserved::{RankedHits, ReservedConfig, ReservedRank};
