//! Eviction kinds: which item of a class is evicted next.
//!
//! ```text
//!   registry    one line per kind: EvictionKind with its help, and ClassOrder, the order of one class
//!      |
//!   segmented  lru  cost_bands  reserved  greedydual_size  gd_wheel        one kind per file
//!      |
//!   ranking     GreedyDual's inflation
//!      |
//!   order       the trait Order that a kind implements, its input and decisions, and the moves between
//!      |        hot, warm, cold and temp
//!   lanes
//! ```
//!
//! An order reads its class through a [`View`] and returns a decision; the class applies it. An order takes no
//! lock and changes no item, so it can be understood and tested alone.
//!
//! A new kind needs a file that implements [`Order`], a `mod` line here, and a line in `registry.rs`. A kind
//! with options names them in that line and adds them to [`EvictionOptions`].

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
