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
//! - Only a trace that records lengths may give one key several ([`Lengths`] are not asked then), and the same
//!   goes for costs and [`CostMix`].
//!
//! A workload knows nothing of servers or protocols; the replay draws from it, and so do experiments.

mod costs;
mod lengths;
mod mixture;
mod mixtures;
mod named;
mod popularity;
mod request;
mod stream;
mod trace;

#[cfg(test)]
pub(crate) mod tests;

pub use costs::CostMix;
pub use lengths::Lengths;
pub use lengths::Sizes;
pub use mixture::TwoPhase;
pub use mixture::Zipf;
pub use mixture::{Mixture, key_of};
pub use mixtures::{MixtureName, Toy};
pub use named::{NAMES, Options, open};
pub use popularity::Popularity;
pub use request::WorkloadError;
pub use request::{Op, Request};
pub use stream::{Keys, Workload};
pub use trace::{TraceFormat, TraceReader};
