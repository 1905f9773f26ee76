//! Opens the workloads of the command line by their names. The binary contains the recorded data that they need.
//!
//! | name | keys | value lengths in bytes |
//! |---|---|---|
//! | `zipf` | Zipf, 1 M keys, exponent 1.0 | size table of `kvcache_reg` |
//! | `etc` | Zipf, 7 M keys, exponent 1.0 | generalised Pareto |
//! | `etc-mutilate` | Zipf, 7 M keys, exponent 1.0 | mutilate's `fb_value` and `fb_key` |
//! | `two-phase` | two classes of 5 M keys; one has the first 13 % of the requests and 33 % of the others | 140, 190 |
//! | `three-phase` | Zipf, 7 M keys, exponent 1.0; then 7 M other keys | generalised Pareto; other keys plus 1 KiB |
//! | `multi-tenant` | six parts of 3.5 to 10 M keys, exponent 0.25 to 1.0 | one length per part |
//! | `time-varying` | two parts of 7 M keys, exponent 0.25, whose shares change over a day | one length per part |
//! | `toy` | three keys in turn, alternating with keys that are requested once | 600,000, 1,000,000 |
//! | `kvcache_reg`, `graph_cache_leader_assocs` | measured popularity, 0.2 times the measured keys | measured |
//! | `csv:POP:SIZES` | popularity table | size table |
//! | `cache2k-*`, `trace:FILE` | recorded | recorded, or size table of `kvcache_reg` if the trace has no lengths |
//!
//! Invariant: `scale` multiplies both the number of keys and the default number of requests, so the number of requests
//! per key does not depend on `scale`.

use super::lengths::Lengths;
use super::mixture::Zipf;
use super::mixtures::{Published, Toy, TwoPhase};
use super::request::WorkloadError;
use super::stream::Workload;
use super::tables::{Popularity, Sizes};
use super::trace::{TraceFormat, TraceReader};
use slabwise_base::Random;
use std::fs::File;
use std::io::{BufReader, Cursor};

/// Returns the bytes of a file of the folder `data`.
macro_rules! data {
    ($file:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/", $file)).as_slice()
    };
}

/// The recorded traces: name, contents, and number of records. The records have no lengths.
const TRACES: [(&str, &[u8], u64); 3] = [
    ("cache2k-orm-busy", data!("cache2k-orm-busy.bin.zst"), 5_000_000),
    ("cache2k-orm-night", data!("cache2k-orm-night.bin.zst"), 5_000_000),
    ("cache2k-web12", data!("cache2k-web12.bin.zst"), 95_607),
];

const KVCACHE_REG_SIZES: &[u8] = data!("cachelib-kvcache_reg-sizes.csv");

/// The measured distributions: name, popularity table, and size table.
const DISTRIBUTIONS: [(&str, &[u8], &[u8]); 2] = [
    ("kvcache_reg", data!("cachelib-kvcache_reg-pop.csv"), KVCACHE_REG_SIZES),
    (
        "graph_cache_leader_assocs",
        data!("cachelib-graph_cache_leader_assocs-pop.csv"),
        data!("cachelib-graph_cache_leader_assocs-sizes.csv"),
    ),
];

/// The names of all workloads that need no file of the user.
pub const NAMES: [&str; 13] = [
    "zipf",
    "etc",
    "etc-mutilate",
    "two-phase",
    "three-phase",
    "multi-tenant",
    "time-varying",
    "toy",
    "kvcache_reg",
    "graph_cache_leader_assocs",
    "cache2k-orm-busy",
    "cache2k-orm-night",
    "cache2k-web12",
];

// Default numbers of keys and requests at scale 1. The number of requests of a measured distribution is
// POPULARITY_REQUESTS.
const ZIPF_KEYS: u64 = 1_000_000;
const ZIPF_REQUESTS: u64 = 10_000_000;
const ETC_KEYS: u64 = 7_000_000;
const ETC_SKEW: f64 = 1.0;
const ETC_REQUESTS: u64 = 20_000_000;
const POPULARITY_REQUESTS: u64 = 50_000_000;
/// The default scale of the measured distributions, with which they have 10 M requests.
const DISTRIBUTION_SCALE: f64 = 0.2;

