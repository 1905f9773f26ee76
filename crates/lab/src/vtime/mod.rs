//! Runs a cache and its page mover in virtual time: the run never waits, but sleeps are charged.
//!
//! ```text
//!   operations |--31.25 us--|--31.25 us--|--31.25 us--|--    gets and sets, at a fixed rate
//!                   between two operations the mover works until their time has passed:
//!   mover      vvvvvv zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz vvvv          v: a visit to a chunk, z: a sleep
//! ```
//!
//! Invariants:
//! - Operations arrive at their rate and take no time, as on a server with idle cores. A request that misses is two
//!   operations: the get, and the set that follows.
//! - A visit to a chunk costs the processor time that such visits took on this machine, with the same mover and an
//!   engine that is set up and filled in the same way ([`VisitCost::measure`]). It must be positive.
//! - A sleep costs its whole length, as requested or as measured.
//! - Segmented queues have their maintainer, which costs nothing, because it runs on another core of a server.
//! - Pages are moved by a [`Mover`], to which every move is given, or by a [`Tuned`] tuner, whose policy decides.
//! - There is one thread: the mover visits chunks between requests, so it never finds a chunk locked or pinned.

mod cache;
mod costs;
mod mover;
mod tuned;

pub use cache::{Access, Cache};
pub use costs::{InvalidVisitCost, SleepCost, VisitCost, median, thread_cpu_nanos};
pub use mover::{Arrival, Mover, MoverName, MoverTime, SleepLength};
pub use tuned::{Maintainer, Tuned};

use slabwise_base::{Moment, Now};

#[derive(Clone, Copy, Debug)]
pub struct Rate {
    nanos_per_operation: f64,
}

impl Rate {
    pub fn new(operations_per_second: f64) -> Rate {
        assert!(operations_per_second > 0.0, "the rate is above 0, not {operations_per_second}");
        Rate { nanos_per_operation: 1e9 / operations_per_second }
    }

    /// The time of the operation with this number, from 0, in nanoseconds since the start.
    pub fn nanos_at(self, operation: u64) -> f64 {
        self.nanos_per_operation * operation as f64
    }

    pub fn moment_at(self, operation: u64) -> Moment {
        Moment::from_nanos(self.nanos_at(operation) as u64)
    }

    pub fn now_at(self, operation: u64) -> Now {
        Now::from_nanos(self.nanos_at(operation) as u64)
    }
}
