//! Simulates caches, for bench/pace, bench/eviction, bench/curves and bench/steer: `slabwise-bench-simulate TASK ...`.
//!
//! ```text
//! workload (the requests that `slabwise replay` sends) --> footprint: the bytes of all items of the workload
//!                                                      |-> lru --> windows: misses and stored bytes
//!                                                      |-> another simulation -------> miss-ratio, window-misses
//!                                                      |-> classes --> class-misses: misses of memcached's classes
//!                                                      \-> split ----> static-split: the best pages of these classes
//! ```
//!
//! A cache is used as `slabwise replay` uses a server: a get that misses stores the item. The size of an item is the
//! sum of the lengths of its key and value, and `--item-bytes`. The result is one line of JSON.

#![forbid(unsafe_code)]

mod classes;
mod lru;
mod memcached;
mod split;
mod stacks;
mod steered;

use clap::{Parser, Subcommand};
use classes::{Class, ClassMisses, Classes};
use lru::{Access, Lru};
use serde::Serialize;
use slabwise_replay::KEY_SIZE_BYTES;
use slabwise_replay::workload::{self, Op, Request, Workload};
use slabwise_simulation::Catalog;
use slabwise_text::command;
use split::{BestSplit, StaticSplits};
use std::collections::HashMap;
use std::process::ExitCode;
use steered::Setup;

/// The length to which `miss_ratio` cuts longer values. The servers refuse these values, so the simulated cache has an
/// advantage.
const VALUE_LEN_MAX: u32 = (1 << 20) - 512;

/// Simulate caches for the workloads of `slabwise replay`.
#[derive(Debug, Parser)]
#[command(name = "slabwise-bench-simulate")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Print the number of requests and keys, and the sum of the sizes of the items of all keys
    Footprint(Input),
    /// Print the requests, the gets, the misses and the stored bytes of successive windows, for an exact LRU order
    Windows {
        #[command(flatten)]
        input: Input,
        /// Maximum sum of the sizes of all items in bytes
        #[arg(long, value_name = "N")]
        capacity_bytes: u64,
        /// Number of requests before the first window
        #[arg(long, value_name = "N", default_value_t = 0)]
        from: u64,
        /// Number of requests in a window
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        window: u64,
    },
    /// Print the miss ratio of a cache that evicts by another rule
    MissRatio(SimulatedCache),
    /// Print the gets and the misses of successive windows, for a cache that evicts by another rule
    WindowMisses {
        #[command(flatten)]
        cache: SimulatedCache,
        /// Number of requests in a window
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        window: u64,
    },
    /// Print the gets and misses of memcached's classes, each an exact LRU
    ClassMisses {
        #[command(flatten)]
        input: Input,
        /// Classes of the server, each NUMBER:CHUNK_SIZE:CHUNKS
        #[arg(long, value_name = "CLASS", value_delimiter = ',', required = true)]
        classes: Vec<Class>,
        /// Number of requests before the first one that is counted
        #[arg(long, value_name = "N", default_value_t = 0)]
        from: u64,
    },
    /// Print the split of pages between memcached's classes, each an exact LRU, that has the fewest misses
    StaticSplit {
        #[command(flatten)]
        input: Input,
        /// Number of pages of all classes
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        pages: u64,
        /// Number of times that the workload is replayed; each pass has a split of its own
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        passes: u64,
        /// Number of requests after which a pass has another split [default: all]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        window: Option<u64>,
        /// Allow a class with items to have no page, as no memcached does
        #[arg(long)]
        no_first_pages: bool,
    },
    /// Print the misses and page moves of a simulated memcached that is steered, in virtual time
    Steered {
        #[command(flatten)]
        input: Input,
        /// Number of pages of all classes
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        pages: u64,
        /// Number of times that the workload is replayed
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        passes: u64,
        /// Number of requests per second
        #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
        rate: u64,
        /// Move no pages
        #[arg(long)]
        alone: bool,
    },
}

/// A simulated cache, and the requests to it.
#[derive(Debug, clap::Args)]
struct SimulatedCache {
    #[command(flatten)]
    input: Input,
    /// Rule of eviction
    #[arg(long, value_name = "NAME", value_parser = slabwise_simulation::NAMES)]
    simulation: String,
    /// Maximum sum of the sizes of all items in bytes
    #[arg(long, value_name = "N")]
    capacity_bytes: u64,
}

