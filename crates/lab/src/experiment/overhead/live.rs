//! `overhead` on real servers: the throughput of `page_policy=lama` with a full profile, compared with a server that
//! neither profiles nor moves pages.
//!
//! ```text
//!   for each number of server threads:
//!     client threads --rounds in turn--> server without profile
//!                                    '-> server with lama
//! ```
//!
//! In each round, all client threads send the same number of requests to one of the servers, and then to the other.
//! The server that comes first changes from round to round. The result is the median over the rounds of the throughput
//! loss. Clients and servers share the machine, so the loss includes the processor time that the profile takes from
//! the clients.

use crate::experiment::kind::Job;
use crate::result::{Outcome, format_number, mean, measures};
use crate::trial::error::ExperimentError;
use crate::trial::setup::{WorkloadSetup, scaled};
use crate::vtime::median;
use crate::wire::Server;
use serde::Deserialize;
use slabwise_base::Clock;
use slabwise_client::ServerAddress;
use slabwise_replay::{Pace, drive, ignore_round};

measures! {
    THROUGHPUT: "live_throughput", "requests per second", "requests/s", Fixed;
    LOSS: "live_throughput_loss", "throughput loss, median of the rounds", "%", Fixed;
    RECORDED: "live_accesses_recorded", "accesses recorded by the profile, in percent of gets and sets", "%", Fixed;
}

/// The variant of the row with the mean over all numbers of threads.
const ALL_THREADS: &str = "lama, mean over the numbers of threads";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveSetup {
    /// The numbers of threads of the servers.
    pub server_threads: Vec<usize>,
    pub client_threads: usize,
    /// Number of connections of a client thread.
    pub connections: usize,
    /// Number of requests of a connection that are sent together.
    pub batch: usize,
    pub rounds: usize,
    /// Number of requests of a client thread in a round, at scale 1.
    pub requests_per_round: u64,
    pub workload: WorkloadSetup,
    /// The command of the server without a profile.
    pub without: Vec<String>,
    /// The command of the server with `lama`.
    pub with: Vec<String>,
}

/// Adds the row of the published value to the result of a run without `--live`.
pub fn add_unmeasured(outcome: &mut Outcome) {
    outcome.add(LOSS, ALL_THREADS, Err("measured only with --live".to_owned()));
}

/// Measures all numbers of threads, with servers of this memory limit, and adds the conditions and rows to the outcome.
pub fn run(
    live: &LiveSetup,
    memory_mib: u64,
    job: &Job<'_>,
    outcome: &mut Outcome,
) -> Result<(), ExperimentError> {
    let requests = format_number(scaled(live.requests_per_round, job.scale) as f64);
    outcome.add_setup("server without profile", live.without.join(" "));
    outcome.add_setup("server with lama", live.with.join(" "));
    let clients = format!(
        "{} threads, each with {} connections and {} requests at a time on each connection",
        live.client_threads, live.connections, live.batch
    );
    outcome.add_setup("clients", clients);
    let rounds = format!("{} of {requests} requests of each client thread", live.rounds);
    outcome.add_setup("rounds", rounds);
    let mut losses = Vec::new();
    for &threads in &live.server_threads {
        let name = format!("{threads} server threads");
        let Pair { per_second, recorded_percent } = measure(live, memory_mib, job, threads)?;
        let [without, with] = &per_second;
        let rounds = without.iter().zip(with);
        let loss = median(rounds.map(|(without, with)| (1.0 - with / without) * 100.0).collect());
        outcome.add(THROUGHPUT, &format!("without profiling, {name}"), Ok(median(without.clone())));
        outcome.add(THROUGHPUT, &format!("lama, {name}"), Ok(median(with.clone())));
        outcome.add(LOSS, &format!("lama, {name}"), Ok(loss));
        outcome.add(RECORDED, &format!("lama, {name}"), Ok(recorded_percent));
        losses.push(loss);
    }
    outcome.add(LOSS, ALL_THREADS, Ok(mean(&losses)));
    Ok(())
}

/// The measurements of the two servers with one number of threads.
struct Pair {
    /// Requests per second of each round, without profile and with `lama`.
    per_second: [Vec<f64>; 2],
    /// The gets and sets that the profile of `lama` recorded, in percent.
    recorded_percent: f64,
}

fn measure(
    live: &LiveSetup,
    memory_mib: u64,
    job: &Job<'_>,
    threads: usize,
) -> Result<Pair, ExperimentError> {
    let start = |command: &[String]| {
        let threads = ["-t".to_owned(), threads.to_string()];
        Server::start(&[command, &threads].concat(), memory_mib)
    };
    let mut servers = [start(&live.without)?, start(&live.with)?];
    let spinner = job.progress.spinner(&format!("{threads} server threads"));
    // The first round fills the caches, and does not count.
    for server in &servers {
        round(live, job, &server.address(), scaled(live.workload.first_phase_requests, job.scale))?;
    }
    let accesses_before = accesses(&mut servers[1])?;
    let mut per_second: [Vec<f64>; 2] = Default::default();
    let requests = scaled(live.requests_per_round, job.scale);
    for number in 0..live.rounds {
        for place in 0..2 {
            let index = (number + place) % 2;
            per_second[index].push(round(live, job, &servers[index].address(), requests)?);
        }
    }
    let accesses = accesses(&mut servers[1])?;
    let since = |index: usize| accesses[index] - accesses_before[index];
    spinner.finish_and_clear();
    Ok(Pair { per_second, recorded_percent: since(0) / since(1).max(1.0) * 100.0 })
}

/// Returns the number of accesses that the profile of the server has recorded, and the number of gets and sets.
fn accesses(server: &mut Server) -> Result<[f64; 2], ExperimentError> {
    let recorded = server.statistic("stats profile", "accesses")?;
    let gets = server.statistic("stats", "cmd_get")?;
    Ok([recorded, gets + server.statistic("stats", "cmd_set")?])
}

/// Sends `requests` requests from each client thread to a server. Returns the number of requests per second.
fn round(
    live: &LiveSetup,
    job: &Job<'_>,
    address: &ServerAddress,
    requests: u64,
) -> Result<f64, ExperimentError> {
    let clock = Clock::real();
    let pace = Pace { connections: live.connections, batch: live.batch, ..Pace::default() };
    let workload = WorkloadSetup { requests, ..live.workload.clone() };
    let began_nanos = clock.moment().nanos;
    std::thread::scope(|scope| {
        let client = |seed| -> Result<(), ExperimentError> {
            // The number of requests is already that of the run's scale.
            let requests =
                WorkloadSetup { scale: live.workload.scale * job.scale, ..workload.clone() };
            drive(address, requests.open(1.0, seed)?, &pace, &clock, ignore_round)?;
            Ok(())
        };
        // Every client thread has its own requests, but all threads have the same keys.
        let seeds = (0..live.client_threads as u64).map(|thread| job.seed + thread);
        let threads: Vec<_> = seeds.map(|seed| scope.spawn(move || client(seed))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    let seconds = (clock.moment().nanos - began_nanos) as f64 / 1e9;
    Ok((requests * live.client_threads as u64) as f64 / seconds)
}
