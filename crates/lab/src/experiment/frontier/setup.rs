//! What `frontier` sets up, traces from a folder included; and a real memcached under a stream of it.

use crate::result::Figure;
use crate::trial::error::ExperimentError;
use crate::trial::served::VALUE_LEN_MAX;
use crate::trial::setup::{WorkloadSetup, eviction};
use crate::vtime::MoverName;
use crate::wire::{Server, ServerError};
use serde::Deserialize;
use slabwise_base::{Clock, memcached};
use slabwise_engine::EvictionKind;
use slabwise_replay::workload::{Workload, WorkloadError};
use slabwise_replay::{Pace, drive, unwatched};
use std::path::Path;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontierSetup {
    pub memory_percent: Vec<f64>,
    /// Bytes of an item beside key and value, in simulations.
    pub item_overhead_bytes: u32,
    pub simulations: Vec<String>,
    pub operations_per_second: f64,
    pub visit_ns: f64,
    /// Engines set up as servers; the first is memcached, and what the gap is measured from.
    pub servers: Vec<ServerSetup>,
    pub streams: Vec<StreamSetup>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSetup {
    pub name: String,
    #[serde(default)]
    pub is_memcached: bool,
    pub policy: String,
    #[serde(deserialize_with = "eviction")]
    pub eviction: EvictionKind,
    pub mover: MoverName,
    #[serde(default)]
    pub scale_min: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSetup {
    pub name: String,
    pub workload: WorkloadSetup,
}

impl StreamSetup {
    pub fn open(&self, scale: f64, seed: u64) -> Result<Workload, WorkloadError> {
        Ok(self.workload.open(scale, seed)?.with_value_len_max(VALUE_LEN_MAX))
    }
}

impl FrontierSetup {
    /// All that has a curve: servers first.
    pub fn names(&self) -> Vec<&str> {
        let servers = self.servers.iter().map(|server| server.name.as_str());
        servers.chain(self.simulations.iter().map(String::as_str)).collect()
    }
}

pub struct Finding {
    pub miss_ratio: Result<f64, String>,
    pub memory_share: f64,
}

pub fn go(
    stream: &StreamSetup,
    limit_bytes: u64,
    (scale, seed): (f64, u64),
) -> Result<Finding, ExperimentError> {
    let nothing = |why: String| Finding { miss_ratio: Err(why), memory_share: 1.0 };
    let memory_mib = limit_bytes >> 20;
    if memory_mib == 0 {
        return Ok(nothing("its least limit is a mebibyte".to_owned()));
    }
    let mut server = match Server::start(&["memcached".to_owned()], memory_mib) {
        Ok(server) => server,
        Err(error @ ServerError::Start(_)) => {
            return Ok(nothing(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    let workload = stream.open(scale, seed)?;
    let report = drive(&server.address(), workload, &Pace::default(), &Clock::real(), unwatched)?;
    let pages: u64 = server.classes()?.iter().map(|class| class.pages).sum();
    Ok(Finding {
        miss_ratio: Ok(report.miss_ratio),
        memory_share: (pages * memcached::PAGE_SIZE_BYTES as u64) as f64 / limit_bytes as f64,
    })
}

/// Requests of a trace that are looked at: with their numbers they take 0.8 GiB, half as much again while they are read, and
/// what each run at a time holds comes on top.
const REQUESTS_MAX: u64 = 20_000_000;

/// Adds every file in the folder as a stream, in the order of their names, each with a figure. Hidden files are none.
pub fn add(
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
        return Err(ExperimentError::Option(format!("--traces {shown}: no file is in it")));
    }
    paths.sort();
    let names = setup.names().into_iter();
    let variants: Vec<String> =
        names.filter(|name| !name.contains(", ")).map(str::to_owned).collect();
    for path in paths {
        let (Some(whole), Some(name)) =
            (path.to_str(), path.file_name().and_then(|it| it.to_str()))
        else {
            let text = format!("--traces: {} is not UTF-8: rename it", path.display());
            return Err(ExperimentError::Option(text));
        };
        if setup.streams.iter().any(|stream| stream.name == name) {
            let text = format!("--traces: a workload here is called {name}, too: rename the file");
            return Err(ExperimentError::Option(text));
        }
        figures.push(Figure::of_curves(name, "miss ratio", &format!("{name}: "), &variants));
        setup.streams.push(StreamSetup {
            name: name.to_owned(),
            workload: WorkloadSetup::recorded(&format!("trace:{whole}"), REQUESTS_MAX),
        });
    }
    Ok(())
}
