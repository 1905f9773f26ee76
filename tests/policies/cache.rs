//! A server with a small cache, and a client that sends traffic in rounds.
//!
//! A round is a number of gets. After it, the clock of the server can advance, so that policies with steps by time take
//! the same number of steps on every machine. Then the client waits until no page moves.

use std::time::Duration;

use slabwise_base::Clock;
use slabwise_client::ServerAddress;
use slabwise_replay::{CostForm, Pace, Report, drive, ignore_round};

use super::traffic::Traffic;
use crate::support::{Client, Server, built_slabwise, wait_until};

/// The time within which the moves of a round must end.
const MOVES_DEADLINE: Duration = Duration::from_secs(60);
/// The memory of every cache: 128 pages of 16 KiB.
const MEMORY_BYTES: u64 = 2 << 20;
/// The number of items of each length that fill all pages.
pub const SMALL_ITEMS: u64 = MEMORY_BYTES / 256;
pub const LARGE_ITEMS: u64 = MEMORY_BYTES / 1024;

/// Sends traffic to a server. Several threads can use one sender.
pub struct Sender {
    address: ServerAddress,
    clock: Clock,
}

impl Sender {
    /// Sends gets, and a set after each miss. Checks the value of each hit.
    pub fn send(&self, traffic: &mut Traffic, gets: usize) -> Report {
        let pace = Pace { batch: 64, cost_form: CostForm::Meta, ..Pace::default() };
        drive(&self.address, traffic.next(gets), &pace, &self.clock, ignore_round)
            .unwrap_or_else(|error| panic!("the server replies with the stored values: {error}"))
    }
}

/// A server and its clients.
pub struct Cache {
    /// Dropping the server ends its process.
    _server: Server,
    client: Client,
    sender: Sender,
}

impl Cache {
    /// Starts a server with these options of `-o`.
    pub fn start(options: &str) -> Cache {
        let sizes = "classes=geometric,slab_sizes=256-1024,page_size=16k,slab_chunk_max=1";
        let options = format!("{sizes},debug_commands,no_lru_crawler,{options}");
        let flags = ["-m", "2", "-I", "1024", "-t", "2", "-o", &options];
        let server = Server::start(&built_slabwise().with(&flags));
        let client = server.connect();
        let address = server.address().to_string().parse();
        let address = address.expect("a socket address is a server address");
        Cache { _server: server, client, sender: Sender { address, clock: Clock::real() } }
    }

    /// Returns the sender of traffic to this server.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Returns the client for other commands.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Sends a round of gets, advances the server's clock, and waits until no page moves. Returns the cost of the misses
    /// in percent of the cost of all gets: the miss ratio if items have no costs.
    pub fn round(&mut self, traffic: &mut Traffic, gets: usize, seconds: u32) -> f64 {
        let report = self.sender.send(traffic, gets);
        if seconds > 0 {
            assert_eq!(self.client.ask(&format!("debugtime {seconds}")), "OK");
        }
        let client = &mut self.client;
        wait_until("the page moves of the round end", MOVES_DEADLINE, || {
            client.stat("slab_reassign_running") == 0
        });
        report.cost_ratio * 100.0
    }

    /// Returns the number of pages that have moved.
    pub fn pages_moved(&mut self) -> u64 {
        self.client.stat("slabs_moved")
    }
}
