//! What all threads share. Nothing here is on the way of a get or a set but relaxed loads.

mod baseline;
mod bell;
mod counters;
mod crawls;
mod measured_costs;
mod prefixes;
mod roster;
mod state;
mod watch;

pub use baseline::Baseline;
pub use bell::{Bell, Driver, Woken};
pub use counters::{ConnectionCounters, ConnectionCounts, Traffic, TrafficCounters, TrafficCounts};
pub use crawls::{CrawlStep, CrawlTicket, Crawls};
pub use measured_costs::MeasuredCosts;
pub use prefixes::PrefixStats;
pub use roster::{Address, Client, ClientState, Roster};
pub use state::{Shared, Wake};

pub use watch::{
    CloseReason, DeleteCommand, FetchStatus, StoreStatus, WatchCounts, WatchEvent, WatchLog,
    Watcher,
};