#[derive(Debug, clap::Args)]
struct Input {
    /// Name of the workload, as for `slabwise replay`
    #[arg(long, value_name = "NAME")]
    workload: String,
    #[command(flatten)]
    options: workload::Options,
    /// Number of bytes of an item in addition to its key and value
    #[arg(long, value_name = "N")]
    item_bytes: u64,
}

impl Input {
    /// Opens the workload.
    fn open(&self) -> Result<Workload, String> {
        workload::open(&self.workload, &self.options).map_err(|error| error.to_string())
    }

    /// Returns the size of the item that a request stores, in bytes.
    fn size_bytes(&self, request: &Request) -> u64 {
        KEY_SIZE_BYTES as u64 + u64::from(request.value_len) + self.item_bytes
    }
}

/// The result of `footprint`. The names of the fields are those of the JSON output.
#[derive(Debug, Serialize)]
struct Footprint {
    /// The number of requests.
    requests: u64,
    /// The number of keys that the workload gets or sets.
    keys: u64,
    /// The sum of the sizes of the items of all keys. A key whose size changes has its last size.
    bytes: u64,
}

/// The result of `miss-ratio`. The names of the fields are those of the JSON output.
#[derive(Debug, Serialize)]
struct MissRatio {
    /// The number of requests.
    requests: u64,
    /// The number of gets that missed, divided by the number of gets.
    miss_ratio: f64,
}

/// The counts of consecutive requests. The names of the fields are those of the JSON output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Window {
    /// The number of requests.
    requests: u64,
    /// The number of gets.
    gets: u64,
    /// The number of gets that missed.
    misses: u64,
    /// The sum of the sizes of the items that were stored.
    stored_bytes: u64,
}

/// The counts of consecutive requests in a simulated cache. The names of the fields are those of the JSON output.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct WindowMisses {
    /// The number of gets.
    gets: u64,
    /// The number of gets that missed.
    misses: u64,
}

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).collect();
    command::answer("slabwise-bench-simulate", "result", arguments, |args: &Args| {
        let json = match &args.task {
            Task::Footprint(input) => serde_json::to_string(&footprint(input)?),
            Task::Windows { input, capacity_bytes, from, window } => {
                serde_json::to_string(&windows(input, *capacity_bytes, *from, *window)?)
            }
            Task::MissRatio(SimulatedCache { input, simulation, capacity_bytes }) => {
                serde_json::to_string(&miss_ratio(input, simulation, *capacity_bytes)?)
            }
            Task::WindowMisses { cache, window } => {
                let SimulatedCache { input, simulation, capacity_bytes } = cache;
                let windows = window_misses(input, simulation, *capacity_bytes, *window)?;
                serde_json::to_string(&windows)
            }
            Task::ClassMisses { input, classes, from } => {
                serde_json::to_string(&class_misses(input, classes, *from)?)
            }
            Task::Steered { input, pages, passes, rate, alone } => {
                let (pages, passes, rate, is_steered) = (*pages, *passes, *rate, !alone);
                let setup = Setup { pages, passes, rate, is_steered };
                serde_json::to_string(&steered::replay(&catalog(input)?, setup))
            }
            Task::StaticSplit { input, pages, passes, window, no_first_pages } => {
                let window = window.unwrap_or(u64::MAX);
                let splits = StaticSplits::new(*pages, !no_first_pages);
                serde_json::to_string(&static_splits(input, splits, *passes, window)?)
            }
        };
        json.map(|json| json + "\n").map_err(|error| format!("cannot write JSON: {error}"))
    })
}

/// Returns the number and the size of the items that a cache without a limit would store.
fn footprint(input: &Input) -> Result<Footprint, String> {
    let mut requests = 0;
    let mut sizes = HashMap::new();
    for request in input.open()? {
        let request = request.map_err(|error| error.to_string())?;
        requests += 1;
        if request.op != Op::Delete {
            sizes.insert(request.key, input.size_bytes(&request));
        }
    }
    Ok(Footprint { requests, keys: sizes.len() as u64, bytes: sizes.values().sum() })
}

