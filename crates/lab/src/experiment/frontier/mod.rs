//! `frontier`: compares the misses of servers with those of memcached and of an offline optimum (Belady).
//!
//! ```text
//!   requests --> catalog --> size of all items --> memory limits
//!      |             '-----> simulations (lru ... belady_size) with these limits --\
//!      '--> engine + tuner configured as servers, one as memcached ----------------+--> miss ratios, gap closed
//! ```
//!
//! The *gap* at a memory limit is the miss ratio of memcached minus the miss ratio of `belady_size`. The gaps of the
//! memory limits are added. A limit is excluded from the sum if a server or simulation has no miss ratio, or if the
//! pages of a server exceed the limit by more than 5 %. The pages of memcached exceed small limits, because every class
//! may take its first page beyond the limit. The row of such a server has a note.
//!
//! Invariants:
//! - All servers and simulations get the same requests.
//! - All servers of a stream read the same copy of its requests, with 24 bytes each. All simulations read the catalog,
//!   with 12 bytes per request.

use super::kind::{Experiment, Job};
use crate::result::{Figure, Outcome, measures};
use crate::trial::error::ExperimentError;
use crate::trial::served::{Served, ServedSetup, VALUE_LEN_MAX};
use crate::trial::setup::WorkloadSetup;
use crate::wire::{Server, ServerError};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::Deserialize;
use slabwise_base::{Clock, memcached};
use slabwise_engine::Engine;
use slabwise_replay::workload::{Request, Workload, WorkloadError};
use slabwise_replay::{KEY_SIZE_BYTES, Pace, drive, ignore_round};
use slabwise_simulation::Catalog;
use std::path::Path;

#[cfg(test)]
mod tests;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontierSetup {
    /// Memory limits, in percent of the sum of the sizes of all items of a stream.
    pub memory_percent: Vec<f64>,
    /// Bytes of an item in simulations, in addition to key and value.
    pub item_overhead_bytes: u32,
    /// Names of the simulations.
    pub simulations: Vec<String>,
    /// Rate of gets and sets together, in virtual time.
    pub operations_per_second: f64,
    /// Virtual time of a visit of the mover to a chunk.
    pub visit_ns: f64,
    /// Engines that are configured as servers. The first server is memcached. Without servers, only simulations run, and
    /// the outcome compares them with `gdsf`.
    #[serde(default)]
    pub servers: Vec<ServedSetup>,
    streams: Vec<StreamSetup>,
}

/// A workload or a trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamSetup {
    pub name: String,
    pub workload: WorkloadSetup,
    /// Memory limits at scale 1, instead of those in percent.
    #[serde(default)]
    pub memory_mib: Vec<f64>,
}

/// A memory limit.
struct Limit {
    bytes: u64,
    /// The limit in percent of the sum of the sizes of all items.
    percent: f64,
    /// How rows name the limit.
    text: String,
}

impl StreamSetup {
    /// Returns the memory limits. `all_bytes` is the sum of the sizes of all items.
    fn limits(&self, setup: &FrontierSetup, all_bytes: u64, scale: f64) -> Vec<Limit> {
        if self.memory_mib.is_empty() {
            let limit = |&percent: &f64| Limit {
                bytes: (all_bytes as f64 * percent / 100.0) as u64,
                percent,
                text: format!("{percent} %"),
            };
            return setup.memory_percent.iter().map(limit).collect();
        }
        // The scale does not change the keys of a recorded workload.
        let factor = if self.workload.is_recorded { 1.0 } else { scale };
        let limit = |&mib: &f64| {
            let bytes = mib * factor * f64::from(1 << 20);
            let percent = bytes / all_bytes.max(1) as f64 * 100.0;
            Limit { bytes: bytes as u64, percent, text: format!("{mib} MiB") }
        };
        self.memory_mib.iter().map(limit).collect()
    }

    fn open(&self, scale: f64, seed: u64) -> Result<Workload, WorkloadError> {
        Ok(self.workload.open(scale, seed)?.with_value_len_max(VALUE_LEN_MAX))
    }
}

impl FrontierSetup {
    /// Returns the names of all servers and then of all simulations.
    fn names(&self) -> Vec<&str> {
        let servers = self.servers.iter().map(|server| server.name.as_str());
        servers.chain(self.simulations.iter().map(String::as_str)).collect()
    }
}

/// The result of one server or simulation with one stream and one memory limit.
struct Finding {
    /// The miss ratio as a fraction of the gets, or the reason why there is none.
    pub miss_ratio: Result<f64, String>,
    /// The memory of all pages, divided by the memory limit. 1 for a simulation.
    pub memory_share: f64,
}

