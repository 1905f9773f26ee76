//! Runs a cache and its page mover in virtual time. The thread never sleeps: instead, a clock advances by the modelled
//! time of each action.
//!
//! ```text
//!   operations |--31.25 us--|--31.25 us--|--31.25 us--|--    gets and sets, at a fixed rate
//!   mover      vvvvvv zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz vvvv    v: a visit to a chunk, z: a sleep
//! ```
//!
//! Before each operation, the mover works until its own time has reached the time of the operation.
//!
//! Invariants:
//! - Operations arrive at a fixed rate and take no time, as on a server with idle cores. A request that misses is two
//!   operations: the get, and the set that follows.
//! - A visit to a chunk takes a fixed time above 0. The experiment specifies this time, or measures the processor time
//!   of visits on this machine, with the same mover and an engine that was configured and filled in the same way
//!   ([`VisitCost::measure`]).
//! - A sleep takes the requested length, or the mean measured length of sleeps with this requested length.
//! - An engine with segmented queues has a [`Maintainer`]. Its work takes no time, because it runs on another core of a
//!   server.
//! - A [`Mover`] moves the pages that its caller specifies. A [`RunningTuner`] moves the pages that its policy selects.
//! - There is only one thread. The mover visits chunks between two requests, so it never finds a chunk locked or
//!   pinned.

mod cache;
mod costs;
mod mover;
mod tuned;

pub use cache::{Access, Cache};
pub use costs::{InvalidVisitCost, SleepCost, VisitCost, median, thread_cpu_nanos};
pub use mover::{Mover, MoverName, MoverTime, PageMove, SleepLength};
pub use tuned::{Maintainer, RunningTuner};

use slabwise_base::{Moment, Now};

/// The rate of operations, which gives each operation its virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    nanos_per_operation: f64,
}

impl Rate {
    /// # Panics
    /// If the rate is not above 0.
    pub fn new(operations_per_second: f64) -> Rate {
        assert!(
            operations_per_second > 0.0,
            "operations_per_second is above 0, not {operations_per_second}"
        );
        Rate { nanos_per_operation: 1e9 / operations_per_second }
    }

    /// Returns the virtual time of an operation in nanoseconds since the start of the run. Operation 0 is the first.
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
