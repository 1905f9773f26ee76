//! Counts the pages that items take in slabwise's engine and in a real memcached, and runs hill climbing many times.

use super::case::LearnedClassesSetup;
use crate::trial::curves::BESIDE_VALUE_BYTES;
use crate::trial::error::ExperimentError;
use crate::trial::setup::scaled;
use crate::vtime::Cache;
use crate::wire::{Server, ServerError, open};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use slabwise_base::random::mix;
use slabwise_base::{ClassId, Now, Random};
use slabwise_client::{ClientError, ServerAddress, request};
use slabwise_engine::{ClassTable, Engine, EngineConfig, SizeModel};
use slabwise_policy::sizes::{ChunkLayout, Demand, HillClimbOptions, SizesError, hill_climb};
use slabwise_replay::key_bytes;
use slabwise_replay::workload::{Op, Request};

/// Items that are stored to count their pages.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Size of each item as memcached counts it, with header and key.
    pub sizes: &'a [usize],
    pub page_size_bytes: usize,
    /// Memory limit, which is much larger than the sum of the sizes.
    pub memory_mib: u64,
}

/// The result of storing the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Number of pages of all classes.
    pub pages: u64,
    /// Number of items that were stored.
    pub items: u64,
}

impl<'a> Stored<'a> {
    /// Selects items from the start of `sizes`, until the sum of their sizes reaches `stored_mib` times the scale.
    pub fn of(setup: &LearnedClassesSetup, scale: f64, sizes: &'a [usize]) -> Stored<'a> {
        let bytes_max = scaled(setup.stored_mib << 20, scale);
        let mut bytes = 0;
        let fitting = sizes.iter().take_while(|&&size| {
            bytes += size as u64;
            bytes <= bytes_max
        });
        let sizes = &sizes[..fitting.count()];
        let page_size_bytes = setup.table.page_size_kib << 10;
        // Chunks are less than twice as large as their items, and every class may have a partly filled page.
        let pages = 2 * bytes_max / page_size_bytes as u64 + 2 * ClassId::COUNT_MAX as u64;
        Stored { sizes, page_size_bytes, memory_mib: (pages * page_size_bytes as u64) >> 20 }
    }

    /// Returns the length of the value of an item with this size.
    fn value_len(size_bytes: usize) -> u32 {
        let value_len = size_bytes.saturating_sub(BESIDE_VALUE_BYTES).max(1);
        u32::try_from(value_len).expect("a value is smaller than 4 GiB")
    }

    /// Stores the items in slabwise's engine with this class table and memcached's item sizes.
    pub fn in_engine(&self, table: &[usize], seed: u64) -> Result<Taken, ExperimentError> {
        let classes = ClassTable::explicit(table, self.page_size_bytes);
        let config = EngineConfig {
            page_size_bytes: self.page_size_bytes,
            classes: classes.unwrap_or_else(|error| panic!("the class table is valid: {error}")),
            size_model: SizeModel::Memcached,
            index_within_limit: false,
            hash_seed: seed,
            ..EngineConfig::new(self.memory_mib << 20)
        };
        let engine = Engine::new(config)?;
        let now = Now::from_nanos(1);
        let mut cache = Cache::new(&engine);
        for (key, &size) in self.sizes.iter().enumerate() {
            let request = Request {
                key: key as u64,
                op: Op::Set,
                value_len: Self::value_len(size),
                cost: None,
            };
            cache.store(&request, None, now);
        }
        let pages = engine.class_stats(now).iter().map(|class| class.pages).sum();
        Ok(Taken { pages, items: engine.stats(now).items })
    }

    /// Starts a memcached with this class table, and stores the items there. Without a table, memcached uses its own
    /// table.
    pub fn in_memcached(&self, table: Option<&[usize]>) -> Result<Taken, ServerError> {
        let mut command = vec!["memcached".to_owned()];
        if let Some((_, sizes)) = table.and_then(|table| table.split_last()) {
            // memcached itself adds the largest size.
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            command.extend(["-o".to_owned(), format!("slab_sizes={}", sizes.join("-"))]);
        }
        let mut server = Server::start(&command, self.memory_mib)?;
        let items = self.send(&server.address())?;
        let pages = server.classes()?.iter().map(|class| class.pages).sum();
        Ok(Taken { pages, items })
    }

    /// Stores all items in batches. Returns the number of items that the server stored.
    fn send(&self, address: &ServerAddress) -> Result<u64, ClientError> {
        const BATCH: usize = 32;
        let mut connection = open(address)?;
        let largest = self.sizes.iter().max().map_or(1, |&size| size);
        let value = vec![b'v'; largest];
        let (mut bytes, mut stored) = (Vec::new(), 0);
        for (batch, sizes) in self.sizes.chunks(BATCH).enumerate() {
            bytes.clear();
            for (at, &size) in sizes.iter().enumerate() {
                let key = key_bytes((batch * BATCH + at) as u64);
                let value_len = Self::value_len(size);
                request::set_line(&mut bytes, &key, None, value_len);
                bytes.extend_from_slice(&value[..value_len as usize]);
                request::end_value(&mut bytes);
            }
            connection.send(&bytes)?;
            for _ in sizes {
                stored += u64::from(connection.line()? == b"STORED");
            }
        }
        Ok(stored)
    }
}

/// The results of many climbs. A climb is a run of hill climbing.
#[derive(Clone, Debug)]
pub struct Climbs {
    /// The waste at the end of each climb in bytes, in ascending order.
    pub wastes: Vec<f64>,
    /// Mean number of moves of a climb.
    pub mean_iterations: f64,
}

/// Runs `count` climbs in parallel. `start` returns the table from which a climb starts.
pub fn climbs(
    demands: &[Demand],
    layout: &ChunkLayout,
    start: impl Fn(&mut Random) -> Vec<usize> + Sync,
    (count, seed): (u64, u64),
) -> Result<Climbs, SizesError> {
    let options = HillClimbOptions::default();
    let climb = |at: u64| {
        let mut random = Random::new(mix(seed ^ mix(at + 1)));
        let start = start(&mut random);
        hill_climb(demands, &start, layout, &options, &mut random)
    };
    let found: Result<Vec<_>, SizesError> = (0..count).into_par_iter().map(climb).collect();
    let found = found?;
    let iterations: u64 = found.iter().map(|climb| climb.iterations).sum();
    let mut wastes: Vec<f64> = found.iter().map(|climb| climb.loss.total_bytes()).collect();
    wastes.sort_by(f64::total_cmp);
    Ok(Climbs { mean_iterations: iterations as f64 / wastes.len() as f64, wastes })
}

impl Climbs {
    /// Returns the median of the wastes.
    pub fn median(&self) -> f64 {
        self.wastes[self.wastes.len() / 2]
    }

