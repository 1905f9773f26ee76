//! The faults, one row each in [`FAULTS`]. Several threads draw faults and cause them while the clients run.
//!
//! Every fault counts the times that it really happened, in [`Scene::count`]. A run of a campaign fails if a fault never
//! happened, although a server that can have it ran for some rounds.

mod admin;
pub mod process;
mod readers;
mod slow;
mod sockets;

use crate::memory_directory;
use crate::server::{Configuration, Host, console};
use crate::world::{Epoch, World};
use slabwise_base::Random;
use slabwise_client::{ClientError, Connection};
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

/// A kind of fault.
pub struct Fault {
    /// The name, in the table at the end of a run.
    pub name: &'static str,
    /// How often the fault is drawn, relative to the others.
    pub weight: u64,
    /// The servers that can have the fault.
    pub servers: Servers,
    /// Causes the fault once, and returns after it.
    pub cause: Cause,
}

/// The servers that can have a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// slabwise and memcached.
    Both,
    /// Only slabwise.
    Slabwise,
    /// Both, with a memory file.
    WithMemoryFile,
    /// Only slabwise, with TLS.
    SlabwiseWithTls,
    /// Only slabwise, with a memory file, and only if the campaign can mount file systems.
    SlabwiseWithMounts,
}

/// One of this number of draws selects a fault that has not happened yet.
const MISSING_ONE_IN: u64 = 20;
/// A fault that takes this time is reported.
const LONG_FAULT_SECONDS: u64 = 8;

/// Every fault.
static FAULTS: &[Fault] = &[
    row("slow sender", 20, Servers::Both, slow::send_bytewise),
    row("stalled upload", 16, Servers::Both, slow::stall_upload),
    row("client that reads nothing", 8, Servers::Both, readers::read_nothing),
    row("client that reads slowly", 12, Servers::Both, readers::read_slowly),
    row("dump or watcher without a reader", 8, Servers::Both, readers::read_no_lines),
    row("half-closed connection", 30, Servers::Both, sockets::half_close),
    row("reset connection", 40, Servers::Both, sockets::reset),
    row("garbage", 40, Servers::Both, sockets::send_garbage),
    row("stopped process", 4, Servers::Both, process::stop_for_a_while),
    row("killed process", 1, Servers::Both, process::kill),
    row("terminated process", 1, Servers::Both, process::terminate),
    row("warm restart", 2, Servers::WithMemoryFile, process::restart_warm),
    row("full file system", 1, Servers::SlabwiseWithMounts, process::fill_file_system),
    row("limit of connections", 2, Servers::Both, process::exhaust_connections),
    row("limit of descriptors", 2, Servers::Both, process::exhaust_descriptors),
    row("page move", 100, Servers::Both, admin::move_page),
    row("class table", 20, Servers::Slabwise, admin::set_classes),
    row("automove level", 8, Servers::Both, admin::set_automove),
    row("flush", 3, Servers::Both, admin::flush),
    row("changed settings", 20, Servers::Both, admin::change_settings),
    row("memory limit", 8, Servers::Both, admin::change_memory_limit),
    row("clock jump", 8, Servers::Slabwise, admin::jump_clock),
    row("paused clock", 3, Servers::Slabwise, admin::pause_clock),
    row("new certificate", 4, Servers::SlabwiseWithTls, admin::refresh_certificates),
    row("pinned items", 15, Servers::Slabwise, admin::pin_items),
];

/// True if the option `--faults` selects the fault: its name contains the text, or not the text after `!`.
fn is_selected(name: &str, option: &str) -> bool {
    match option.strip_prefix('!') {
        Some(text) => !name.contains(text),
        None => name.contains(option),
    }
}

/// Returns the faults that a server with this configuration can have, and that `--faults` selects.
pub fn possible(
    configuration: &Configuration,
    is_memcached: bool,
    only: &str,
) -> impl Iterator<Item = &'static Fault> {
    let Configuration { has_memory_file, has_tls, .. } = *configuration;
    FAULTS
        .iter()
        .filter(move |fault| match fault.servers {
            Servers::Both => true,
            Servers::Slabwise => !is_memcached,
            Servers::WithMemoryFile => has_memory_file,
            Servers::SlabwiseWithTls => !is_memcached && has_tls,
            Servers::SlabwiseWithMounts => {
                !is_memcached && has_memory_file && memory_directory::can_mount()
            }
        })
        .filter(move |fault| is_selected(fault.name, only))
}

