//! Operations on items: each looks a key up once and fires every hook exactly once.
//!
//! ```text
//!   session: a parsed request  -->  ops::get, store, change  -->  engine's Handle
//!                                       |
//!                                       '--> hooks: watch events, measured costs, counters by key prefix
//! ```
//!
//! The operations know no dialect and write no reply. A get shows its item to a closure while the item stands
//! still; all others return an outcome. Where memcached's dialects differ in what they count or discard, the
//! caller says whose [`Rules`] apply.
//!
//! Only this module calls the engine's handle.

pub(crate) mod change;
pub(crate) mod get;
mod hooks;
pub(crate) mod store;