impl Finding {
    fn without_value(reason: impl ToString) -> Finding {
        Finding { miss_ratio: Err(reason.to_string()), memory_share: 1.0 }
    }
}

/// Replays a stream to a real memcached with this memory limit.
fn replayed(
    stream: &StreamSetup,
    limit_bytes: u64,
    (scale, seed): (f64, u64),
) -> Result<Finding, ExperimentError> {
    let memory_mib = limit_bytes >> 20;
    if memory_mib == 0 {
        return Ok(Finding::without_value("memcached needs a memory limit of at least 1 MiB"));
    }
    let mut server = match Server::start(&["memcached".to_owned()], memory_mib) {
        Ok(server) => server,
        Err(error @ ServerError::Start(_)) => return Ok(Finding::without_value(error)),
        Err(error) => return Err(error.into()),
    };
    let workload = stream.open(scale, seed)?;
    let report =
        drive(&server.address(), workload, &Pace::default(), &Clock::real(), ignore_round)?;
    let pages: u64 = server.classes()?.iter().map(|class| class.pages).sum();
    Ok(Finding {
        miss_ratio: Ok(report.miss_ratio),
        memory_share: (pages * memcached::PAGE_SIZE_BYTES as u64) as f64 / limit_bytes as f64,
    })
}

/// Largest number of requests that a run reads from a trace. The requests take 0.8 GiB in addition to the memory of the
/// caches. While the run reads the trace, the requests take 1.2 GiB.
const REQUESTS_MAX: u64 = 20_000_000;

/// Adds every file of the folder as a stream with a figure, in the order of the file names. Hidden files are ignored.
fn add_traces(
    setup: &mut FrontierSetup,
    figures: &mut Vec<Figure>,
    directory: &Path,
) -> Result<(), ExperimentError> {
    let shown = directory.display();
    let failed =
        |error: std::io::Error| ExperimentError::Option(format!("--traces {shown}: {error}"));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if path.is_file() && name.is_none_or(|name| !name.starts_with('.')) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let text =
            format!("--traces {shown}: the folder has no files; specify a folder with traces");
        return Err(ExperimentError::Option(text));
    }
    paths.sort();
    let names = setup.names().into_iter();
    let variants: Vec<String> =
        names.filter(|name| !name.contains(", ")).map(str::to_owned).collect();
    for path in paths {
        let (Some(whole), Some(name)) =
            (path.to_str(), path.file_name().and_then(|name| name.to_str()))
        else {
            let path = path.display();
            let text = format!("--traces: the file name {path} is not UTF-8; rename the file");
            return Err(ExperimentError::Option(text));
        };
        if setup.streams.iter().any(|stream| stream.name == name) {
            let text = format!("--traces: {name} is also the name of a workload; rename the file");
            return Err(ExperimentError::Option(text));
        }
        figures.push(Figure::of_curves(name, "miss ratio", &format!("{name}: "), &variants));
        setup.streams.push(StreamSetup {
            name: name.to_owned(),
            workload: WorkloadSetup::recorded(&format!("trace:{whole}"), REQUESTS_MAX),
            memory_mib: Vec::new(),
        });
    }
    Ok(())
}

/// A memory limit is compared only if the memory of every server is at most this multiple of the limit.
const MEMORY_SHARE_MAX: f64 = 1.05;

/// Name of the simulation of the offline optimum.
const BOUND: &str = "belady_size";

/// Name of the simulation that the others are compared with if there are no servers.
const REFERENCE: &str = "gdsf";

measures! {
    MISS_RATIO: "miss_ratio", "miss ratio", "%", Fixed;
    MORE_MISSES: "more_misses", "misses more than gdsf", "%", Fixed;
    GAP_CLOSED: "gap_closed", "closed part of the gap between memcached and belady_size", "%", Fixed;
}

impl Experiment for FrontierSetup {
    fn has_live(&self) -> bool {
        !self.servers.is_empty()
    }

    fn add_traces(
        &mut self,
        figures: &mut Vec<Figure>,
        directory: &Path,
    ) -> Result<bool, ExperimentError> {
        add_traces(self, figures, directory)?;
        Ok(true)
    }

