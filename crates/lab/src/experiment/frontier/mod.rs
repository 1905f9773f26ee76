//! `frontier`: how much of what lies between memcached and who knows the future does a server reach?
//!
//! ```text
//!   requests --> catalog --> distinct bytes --> memory limits
//!      |             '-----> simulations (lru ... belady_size) of as many bytes --\
//!      '--> engine + tuner as a server has them, and as memcached ------------------+--> miss ratios, gap closed
//! ```
//!
//! The gap is what memcached misses more than `belady_size`; over several limits gaps are summed. A limit that memcached
//! cannot keep (every class takes its first page beyond it) is left out of the sum, and its row says so.
//!
//! Laws: all see the same requests; a stream's requests are held once, 24 bytes each, and its runs share them.

mod setup;

#[cfg(test)]
mod tests;

pub use setup::FrontierSetup;

use super::kind::{Experiment, Job};
use crate::result::{Figure, Outcome, measures};
use crate::simulation::{self, Catalog};
use crate::trial::error::ExperimentError;
use crate::trial::served::{Served, ServedSetup, VALUE_LEN_MAX};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use setup::{Finding, ServerSetup, StreamSetup};
use slabwise_engine::Engine;
use slabwise_replay::KEY_SIZE_BYTES;
use slabwise_replay::workload::Request;
use std::path::Path;

/// What memcached may take beyond its limit where its misses are compared.
const EXCESS_MAX: f64 = 1.05;

/// The simulation that knows the future.
const BOUND: &str = "belady_size";

measures! {
    MISS_RATIO: "miss_ratio", "miss ratio", "%", Fixed;
    GAP_CLOSED: "gap_closed", "of the gap to belady_size, closed", "%", Fixed;
}

impl Experiment for FrontierSetup {
    fn has_live(&self) -> bool {
        true
    }

    fn add_traces(
        &mut self,
        figures: &mut Vec<Figure>,
        directory: &Path,
    ) -> Result<bool, ExperimentError> {
        setup::add(self, figures, directory)?;
        Ok(true)
    }