/// Replays the workload on an LRU cache. Returns the counts of each `window` successive requests after the first `from`
/// requests. The last window may be shorter.
fn windows(
    input: &Input,
    capacity_bytes: u64,
    from: u64,
    window: u64,
) -> Result<Vec<Window>, String> {
    let mut lru = Lru::new(capacity_bytes);
    let mut windows = vec![];
    let mut current = Window::default();
    for (number, request) in input.open()?.enumerate() {
        let request = request.map_err(|error| error.to_string())?;
        let counts = count(&mut lru, &request, input.size_bytes(&request));
        if (number as u64) < from {
            continue;
        }
        current.requests += counts.requests;
        current.gets += counts.gets;
        current.misses += counts.misses;
        current.stored_bytes += counts.stored_bytes;
        if current.requests == window {
            windows.push(std::mem::take(&mut current));
        }
    }
    if current.requests > 0 {
        windows.push(current);
    }
    Ok(windows)
}

/// Replays the workload on a simulated cache. Returns the miss ratio.
fn miss_ratio(input: &Input, name: &str, capacity_bytes: u64) -> Result<MissRatio, String> {
    let catalog = catalog(input)?;
    let requests = catalog.references().len() as u64;
    let miss_ratio = slabwise_simulation::miss_ratio(name, &catalog, capacity_bytes)
        .ok_or_else(|| unknown_simulation(name))?;
    Ok(MissRatio { requests, miss_ratio })
}

/// Replays the workload on a simulated cache. Returns the counts of each `window` successive requests. The last window
/// may be shorter.
fn window_misses(
    input: &Input,
    name: &str,
    capacity_bytes: u64,
    window: u64,
) -> Result<Vec<WindowMisses>, String> {
    let length = usize::try_from(window).unwrap_or(usize::MAX);
    let windows = slabwise_simulation::windows(name, &catalog(input)?, capacity_bytes, length)
        .ok_or_else(|| unknown_simulation(name))?;
    Ok(windows.iter().map(|it| WindowMisses { gets: it.gets, misses: it.misses }).collect())
}

fn unknown_simulation(name: &str) -> String {
    format!("no simulation has the name {name}")
}

/// Reads all requests of the workload.
fn catalog(input: &Input) -> Result<Catalog, String> {
    let mut catalog = Catalog::default();
    for request in input.open()?.with_value_len_max(VALUE_LEN_MAX) {
        let request = request.map_err(|error| error.to_string())?;
        let size_bytes = u32::try_from(input.size_bytes(&request)).unwrap_or(u32::MAX);
        catalog.add(&request, size_bytes);
    }
    Ok(catalog)
}

/// Replays the workload on exact LRUs. Returns the counts of each class after the first `from` requests.
fn class_misses(input: &Input, classes: &[Class], from: u64) -> Result<Vec<ClassMisses>, String> {
    let mut classes = Classes::new(classes.to_vec());
    for (number, request) in input.open()?.enumerate() {
        let request = request.map_err(|error| error.to_string())?;
        classes.request(&request, input.size_bytes(&request), number as u64 >= from);
    }
    Ok(classes.counts())
}

/// Replays the workload several times on exact LRUs. Returns the best split of each window of each pass.
fn static_splits(
    input: &Input,
    mut splits: StaticSplits,
    passes: u64,
    window: u64,
) -> Result<Vec<BestSplit>, String> {
    let mut found = Vec::new();
    for _ in 0..passes {
        let mut requests = 0;
        for request in input.open()? {
            let request = request.map_err(|error| error.to_string())?;
            splits.request(&request, input.size_bytes(&request));
            requests += 1;
            if requests == window {
                found.push(splits.end_window()?);
                requests = 0;
            }
        }
        if requests > 0 {
            found.push(splits.end_window()?);
        }
    }
    Ok(found)
}

