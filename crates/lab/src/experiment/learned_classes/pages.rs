//! How many pages the items take: in slabwise's engine, and in a real memcached.

use super::setup::LearnedClassesSetup;
use crate::trial::error::ExperimentError;
use crate::trial::exact_curves::BESIDE_VALUE_BYTES;
use crate::trial::setup::scaled;
use crate::vtime::Cache;
use crate::wire::{Server, ServerError, open};
use slabwise_base::{ClassId, Now};
use slabwise_client::{ClientError, ServerAddress, request};
use slabwise_engine::{ClassTable, Engine, EngineConfig, SizeModel};
use slabwise_replay::key_bytes;
use slabwise_replay::workload::{Op, Request};

#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The size of each, header and key included, as memcached counts it.
    pub sizes: &'a [usize],
    pub page_size_bytes: usize,
    /// The memory limit: far more than they take.
    pub memory_mib: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub pages: u64,
    pub items: u64,
}

impl<'a> Stored<'a> {
    /// The first of these sizes, as many as take the set-up's memory times the scale.
    pub fn of(setup: &LearnedClassesSetup, scale: f64, sizes: &'a [usize]) -> Stored<'a> {
        let bytes_max = scaled(setup.stored_mib << 20, scale);
        let mut bytes = 0;
        let fitting = sizes.iter().take_while(|&&size| {
            bytes += size as u64;
            bytes <= bytes_max
        });
        let sizes = &sizes[..fitting.count()];
        let page_size_bytes = setup.table.page_size_kib << 10;
        // Chunks take less than twice their items; beside that every class has room to begin a page.
        let pages = 2 * bytes_max / page_size_bytes as u64 + 2 * ClassId::COUNT_MAX as u64;
        Stored { sizes, page_size_bytes, memory_mib: (pages * page_size_bytes as u64) >> 20 }
    }

    fn value_len(size_bytes: usize) -> u32 {
        let value_len = size_bytes.saturating_sub(BESIDE_VALUE_BYTES).max(1);
        u32::try_from(value_len).expect("a value is smaller than 4 GiB")
    }

    /// In slabwise's engine with this class table, counted as memcached counts.
    pub fn in_engine(&self, table: &[usize], seed: u64) -> Result<Taken, ExperimentError> {
        let classes = ClassTable::explicit(table, self.page_size_bytes);
        let config = EngineConfig {
            page_size_bytes: self.page_size_bytes,
            classes: classes.unwrap_or_else(|error| panic!("an experiment's classes: {error}")),
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
            cache.bring_in(&request, now);
        }
        let pages = engine.class_stats(now).iter().map(|class| class.pages).sum();
        Ok(Taken { pages, items: engine.stats(now).items })
    }

    pub fn in_memcached(&self, table: Option<&[usize]>) -> Result<Taken, ServerError> {
        let mut command = vec!["memcached".to_owned()];
        if let Some((_, sizes)) = table.and_then(|table| table.split_last()) {
            // The largest it adds by itself.
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            command.extend(["-o".to_owned(), format!("slab_sizes={}", sizes.join("-"))]);
        }
        let mut server = Server::start(&command, self.memory_mib)?;
        let items = self.send(&server.address())?;
        let pages = server.classes()?.iter().map(|class| class.pages).sum();
        Ok(Taken { pages, items })
    }

    /// Stores all, some at a time; returns how many were.
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
