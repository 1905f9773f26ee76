//! Eviction kinds: which item of a class leaves next.
//!
//! ```text
//!   registry    one line a kind: EvictionKind with the help on all, and ClassOrder, the order of one class
//!      |
//!   segmented  lru  cost_bands  reserved  greedydual_size  gd_wheel        one kind a file
//!      |
//!   ranking     GreedyDual's inflation
//!      |
//!   order       the trait Order that a kind implements, what an order reads and answers, and the moves
//!      |        between hot, warm, cold and temp
//!   lanes
//! ```
//!
//! An order reads its class through a [`View`] and returns a decision; the class applies it. An order takes no
//! lock and changes no item, so it can be read and tested alone.
//!
//! To add a kind: a file that implements [`Order`], its `mod` line here, and its line in
//! `registry.rs`. A kind with options names them in that line, and adds them to [`EvictionOptions`].

mod cost_bands;
mod gd_wheel;
mod greedydual_size;
mod lanes;
mod lru;
mod order;
mod ranking;
mod registry;
mod reserved;
mod segmented;

pub use gd_wheel::GdWheelConfig;
pub use lanes::{ItemCosts, ItemSizes, Lane, Lanes, Place};
pub use order::{COLDEST_FIRST, Entry, Hit, LruConfig, Move, Order, Segments, Victim, View};
pub(crate) use registry::dispatch;
pub use registry::{ClassOrder, EvictionKind, EvictionOptions};
pub use reserved::{ReservedConfig, ReservedRank};