    /// Returns the lowest waste.
    pub fn best(&self) -> f64 {
        self.wastes[0]
    }

    /// Returns the highest waste.
    pub fn worst(&self) -> f64 {
        self.wastes[self.wastes.len() - 1]
    }

    /// Returns the number of climbs that end with at most this waste.
    pub fn count_up_to(&self, waste: f64) -> usize {
        self.wastes.partition_point(|&found| found <= waste)
    }

    /// Returns the number of climbs that end with the most frequent waste.
    pub fn most_frequent(&self) -> usize {
        let runs = self.wastes.chunk_by(|waste, next| waste == next);
        runs.map(<[f64]>::len).max().unwrap_or(0)
    }

    /// Returns the number of different wastes at the ends of the climbs.
    pub fn different_wastes(&self) -> usize {
        let mut wastes = self.wastes.clone();
        wastes.dedup();
        wastes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::climbs;
    use slabwise_base::Random;
    use slabwise_policy::sizes::{ChunkLayout, Demand};

    #[test]
    fn climbs_are_sorted_by_waste_and_determined_by_the_seed() {
        let demand = |step: usize| Demand {
            size_bytes: 100 + step,
            items: (1 + step * 7919 % 13) as u64,
            byte_value: 1.0,
        };
        let demands: Vec<Demand> = (0..100).map(demand).collect();
        let layout = ChunkLayout::published(1_000);
        let run = |seed| {
            let start = |_: &mut Random| vec![120, 150, 300, 1_000];
            climbs(&demands, &layout, start, (9, seed))
                .expect("the largest chunk size of the first table holds the largest item")
        };
        let found = run(1);
        assert_eq!(found.wastes.len(), 9);
        assert!(found.wastes.is_sorted());
        assert!(found.best() <= found.median() && found.median() <= found.worst());
        assert_eq!(found.count_up_to(found.worst()), 9);
        assert_eq!(found.count_up_to(found.best() - 1.0), 0);
        assert!((1..=9).contains(&found.different_wastes()));
        assert_eq!(found.wastes, run(1).wastes);
    }
}
