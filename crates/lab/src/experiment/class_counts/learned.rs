//! What is known of a workload before any run: the whole cache's curve, and the tables that are tried.

use super::prediction::{Table, Whole};
use super::setup::{ClassCountsSetup, StreamSetup};
use super::whole::WholeCache;
use crate::trial::error::ExperimentError;
use crate::trial::exact_curves::BESIDE_VALUE_BYTES;
use crate::trial::progress::Progress;
use crate::trial::requests::{Requests, value_len_max};
use crate::trial::setup::{CacheSetup, ChunkSizes, place_at};
use slabwise_engine::{CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, EngineConfig};
use slabwise_policy::sizes::{ChunkLayout, Demand, SizesError, exact, geometric};
use slabwise_profile::Mrc;

pub struct Learned<'s> {
    pub stream: &'s StreamSetup,
    pub whole: Whole,
    pub tables: Vec<Table>,
    pub items: u64,
    pub page_size_bytes: usize,
    pub value_len_max: u32,
}

impl Learned<'_> {
    pub fn cache(&self, table: &Table) -> CacheSetup {
        cache_of(self.stream, self.page_size_bytes, &table.sizes)
    }
}

/// Passes over the requests of a workload, and makes the tables.
pub fn learn<'s>(
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
