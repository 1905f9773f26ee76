//! Miss-ratio curves of the classes of a running memcached, from the lines of `watch`.
//!
//! ```text
//!   server --lines--> line --> order --> window --references--> estimates --> ClassCurve of each class
//!          --stats--> counters ----------------------------------^
//!                          \--> budget: when a window starts and ends
//!   watcher: the thread and its two connections
//! ```
//!
//! memcached writes a line for each get, store and delete to a connection that sent `watch`. It cannot sample keys, and
//! each line costs processor time, so the observer watches in *windows*: it receives all lines of a contiguous time,
//! then pauses. A window shows a stack distance only if both references of the key are
//! in the window. [`slabwise_profile::CensoredDistances`] also uses the other references. The result is adjusted to the
//! hits and misses that the server counts.
//!
//! Invariants:
//! - The observer changes nothing on the server.
//! - The modules except `watcher` and `counters` have no I/O.
//! - A server that stops, is slow or sends other bytes ends the observation with one [`TrafficError`].
//!
//! # Cost for the server
//!
//! At every time `t` after the start, the estimated processor time for watching is at most
//! `cost_share_max * (processor time of the server until t) * (1 + advance / t)`. With the defaults, that is 3 % on average
//! over hours. The first window may use the budget of ten minutes at once, and a later window starts when the mean is
//! 3 % again. The estimate is 1 us for each line and 8 ms for each second of a window (module `budget`); the readings of
//! `stats`, once a second, are not part of it.
//!
//! # Limits
//!
//! - A server with `-W` refuses `watch`.
//! - A busy machine drops lines. A dropped line makes some distances larger and hides others; [`Traffic::cost`] has their
//!   number.
//! - The curve is that of an LRU for each class. memcached's queues differ from it: the calibration makes the present
//!   size right, not the others.
//! - A curve assumes that the client stores an item after a miss.
//! - memcached before 1.6.20 does not report deletes: the lookup of a delete counts as a get in the distances.

mod budget;
mod counters;
mod estimates;
pub mod line;
mod options;
mod order;
mod recording;
mod watcher;
mod window;

pub use estimates::{ClassCurve, GROUPS};
pub use options::{Options, TrafficError};
pub use recording::{RecordedAccess, RecordedKind, Recording};
pub use watcher::Cost;

use crate::counters::Counters;
use slabwise_base::clock::unix_time;
use slabwise_base::size_histogram::SizeHistogram;
use slabwise_base::{Clock, KeyHasher};
use slabwise_client::Connector;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use watcher::{State, Watcher, lock};

/// An observation of a server, with a thread and connections of its own. Dropping it ends the thread.
#[derive(Debug)]
pub struct Traffic {
    shared: Arc<Mutex<State>>,
    /// Dropping the sender stops the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    /// Starts to observe the server. The reply timeout of the connector does not apply to the lines of `watch`. An error of the connection ends the observation later, see [`Traffic::error`].
    pub fn start(connector: &Connector, options: Options) -> Result<Traffic, TrafficError> {
        let mut state = State::default();
        state.estimates.recording = Recording::new(options.recorded_max);
        let shared = Arc::new(Mutex::new(state));
        let (stop, stopped) = mpsc::channel();
        let watcher = Watcher {
            connector: connector.clone(),
            options,
            shared: Arc::clone(&shared),
            stop: stopped,
            // The seed is unknown to the clients of the server, so they cannot choose which keys are sampled.
            hasher: KeyHasher::new(unix_time().as_nanos() as u64),
            clock: Clock::real(),
        };
        let thread = thread::Builder::new().name("traffic".to_owned()).spawn(move || watcher.run());
        let thread = thread.map_err(TrafficError::Thread)?;
        Ok(Traffic { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the curve of each class that had a reference. Waits while the thread processes the lines of one read.
    pub fn curves(&self) -> Vec<ClassCurve> {
        let state = lock(&self.shared);
        state.estimates.curves(state.counted.classes(), state.counted.misses())
    }

    /// Returns the curves without the keys of each of the [`GROUPS`] groups.
    pub fn curves_without_groups(&self) -> [Vec<ClassCurve>; GROUPS] {
        let state = lock(&self.shared);
        let (classes, misses) = (state.counted.classes(), state.counted.misses());
        std::array::from_fn(|group| state.estimates.curves_without(group, classes, misses))
    }

    /// Returns the recorded accesses, and forgets them.
    pub fn take_recording(&self) -> Recording {
        std::mem::take(&mut lock(&self.shared).estimates.recording)
    }

    /// Returns the misses of keys that no store followed, as a share of all misses. These misses belong to no class.
    pub fn unknown_miss_share(&self) -> f64 {
        lock(&self.shared).estimates.unknown_miss_share()
    }

    /// Returns the sizes of the items of the keys of each window: header, key and value without the client's flags. If
    /// keys are sampled, these are the sampled keys.
    pub fn item_sizes(&self) -> SizeHistogram {
        lock(&self.shared).estimates.sizes().clone()
    }

    /// Returns what watching has cost so far.
    pub fn cost(&self) -> Cost {
        lock(&self.shared).cost
    }

    /// Returns the last reading of the counters, and the time from the start until then.
    pub fn last(&self) -> Option<(Counters, Duration)> {
        let state = lock(&self.shared);
        let reading = state.counted.last()?;
        Some((reading.counters.clone(), state.cost.elapsed))
    }

    /// Returns the error that ended the observation, and forgets it. `None` while the observation runs.
    pub fn error(&self) -> Option<TrafficError> {
        lock(&self.shared).error.take()
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
    }
}
