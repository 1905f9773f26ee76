//! Operations on items, and the hooks that report them.
//!
//! ```text
//!   session: a parsed request  -->  ops::get, store, change  -->  engine's Handle
//!                                       |
//!                                       '--> hooks: watch events, measured costs, counters by key prefix
//! ```
//!
//! The operations do not depend on the dialect, and they write no reply. A get passes its item to a closure while the
//! item's stripe is locked. Every other operation returns an outcome. In memcached, the meta protocol counts some
//! commands differently than the other protocols, and discards other items after a failed store. The caller selects
//! these [`Rules`](get::Rules).
//!
//! Only this module looks up or changes an item by its key. Sessions use the engine's handle only to hash keys and to
//! prefetch.

pub(crate) mod change;
pub(crate) mod get;
mod hooks;
pub(crate) mod store;
pub(crate) mod upload;
