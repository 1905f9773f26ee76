//! What all threads share. Nothing here is on the way of a get or a set but relaxed loads.

mod bell;
mod connections;
mod crawls;
mod measured_costs;
mod prefixes;
mod state;
mod watch;

pub use bell::{Driver, Woken};
pub use connections::{Address, Client, ClientState, ConnectionCounts, Roster, TrafficCounts};
pub use crawls::{CrawlStep, CrawlTicket};
#[cfg(test)]
pub use measured_costs::MeasuredCosts;
pub(crate) use state::READ_BUFFER_BYTES;
pub use state::{Served, Shared, Wake, WorkerContext};
pub use watch::{CloseReason, WatchCounts, WatchEvent, WatchLog, Watcher};
