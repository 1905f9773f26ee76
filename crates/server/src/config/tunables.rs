//! Settings that commands change while the server runs.

use super::settings::Settings;
use slabwise_engine::{EngineConfig, LruConfig};
use slabwise_tuner::AutomoveSettings;

#[derive(Clone, Copy, Debug)]
pub struct Tunables {
    pub verbosity: u32,
    pub automove: AutomoveSettings,
    pub automove_free_ratio: f64,
    pub crawler_enabled: bool,
    pub crawler_sleep_us: u32,
    /// `lru_crawler tocrawl`; 0 for all.
    pub crawler_tocrawl: u32,
    pub learn_classes: bool,
    pub track_sizes: bool,
    /// `lru mode`: whether the queues are hot, warm and cold, and not one.
    pub lru_segmented: bool,
    /// `flush_all`: the last second whose items the last one ends; 0 before any.
    pub oldest_live: u32,
    /// `lru temp_ttl`: the last one set, which `stats settings` shows even when it is off.
    pub temporary_ttl: u32,
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
            verbosity: settings.verbosity.into(),
            automove: settings.automove,
            automove_free_ratio: AUTOMOVE_FREE_RATIO_DEFAULT,
            crawler_enabled: settings.crawler_enabled,
            crawler_sleep_us: settings.crawler_sleep_us,
            crawler_tocrawl: settings.crawler_tocrawl,
            learn_classes: settings.learn_classes,
            track_sizes: settings.track_sizes,
            lru_segmented: config.eviction.begins_segmented(),
            oldest_live: 0,
            temporary_ttl,
        }
    }
}

/// A running server's settings, as `stats settings` shows them.
pub struct Running<'r> {
    pub settings: &'r Settings,
    /// What commands have changed since.
    pub tunables: Tunables,
    pub lru: LruConfig,
    pub memory_limit_bytes: u64,
    pub detail_enabled: bool,
}
