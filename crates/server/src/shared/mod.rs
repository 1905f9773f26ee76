//! The state that all threads share. A get or a set performs only relaxed loads here.

mod connections;
mod crawls;
mod measured_costs;
mod notifier;
mod prefixes;
mod state;
mod watch;

pub use connections::{
    Address, Client, ClientState, ConnectionCounts, ConnectionTable, TrafficCounts,
};
pub use crawls::{CrawlStep, CrawlTicket};
pub use measured_costs::MeasuredCosts;
pub use notifier::{Driver, WakeReason};
pub(crate) use state::READ_BUFFER_BYTES;
pub use state::{Served, Shared, Wake, WorkerContext};
pub use watch::{CloseReason, WatchCounts, WatchEvent, WatchLog, Watcher};
