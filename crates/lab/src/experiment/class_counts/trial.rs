//! The set-up of `classes-vs-misses`, the class tables of each workload, and the run of a workload with a class table.

use super::unpartitioned::{Prediction, Table, UnpartitionedCache};
use crate::experiment::kind::Progress;
use crate::trial::curves::{BESIDE_VALUE_BYTES, ClassCurves, ExactCurves};
use crate::trial::error::ExperimentError;
use crate::trial::execute::{Controller, execute};
use crate::trial::run::{Requests, Run, value_len_max};
use crate::trial::run_record::RunRecord;
use crate::trial::setup::{
    CacheSetup, ChunkSizes, ResponseSetup, Stretch, TimeSetup, WorkloadSetup, request_at,
};
use crate::vtime::{MoverName, VisitCost};
use indicatif::ProgressBar;
use serde::Deserialize;
use slabwise_engine::{CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, EngineConfig};
use slabwise_policy::PagePolicy;
use slabwise_policy::sizes::{ChunkLayout, Demand, SizesError, exact, geometric};
use slabwise_profile::Mrc;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassCountsSetup {
    /// Numbers of classes. The experiment computes the class table with the least waste for each of these numbers.
    pub class_counts: Vec<usize>,
    /// Geometric class tables for comparison.
    pub geometric: Vec<GeometricSetup>,
    /// The experiment makes one prediction for each of these prices of a class. The price is the number of pages that a
    /// class needs without a benefit.
    pub class_prices_pages: Vec<f64>,
    /// Name of the page policy. The mover is `warm`.
    pub policy: String,
    /// Number of equal parts of a run, each of which has a point in the curves.
    pub windows: u64,
    /// Virtual time of a visit of the mover to a chunk.
    pub visit_ns: f64,
    pub response: ResponseSetup,
    pub time: TimeSetup,
    pub streams: Vec<StreamSetup>,
}

/// A class table in which each chunk size is the previous size times `factor`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometricSetup {
    pub name: String,
    pub first_bytes: usize,
    pub factor: f64,
}

/// A workload with its cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSetup {
    pub name: String,
    /// Number of requests, from the first request of the workload, after which the class tables are computed.
    pub training_requests: u64,
    /// The part of the run whose misses count.
    pub steady: Stretch,
    pub workload: WorkloadSetup,
    /// The cache. The class tables replace its chunk sizes, which only determine the page size at small scales.
    pub cache: CacheSetup,
}

/// A workload with its class tables.
pub struct Prepared<'s> {
    pub stream: &'s StreamSetup,
    pub prediction: Prediction,
    pub tables: Vec<Table>,
    /// Number of items from which the tables were computed.
    pub items: u64,
    pub page_size_bytes: usize,
    /// Length of the longest value in bytes. Longer values of the workload are cut.
    pub value_len_max: u32,
}

/// Computes the class tables and the prediction of a workload.
pub fn prepare<'s>(
    setup: &'s ClassCountsSetup,
    stream: &'s StreamSetup,
    (scale, seed): (f64, u64),
    progress: &Progress,
) -> Result<Prepared<'s>, ExperimentError> {
    let base = stream.cache.engine_config(scale, seed);
    let layout = layout(base.page_size_bytes);
    let cache = cache_of(stream, base.page_size_bytes, &[layout.chunk_size_bytes_max]);
    let config = cache.engine_config(scale, seed);
    let (demands, curve) = unpartitioned(stream, &config, (scale, seed), progress)?;
    let with_name =
        |error: SizesError| ExperimentError::Option(format!("{}: {error}", stream.name));
    let count_max = setup.class_counts.iter().copied().max().unwrap_or(1);
    let best = exact(&demands, &layout, &[], count_max).map_err(with_name)?;
    let best = setup.class_counts.iter().map(|&count| {
        let sizes = best.of(count).sizes.clone();
        Table::new(format!("k = {count}"), Some(count), sizes, &demands, &layout)
    });
    let geometric = setup.geometric.iter().map(|table| {
        let sizes = geometric(table.first_bytes, table.factor, &layout);
        Table::new(table.name.clone(), None, sizes, &demands, &layout)
    });
    Ok(Prepared {
        stream,
        prediction: Prediction {
            curve,
            pages: (config.memory_limit_bytes / base.page_size_bytes as u64) as f64,
            page_size_bytes: base.page_size_bytes as f64,
        },
        tables: best.chain(geometric).collect::<Result<_, _>>().map_err(with_name)?,
        items: demands.iter().map(|demand| demand.items).sum(),
        page_size_bytes: base.page_size_bytes,
        value_len_max: value_len_max(&config),
    })
}

