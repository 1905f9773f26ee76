//! Workloads: streams of requests to a cache.
//!
//! A workload is a stream of keys. Each key has a value length and may have a cost. A trace records these numbers; the
//! other workloads derive them from the key:
//!
//! ```text
//! keys (trace, zipf, mixture or popularity table) --> key --> lengths (fixed, size table, ETC or by part)
//!                                                        \--> costs
//! Request { key, value_len, op, cost }
//! ```
//!
//! Invariants:
//! - The name and the [`Options`] of a workload, which include the seed, determine all its requests.
//! - A derived length or cost depends only on the key and the seed, so it is the same for all requests of a key.
//! - A recorded length or cost takes precedence over a derived one, but not over the option `--value-len`. Recorded
//!   lengths and costs can differ between the requests for a key.
//!
//! This module does not depend on servers or protocols. The replay and the experiments of the lab use workloads.

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
pub use named::{NAMES, Options, open};
pub use request::{Op, Request, WorkloadError};
pub use stream::Workload;
pub use trace::{TraceFormat, TraceReader};
