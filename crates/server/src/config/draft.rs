//! Settings in the making: what options have set so far, and what is yet to be derived from them.

use super::settings::{Listen, ProcessSettings, Protocol, Settings};
use crate::tls::TlsSettings;
use slabwise_engine::EngineConfig;
use slabwise_policy::PagePolicy;
use slabwise_protocol::text::CostWire;
use slabwise_tuner::{AutomoveSettings, MoveBudget};

#[derive(Debug)]
pub(super) struct Draft {
    /// Most options set a field of these, which begin as the defaults. [`super::resolve`] sets the others.
    pub settings: Settings,
    pub given: Given,
    pub warnings: Vec<String>,
}

/// Options that settings are derived from. `None` means not given: the default depends on other options.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub port: Option<i32>,
    pub unix_path: Option<String>,
    pub unix_mode: Option<u32>,
    pub protocol: Option<Protocol>,
    pub tls_enabled: bool,
    pub tls: TlsSettings,
    /// The options of TLS, which mean nothing without `-Z`.
    pub tls_names: Vec<&'static str>,

    pub memory_limit_mib: Option<u32>,
    pub item_size_bytes_max: Option<i64>,
    pub growth_factor: Option<f64>,
    pub chunk_size_bytes: Option<u32>,
    pub slab_sizes: Option<Vec<usize>>,
    /// In kilobytes or bytes: see `chunk_max_asked_for`.
    pub slab_chunk_max: Option<u32>,
    pub chunked_items_disabled: bool,
    pub page_size_bytes: Option<i64>,
    pub memcached_preset: bool,
    pub eviction: Option<&'static str>,
    pub classes: Option<&'static str>,
    pub page_policy: Option<String>,
    pub objective: Option<&'static str>,
    pub profile: Option<bool>,
    pub profile_memory_bytes: Option<u64>,
    pub page_mover: Option<&'static str>,
    pub page_move_chunks: Option<u32>,
    pub page_move_rate: Option<u32>,
    pub automove_ratio: Option<f64>,
    pub automove_window: Option<u32>,
}

impl Draft {
    pub fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }
}

impl Default for Draft {
    /// A command line without options.
    fn default() -> Draft {
        let engine = EngineConfig::new(64 << 20);
        let settings = Settings {
            listen: Listen::Tcp(Vec::new()),
            tcp_port: 0,
            udp: Vec::new(),
            udp_port: 0,
            interfaces: Vec::new(),
            protocol: Protocol::Auto,
            tls: None,
            listen_backlog: 1024,
            connections_max: 1024,
            maxconns_fast: true,
            threads: 4,
            auth_file: None,
            auth_file_as_given: None,
            requests_per_turn_max: 20,
            idle_timeout_seconds: None,
            napi_ids: 0,
            verbosity: 0,
            shutdown_enabled: false,
            flush_enabled: true,
            dump_enabled: true,
            debug_commands: false,
            watch_enabled: true,
            watcher_log_bytes: 256 << 10,
            worker_log_bytes: 64 << 10,
            cas_enabled: true,
            cost_wire: CostWire::Off,
            costs_measured: false,
            sasl_enabled: false,
            sasl_password_file: None,
            prefix_delimiter: ':',
            detail_enabled: false,
            track_sizes: false,
            lru_maintainer: true,
            crawler_enabled: true,
            crawler_sleep_us: 100,
            crawler_tocrawl: 0,
            reassign_enabled: true,
            automove: AutomoveSettings { level: 1, window_seconds: 0, age_ratio: 0.0 },
            growth_factor: 0.0,
            chunk_size_bytes: 48,
            learn_classes: false,
            page_policy: PagePolicy::none(),
            profiling: None,
            move_budget: MoveBudget::for_pages_of(engine.page_size_bytes),
            memory_file: None,
            hash_power: 0,
            tail_repair_seconds: 0,
            read_buffers_bytes_max: 0,
            process: ProcessSettings::default(),
            engine,
        };
        Draft { settings, given: Given::default(), warnings: Vec::new() }
    }
}
