//! What was said on the command line, before anything follows from it. `None` means unsaid: the default
//! may depend on the preset and on other options.

use super::tls::RawTls;
use crate::settings::Protocol;
use slabwise_engine::{GdWheelConfig, ReservedConfig};
use slabwise_policy::PagePolicy;

/// What was said.
#[derive(Clone, Debug, Default)]
pub(super) struct Raw {
    pub warnings: Vec<String>,

    pub port: Option<i32>,
    pub udp_port: i32,
    pub auth_file: Option<String>,
    pub interfaces: Vec<String>,
    pub unix_path: Option<String>,
    pub unix_mode: Option<u32>,
    pub listen_backlog: Option<i32>,
    pub connections_max: Option<u32>,
    pub connections_max_fast: Option<bool>,
    pub threads: Option<u32>,
    pub requests_per_turn_max: Option<u32>,
    pub idle_timeout_seconds: u32,
    pub napi_ids: u32,
    pub protocol: Option<Protocol>,
    pub tls: RawTls,
    pub sasl_enabled: bool,

    pub verbosity: u8,
    pub shutdown_command: bool,
    pub flush_disabled: bool,
    pub dump_disabled: bool,
    pub watch_disabled: bool,
    pub cas_disabled: bool,
    pub prefix_delimiter: Option<char>,
    pub track_sizes: bool,

    pub daemonize: bool,
    pub pid_file: Option<String>,
    pub user: Option<String>,
    pub lock_memory: bool,
    pub core_files: bool,

    pub memory_limit_mib: Option<u32>,
    pub eviction_disabled: bool,
    pub huge_pages: bool,
    pub memory_file: Option<String>,
    pub item_size_bytes_max: Option<i64>,
    pub growth_factor: Option<f64>,
    pub chunk_size_bytes: Option<u32>,
    pub slab_sizes: Option<Vec<usize>>,
    /// In kilobytes or bytes: see `chunk_max_asked_for`.
    pub slab_chunk_max: Option<u32>,
    pub chunked_items_disabled: bool,
    pub page_size_bytes: Option<i64>,
    pub memcached_preset: bool,
    pub debug_commands: bool,
    pub cost_wire: bool,
    pub costs_measured: bool,
    pub eviction: Option<&'static str>,
    pub reserved: ReservedConfig,
    pub gd_wheel: GdWheelConfig,
    pub classes: Option<&'static str>,
    /// As given, and what it means.
    pub page_policy: Option<(String, PagePolicy)>,
    pub objective: Option<&'static str>,
    pub profile: Option<bool>,
    pub profile_memory_bytes: Option<u64>,
    pub page_mover: Option<&'static str>,
    pub page_move_chunks: Option<u32>,
    pub page_move_rate: Option<u32>,

    pub lru_maintainer: Option<bool>,
    pub lru_crawler: Option<bool>,
    pub hot_percent: Option<u32>,
    pub warm_percent: Option<u32>,
    pub hot_age_factor: Option<f64>,
    pub warm_age_factor: Option<f64>,
    pub temporary_ttl_seconds: Option<u32>,
    pub slab_reassign: Option<bool>,
    pub slab_automove: Option<u32>,
    pub slab_automove_ratio: Option<f64>,
    pub slab_automove_window: Option<u32>,

    pub hash_power: u32,
    pub hash_algorithm: Option<&'static str>,
    pub lru_crawler_sleep_us: Option<u32>,
    pub lru_crawler_tocrawl: u32,
    pub tail_repair_seconds: u32,
    pub watcher_log_kib: Option<u32>,
    pub worker_log_kib: Option<u32>,
    pub read_buffers_mib_max: u32,
}

impl Raw {
    pub fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }
}
