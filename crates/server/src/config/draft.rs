//! [`Draft`]: the settings while the options are parsed.

use super::http::HttpGiven;
use super::settings::{IoChoice, IoKind, Listen, ProcessSettings, Protocol, Settings, Tunables};
use super::source::Source;
use crate::tls::TlsSettings;
use slabwise_engine::{EngineConfig, EvictionKind, HugePages};
use slabwise_policy::PagePolicy;
use slabwise_policy::sizes::Method;
use slabwise_protocol::text::CostWire;
use slabwise_tuner::{AutomoveSettings, MoveBudget};

/// The settings while the options are parsed.
#[derive(Debug)]
pub(super) struct Draft {
    /// The settings, which start with the default values. The setter of an option changes a field. Then `resolve` sets
    /// the fields that depend on several options.
    pub settings: Settings,
    /// The values of options whose settings `resolve` derives.
    pub given: Given,
    /// The warnings about options, in the order in which they are printed.
    pub warnings: Vec<String>,
}

/// The values of options whose defaults depend on other options. `None` means that the option is not given. A field has
/// the unit of its option.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub port: Option<i32>,
    pub unix_path: Option<String>,
    pub unix_mode: Option<u32>,
    pub protocol: Option<Protocol>,
    pub tls_enabled: bool,
    pub tls: TlsSettings,
    /// The names of the options `ssl_*` that are given. They have no effect without `-Z`.
    pub tls_names: Vec<&'static str>,

    pub threads: Option<usize>,
    pub memory_limit_mib: Option<u32>,
    pub item_size_bytes_max: Option<i64>,
    pub growth_factor: Option<f64>,
    pub chunk_size_bytes: Option<u32>,
    pub slab_sizes: Option<Vec<usize>>,
    /// The value of `-o slab_chunk_max`, in kilobytes or bytes: `requested_chunk_max` decides the unit.
    pub slab_chunk_max: Option<u32>,
    pub chunked_items_disabled: bool,
    pub page_size_bytes: Option<i64>,
    /// The last of `-L` and `-o no_huge_pages`.
    pub huge_pages: Option<HugePages>,
    pub memcached_preset: bool,
    pub eviction: Option<&'static str>,
    pub classes: Option<&'static str>,
    pub page_policy: Option<String>,
    pub objective: Option<&'static str>,
    pub profile: Option<bool>,
    /// True if every access is profiled.
    pub profile_is_full: bool,
    pub profile_memory_bytes: Option<u64>,
    pub page_mover: Option<&'static str>,
    pub page_move_chunks: Option<u32>,
    pub page_move_share: Option<u32>,
    pub page_move_share_max: Option<u32>,
    pub http: HttpGiven,
    pub upgradable: bool,
    pub control_path: Option<String>,
    pub automove_ratio: Option<f64>,
    pub automove_window: Option<u32>,
}

/// The largest number of workers by default.
pub const THREADS_DEFAULT_MAX: usize = 4;
/// The default permission bits of the files of Unix sockets.
const UNIX_MODE_DEFAULT: u32 = 0o700;

impl Given {
    /// Returns the permission bits of the files of Unix sockets.
    pub(super) fn unix_mode(&self) -> u32 {
        self.unix_mode.unwrap_or(UNIX_MODE_DEFAULT)
    }

    /// Returns the value of the last of `-L` and `-o no_huge_pages`, or the default value.
    pub(super) fn huge_pages(&self) -> HugePages {
        let default =
            if self.memcached_preset { HugePages::BySystem } else { HugePages::Requested };
        self.huge_pages.unwrap_or(default)
    }

    /// Returns the eviction kind that `-o eviction` names, or the default eviction kind.
    pub(super) fn eviction_kind(&self, lru_maintainer: bool) -> EvictionKind {
        match self.eviction {
            Some(name) => EvictionKind::named(name)
                .expect("`-o eviction` accepts only names of eviction kinds"),
            // Without the LRU maintainer memcached has one queue per class.
            None if !lru_maintainer => EvictionKind::Lru,
            None if self.memcached_preset => EvictionKind::Segmented,
            // `density` learns from profiles.
            None if self.profile == Some(false) => EvictionKind::CostBands,
            None => EvictionKind::Density,
        }
    }
}

impl Draft {
    /// Returns the number of workers (`-t`). By default it is at most the number of processors: more workers would serve
    /// no more requests, and the system would switch between them.
    pub fn threads(&self) -> usize {
        self.given.threads.unwrap_or(self.settings.source.processors.min(THREADS_DEFAULT_MAX))
    }

    /// Adds a warning.
    pub fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Adds a warning that the former name of an option or value is given. Each former name has at most one warning.
    pub fn warn_of_former(&mut self, option: &str, former: &str, current: &str) {
        let warning = format!(
            "{option}: {former} is now named {current}: use the new name; the former name is accepted \
             until version 1.0"
        );
        if !self.warnings.contains(&warning) {
            self.warn(warning);
        }
    }
}

impl Default for Draft {
    /// Returns the draft of a command line without options.
    fn default() -> Draft {
        let engine = EngineConfig::new(64 << 20);
        let settings = Settings {
            source: Source::without_options(THREADS_DEFAULT_MAX),
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
            threads: 0,
            auth_file: None,
            auth_file_as_given: None,
            tunables: Tunables {
                memory_limit_option_bytes: engine.memory_limit_bytes,
                verbosity: 0,
                automove: AutomoveSettings { level: 1, window_seconds: 0, age_ratio: 0.0 },
                // This is memcached's default. slabwise has no option for this setting.
                automove_free_ratio: 0.01,
                crawler_enabled: true,
                crawler_sleep_us: 100,
                crawler_tocrawl: 0,
                set_learns_classes: false,
                track_sizes: false,
                lru_segmented: true,
                oldest_live: 0,
                // memcached shows the value 61 while the setting is off.
                temporary_ttl: 61,
            },
            io: IoChoice::Only(IoKind::Epoll),
            requests_per_round_max: 20,
            idle_timeout_seconds: None,
            upload_timeout_seconds: Some(10),
            handshake_timeout_seconds: Some(10),
            napi_ids: 0,
            shutdown_enabled: false,
            flush_enabled: true,
            dump_enabled: true,
            control_path: None,
            drop_privileges: false,
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
            lru_maintainer: true,
            classes_method: Method::Exact,
            reassign_enabled: true,
            growth_factor: 0.0,
            chunk_size_bytes: 48,
            page_policy: PagePolicy::none(),
            profiling: None,
            move_budget: MoveBudget::default(),
            memory_file: None,
            hash_power: 0,
            tail_repair_seconds: 0,
            read_buffers_bytes_max: 0,
            http: None,
            process: ProcessSettings::default(),
            engine,
        };
        Draft { settings, given: Given::default(), warnings: Vec::new() }
    }
}