    /// In the process; of a live run the first server is a real memcached.
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (size, is_live) = (job.size(), job.live);
        let setup = &at_scale(self, job.scale, outcome);
        let mut all = Gaps::default();
        for stream in &setup.streams {
            let bar = job.progress.spinner(&stream.name);
            let (requests, catalog) = match read(setup, stream, size) {
                Ok(read) => read,
                Err(ExperimentError::Workload(fault)) => {
                    bar.finish_and_clear();
                    outcome.add(MISS_RATIO, &stream.name, Err(fault.to_string()));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let limits: Vec<u64> = setup
                .memory_percent
                .iter()
                .map(|percent| (catalog.distinct_bytes() as f64 * percent / 100.0) as u64)
                .collect();
            let names = setup.names();
            let mut findings = Vec::new();
            if is_live {
                for &limit in &limits {
                    findings.push(setup::go(stream, limit, size)?);
                }
            }
            let rest = &names[usize::from(is_live)..];
            findings.extend(in_process(setup, rest, &limits, (&requests, &catalog), job.seed)?);
            bar.finish_and_clear();
            outcome.choose(
                &stream.name,
                format!(
                    "{} gets of {} keys of {} MiB",
                    catalog.references().len(),
                    catalog.key_count(),
                    catalog.distinct_bytes() >> 20,
                ),
            );
            let findings: Vec<&[Finding]> = findings.chunks(limits.len()).collect();
            add(outcome, setup, &stream.name, &names, &findings);
            let gaps = Gaps::of(setup, &findings);
            add_gaps(outcome, setup, &stream.name, &gaps);
            all.add(&gaps);
        }
        add_gaps(outcome, setup, "all", &all);
        Ok(())
    }
}

/// What is run at a scale, with what a reader has to know of it.
fn at_scale(setup: &FrontierSetup, scale: f64, outcome: &mut Outcome) -> FrontierSetup {
    let memcached = match outcome.live {
        true => "a real one by the wire, its limit cut to whole mebibytes",
        false => "this engine set up as memcached, in the process",
    };
    outcome.choose(&setup.servers[0].name, memcached);
    outcome.choose("key", format!("{KEY_SIZE_BYTES} bytes"));
    outcome.choose("longest value", format!("cut to {VALUE_LEN_MAX} bytes"));
    outcome
        .choose("simulations", format!("{} bytes beside key and value", setup.item_overhead_bytes));
    let mut setup = setup.clone();
    let left_out = setup.servers.extract_if(.., |server| server.scale_min > scale);
    for server in left_out {
        outcome.choose(&server.name, format!("from a scale of {} on", server.scale_min));
    }
    setup
}

/// Of each of these names under each limit, in that order.
fn in_process(
    setup: &FrontierSetup,
    names: &[&str],
    limits: &[u64],
    (requests, catalog): (&[Request], &Catalog),
    seed: u64,
) -> Result<Vec<Finding>, ExperimentError> {
    let pairs: Vec<(&str, u64)> =
        names.iter().flat_map(|&name| limits.iter().map(move |&limit| (name, limit))).collect();
    let run = |(name, limit)| match setup.servers.iter().find(|server| server.name == name) {
        Some(server) => served(setup, server, requests, limit, seed),
        None => simulated(name, catalog, limit),
    };
    pairs.into_par_iter().map(run).collect()
}

fn read(
    setup: &FrontierSetup,
    stream: &StreamSetup,
    (scale, seed): (f64, u64),
) -> Result<(Vec<Request>, Catalog), ExperimentError> {
    let workload = stream.open(scale, seed)?;
    let (mut requests, mut catalog) = (Vec::new(), Catalog::default());
    for request in workload {
        let request = request?;
        let beside_value = KEY_SIZE_BYTES as u32 + setup.item_overhead_bytes;
        catalog.add(&request, request.value_len + beside_value);
        requests.push(request);
    }
    Ok((requests, catalog))
}

fn served(
    setup: &FrontierSetup,
    server: &ServerSetup,
    requests: &[Request],
    limit_bytes: u64,
    seed: u64,
) -> Result<Finding, ExperimentError> {
    let set_up = ServedSetup {
        is_memcached: server.is_memcached,
        policy: &server.policy,
        eviction: server.eviction,
        mover: server.mover,
        operations_per_second: setup.operations_per_second,
        visit_ns: setup.visit_ns,
    };
    let engine = match Engine::new(set_up.engine_config(limit_bytes, seed)) {
        Ok(engine) => engine,
        Err(error) => {
            return Ok(Finding { miss_ratio: Err(error.to_string()), memory_share: 1.0 });
        }
    };
    let mut served = Served::new(&set_up, &engine)?;
    served.serve(requests);
    Ok(Finding {
        miss_ratio: Ok(served.misses as f64 / served.gets.max(1) as f64),
        memory_share: served.held_bytes() as f64 / limit_bytes as f64,
    })
}

fn simulated(name: &str, catalog: &Catalog, limit_bytes: u64) -> Result<Finding, ExperimentError> {
    let ratio = simulation::miss_ratio(name, catalog, limit_bytes);
    let unknown = || {
        let known = simulation::NAMES.join(", ");
        ExperimentError::Option(format!("simulation {name}: choose one of {known}"))
    };
    Ok(Finding { miss_ratio: Ok(ratio.ok_or_else(unknown)?), memory_share: 1.0 })
}

fn add(
    outcome: &mut Outcome,
    setup: &FrontierSetup,
    stream: &str,
    names: &[&str],
    findings: &[&[Finding]],
) {
    for (name, findings) in names.iter().zip(findings) {
        let mut points = Vec::new();
        for (percent, finding) in setup.memory_percent.iter().zip(*findings) {
            let variant = format!("{stream}, {percent} %: {name}");
            let ratio = finding.miss_ratio.clone().map(|ratio| ratio * 100.0);
            // More memory than the limit is another point of the curve.
            if let (Ok(ratio), true) = (&ratio, finding.memory_share <= EXCESS_MAX) {
                points.push((*percent, *ratio));
            }
            outcome.add(MISS_RATIO, &variant, ratio);
            if finding.miss_ratio.is_ok() && finding.memory_share > EXCESS_MAX {
                let share = finding.memory_share * 100.0;
                outcome.note(format!("its pages take {share:.0} % of the limit: not compared"));
            }
        }
        let variant = format!("{stream}: {name}");
        let units = ["% of what all keys take", MISS_RATIO.unit];
        outcome.draw(MISS_RATIO.text, variant, units, points);
    }
}

/// Sums over limits: the whole gap, and what each server and simulation closes of it.
#[derive(Default)]
struct Gaps {
    whole: f64,
    closed: Vec<f64>,
    limits: usize,
    left_out: usize,
}

impl Gaps {
    /// From the first of the servers to the bound; without one there is no gap.
    fn of(setup: &FrontierSetup, findings: &[&[Finding]]) -> Gaps {
        let mut gaps = Gaps { closed: vec![0.0; findings.len()], ..Gaps::default() };
        let best = setup.names().iter().position(|&name| name == BOUND);
        let Some(best) = best.map(|place| findings[place]) else { return gaps };
        for limit in 0..setup.memory_percent.len() {
            let ratios: Result<Vec<f64>, String> =
                findings.iter().map(|all| all[limit].miss_ratio.clone()).collect();
            let (Ok(ratios), Ok(best)) = (ratios, &best[limit].miss_ratio) else {
                gaps.left_out += 1;
                continue;
            };
            if findings.iter().any(|all| all[limit].memory_share > EXCESS_MAX) {
                gaps.left_out += 1;
                continue;
            }
            gaps.limits += 1;
            gaps.whole += ratios[0] - best;
            for (closed, ratio) in gaps.closed.iter_mut().zip(&ratios) {
                *closed += ratios[0] - ratio;
            }
        }
        gaps
    }

    fn add(&mut self, other: &Gaps) {
        self.whole += other.whole;
        self.limits += other.limits;
        self.left_out += other.left_out;
        self.closed.resize(other.closed.len(), 0.0);
        for (closed, more) in self.closed.iter_mut().zip(&other.closed) {
            *closed += more;
        }
    }
}

fn add_gaps(outcome: &mut Outcome, setup: &FrontierSetup, stream: &str, gaps: &Gaps) {
    let others = setup.names().into_iter().zip(&gaps.closed).skip(1);
    for (name, closed) in others.filter(|&(name, _)| name != BOUND) {
        let variant = format!("{stream}: {name}");
        if gaps.whole <= 0.0 {
            let why = "no memory limit at which the first server keeps its limit and misses more";
            outcome.add(GAP_CLOSED, &variant, Err(why.to_owned()));
            continue;
        }
        outcome.add(GAP_CLOSED, &variant, Ok(closed / gaps.whole * 100.0));
        let Gaps { limits, left_out, .. } = gaps;
        outcome.note(format!("summed over {limits} memory limits, {left_out} left out"));
    }
}
