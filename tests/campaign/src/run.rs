//! The course of a campaign: one server after the other, and rounds with a check at the end of each.

use crate::audit::{self, Audit};
use crate::certificates::Certificates;
use crate::checker::Checker;
use crate::client::Client;
use crate::counts::Counts;
use crate::coverage;
use crate::faults::{self, Scene};
use crate::keys::{Keys, Lengths};
use crate::options::Options;
use crate::report;
use crate::server::{Configuration, Host, ServerKind, console};
use crate::udp::{self, UdpClient};
use crate::value::Values;
use crate::world::World;
use slabwise_base::random::mix;
use slabwise_base::{Clock, Random};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::thread::Scope;
use std::time::Duration;

/// The time by which an item may outlive its expiry: the server's clock has whole seconds, and may be late by one.
const EXPIRY_TOLERANCE: Duration = Duration::from_secs(2);
/// The timeout until all clients have stopped at the end of a round.
const QUIET_TIMEOUT: Duration = Duration::from_secs(60);
/// The time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// The number of clients that use UDP.
const UDP_CLIENTS: usize = 1;
/// The number of keys.
const KEYS: u32 = 40_000;

/// A campaign.
pub struct Campaign<'a> {
    pub options: &'a Options,
    pub program: &'a Path,
    pub seed: u64,
    pub is_memcached: bool,
    pub clock: Clock,
    /// The counts of all servers.
    pub counts: Counts,
    /// The names of the faults that must happen, because a server that can have them ran for some rounds.
    pub expected: Mutex<BTreeSet<&'static str>>,
}

/// The duration from which on a campaign must have caused every expected fault, and every kind of request must have
/// succeeded.
const COMPLETE_NANOS_MIN: u64 = 170_000_000_000;
/// The number of rounds of a server from which on every fault that it can have is expected.
const COMPLETE_ROUNDS_MIN: u64 = 3;