type Cause = for<'s, 'w> fn(&'s mut Scene<'w>) -> Result<(), FaultError>;

const fn row(name: &'static str, weight: u64, servers: Servers, cause: Cause) -> Fault {
    Fault { name, weight, servers, cause }
}

/// An error that ends a fault early.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// The connection failed, which is possible while another fault disrupts the server.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The connection failed, which is possible while another fault disrupts the server.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server is down.
    #[error("the server is down")]
    Down,
    /// The server did something wrong.
    #[error("{0}")]
    Wrong(String),
}

impl FaultError {
    /// True if a disruption since this epoch explains the error. Only the end of the process explains a timeout.
    fn is_possible(&self, world: &World, epoch: Epoch) -> bool {
        use ClientError::{ReadTimeout, ReplyTimeout};
        match self {
            FaultError::Down => true,
            FaultError::Wrong(text) => {
                text.contains("Too many open connections")
                    && world.refusals.were_active_since(epoch.refusals)
            }
            FaultError::Client(ReadTimeout | ReplyTimeout) => {
                world.restarts.were_active_since(epoch.restarts)
            }
            FaultError::Client(_) | FaultError::Io(_) => world.was_disrupted_since(epoch),
        }
    }
}

/// What a fault needs.
pub struct Scene<'a> {
    pub world: &'a World,
    pub host: &'a Mutex<Host>,
    pub memory_mib: u64,
    /// Only faults whose name contains this text happen.
    pub only: &'a str,
    pub slot: usize,
    pub random: Random,
    pub name: &'static str,
}

impl Scene<'_> {
    /// Counts that the fault happened.
    pub fn count(&self) {
        self.world.counts.fault(self.name);
    }

    /// Returns the address of the server.
    pub fn address(&self) -> Result<SocketAddr, FaultError> {
        self.world.endpoint().address.ok_or(FaultError::Down)
    }

    /// Opens a connection for administrative commands.
    pub fn console(&self) -> Result<Connection, FaultError> {
        Ok(console(self.address()?, self.world.reply_timeout)?)
    }

    /// Waits for a time, but at most until the gate is closed.
    pub fn wait(&self, time: Duration) {
        let clock = &self.world.clock;
        let end = clock.nanos() + time.as_nanos() as u64;
        while clock.nanos() < end && !self.world.gate.is_closed() {
            self.world.pause(Duration::from_millis(2));
        }
    }

    /// Draws a fault by its weight. Some draws select a fault that has not happened yet, so that none is missing.
    fn draw(&mut self, possible: &[&'static Fault], total: u64) -> Option<&'static Fault> {
        if self.random.below(MISSING_ONE_IN) == 0 {
            let is_missing = |fault: &&&Fault| self.world.counts.fault_count(fault.name) == 0;
            let missing: Vec<_> = possible.iter().filter(is_missing).collect();
            if !missing.is_empty() {
                return Some(missing[self.random.below(missing.len() as u64) as usize]);
            }
        }
        let mut at = self.random.below(total);
        possible.iter().copied().find(|fault| {
            let is_found = at < fault.weight;
            at = at.saturating_sub(fault.weight);
            is_found
        })
    }

    /// Causes random faults until the campaign ends.
    pub fn run(mut self) {
        let configuration =
            self.host.lock().expect("no thread panics with this lock").configuration.clone();
        let possible: Vec<&Fault> =
            possible(&configuration, self.world.is_memcached, self.only).collect();
        let total: u64 = possible.iter().map(|fault| fault.weight).sum();
        self.world.gate.enter();
        while !self.world.gate.has_ended() {
            self.world.gate.pass();
            let Some(fault) = self.draw(&possible, total) else { continue };
            self.name = fault.name;
            let epoch = self.world.epoch();
            let start = self.world.clock.nanos();
            let result = (fault.cause)(&mut self);
            let seconds = self.world.clock.nanos().saturating_sub(start) / 1_000_000_000;
            if seconds >= LONG_FAULT_SECONDS {
                println!("  the fault '{}' took {seconds} s", fault.name);
            }
            if let Err(error) = result
                && !error.is_possible(self.world, epoch)
            {
                self.world.fail(format!("{}: {error}", fault.name));
            }
            let pause = self.random.below(100);
            self.wait(Duration::from_millis(pause));
        }
        self.world.gate.leave();
    }
}
