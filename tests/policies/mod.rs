//! What each page policy, eviction kind and mover is known for, on a server with real clients.
//!
//! ```text
//!   pages, evictions: tables of rows --> rows: runs a row next to the reference --> scenario: the score of a server
//!                                                                                      |
//!   page_scenarios, eviction_scenarios                       traffic: a stream of gets --> cache: a server and rounds
//! ```
//!
//! A new policy, eviction kind or mover needs a row for its strength and a row for its weakness.

mod cache;
mod eviction_scenarios;
mod evictions;
mod movers;
mod page_scenarios;
mod pages;
mod rows;
mod scenario;
mod traffic;