// This comment is not a doc comment, because clap would print it in the help. The fields are the options of a workload,
// in the order in which the help of `slabwise replay` shows them.
#[derive(Clone, Debug, clap::Args)]
#[expect(missing_docs, reason = "the help texts explain the options")]
pub struct Options {
    /// Number of requests [default: the workload's own number; all requests of a trace]
    #[arg(long, value_name = "N")]
    pub requests: Option<u64>,
    /// Factor by which the number of keys and requests is multiplied [default: 1; 0.2 for kvcache_reg and
    /// graph_cache_leader_assocs]
    #[arg(long, value_name = "F")]
    pub scale: Option<f64>,
    /// Seed of the random number generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Factor by which the value lengths of a size table are multiplied
    #[arg(long, value_name = "F", default_value_t = 1.0, display_order = 90)]
    pub size_factor: f64,
    /// Length of all values in bytes, instead of the lengths of the workload
    #[arg(long, value_name = "N", conflicts_with = "size_factor", display_order = 91)]
    pub value_len: Option<u32>,
    /// Number of keys of the workload zipf [default: 1000000]
    #[arg(long, value_name = "N", display_order = 92)]
    pub keys: Option<u64>,
    /// Exponent of the distribution of the workloads zipf, etc and etc-mutilate; 0 is uniform [default: 1]
    #[arg(long, value_name = "F", display_order = 93)]
    pub skew: Option<f64>,
    /// Format of the workload trace:FILE [default: detected from the file]
    #[arg(long, value_enum, value_name = "FORMAT", display_order = 94)]
    pub format: Option<TraceFormat>,
}

impl Default for Options {
    /// Returns the options with which a workload has its default parameters and the seed 1.
    fn default() -> Options {
        Options {
            requests: None,
            scale: None,
            seed: 1,
            size_factor: 1.0,
            value_len: None,
            keys: None,
            skew: None,
            format: None,
        }
    }
}

impl Options {
    /// The maximum scale.
    pub const SCALE_MAX: f64 = 1000.0;

    /// Returns an error with the remedy if an option is invalid, or not valid for the workload `name`.
    fn check(&self, name: &str) -> Result<(), WorkloadError> {
        let invalid = |text: String| Err(WorkloadError::Option(text));
        let (scale, scale_max) = (self.scale.unwrap_or(1.0), Self::SCALE_MAX);
        if !(scale > 0.0 && scale <= scale_max) {
            return invalid(format!("--scale {scale}: give more than 0 and at most {scale_max}"));
        }
        let factor = self.size_factor;
        if !(factor > 0.0 && factor <= 1e6) {
            return invalid(format!("--size-factor {factor}: give more than 0, at most 1000000"));
        }
        if self.value_len == Some(0) {
            return invalid("--value-len 0: give at least 1".to_owned());
        }
        if name != "zipf" && self.keys.is_some() {
            return invalid(format!("--keys needs the workload zipf, not {name}"));
        }
        const WITH_SKEW: [&str; 3] = ["zipf", "etc", "etc-mutilate"];
        if !WITH_SKEW.contains(&name) && self.skew.is_some() {
            let known = WITH_SKEW.join(", ");
            return invalid(format!("--skew needs one of the workloads {known}, not {name}"));
        }
        if self.keys == Some(0) {
            return invalid("--keys 0: give at least 1".to_owned());
        }
        if !name.starts_with("trace:") && self.format.is_some() {
            return invalid(format!("--format needs the workload trace:FILE, not {name}"));
        }
        let skew = self.skew.unwrap_or(1.0);
        if !(0.0..=20.0).contains(&skew) {
            return invalid(format!("--skew {skew}: give 0 (uniform) to 20"));
        }
        Ok(())
    }

    /// Returns `count` multiplied by the scale, at least 1.
    fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.scale.unwrap_or(1.0)).round() as u64).max(1)
    }
}