impl Campaign<'_> {
    fn scaled(&self, time: Duration) -> Duration {
        time * self.options.slow_factor
    }

    fn has_time(&self) -> bool {
        self.clock.nanos() < self.options.duration.as_nanos() as u64
    }

    /// Runs one server after the other. If a failure was found, returns the number of the server from which on the run
    /// can be repeated.
    pub fn run(&self) -> Result<(), u64> {
        let (mut rounds, mut server) = (0, self.options.first_server);
        while self.has_time() && self.options.rounds.is_none_or(|max| rounds < max) {
            if !self.run_server(server, &mut rounds) {
                return Err(server);
            }
            server += 1;
        }
        let problems = self.missing();
        problems.iter().for_each(|problem| println!("FAILED: {problem}"));
        if problems.is_empty() { Ok(()) } else { Err(self.options.first_server) }
    }

    /// Returns what the campaign should have checked, but did not.
    fn missing(&self) -> Vec<String> {
        let is_complete = self.clock.nanos() >= COMPLETE_NANOS_MIN;
        let mut problems = coverage::problems(&self.counts, is_complete);
        if is_complete {
            let expected = self.expected.lock().expect("no thread panics with this lock");
            let never = expected.iter().filter(|name| self.counts.fault_count(name) == 0);
            problems.extend(never.map(|name| format!("the fault '{name}' never happened")));
        }
        problems
    }

    fn draw_memory_mib(&self, random: &mut Random) -> u64 {
        let drawn = match random.below(20) {
            0..10 => 16,
            10..16 => 64,
            16..19 => 1024,
            _ => 4096,
        };
        self.options.memory.unwrap_or(drawn)
    }

    fn kind(&self) -> ServerKind<'_> {
        match self.is_memcached {
            true => ServerKind::Memcached,
            false => ServerKind::Slabwise { io: self.options.io.as_deref() },
        }
    }

    /// Runs one server for some rounds.
    fn run_server(&self, server: u64, rounds: &mut u64) -> bool {
        let seed = mix(self.seed ^ mix(server));
        let mut random = Random::new(seed);
        let memory_mib = self.draw_memory_mib(&mut random);
        let configuration =
            Configuration::draw(server, self.program, memory_mib, &self.kind(), &mut random);
        println!("server {server}: {}", configuration.describe());
        let lengths = self.lengths(configuration.item_size_max, memory_mib);
        let tolerance = self.scaled(EXPIRY_TOLERANCE).as_nanos() as u64;
        let checker = Checker::new(KEYS, Values::new(seed), tolerance);
        let (clients, threads) = (self.options.clients, self.options.fault_threads);
        let mut host = match Host::start(configuration) {
            Ok(host) => host,
            Err(error) => {
                println!("{error}");
                return false;
            }
        };
        let tls = match host.certificates.as_ref().map(Certificates::client).transpose() {
            Ok(tls) => tls,
            Err(error) => {
                println!("the certificates of the campaign are not valid: {error}");
                return false;
            }
        };
        let world = World::new(
            checker,
            Keys::new(KEYS, 0.9, seed),
            lengths,
            clients + threads + UDP_CLIENTS,
            tls,
            self.scaled(self.options.reply_timeout),
            self.is_memcached,
        );
        world.set_endpoint(host.endpoint());
        let host = Mutex::new(host);
        std::thread::scope(|scope| {
            self.start_threads(scope, &world, &host, memory_mib, &mut random);
            let (mut own, mut audit) = (0, Audit::default());
            while self.has_time()
                && (self.options.server_rounds == 0 || own < self.options.server_rounds)
                && self.options.rounds.is_none_or(|max| *rounds < max)
            {
                self.run_round(&world, &host, &mut audit, &mut random);
                if world.has_failed() {
                    break;
                }
                (own, *rounds) = (own + 1, *rounds + 1);
            }
            world.gate.end();
            if own >= COMPLETE_ROUNDS_MIN {
                if threads > 0 {
                    self.expect_faults(&host);
                }
                if let Some(problem) = self.udp_problem(&world) {
                    world.fail(problem);
                }
            }
        });
        let mut host = host.into_inner().expect("no thread panics with this lock");
        if world.has_failed() {
            println!("server process: {}", host.state());
        }
        if let Err(problem) = host.stop() {
            world.fail(problem);
        }
        self.counts.add(&world.counts);
        print_failures(&world, &host);
        !world.has_failed()
    }

    /// Returns the problem if too many requests by UDP had no reply. Single ones are lost while the process does not run.
    fn udp_problem(&self, world: &World) -> Option<String> {
        let sent = world.counts.fault_count(udp::SENT);
        let answered = world.counts.fault_count(udp::ANSWERED);
        // A slow server replies later than the client waits.
        let is_wrong = answered == 0 || answered * 2 < sent && self.options.slow_factor == 1;
        is_wrong.then(|| format!("only {answered} of {sent} requests by UDP had a reply"))
    }

    /// Records that the faults that the server can have must happen.
    fn expect_faults(&self, host: &Mutex<Host>) {
        let host = host.lock().expect("no thread panics with this lock");
        let possible =
            faults::possible(&host.configuration, self.is_memcached, &self.options.faults);
        let mut expected = self.expected.lock().expect("no thread panics with this lock");
        expected.extend(possible.map(|fault| fault.name));
    }

    /// Starts the threads of clients and faults.
    fn start_threads<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        world: &'s World,
        host: &'s Mutex<Host>,
        memory_mib: u64,
        random: &mut Random,
    ) {
        let (clients, threads) = (self.options.clients, self.options.fault_threads);
        for slot in 0..clients {
            let client = Client::new(world, slot, random.next_u64());
            scope.spawn(move || client.run());
        }
        for slot in clients..clients + threads {
            let random = Random::new(random.next_u64());
            let scene = Scene {
                world,
                host,
                memory_mib,
                only: &self.options.faults,
                slot,
                random,
                name: "",
            };
            scope.spawn(move || scene.run());
        }
        for slot in clients + threads..clients + threads + UDP_CLIENTS {
            let client = UdpClient::new(world, slot, random.next_u64());
            scope.spawn(move || client.run());
        }
    }

    /// Returns the lengths of values for a server with this maximum size of an item, in bytes.
    fn lengths(&self, item_size_max: u64, memory_mib: u64) -> Lengths {
        let item_len_max = item_size_max.min(memory_mib << 19) - 1024;
        Lengths {
            len_max: item_len_max as u32,
            large_one_in: if memory_mib > 64 { 60 } else { 300 },
            huge_one_in: self.options.huge_one_in.unwrap_or(1 + item_len_max / 1000),
        }
    }

    /// Runs clients and faults for a round, stops them, and checks the server.
    fn run_round(&self, world: &World, host: &Mutex<Host>, audit: &mut Audit, random: &mut Random) {
        let seconds = 20 + random.below(20);
        let start = world.clock.nanos();
        let end = start + seconds * 1_000_000_000;
        let mut progress = start + PROGRESS_INTERVAL.as_nanos() as u64;
        while world.clock.nanos() < end && self.has_time() && !world.has_failed() {
            world.pause(Duration::from_millis(50));
            if world.clock.nanos() >= progress {
                progress += PROGRESS_INTERVAL.as_nanos() as u64;
                let mut host = host.lock().expect("no thread panics with this lock");
                report::progress(world, host.resident_bytes());
            }
        }
        if world.has_failed() {
            return report::dump(world);
        }
        world.gate.close();
        let deadline = world.clock.nanos() + self.scaled(QUIET_TIMEOUT).as_nanos() as u64;
        while !world.gate.all_wait() && !world.has_failed() {
            if world.clock.nanos() > deadline {
                return world.fail("the clients did not stop at the end of the round".to_owned());
            }
            world.pause(Duration::from_millis(2));
        }
        if world.has_failed() {
            report::dump(world);
        } else {
            let mut host = host.lock().expect("no thread panics with this lock");
            if let Err(problem) = self.check(world, &mut host, audit) {
                world.fail(problem);
            }
        }
        world.gate.open();
    }

    /// Checks the server while no client is connected.
    fn check(&self, world: &World, host: &mut Host, audit: &mut Audit) -> Result<(), String> {
        let mut console = console(host.address(), world.reply_timeout).map_err(|error| {
            format!("the server does not accept the connection of the check: {error}")
        })?;
        let deadline = world.clock.nanos() + world.reply_timeout.as_nanos() as u64;
        // The server notices that the clients have disconnected a moment later.
        while let Some(problem) = audit::client_trace(world, host, &mut console)? {
            if world.clock.nanos() > deadline {
                return Err(format!("all clients have disconnected, but {problem}"));
            }
            world.pause(Duration::from_millis(5));
        }
        world.checker.settle(world.end());
        audit.check(world, host, &mut console, !self.options.ignore_memory)
    }
}

/// Prints the failures of a server.
fn print_failures(world: &World, host: &Host) {
    for failure in world.failures() {
        println!("\nFAILED: {failure}");
    }
    if world.has_failed() {
        println!("stderr of the server:\n{}", host.stderr());
        println!("server: {}", host.configuration.describe());
    }
}
