//! `class-counts`: how many classes are best?
//!
//! ```text
//!   training requests --> whole cache: one queue, chunks of just their size --items it holds--> tables of k classes
//!   steady requests ----> its curve                                                              |       |
//!                           '-----> prediction: the curve, at what a table leaves of the memory <'       |
//!                                        :                                                               v
//!                                   beside misses, bytes lost and times measured <---- engine + tuner: Course
//!                                   and the best split of every table's own exact curves
//! ```
//!
//! Classes pull two ways: with more of them chunks fit their items better, and the memory is split into more queues,
//! each on pages of its own. The prediction knows the first, and the second by a price: so many pages a class. What
//! prices would have been right is told in two ways: by which of them the prediction comes nearest, and by the slope of
//! the pages that are missing, table by table, where the whole cache's curve is asked how much memory the measured
//! misses are.
//!
//! Laws: all tables of a workload see the same requests on the same pages, and end with the same largest chunk; each is
//! made of the training alone.

mod prediction;
mod report;
mod spec;
mod whole;

#[cfg(test)]
mod tests;

pub use spec::ClassCountsSetup;

use super::course::Course;
use super::divider::Divider;
use super::error::ExperimentError;
use super::exact_curves::{BESIDE_VALUE_BYTES, Counts, ExactCurves};
use super::outcome::Outcome;
use super::policies::ClassCurves;
use super::progress::Progress;
use super::run::{Requests, Run, value_len_max};
use super::spec::{CacheSetup, ChunkSizes, Spec, place_at};
use crate::virtual_time::{MoverName, VisitCost};
use prediction::{Table, Whole};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use slabwise_engine::{CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, EngineConfig};
use slabwise_policy::PagePolicy;
use slabwise_policy::sizes::{ChunkLayout, Demand, SizesError, exact, geometric};
use slabwise_profile::Mrc;
use slabwise_replay::workload::Request;
use spec::StreamSetup;
use whole::WholeCache;

/// What is known of a workload before any run.
struct Learned<'s> {
    stream: &'s StreamSetup,
    whole: Whole,
    tables: Vec<Table>,
    /// Items that the tables were made for.
    items: u64,
    page_size_bytes: usize,
    value_len_max: u32,
}

/// One table on one workload.
struct Trial<'s> {
    learned: &'s Learned<'s>,
    table: &'s Table,
    cache: CacheSetup,
}

/// What came of it.
struct Finding<'s> {
    table: &'s Table,
    course: Course,
    /// The miss ratio of the best split by exact curves.
    best_split: f64,
}

/// Runs it in the process.
pub fn run(
    spec: &Spec,
    setup: &ClassCountsSetup,
    scale: f64,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let size = (scale, seed);
    let policy = PagePolicy::with_options(&setup.policy, &[]);
    let policy = policy.map_err(|error| ExperimentError::Option(error.to_string()))?;
    let learned = setup.streams.par_iter().map(|stream| learn(setup, stream, size, progress));
    let learned: Vec<Learned<'_>> = learned.collect::<Result<_, _>>()?;
    let trials = learned.iter().flat_map(|learned| {
        learned.tables.iter().map(move |table| Trial {
            learned,
            table,
            cache: learned.cache(table),
        })
    });
    let trials: Vec<Trial<'_>> = trials.collect();
    let found = trials.par_iter().map(|trial| trial.go(setup, policy.clone(), size, progress));
    let mut found = found.collect::<Result<Vec<_>, _>>()?.into_iter();
    let mut outcome = Outcome::new(spec, seed, scale, false);
    report::describe(&mut outcome, setup, &learned);
    for learned in &learned {
        let found: Vec<Finding<'_>> = found.by_ref().take(learned.tables.len()).collect();
        report::add(&mut outcome, setup, learned, &found);
    }
    outcome.complete();
    Ok(outcome)
}

