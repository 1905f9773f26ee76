//! The state that all threads share. To serve a get or a set, a worker only reads relaxed atomics of this state and
//! takes no lock of it, unless an option such as `-D` or `-o cost=measured` or a watcher requires more.

mod connections;
mod crawls;
mod durations;
mod key_observers;
mod key_samples;
mod measured_costs;
mod notifier;
mod pause;
mod prefixes;
mod replies;
mod state;
mod uploads;
mod watch;
mod worker_context;

pub use connections::{
    Address, Client, ClientState, ConnectionCounts, ConnectionTable, TrafficCounts,
};
pub use crawls::{CrawlStep, CrawlTicket};
pub use durations::{COMMAND_NAMES, DurationCounts};
pub use key_samples::{KEY_SAMPLES_SIZE_BYTES, KeyBuffer};
pub use measured_costs::MeasuredCosts;
pub use notifier::{BackgroundThread, WakeReason};
pub(crate) use prefixes::PREFIX_COUNT_MAX;
pub(crate) use replies::{
    BUFFERED_BYTES_MAX, BUFFERED_BYTES_MIN, PINNED_VALUE_LEN_MIN, SHARE_BYTES_MIN,
};
pub use replies::{ReplyBytes, SLOW_NANOS_MIN};
pub use state::{Shared, Wake};
pub use uploads::UploadTicket;
pub(crate) use watch::WATCHERS_MAX;
pub use watch::{CloseReason, WatchCounts, WatchEvent, WatchLog, Watcher};
pub(crate) use worker_context::READ_BUFFER_BYTES;
pub use worker_context::{RoundCounts, WorkerContext};