    /// Runs all servers and simulations in the process. With `--live`, the first server is a real memcached instead.
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (size, is_live) = (job.size(), job.live);
        let setup = &at_scale(self, job.scale, outcome);
        let mut all = Gaps::default();
        for stream in &setup.streams {
            let bar = job.progress.spinner(&stream.name);
            let (requests, catalog) = match read(setup, stream, size) {
                Ok(read) => read,
                Err(ExperimentError::Workload(error)) => {
                    bar.finish_and_clear();
                    outcome.add(MISS_RATIO, &stream.name, Err(error.to_string()));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let shown = stream.limits(setup, catalog.distinct_bytes(), job.scale);
            let limits: Vec<u64> = shown.iter().map(|limit| limit.bytes).collect();
            let names = setup.names();
            let mut findings = Vec::new();
            if is_live {
                for &limit in &limits {
                    findings.push(replayed(stream, limit, size)?);
                }
            }
            let rest = &names[usize::from(is_live)..];
            findings.extend(in_process(setup, rest, &limits, (&requests, &catalog), job.seed)?);
            bar.finish_and_clear();
            let (requests, keys) = (catalog.references().len(), catalog.key_count());
            let mib = catalog.distinct_bytes() >> 20;
            let text = format!("{requests} requests for {keys} keys, whose items take {mib} MiB");
            outcome.add_setup(&stream.name, text);
            let findings: Vec<&[Finding]> = findings.chunks(limits.len()).collect();
            add(outcome, &shown, &stream.name, &names, &findings);
            if setup.servers.is_empty() {
                add_comparison(outcome, &shown, &stream.name, &names, &findings);
                continue;
            }
            let gaps = Gaps::of(setup, &findings);
            add_gaps(outcome, setup, &stream.name, &gaps);
            all.add(&gaps);
        }
        if !setup.servers.is_empty() {
            add_gaps(outcome, setup, "all", &all);
        }
        Ok(())
    }
}

/// Returns the set-up without the servers that need a larger scale. Also adds the conditions of the run to the outcome.
fn at_scale(setup: &FrontierSetup, scale: f64, outcome: &mut Outcome) -> FrontierSetup {
    let memcached = match outcome.live {
        true => "a real server, whose memory limit is rounded down to whole MiB",
        false => "slabwise's engine with memcached's configuration, in the process",
    };
    if let Some(first) = setup.servers.first() {
        outcome.add_setup(&first.name, memcached);
    }
    outcome.add_setup("key", format!("{KEY_SIZE_BYTES} bytes"));
    outcome.add_setup("longest value", format!("cut to {VALUE_LEN_MAX} bytes"));
    outcome.add_setup(
        "simulations",
        format!("{} bytes per item in addition to key and value", setup.item_overhead_bytes),
    );
    let mut setup = setup.clone();
    let skipped = setup.servers.extract_if(.., |server| server.scale_min > scale);
    for server in skipped {
        outcome.add_setup(
            &server.name,
            format!("runs only at scales of at least {}", server.scale_min),
        );
    }
    setup
}

/// Runs each server and simulation in `names` with each memory limit. Returns the findings in the order of `names`; the
/// findings with the same name are in the order of `limits`.
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

/// Reads all requests of a stream, and adds them to a catalog for simulations.
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

/// Runs a server in the process.
fn served(
    setup: &FrontierSetup,
    server: &ServedSetup,
    requests: &[Request],
    limit_bytes: u64,
    seed: u64,
) -> Result<Finding, ExperimentError> {
    let engine = match Engine::new(server.engine_config(limit_bytes, seed)) {
        Ok(engine) => engine,
        Err(error) => return Ok(Finding::without_value(error)),
    };
    let mut served = Served::new(server, &engine, (setup.operations_per_second, setup.visit_ns))?;
    served.serve(requests);
    Ok(Finding {
        miss_ratio: Ok(served.misses as f64 / served.gets.max(1) as f64),
        memory_share: served.held_bytes() as f64 / limit_bytes as f64,
    })
}

/// Runs a simulation.
fn simulated(name: &str, catalog: &Catalog, limit_bytes: u64) -> Result<Finding, ExperimentError> {
    let ratio = slabwise_simulation::miss_ratio(name, catalog, limit_bytes);
    let unknown = || {
        let known = slabwise_simulation::NAMES.join(", ");
        ExperimentError::Option(format!("unknown simulation '{name}'; expected one of {known}"))
    };
    Ok(Finding { miss_ratio: Ok(ratio.ok_or_else(unknown)?), memory_share: 1.0 })
}

/// Adds the rows of the miss ratios of a stream, and a curve per server and simulation. `findings` has one element per
/// name, with one finding per memory limit.
fn add(
    outcome: &mut Outcome,
    limits: &[Limit],
    stream: &str,
    names: &[&str],
    findings: &[&[Finding]],
) {
    for (name, findings) in names.iter().zip(findings) {
        let mut points = Vec::new();
        for (Limit { percent, text, .. }, finding) in limits.iter().zip(*findings) {
            let variant = format!("{stream}, {text}: {name}");
            let ratio = finding.miss_ratio.clone().map(|ratio| ratio * 100.0);
            // The curve has no point at a limit that the server exceeds.
            if let (Ok(ratio), true) = (&ratio, finding.memory_share <= MEMORY_SHARE_MAX) {
                points.push((*percent, *ratio));
            }
            outcome.add(MISS_RATIO, &variant, ratio);
            if finding.miss_ratio.is_ok() && finding.memory_share > MEMORY_SHARE_MAX {
                let share = finding.memory_share * 100.0;
                outcome.note_last_row(format!(
                    "not compared: the pages of this server take {share:.0} % of the memory limit"
                ));
            }
        }
        let variant = format!("{stream}: {name}");
        let units = ["memory, % of the size of all items", MISS_RATIO.unit];
        outcome.add_series(MISS_RATIO.text, variant, units, points);
    }
}

/// Adds a row per simulation and memory limit: the miss ratio divided by that of [`REFERENCE`], minus 1.
fn add_comparison(
    outcome: &mut Outcome,
    limits: &[Limit],
    stream: &str,
    names: &[&str],
    findings: &[&[Finding]],
) {
    let Some(reference) = names.iter().position(|&name| name == REFERENCE) else { return };
    for (name, of_name) in names.iter().zip(findings).filter(|&(&name, _)| name != REFERENCE) {
        for (index, Limit { text, .. }) in limits.iter().enumerate() {
            let ratios = (&of_name[index].miss_ratio, &findings[reference][index].miss_ratio);
            if let (Ok(own), Ok(reference)) = ratios {
                let more = (own / reference - 1.0) * 100.0;
                outcome.add(MORE_MISSES, &format!("{stream}, {text}: {name}"), Ok(more));
            }
        }
    }
}

/// Gaps, summed over memory limits. All sums are differences of miss ratios, as fractions of the gets.
#[derive(Default)]
struct Gaps {
    /// Sum of the miss ratios of the first server minus the miss ratios of the bound.
    total: f64,
    /// For each server and simulation: sum of the miss ratios of the first server minus its own miss ratios.
    closed: Vec<f64>,
    /// Number of memory limits in the sums.
    limits: usize,
    /// Number of excluded memory limits.
    excluded: usize,
}

impl Gaps {
    /// Computes the gaps of a stream. If the set-up does not simulate the bound, all sums are 0.
    fn of(setup: &FrontierSetup, findings: &[&[Finding]]) -> Gaps {
        let mut gaps = Gaps { closed: vec![0.0; findings.len()], ..Gaps::default() };
        let best = setup.names().iter().position(|&name| name == BOUND);
        let Some(best) = best.map(|index| findings[index]) else { return gaps };
        for limit in 0..findings[0].len() {
            let ratios: Result<Vec<f64>, String> =
                findings.iter().map(|all| all[limit].miss_ratio.clone()).collect();
            let (Ok(ratios), Ok(best)) = (ratios, &best[limit].miss_ratio) else {
                gaps.excluded += 1;
                continue;
            };
            if findings.iter().any(|all| all[limit].memory_share > MEMORY_SHARE_MAX) {
                gaps.excluded += 1;
                continue;
            }
            gaps.limits += 1;
            gaps.total += ratios[0] - best;
            for (closed, ratio) in gaps.closed.iter_mut().zip(&ratios) {
                *closed += ratios[0] - ratio;
            }
        }
        gaps
    }