/// Passes over the requests of a workload, and makes the tables.
fn learn<'s>(
    setup: &'s ClassCountsSetup,
    stream: &'s StreamSetup,
    (scale, seed): (f64, u64),
    progress: &Progress,
) -> Result<Learned<'s>, ExperimentError> {
    let base = stream.cache.engine_config(scale, seed);
    let layout = layout(base.page_size_bytes);
    let cache = cache_of(stream, base.page_size_bytes, &[layout.chunk_size_bytes_max]);
    let config = cache.engine_config(scale, seed);
    let (demands, curve) = whole_cache(stream, &config, (scale, seed), progress)?;
    let sized = |error: SizesError| ExperimentError::Option(format!("{}: {error}", stream.name));
    let count_max = setup.class_counts.iter().copied().max().unwrap_or(1);
    let best = exact(&demands, &layout, count_max).map_err(sized)?;
    let best = setup.class_counts.iter().map(|&count| {
        let sizes = best.table_of(count).to_vec();
        Table::new(format!("k = {count}"), Some(count), sizes, &demands, &layout)
    });
    let blind = setup.geometric.iter().map(|table| {
        let sizes = geometric(table.first_bytes, table.factor, &layout);
        Table::new(table.name.clone(), None, sizes, &demands, &layout)
    });
    Ok(Learned {
        stream,
        whole: Whole {
            curve,
            pages: (config.memory_limit_bytes / base.page_size_bytes as u64) as f64,
            page_size_bytes: base.page_size_bytes as f64,
        },
        tables: best.chain(blind).collect::<Result<_, _>>().map_err(sized)?,
        items: demands.iter().map(|demand| demand.items).sum(),
        page_size_bytes: base.page_size_bytes,
        value_len_max: value_len_max(&config),
    })
}

/// As a server's: the largest chunk is half a page. Longer values are cut, so nothing is chained.
fn layout(page_size_bytes: usize) -> ChunkLayout {
    ChunkLayout {
        page_size_bytes: Some(page_size_bytes),
        chunk_size_bytes_min: CHUNK_SIZE_BYTES_MIN,
        chunk_size_bytes_max: page_size_bytes / 2,
        chunk_align_bytes: CHUNK_ALIGN_BYTES,
        chaining: None,
    }
}

/// The cache of a workload with these chunks on these pages.
fn cache_of(stream: &StreamSetup, page_size_bytes: usize, sizes: &[usize]) -> CacheSetup {
    CacheSetup {
        page_size_kib: page_size_bytes >> 10,
        page_size_is_fixed: true,
        chunk_sizes: ChunkSizes::List(sizes.to_vec()),
        ..stream.cache.clone()
    }
}

/// What the whole cache holds after the training, and its curve of the steady requests.
fn whole_cache(
    stream: &StreamSetup,
    config: &EngineConfig,
    size: (f64, u64),
    progress: &Progress,
) -> Result<(Vec<Demand>, Mrc), ExperimentError> {
    let mut whole = WholeCache::default();
    let mut requests = Requests::new(&stream.workload, size, config)?;
    let trained = place_at(stream.training_requests, size.0);
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
                true => whole.count(request.key, item_size_bytes),
                false => drop(whole.reference(request.key, item_size_bytes)),
            }
        }
        done += batch.len() as u64;
        if done == trained {
            let demand = |(size_bytes, items)| Demand {
                size_bytes: size_bytes as usize,
                items,
                byte_value: 1.0,
            };
            held = whole.held(config.memory_limit_bytes).into_iter().map(demand).collect();
        }
        bar.set_position(done);
    }
    bar.finish_and_clear();
    Ok((held, whole.curve()))
}

impl Learned<'_> {
    /// The cache with this table.
    fn cache(&self, table: &Table) -> CacheSetup {
        cache_of(self.stream, self.page_size_bytes, &table.sizes)
    }
}

impl<'s> Trial<'s> {
    fn go(
        &self,
        setup: &ClassCountsSetup,
        policy: PagePolicy,
        size: (f64, u64),
        progress: &Progress,
    ) -> Result<Finding<'s>, ExperimentError> {
        let Trial { learned, table, cache } = self;
        let stream = learned.stream;
        let run = Run::new(&stream.workload, cache, &setup.time, MoverName::Warm, size);
        let cost = VisitCost::new(setup.visit_ns)?;
        let run = Run { windows: setup.windows, answer: setup.answer, cost, ..run };
        let best_split = self.best_split(&run, setup)?;
        let bar = progress.bar(&format!("{}, {}", stream.name, table.name));
        let course = run.go(Divider::Policy(Box::new(policy)), &bar)?;
        Ok(Finding { table, course, best_split })
    }

    /// What the best split of this table's classes would miss, each an LRU of its own.
    fn best_split(&self, run: &Run<'_>, setup: &ClassCountsSetup) -> Result<f64, ExperimentError> {
        let config = run.engine_config();
        let mut exact = ExactCurves::new(&config);
        let mut requests = run.requests(&config)?;
        let (from, to) = self.learned.stream.steady.at(run.scale);
        let mut done = 0;
        while done < to {
            let (counts, next) = if done < from { (Counts::No, from) } else { (Counts::Yes, to) };
            let batch: &[Request] = requests.next(next - done)?;
            batch.iter().for_each(|request| exact.reference(request, counts));
            done += batch.len() as u64;
        }
        let curves = ClassCurves::new(exact.take(), run, &setup.answer);
        Ok(curves.bound(config.memory_limit_bytes / config.page_size_bytes as u64).miss_ratio)
    }
}
