//! A cache and its page mover on virtual time: nothing waits, and yet a sleep costs what it costs.
//!
//! ```text
//!   operations |--31.25 us--|--31.25 us--|--31.25 us--|--    gets and sets, at a fixed rate
//!                   between two of them the mover works, until their time has passed:
//!   mover      vvvvvv zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz vvvv          v: a chunk visited, z: a sleep
//! ```
//!
//! Invariants:
//! - Operations take no time of their own; they come at their rate, as at a server with cores to spare. A
//!   request that misses is two: the get, and the set that follows.
//! - A visit to a chunk costs the nanoseconds of processor that such visits took on this machine, on an engine set up
//!   and filled alike, under the same mover ([`VisitCost::measure`]); none is refused.
//! - A sleep costs its whole length, as asked for or as measured.
//! - Segmented queues have their maintainer, which costs nothing: on a server it is another core's.
//! - Who moves pages is a [`Mover`], which is told every move, or a [`Tuned`] tuner, which decides by its policy.
//! - One thread: a chunk is visited before a request or after it, never during one. So no chunk is ever
//!   met locked or pinned here.

mod cache;
mod costs;
mod mover;
mod tuned;

pub use cache::{Access, Cache};
pub use costs::{NoVisitCost, SleepCost, VisitCost, median, thread_cpu_nanos};
pub use mover::{Arrival, Mover, MoverName, MoverTime, SleepLength};
pub use tuned::{Maintainer, Tuned};

use slabwise_base::{Moment, Now};

#[derive(Clone, Copy, Debug)]
pub struct Rate {
    nanos_an_operation: f64,
}

impl Rate {
    /// This many operations a second, above 0.
    pub fn new(a_second: f64) -> Rate {
        assert!(a_second > 0.0, "{a_second} operations a second never come");
        Rate { nanos_an_operation: 1e9 / a_second }
    }

    /// When the operation with this number, from 0, comes: nanoseconds since the start.
    pub fn nanos_at(self, operation: u64) -> f64 {
        self.nanos_an_operation * operation as f64
    }

    pub fn moment_at(self, operation: u64) -> Moment {
        Moment::from_nanos(self.nanos_at(operation) as u64)
    }

    pub fn now_at(self, operation: u64) -> Now {
        Now::from_nanos(self.nanos_at(operation) as u64)
    }
}
