//! The server's settings: [`Settings`] from the command line, [`Tunables`] that commands change while the server
//! runs, and the [`Draft`] into which options are written.

use crate::tls::{ClientCertificates, TlsSettings};
use slabwise_engine::{EngineConfig, LruConfig};
use slabwise_policy::PagePolicy;
use slabwise_protocol::text::CostWire;
use slabwise_tuner::{AutomoveSettings, MoveBudget, ProfilingOptions};
use std::fmt;
use std::path::PathBuf;

/// The validated settings of the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) listen: Listen,
    /// `-B`: the protocol of listeners for which `-l` does not specify one.
    pub(crate) protocol: Protocol,
    /// `-Z` and the options `ssl_*`.
    pub(crate) tls: Option<TlsSettings>,
    /// The UDP addresses of `-U`.
    pub(crate) udp: Vec<ListenAddress>,
    /// `-p` as given.
    pub(crate) tcp_port: i32,
    /// `-U` as given.
    pub(crate) udp_port: i32,
    /// `-l` as given.
    pub(crate) interfaces: Vec<String>,
    pub(crate) listen_backlog: i32,
    pub(crate) connections_max: u32,
    /// Whether new connections are rejected at the limit; otherwise they wait.
    pub(crate) maxconns_fast: bool,
    pub(crate) threads: usize,
    /// `-Y`: the password file of the ASCII protocol.
    pub(crate) auth_file: Option<PathBuf>,
    pub(crate) auth_file_as_given: Option<String>,
    /// The initial values.
    pub(crate) tunables: Tunables,
    /// `-N`, without effect.
    pub(crate) napi_ids: u32,
    /// `-R`: the maximum number of requests served from a connection before the others are served.
    pub(crate) requests_per_turn_max: u32,
    pub(crate) idle_timeout_seconds: Option<u32>,
    pub(crate) shutdown_enabled: bool,
    pub(crate) flush_enabled: bool,
    /// False with `-X`: whether `stats cachedump`, `stats detail` and `lru_crawler metadump` are enabled.
    pub(crate) dump_enabled: bool,
    /// Whether clients may set the clock and pin items, as memcached's own tests do.
    pub(crate) debug_commands: bool,
    pub(crate) watch_enabled: bool,
    /// The size of a watcher's log buffer.
    pub(crate) watcher_log_bytes: u64,
    /// `worker_logbuf_size`, without effect.
    pub(crate) worker_log_bytes: u64,
    pub(crate) cas_enabled: bool,
    /// Whether `set`, `add` and `replace` accept the cost of an item.
    pub(crate) cost_wire: CostWire,
    /// Whether the server measures costs that clients do not supply.
    pub(crate) costs_measured: bool,
    pub(crate) sasl_enabled: bool,
    /// `MEMCACHED_SASL_PWDB`: the password file of `-S`.
    pub(crate) sasl_password_file: Option<PathBuf>,
    /// The character that ends a key's prefix in `stats detail`.
    pub(crate) prefix_delimiter: char,
    /// Whether statistics by prefix are kept from the start.
    pub(crate) detail_enabled: bool,
    pub(crate) lru_maintainer: bool,
    /// Whether pages may move between classes.
    pub(crate) reassign_enabled: bool,
    pub(crate) growth_factor: f64,
    /// `-n`.
    pub(crate) chunk_size_bytes: u32,
    pub(crate) page_policy: PagePolicy,
    pub(crate) profiling: Option<ProfilingOptions>,
    pub(crate) move_budget: MoveBudget,
    /// `-e`: the absolute path of the memory file.
    pub(crate) memory_file: Option<PathBuf>,
    /// `-o hashpower`: the minimum of the statistic `hash_power_level`.
    pub(crate) hash_power: u32,
    /// `tail_repair_time`, without effect.
    pub(crate) tail_repair_seconds: u32,
    /// `read_buf_mem_limit`, without effect.
    pub(crate) read_buffers_bytes_max: u64,
    pub(crate) process: ProcessSettings,
    /// The engine's settings.
    pub engine: EngineConfig,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The first byte of a connection decides.
    Auto,
    Ascii,
    /// A connection whose first byte is not binary is closed.
    Binary,
}

