//! What all threads share. Nothing here is on the way of a get or a set but relaxed loads.

mod bell;
mod connections;
mod crawls;
mod measured_costs;
mod prefixes;
mod state;
mod watch;

pub use bell::{Bell, Driver, Woken};
pub use connections::{
    Address, Client, ClientState, ConnectionCounters, ConnectionCounts, Roster, Traffic,
    TrafficCounters, TrafficCounts,
};
pub use crawls::{CrawlStep, CrawlTicket, Crawls};
pub use measured_costs::MeasuredCosts;
pub use prefixes::PrefixStats;
pub use state::{Baseline, Shared, Wake};
pub use watch::{
    CloseReason, DeleteCommand, FetchStatus, StoreStatus, WatchCounts, WatchEvent, WatchLog,
    Watcher,
};