    /// Adds the gaps of another stream.
    fn add(&mut self, other: &Gaps) {
        self.total += other.total;
        self.limits += other.limits;
        self.excluded += other.excluded;
        self.closed.resize(other.closed.len(), 0.0);
        for (closed, more) in self.closed.iter_mut().zip(&other.closed) {
            *closed += more;
        }
    }
}

/// Adds a row per server and simulation with the part of the gap that it closes.
fn add_gaps(outcome: &mut Outcome, setup: &FrontierSetup, stream: &str, gaps: &Gaps) {
    let others = setup.names().into_iter().zip(&gaps.closed).skip(1);
    for (name, closed) in others.filter(|&(name, _)| name != BOUND) {
        let variant = format!("{stream}: {name}");
        if gaps.total <= 0.0 {
            let reason = "there is no gap: at every memory limit a server exceeds the limit, or the first server has \
                          no more misses than the bound";
            outcome.add(GAP_CLOSED, &variant, Err(reason.to_owned()));
            continue;
        }
        outcome.add(GAP_CLOSED, &variant, Ok(closed / gaps.total * 100.0));
        let Gaps { limits, excluded, .. } = gaps;
        outcome.note_last_row(format!(
            "sum over {limits} memory limits; {excluded} limits are excluded"
        ));
    }
}