impl Protocol {
    /// Returns memcached's name for the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Auto => "auto-negotiate",
            Protocol::Ascii => "ascii",
            Protocol::Binary => "binary",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `-s`, `-a`: only a Unix socket whose file has this mode.
    Unix { path: PathBuf, mode: u32 },
    /// `-l`, `-p`.
    Tcp(Vec<ListenAddress>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// A name or an address; `None` for all interfaces.
    pub host: Option<String>,
    /// The port; 0 lets the kernel choose.
    pub port: u16,
    pub security: ListenSecurity,
    pub protocol: Protocol,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListenSecurity {
    /// Without TLS: `-Z` is not given, or the address has the prefix `notls:`.
    #[default]
    Plain,
    /// With TLS. Client certificates depend on `ssl_verify_mode` or on the prefix `btls:` or `mtls:`.
    Tls(ClientCertificates),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => write!(f, "port {}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSettings {
    pub daemonize: bool,
    pub pid_file: Option<PathBuf>,
    /// `-u`: the user to become when started by root.
    pub user: Option<String>,
    pub lock_memory: bool,
    pub core_files: bool,
}

impl Settings {
    /// The number of threads that memcached gives a UDP port: one if `-l` has several addresses, otherwise all.
    pub(crate) fn threads_per_udp_port(&self) -> usize {
        let several =
            self.interfaces.len() > 1 || self.interfaces.iter().any(|list| list.contains(','));
        if several { 1 } else { self.threads }
    }
}

/// Settings that commands change while the server runs.
#[derive(Clone, Copy, Debug)]
pub struct Tunables {
    /// `-v`: from 0 (warnings only) to 3 (everything).
    pub verbosity: u32,
    pub automove: AutomoveSettings,
    pub automove_free_ratio: f64,
    pub crawler_enabled: bool,
    pub crawler_sleep_us: u32,
    /// The maximum number of items that a crawl checks in a class; 0 for all.
    pub crawler_tocrawl: u32,
    pub learn_classes: bool,
    pub track_sizes: bool,
    /// `lru mode`: whether a class has hot, warm and cold queues instead of one queue.
    pub lru_segmented: bool,
    /// The last `flush_all` invalidates items up to this second; 0 before any.
    pub oldest_live: u32,
    /// The last value of `lru temp_ttl`, which `stats settings` shows even when it is off.
    pub temporary_ttl: u32,
}

impl Tunables {
    /// Returns the initial values. `config` is the engine's configuration, which a warm restart may have changed.
    pub fn new(settings: &Settings, config: &EngineConfig) -> Tunables {
        let ttl = config.eviction_options.lru.temporary_ttl;
        Tunables {
            lru_segmented: config.eviction.begins_segmented(),
            temporary_ttl: ttl.map_or(settings.tunables.temporary_ttl, |ttl| ttl.0),
            ..settings.tunables
        }
    }
}

/// A running server's settings, as `stats settings` shows them.
pub struct Running<'r> {
    pub settings: &'r Settings,
    pub tunables: Tunables,
    pub lru: LruConfig,
    pub memory_limit_bytes: u64,
    pub detail_enabled: bool,
}

#[derive(Debug)]
pub(super) struct Draft {
    /// Starts with the defaults. Most options set a field; `resolve` sets the other fields.
    pub settings: Settings,
    pub given: Given,
    pub warnings: Vec<String>,
}

/// Options whose defaults depend on other options. `None` means that the option is not given.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub port: Option<i32>,
    pub unix_path: Option<String>,
    pub unix_mode: Option<u32>,
    pub protocol: Option<Protocol>,
    pub tls_enabled: bool,
    pub tls: TlsSettings,
    /// The given TLS options, which have no effect without `-Z`.
    pub tls_names: Vec<&'static str>,

    pub memory_limit_mib: Option<u32>,
    pub item_size_bytes_max: Option<i64>,
    pub growth_factor: Option<f64>,
    pub chunk_size_bytes: Option<u32>,
    pub slab_sizes: Option<Vec<usize>>,
    /// In kilobytes or bytes: see `requested_chunk_max`.
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

    /// Warns, once for each former name, that an option or one of its values has a new name.
    pub fn warn_of_former(&mut self, option: &str, former: &str, current: &str) {
        let warning = format!(
            "{option}: {former} is now named {current}; the former name works until version 1.0"
        );
        if !self.warnings.contains(&warning) {
            self.warn(warning);
        }
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
            tunables: Tunables {
                verbosity: 0,
                automove: AutomoveSettings { level: 1, window_seconds: 0, age_ratio: 0.0 },
                // memcached's default, which no option sets.
                automove_free_ratio: 0.01,
                crawler_enabled: true,
                crawler_sleep_us: 100,
                crawler_tocrawl: 0,
                learn_classes: false,
                track_sizes: false,
                lru_segmented: true,
                oldest_live: 0,
                // memcached shows this value while the setting is off.
                temporary_ttl: 61,
            },
            requests_per_turn_max: 20,
            idle_timeout_seconds: None,
            napi_ids: 0,
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
            lru_maintainer: true,
            reassign_enabled: true,
            growth_factor: 0.0,
            chunk_size_bytes: 48,
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
