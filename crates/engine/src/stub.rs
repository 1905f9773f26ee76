//! A stand-in with the engine's public face, while the engine is being written.
#![allow(missing_docs, dead_code, unused_variables, clippy::all)]
use crate::EngineConfig;
use slabwise_base::{ClassId, Expiry, Now, Seconds, Ticks};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

#[derive(Clone)]
struct Entry {
    value: Vec<u8>,
    meta: ItemMeta,
    cas: u64,
    fetched: bool,
    time: Ticks,
}
pub struct Engine {
    config: EngineConfig,
    map: Mutex<(HashMap<Vec<u8>, Arc<Entry>>, u64)>,
}
#[derive(Debug)]
pub enum EngineError {
    ReserveFailed { bytes: u64 },
    LimitTooLarge { bytes: u64, bytes_max: u64 },
}
impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}
impl std::error::Error for EngineError {}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReassignError {
    Running,
    NoSpare,
    SameClass,
    BadClass,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoverStep {
    Idle,
    Working,
    Done,
}
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemMeta {
    pub client_flags: u32,
    pub expiry: Expiry,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas(u64),
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    Stored { cas: u64 },
    NotStored,
    Exists,
    NotFound,
    OutOfMemory,
    TooLarge,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    TooLarge,
    OutOfMemory,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    Increment(u64),
    Decrement(u64),
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOutcome {
    Value { value: u64, cas: u64 },
    NotFound,
    NotNumeric,
    OutOfMemory,
}
#[derive(Default, Clone, Debug)]
pub struct EngineStats {
    pub items: u64,
    pub items_total: u64,
    pub bytes: u64,
    pub memory_limit_bytes: u64,
    pub page_size_bytes: u64,
    pub pages_total: u64,
    pub pages_free: u64,
    pub pages_draining: u64,
    pub index_bytes: u64,
    pub index_buckets: u64,
    pub index_growing: bool,
    pub evictions: u64,
    pub reclaimed: u64,
    pub expired_unfetched: u64,
    pub evicted_unfetched: u64,
    pub evicted_active: u64,
    pub slabs_moved: u64,
    pub slab_reassign_rescues: u64,
    pub slab_reassign_evictions_nomem: u64,
    pub slab_reassign_inline_reclaim: u64,
    pub slab_reassign_busy_items: u64,
    pub slab_reassign_busy_deletes: u64,
    pub slab_reassign_chunk_rescues: u64,
    pub slab_reassign_running: bool,
    pub direct_reclaims: u64,
    pub moves_to_cold: u64,
    pub moves_to_warm: u64,
    pub moves_within_lru: u64,
    pub crawler_reclaimed: u64,
    pub crawler_items_checked: u64,
    pub lrutail_reflocked: u64,
    pub get_hits: u64,
    pub get_misses: u64,
    pub get_expired: u64,
    pub get_flushed: u64,
    pub touch_hits: u64,
    pub touch_misses: u64,
    pub delete_hits: u64,
    pub delete_misses: u64,
    pub incr_hits: u64,
    pub incr_misses: u64,
    pub decr_hits: u64,
    pub decr_misses: u64,
    pub cas_hits: u64,
    pub cas_misses: u64,
    pub cas_badval: u64,
    pub sets: u64,
    pub touches: u64,
    pub store_too_large: u64,
    pub store_no_memory: u64,
}
#[derive(Default, Clone, Debug)]
pub struct ClassStats {
    pub chunk_size_bytes: usize,
    pub chunks_per_page: usize,
    pub pages: u64,
    pub used_chunks: u64,
    pub free_chunks: u64,
    pub mem_requested: u64,
    pub items: [u64; 4],
    pub tail_age_seconds: [u32; 4],
    pub evicted: u64,
    pub evicted_nonzero: u64,
    pub evicted_time: u64,
    pub outofmemory: u64,
    pub tailrepairs: u64,
    pub reclaimed: u64,
    pub expired_unfetched: u64,
    pub evicted_unfetched: u64,
    pub evicted_active: u64,
    pub crawler_reclaimed: u64,
    pub crawler_items_checked: u64,
    pub lrutail_reflocked: u64,
    pub moves_to_cold: u64,
    pub moves_to_warm: u64,
    pub moves_within_lru: u64,
    pub direct_reclaims: u64,
    pub hits_to: [u64; 4],
    pub get_hits: u64,
    pub cmd_set: u64,
    pub delete_hits: u64,
    pub incr_hits: u64,
    pub decr_hits: u64,
    pub cas_hits: u64,
    pub cas_badval: u64,
    pub touch_hits: u64,
}

impl Engine {
    pub fn new(config: EngineConfig) -> Result<Engine, EngineError> {
        Ok(Engine { config, map: Mutex::default() })
    }
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }
    pub fn handle(&self) -> Handle<'_> {
        Handle { engine: self }
    }
    pub fn stats(&self) -> EngineStats {
        EngineStats { items: self.map.lock().unwrap().0.len() as u64, ..Default::default() }
    }
    pub fn class_stats(&self) -> Vec<ClassStats> {
        vec![ClassStats::default(); self.config.classes.count()]
    }
    /// Sets the counters that `stats reset` clears back to zero.
    pub fn reset_stats(&self) {}
    pub fn flush_all(&self, at: Option<Seconds>, now: Now) {
        self.map.lock().unwrap().0.clear()
    }
    pub fn set_memory_limit(&self, bytes: u64) -> Result<(), EngineError> {
        Ok(())
    }
    pub fn lru(&self) -> crate::LruConfig {
        self.config.lru
    }
    pub fn set_lru(&self, lru: crate::LruConfig) {}
    pub fn set_eviction(&self, kind: crate::EvictionKind) {}
    pub fn maintain_step(&self, budget: usize, now: Now) -> usize {
        0
    }
    pub fn reassign(
        &self,
        victim: Option<ClassId>,
        receiver: Option<ClassId>,
    ) -> Result<(), ReassignError> {
        Ok(())
    }
    pub fn mover_step(&self, budget_chunks: usize, now: Now) -> MoverStep {
        MoverStep::Idle
    }
    pub fn check(&self) {}
}
pub struct Handle<'e> {
    engine: &'e Engine,
}
#[derive(Clone, Copy)]
pub struct ItemView<'v, 'e> {
    key: &'v [u8],
    entry: &'v Arc<Entry>,
    engine: &'e Engine,
}
pub struct Pinned<'e> {
    entry: Arc<Entry>,
    engine: &'e Engine,
}
pub struct Reservation<'e> {
    key: Vec<u8>,
    value: Vec<u8>,
    filled: usize,
    meta: ItemMeta,
    engine: &'e Engine,
}
impl<'e> Handle<'e> {
    pub fn engine(&self) -> &'e Engine {
        self.engine
    }
    pub fn get<R>(
        &mut self,
        key: &[u8],
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Option<R> {
        let mut map = self.engine.map.lock().unwrap();
        if map.0.get(key).is_some_and(|e| e.meta.expiry.is_past(now.seconds)) {
            map.0.remove(key);
        }
        map.0.get(key).map(|entry| f(ItemView { key, entry, engine: self.engine }))
    }
    pub fn peek<R>(
        &mut self,
        key: &[u8],
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Option<R> {
        self.get(key, now, f)
    }
    pub fn touch(&mut self, key: &[u8], expiry: Expiry, now: Now) -> Result<bool, ReserveError> {
        if self.get(key, now, |_| ()).is_none() {
            return Ok(false);
        }
        let mut map = self.engine.map.lock().unwrap();
        let mut e = (**map.0.get(key).unwrap()).clone();
        e.meta.expiry = expiry;
        map.0.insert(key.to_vec(), Arc::new(e));
        Ok(true)
    }
    pub fn get_and_touch<R>(
        &mut self,
        key: &[u8],
        expiry: Expiry,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Result<Option<R>, ReserveError> {
        if !self.touch(key, expiry, now)? {
            return Ok(None);
        }
        Ok(self.get(key, now, f))
    }
    pub fn reserve(
        &mut self,
        key: &[u8],
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Reservation<'e>, ReserveError> {
        if (value_len + key.len() + 48) as u64 > self.engine.config.item_size_bytes_max {
            return Err(ReserveError::TooLarge);
        }
        Ok(Reservation {
            key: key.to_vec(),
            value: vec![0; value_len],
            filled: 0,
            meta,
            engine: self.engine,
        })
    }
    pub fn store(&mut self, r: Reservation<'e>, mode: StoreMode, now: Now) -> StoreOutcome {
        let old = self.get(&r.key, now, |v| v.entry.clone());
        let mut map = self.engine.map.lock().unwrap();
        let mut value = r.value.clone();
        let mut meta = r.meta;
        match (mode, &old) {
            (StoreMode::Add, Some(_))
            | (StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, None) => {
                return StoreOutcome::NotStored;
            }
            (StoreMode::Cas(_), None) => return StoreOutcome::NotFound,
            (StoreMode::Cas(c), Some(o)) if c != o.cas => return StoreOutcome::Exists,
            (StoreMode::Append, Some(o)) => {
                value = [o.value.clone(), value].concat();
                meta = o.meta
            }
            (StoreMode::Prepend, Some(o)) => {
                value = [value, o.value.clone()].concat();
                meta = o.meta
            }
            _ => {}
        }
        map.1 += 1;
        let cas = map.1;
        map.0.insert(
            r.key.clone(),
            Arc::new(Entry { value, meta, cas, fetched: false, time: now.ticks }),
        );
        StoreOutcome::Stored { cas }
    }
    pub fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
        mode: StoreMode,
        now: Now,
    ) -> StoreOutcome {
        match self.reserve(key, value.len(), meta, now) {
            Ok(mut r) => {
                r.fill(value);
                self.store(r, mode, now)
            }
            Err(ReserveError::TooLarge) => StoreOutcome::TooLarge,
            Err(ReserveError::OutOfMemory) => StoreOutcome::OutOfMemory,
        }
    }
    pub fn delete(&mut self, key: &[u8], now: Now) -> bool {
        self.get(key, now, |_| ()).is_some()
            && self.engine.map.lock().unwrap().0.remove(key).is_some()
    }
    pub fn arithmetic(&mut self, key: &[u8], delta: Delta, now: Now) -> ArithmeticOutcome {
        let Some(e) = self.get(key, now, |v| v.entry.clone()) else {
            return ArithmeticOutcome::NotFound;
        };
        let Some(n) =
            std::str::from_utf8(&e.value).ok().and_then(|s| s.trim_end().parse::<u64>().ok())
        else {
            return ArithmeticOutcome::NotNumeric;
        };
        let value = match delta {
            Delta::Increment(d) => n.wrapping_add(d),
            Delta::Decrement(d) => n.saturating_sub(d),
        };
        let mut text = value.to_string();
        while text.len() < e.value.len() {
            text.push(' ')
        }
        match self.set(key, text.as_bytes(), e.meta, StoreMode::Set, now) {
            StoreOutcome::Stored { cas } => ArithmeticOutcome::Value { value, cas },
            _ => ArithmeticOutcome::OutOfMemory,
        }
    }
}
impl<'v, 'e> ItemView<'v, 'e> {
    pub fn key(&self) -> &'v [u8] {
        self.key
    }
    pub fn value_len(&self) -> usize {
        self.entry.value.len()
    }
    pub fn client_flags(&self) -> u32 {
        self.entry.meta.client_flags
    }
    pub fn cas(&self) -> u64 {
        self.entry.cas
    }
    pub fn expiry(&self) -> Expiry {
        self.entry.meta.expiry
    }
    pub fn last_access(&self) -> Ticks {
        self.entry.time
    }
    pub fn fetched(&self) -> bool {
        self.entry.fetched
    }
    pub fn class(&self) -> ClassId {
        ClassId(0)
    }
    pub fn value(&self) -> impl Iterator<Item = &'v [u8]> + use<'v> {
        std::iter::once(&self.entry.value[..])
    }
    pub fn copy_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.entry.value)
    }
    pub fn pin(&self) -> Option<Pinned<'e>> {
        Some(Pinned { entry: self.entry.clone(), engine: self.engine })
    }
}
impl<'e> Pinned<'e> {
    pub fn value_len(&self) -> usize {
        self.entry.value.len()
    }
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.entry.value[..])
    }
}
impl<'e> Reservation<'e> {
    pub fn value_len(&self) -> usize {
        self.value.len()
    }
    pub fn filled(&self) -> usize {
        self.filled
    }
    pub fn remaining(&self) -> usize {
        self.value.len() - self.filled
    }
    pub fn unfilled(&mut self) -> &mut [u8] {
        let f = self.filled;
        &mut self.value[f..]
    }
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining());
        self.filled += count
    }
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.remaining());
        let f = self.filled;
        self.value[f..f + n].copy_from_slice(&bytes[..n]);
        self.filled += n;
        n
    }
}
pub struct Crawler;
pub struct CrawledItem<'a> {
    pub key: &'a [u8],
    pub value_len: usize,
    pub expiry: Expiry,
    pub last_access: Ticks,
    pub cas: u64,
    pub client_flags: u32,
    pub fetched: bool,
    pub class: ClassId,
    pub size_bytes: usize,
}
impl Crawler {
    pub fn new(classes: &[ClassId]) -> Crawler {
        Crawler
    }
    pub fn step(
        &mut self,
        engine: &Engine,
        budget_chunks: usize,
        now: Now,
        visit: &mut dyn FnMut(CrawledItem<'_>),
    ) -> bool {
        for (k, e) in &engine.map.lock().unwrap().0 {
            visit(CrawledItem {
                key: k,
                value_len: e.value.len(),
                expiry: e.meta.expiry,
                last_access: e.time,
                cas: e.cas,
                client_flags: e.meta.client_flags,
                fetched: e.fetched,
                class: ClassId(0),
                size_bytes: e.value.len() + k.len() + 29,
            })
        }
        true
    }
}