/// Opens the workload with this name. `name` can also be `trace:FILE` or `csv:POP:SIZES`.
pub fn open(name: &str, options: &Options) -> Result<Workload, WorkloadError> {
    options.check(name)?;
    let random = Random::new(options.seed);
    let distribution = DISTRIBUTIONS.iter().find(|(known, ..)| *known == name);
    let trace = TRACES.iter().find(|(known, ..)| *known == name);
    if let Some((_, popularity, sizes)) = distribution {
        let scale = options.scale.or(Some(DISTRIBUTION_SCALE));
        let tables = [(name, *popularity), (name, *sizes)];
        return popularity_workload(tables, random, &Options { scale, ..options.clone() });
    }
    if let Some((_, bytes, records)) = trace {
        let trace = TraceReader::new(name, Cursor::new(*bytes), Some(TraceFormat::Slabwise))?;
        let trace = trace.without_lengths();
        return Ok(trace_workload(trace, options)?.with_requests_expected(*records));
    }
    if let Some(path) = name.strip_prefix("trace:") {
        return trace_workload(TraceReader::open(path, options.format)?, options);
    }
    if let Some(paths) = name.strip_prefix("csv:") {
        return csv_workload(paths, random, options);
    }
    let requests = |default| options.requests.unwrap_or_else(|| options.scaled(default));
    if let Some(published) = Published::named(name, options.seed) {
        let requests = requests(published.requests);
        let mut keys = published.keys(requests, |keys| options.scaled(keys), random);
        let lengths = lengths_or_fixed(options, Lengths::ByPart(published.lengths));
        return Ok(Workload::from_keys(move || keys.next_key(), lengths, requests));
    }
    match name {
        "zipf" => {
            let keys = options.scaled(options.keys.unwrap_or(ZIPF_KEYS));
            let mut keys = Zipf::new(keys, options.skew.unwrap_or(1.0), random);
            let lengths = table_lengths(options)?;
            Ok(Workload::from_keys(move || keys.next_key(), lengths, requests(ZIPF_REQUESTS)))
        }
        "etc" | "etc-mutilate" => {
            let skew = options.skew.unwrap_or(ETC_SKEW);
            let mut keys = Zipf::new(options.scaled(ETC_KEYS), skew, random);
            let lengths = match name {
                "etc" => Lengths::etc(options.seed, 0),
                _ => Lengths::mutilate(options.seed),
            };
            let lengths = lengths_or_fixed(options, lengths);
            Ok(Workload::from_keys(move || keys.next_key(), lengths, requests(ETC_REQUESTS)))
        }
        "two-phase" => {
            let requests = requests(TwoPhase::REQUESTS);
            let keys = options.scaled(TwoPhase::KEYS_PER_CLASS);
            let mut keys = TwoPhase::new(requests, keys, random);
            let lengths = lengths_or_fixed(options, TwoPhase::lengths());
            Ok(Workload::from_keys(move || keys.next_key(), lengths, requests))
        }
        "toy" => {
            let mut toy = Toy::default();
            let lengths = lengths_or_fixed(options, Toy::lengths());
            Ok(Workload::from_keys(move || toy.next_key(), lengths, requests(Toy::REQUESTS)))
        }
        _ => Err(WorkloadError::UnknownName { name: name.to_owned(), known: NAMES.join(", ") }),
    }
}

/// Returns the lengths of the workload, unless the option `--value-len` gives one length for all values.
fn lengths_or_fixed(options: &Options, lengths: Lengths) -> Lengths {
    options.value_len.map_or(lengths, Lengths::Fixed)
}

/// Returns the lengths of a workload that has none of its own: those of the size table of `kvcache_reg`.
pub(super) fn table_lengths(options: &Options) -> Result<Lengths, WorkloadError> {
    let sizes =
        Sizes::from_csv("kvcache_reg", KVCACHE_REG_SIZES, options.size_factor, options.seed)?;
    Ok(lengths_or_fixed(options, Lengths::Table(sizes)))
}

/// Returns the workload of a trace. Fails if the options scale it.
fn trace_workload(trace: TraceReader, options: &Options) -> Result<Workload, WorkloadError> {
    if options.scale.is_some_and(|scale| scale != 1.0) {
        let text = "--scale does not apply to a recorded trace: shorten it with --requests";
        return Err(WorkloadError::Option(text.to_owned()));
    }
    Ok(Workload::from_trace(trace, table_lengths(options)?, options.requests))
}

/// Returns the workload of a popularity table and a size table. Each table is a name for errors, and the text.
fn popularity_workload<R: std::io::Read>(
    [popularity, sizes]: [(&str, R); 2],
    random: Random,
    options: &Options,
) -> Result<Workload, WorkloadError> {
    let scale = options.scale.unwrap_or(1.0);
    let mut keys = Popularity::from_csv(popularity.0, popularity.1, scale, random)?;
    let sizes = Sizes::from_csv(sizes.0, sizes.1, options.size_factor, options.seed)?;
    let requests = options.requests.unwrap_or_else(|| options.scaled(POPULARITY_REQUESTS));
    let lengths = lengths_or_fixed(options, Lengths::Table(sizes));
    Ok(Workload::from_keys(move || keys.next_key(), lengths, requests))
}

/// Opens the workload `csv:POP:SIZES`. The first path must not contain a colon.
fn csv_workload(paths: &str, random: Random, options: &Options) -> Result<Workload, WorkloadError> {
    let Some((popularity, sizes)) = paths.split_once(':') else {
        let text = format!("csv:{paths} names only one file; give two files as csv:POP:SIZES");
        return Err(WorkloadError::Option(text));
    };
    let open = |path: &str| {
        let file = File::open(path)
            .map_err(|source| WorkloadError::Open { path: path.to_owned(), source })?;
        Ok::<_, WorkloadError>(BufReader::new(file))
    };
    let tables = [(popularity, open(popularity)?), (sizes, open(sizes)?)];
    popularity_workload(tables, random, options)
}
