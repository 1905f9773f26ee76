//! A cache and its page mover on virtual time: nothing waits, and yet a sleep costs what it costs.
//!
//! ```text
//!   requests   |--31.25 us--|--31.25 us--|--31.25 us--|--          at a fixed rate
//!                   between two requests the mover works, until their time has passed:
//!   mover      vvvvvv zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz vvvv          v: a chunk visited, z: a sleep
//! ```
//!
//! Laws:
//! - Requests take no time of their own; they come at their rate, as at a server with cores to spare.
//! - A visit to a chunk costs the nanoseconds of processor that such visits took on this machine, on an engine set up
//!   and filled alike, under the same mover ([`VisitCost::measure`]); none is refused.
//! - A sleep costs its whole length.
//! - One thread: a chunk is visited before a request or after it, never during one. So no chunk is ever
//!   met locked or pinned here.

mod cache;
mod mechanism;
mod mover;
mod processor;
mod sleep_cost;
mod visit_cost;

pub use cache::{Access, Cache};
pub use mechanism::{MoveCounts, MoverName};
pub use mover::{Arrival, Mover, MoverTime};
pub use sleep_cost::SleepCost;
pub use visit_cost::{NoVisitCost, VisitCost};

use slabwise_base::{Moment, Now};

/// When requests come.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    nanos_a_request: f64,
}

impl Rate {
    /// This many requests a second, above 0.
    pub fn new(requests_a_second: f64) -> Rate {
        assert!(requests_a_second > 0.0, "{requests_a_second} requests a second never come");
        Rate { nanos_a_request: 1e9 / requests_a_second }
    }

    /// When the request with this number, from 0, comes: nanoseconds since the start.
    pub fn nanos_at(self, request: u64) -> f64 {
        self.nanos_a_request * request as f64
    }

    /// The same for the mover.
    pub fn moment_at(self, request: u64) -> Moment {
        Moment::from_nanos(self.nanos_at(request) as u64)
    }

    /// The engine's time then.
    pub fn now_at(self, request: u64) -> Now {
        Now::from_nanos(self.nanos_at(request) as u64)
    }
}
