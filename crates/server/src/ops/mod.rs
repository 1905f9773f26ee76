//! Operations on items, and the hooks that report them.
//!
//! ```text
//!   session: a parsed request  -->  ops::get, store, change  -->  engine's Handle
//!                                       |
//!                                       '--> hooks: watch events, measured costs, counters by key prefix
//! ```
//!
//! The operations know no dialect and write no reply. A get passes its item to a closure while the item's stripe is
//! locked; all others return an outcome. Where memcached's dialects differ in what they count or discard, the
//! caller selects the [`Rules`](get::Rules).
//!
//! Only this module looks up or changes items. Sessions use the engine's handle just to hash keys and to prefetch.

pub(crate) mod change;
pub(crate) mod get;
mod hooks;
pub(crate) mod store;