/// Returns the rules for a server's chunk sizes. The largest chunk is half a page. No item is chained, because a run
/// cuts each value that does not fit into the largest chunk.
fn layout(page_size_bytes: usize) -> ChunkLayout {
    ChunkLayout {
        page_size_bytes: Some(page_size_bytes),
        chunk_size_bytes_min: CHUNK_SIZE_BYTES_MIN,
        chunk_size_bytes_max: page_size_bytes / 2,
        chunk_align_bytes: CHUNK_ALIGN_BYTES,
        chaining: None,
    }
}

/// Returns the cache of a workload with these chunk sizes.
fn cache_of(stream: &StreamSetup, page_size_bytes: usize, sizes: &[usize]) -> CacheSetup {
    CacheSetup {
        page_size_kib: page_size_bytes >> 10,
        page_size_is_fixed: true,
        chunk_sizes: ChunkSizes::List(sizes.to_vec()),
        ..stream.cache.clone()
    }
}

/// Simulates the unpartitioned cache. Returns its items after the training requests, and its curve for the requests in
/// the steady part of the run.
fn unpartitioned(
    stream: &StreamSetup,
    config: &EngineConfig,
    size: (f64, u64),
    progress: &Progress,
) -> Result<(Vec<Demand>, Mrc), ExperimentError> {
    let mut cache = UnpartitionedCache::default();
    let mut requests = Requests::new(&stream.workload, size, config)?;
    let trained = request_at(stream.training_requests, size.0);
    let (from, to) = stream.steady.at(size.0);
    let bar = progress.bar(&stream.name);
    bar.set_length(to);
    let mut held = Vec::new();
    let mut done = 0;
    while done < to {
        let next = [trained, from, to].into_iter().find(|&at| at > done).unwrap_or(to);
        let batch = requests.next(next - done)?;
        for request in batch {
            let item_size_bytes = BESIDE_VALUE_BYTES as u32 + request.value_len;
            match done >= from {
                true => cache.count(request.key, item_size_bytes),
                false => drop(cache.reference(request.key, item_size_bytes)),
            }
        }
        done += batch.len() as u64;
        if done == trained {
            let demand = |(size_bytes, items)| Demand::new(size_bytes as usize, items);
            held = cache.held(config.memory_limit_bytes).into_iter().map(demand).collect();
        }
        bar.set_position(done);
    }
    bar.finish_and_clear();
    Ok((held, cache.curve()))
}

/// The result of a run of a workload with a class table.
pub struct Finding<'s> {
    pub table: &'s Table,
    pub record: RunRecord,
    /// Misses of the best partition by exact curves, as a fraction of all requests in the steady part of the run.
    pub best_partition_ratio: f64,
}

/// Runs a workload with a class table.
pub fn measure<'s>(
    setup: &ClassCountsSetup,
    (prepared, table): (&Prepared<'s>, &'s Table),
    policy: PagePolicy,
    size: (f64, u64),
    progress: &Progress,
) -> Result<Finding<'s>, ExperimentError> {
    let stream = prepared.stream;
    let cache = cache_of(stream, prepared.page_size_bytes, &table.sizes);
    let run = Run::new(&stream.workload, &cache, &setup.time, MoverName::Warm, size);
    let cost = VisitCost::new(setup.visit_ns)?;
    let run = Run { windows: setup.windows, response: setup.response, cost, ..run };
    let best_partition_ratio = best_partition_miss_ratio(&run, setup, stream.steady.at(size.0))?;
    let bar = progress.bar(&format!("{}, {}", stream.name, table.name));
    let record = execute(&run, Controller::Policy(Box::new(policy)), &bar)?;
    Ok(Finding { table, record, best_partition_ratio })
}

/// Returns the miss ratio of the best partition in the part `steady` of the run, if each class is an LRU.
fn best_partition_miss_ratio(
    run: &Run<'_>,
    setup: &ClassCountsSetup,
    steady: (u64, u64),
) -> Result<f64, ExperimentError> {
    let config = run.engine_config();
    let mut exact = ExactCurves::new(&config);
    run.requests(&config)?.add_to(&mut exact, steady, &ProgressBar::hidden())?;
    let curves = ClassCurves::new(exact.take(), &config, &setup.response);
    Ok(curves.bound(config.memory_limit_bytes / config.page_size_bytes as u64).miss_ratio)
}
