//! Workloads: streams of requests to a cache.
//!
//! A workload is a stream of keys, with distributions of the value lengths and optionally of the costs of keys:
//!
//! ```text
//! Keys  (trace | zipf | mixture | popularity table) --key-->  Lengths (fixed | size table | ETC | by part)
//!   \_____________________________ Request { key, value_len, op, cost } __________________________________/
//! ```
//!
//! Invariants:
//! - The name and the [`Options`] of a workload, with the seed, determine all its requests.
//! - A derived length or cost depends only on the key and the seed.
//! - Only a trace that records lengths (or costs) can have several lengths (or costs) for a key. Recorded values take
//!   precedence over derived ones.
//!
//! Workloads do not depend on servers or protocols. The replay and the experiments use them.

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
