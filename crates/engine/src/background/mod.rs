//! What is done beside the traffic: bounded steps, a check of every invariant, and the restart.

pub mod check;
mod crawler;
pub mod maintainer;
pub mod restart;

pub use crawler::{CrawlStep, CrawledItem, Crawler};
pub use restart::{ColdReason, MemoryFile, Progress, RestartError, Start, Stop, Warm};