/// Executes a request, and after a miss the set of the same item. Returns the counts of this request.
fn count(lru: &mut Lru, request: &Request, size_bytes: u64) -> Window {
    let mut counts = Window { requests: 1, ..Window::default() };
    match request.op {
        Op::Get => {
            counts.gets = 1;
            if lru.get(request.key) == Access::Miss {
                counts.misses = 1;
                counts.stored_bytes = size_bytes;
                lru.set(request.key, size_bytes);
            }
        }
        Op::Set => {
            counts.stored_bytes = size_bytes;
            lru.set(request.key, size_bytes);
        }
        Op::Delete => lru.delete(request.key),
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::{Input, Window, class_misses, footprint, miss_ratio, window_misses, windows};
    use slabwise_replay::workload::Options;

    fn two_phase(requests: u64) -> Input {
        let options =
            Options { requests: Some(requests), scale: Some(0.001), ..Options::default() };
        Input { workload: "two-phase".to_owned(), options, item_bytes: 57 }
    }

    #[test]
    fn a_cache_for_all_items_misses_each_key_once() {
        let input = two_phase(40_000);
        let all = footprint(&input).expect("the workload has no errors");
        let found = windows(&input, all.bytes, 0, 10_000).expect("the workload has no errors");
        let sum = |value: fn(&Window) -> u64| found.iter().map(value).sum::<u64>();
        assert_eq!(found.len(), 4);
        assert_eq!((all.requests, sum(|window| window.requests)), (40_000, 40_000));
        assert_eq!((all.keys, all.bytes), (sum(|w| w.misses), sum(|w| w.stored_bytes)));
    }

    #[test]
    fn the_simulations_count_the_same_misses() {
        let input = two_phase(40_000);
        let lru = miss_ratio(&input, "lru", 200_000).expect("the workload has no errors");
        let windows = windows(&input, 200_000, 0, 40_000).expect("the workload has no errors");
        assert_eq!(lru.miss_ratio, windows[0].misses as f64 / windows[0].gets as f64);
        let lru_misses = window_misses(&input, "lru", 200_000, 15_000).expect("no errors");
        let found = super::windows(&input, 200_000, 0, 15_000).expect("no errors");
        let counts = found.iter().map(|it| (it.gets, it.misses)).collect::<Vec<_>>();
        assert_eq!(lru_misses.iter().map(|it| (it.gets, it.misses)).collect::<Vec<_>>(), counts);
        let fewest =
            miss_ratio(&input, "belady_size", 200_000).expect("the workload has no errors");
        assert!(fewest.miss_ratio < lru.miss_ratio, "{fewest:?}, {lru:?}");
    }

    #[test]
    fn the_windows_start_after_the_given_number_of_requests() {
        let input = two_phase(40_000);
        let all = windows(&input, 200_000, 0, 10_000).expect("the workload has no errors");
        let last = windows(&input, 200_000, 25_000, 10_000).expect("the workload has no errors");
        assert_eq!(last.iter().map(|window| window.requests).collect::<Vec<_>>(), [10_000, 5_000]);
        let half = windows(&input, 200_000, 20_000, 10_000).expect("the workload has no errors");
        assert_eq!(half, all[2..]);
    }

    #[test]
    fn a_single_class_has_the_misses_of_an_lru_with_its_number_of_items() {
        let input = two_phase(40_000);
        let classes = ["7:1048576:400".parse().expect("the class is valid")];
        let found = class_misses(&input, &classes, 0).expect("the workload has no errors");
        let all = footprint(&input).expect("the workload has no errors");
        let [few, some, many] = found[0].misses;
        assert_eq!((found[0].class, found[0].gets), (7, 40_000));
        assert!(few > some && some > many && many >= all.keys, "{found:?}, {all:?}");
        let late = class_misses(&input, &classes, 30_000).expect("the workload has no errors");
        assert_eq!(late[0].gets, 10_000);
    }

    #[test]
    fn items_are_in_the_class_with_the_smallest_sufficient_chunks() {
        let input = two_phase(40_000);
        let parse = |text: &str| text.parse().expect("the class is valid");
        let classes = [parse("2:1048576:10"), parse("1:240:10")];
        let found = class_misses(&input, &classes, 0).expect("the workload has no errors");
        assert_eq!(found.iter().map(|class| class.gets).sum::<u64>(), 40_000);
        assert!(found.iter().all(|class| class.gets > 0), "{found:?}");
        assert!("1:2".parse::<super::Class>().is_err());
    }
}
