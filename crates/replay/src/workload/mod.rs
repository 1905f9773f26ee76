//! Workloads: what clients ask a cache for, request by request.
//!
//! A workload is a stream of keys, and distributions that give each key its value length and, if asked for, its cost:
//!
//! ```text
//! Keys  (trace | zipf | mixture | popularity table) --key-->  Lengths (fixed | size table | ETC | by part)
//!   \_____________________________ Request { key, value_len, op, cost } __________________________________/
//! ```
//!
//! Invariants:
//! - The whole stream follows from its name and its [`Options`]: same seed, same requests.
//! - A key's derived length depends on the key and the seed alone, never on the order of requests.
//! - Only a trace that records lengths may give one key several (derived ones are not asked for then), and the same
//!   goes for costs and [`CostMix`].
//!
//! A workload knows nothing of servers or protocols; the replay draws from it, and so do experiments.

mod costs;
mod lengths;
mod mixture;
mod mixtures;
mod named;
mod request;
mod stream;
mod tables;
mod trace;

#[cfg(test)]
pub(crate) mod tests;

pub use costs::CostMix;
pub use mixture::{Zipf, key_of};
#[cfg(test)]
pub(crate) use named::NAMES;
pub use named::{Options, open};
pub use request::{Op, Request, WorkloadError};
pub use stream::Workload;
pub use trace::{TraceFormat, TraceReader};
