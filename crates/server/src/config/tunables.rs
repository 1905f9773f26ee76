//! Settings that commands change while the server runs.
//!
//! Each stands alone, so relaxed loads and stores do: no reader combines two of them.

use super::settings::Settings;
use slabwise_engine::{EngineConfig, LruConfig};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[derive(Debug)]
pub struct Tunables {
    pub verbosity: AtomicU32,
    /// `slabs automove`: 0 off, 1 slow, 2 on every eviction.
    pub automove_level: AtomicU32,
    pub automove_ratio: Fraction,
    pub automove_free_ratio: Fraction,
    /// `slabs automove window`, in seconds.
    pub automove_window: AtomicU32,
    pub crawler_enabled: AtomicBool,
    /// `lru_crawler sleep`, in microseconds.
    pub crawler_sleep_us: AtomicU32,
    /// `lru_crawler tocrawl`; 0 for all.
    pub crawler_tocrawl: AtomicU32,
    pub learn_classes: AtomicBool,
    pub track_sizes: AtomicBool,
    /// `lru mode`: whether the queues are hot, warm and cold, and not one.
    pub lru_segmented: AtomicBool,
    /// `flush_all`: the last second whose items the last one ends; 0 before any.
    pub oldest_live: AtomicU32,
    /// `lru temp_ttl`: the last one set, which `stats settings` shows even when it is off.
    pub temporary_ttl: AtomicU32,
}

/// memcached's default for a setting that is off unless set.
const TEMPORARY_TTL_DEFAULT: u32 = 61;
/// memcached's default; no option sets it.
const AUTOMOVE_FREE_RATIO_DEFAULT: f64 = 0.01;

impl Tunables {
    /// The values of the start. A warm start may have changed the engine's own.
    pub fn new(settings: &Settings, config: &EngineConfig) -> Tunables {
        let temporary_ttl = config.eviction_options.lru.temporary_ttl;
        let temporary_ttl = temporary_ttl.map_or(TEMPORARY_TTL_DEFAULT, |ttl| ttl.0);
        Tunables {
            verbosity: AtomicU32::new(settings.verbosity.into()),
            automove_level: AtomicU32::new(settings.automove.level),
            automove_ratio: Fraction::new(settings.automove.age_ratio),
            automove_free_ratio: Fraction::new(AUTOMOVE_FREE_RATIO_DEFAULT),
            automove_window: AtomicU32::new(settings.automove.window_seconds),
            crawler_enabled: AtomicBool::new(settings.crawler_enabled),
            crawler_sleep_us: AtomicU32::new(settings.crawler_sleep_us),
            crawler_tocrawl: AtomicU32::new(settings.crawler_tocrawl),
            learn_classes: AtomicBool::new(settings.learn_classes),
            track_sizes: AtomicBool::new(settings.track_sizes),
            lru_segmented: AtomicBool::new(config.eviction.begins_segmented()),
            oldest_live: AtomicU32::new(0),
            temporary_ttl: AtomicU32::new(temporary_ttl),
        }
    }
}

/// A running server's settings, as `stats settings` shows them.
pub struct Running<'r> {
    pub settings: &'r Settings,
    /// What commands have changed since.
    pub tunables: &'r Tunables,
    pub lru: LruConfig,
    pub memory_limit_bytes: u64,
    pub detail_enabled: bool,
}

/// A fraction that several threads read and write.
#[derive(Debug)]
pub struct Fraction(AtomicU64);

impl Fraction {
    pub fn new(value: f64) -> Fraction {
        Fraction(AtomicU64::new(value.to_bits()))
    }

    pub fn load(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    pub fn store(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}
