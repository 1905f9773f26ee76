//! The server's settings: [`Settings`], which the command line sets; [`Tunables`], which commands change while the
//! server runs; and [`Draft`], which contains the settings while the options are parsed.

use super::http::{HttpGiven, HttpSettings};
use super::source::Source;
use crate::tls::{ClientCertificates, TlsSettings};
use slabwise_engine::{EngineConfig, EvictionKind, HugePages, LruConfig};
use slabwise_policy::PagePolicy;
use slabwise_policy::sizes::Method;
use slabwise_protocol::text::CostWire;
use slabwise_tuner::{AutomoveSettings, MoveBudget, ProfilingOptions};
use std::fmt;
use std::path::PathBuf;
use std::thread::available_parallelism;

/// The settings of the command line. They are valid and do not change while the server runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The command line and the file that the settings result from.
    pub(crate) source: Source,
    /// The listening sockets for connections (`-l`, `-p`, `-s`).
    pub(crate) listen: Listen,
    /// `-B`: the protocol of listeners whose address in `-l` specifies no protocol.
    pub(crate) protocol: Protocol,
    /// `-Z` and the options `ssl_*`; `None` without `-Z`.
    pub(crate) tls: Option<TlsSettings>,
    /// The UDP addresses on which the server listens (`-U`, `-l`).
    pub(crate) udp: Vec<ListenAddress>,
    /// The TCP port: the value of `-p`, or else that of `-U`, or else 11211; -1 for any free port, 0 if TCP is disabled.
    pub(crate) tcp_port: i32,
    /// The value of `-U`; -1 for any free port, 0 if UDP is disabled.
    pub(crate) udp_port: i32,
    /// The values of `-l`, as they were given.
    pub(crate) interfaces: Vec<String>,
    /// `-b`: the length of the kernel's queue of pending connections.
    pub(crate) listen_backlog: i32,
    /// `-c`: the maximum number of open connections.
    pub(crate) connections_max: u32,
    /// `-o maxconns_fast`: true if the server rejects new connections when `-c` connections are open; false if the new
    /// connections wait.
    pub(crate) maxconns_fast: bool,
    /// `-t`: the number of workers.
    pub(crate) threads: usize,
    /// `-Y`: the absolute path of the password file for the ASCII protocol.
    pub(crate) auth_file: Option<PathBuf>,
    /// `-Y`: the path of the password file, as it was given.
    pub(crate) auth_file_as_given: Option<String>,
    /// The settings that commands can change, with their values at the start of the server.
    pub(crate) tunables: Tunables,
    /// `-N`, which has no effect.
    pub(crate) napi_ids: u32,
    /// `-o io`: by which interface of the kernel workers wait, receive and send.
    pub(crate) io: IoChoice,
    /// `-R`: the maximum number of requests of a connection that a worker serves before it serves other connections.
    pub(crate) requests_per_round_max: u32,
    /// `-o idle_timeout`: the number of seconds after which an idle TCP connection is closed; `None` for never.
    pub(crate) idle_timeout_seconds: Option<u32>,
    /// `-o upload_timeout`: the number of seconds after which an upload that received no byte is refused; `None` for
    /// never.
    pub(crate) upload_timeout_seconds: Option<u32>,
    /// `-o ssl_handshake_timeout`: the number of seconds after which a connection is closed if its TLS handshake is not
    /// complete; `None` for never.
    pub(crate) handshake_timeout_seconds: Option<u32>,
    /// `-A`: true if the command `shutdown` is enabled.
    pub(crate) shutdown_enabled: bool,
    /// False with `-F`, which disables `flush_all`.
    pub(crate) flush_enabled: bool,
    /// False with `-X`, which disables `stats cachedump`, `stats detail`, `lru_crawler metadump` and `mgdump`.
    pub(crate) dump_enabled: bool,
    /// `-o upgradable`, `-o control`: the absolute path of the control socket, by which another process can take over;
    /// `None` without `upgradable`.
    pub(crate) control_path: Option<PathBuf>,
    /// `-o drop_privileges`: true if the process is confined after its start.
    pub(crate) drop_privileges: bool,
    /// `-o debug_commands`: true if clients may set the clock, pin items and check the confinement, as tests do.
    pub(crate) debug_commands: bool,
    /// False with `-W`, which disables `watch`.
    pub(crate) watch_enabled: bool,
    /// `-o watcher_logbuf_size`: the maximum size of a watcher's buffer, in bytes.
    pub(crate) watcher_log_bytes: u64,
    /// `-o worker_logbuf_size`, which has no effect.
    pub(crate) worker_log_bytes: u64,
    /// False with `-C`, which disables CAS.
    pub(crate) cas_enabled: bool,
    /// `-o cost_wire`: whether the commands `set`, `add` and `replace` have a field for the cost of the item.
    pub(crate) cost_wire: CostWire,
    /// `-o cost=measured`: true if the server measures the costs that clients do not supply.
    pub(crate) costs_measured: bool,
    /// `-S`: true if clients must authenticate by SASL.
    pub(crate) sasl_enabled: bool,
    /// `MEMCACHED_SASL_PWDB`: the password file of `-S`.
    pub(crate) sasl_password_file: Option<PathBuf>,
    /// `-D`: the character that ends the prefix of a key.
    pub(crate) prefix_delimiter: char,
    /// True if requests are counted by key prefix from the start (`-D`).
    pub(crate) detail_enabled: bool,
    /// True if the LRU maintainer runs; false with `-o no_lru_maintainer`.
    pub(crate) lru_maintainer: bool,
    /// The method by which the server learns the class table (`-o classes=learned:method=...`).
    pub classes_method: Method,
    /// True if pages can move between classes; false with `-o no_slab_reassign`.
    pub(crate) reassign_enabled: bool,
    /// `-f`: the ratio of a class's chunk size to that of the next smaller class.
    pub(crate) growth_factor: f64,
    /// `-n`: the minimum number of bytes for key, value and flags in the smallest chunk.
    pub(crate) chunk_size_bytes: u32,
    /// `-o page_policy`: the policy that moves pages while `slab_automove` is 1.
    pub(crate) page_policy: PagePolicy,
    /// The options of profiling; `None` if profiling is off.
    pub(crate) profiling: Option<ProfilingOptions>,
    /// `-o page_move_chunks`, `page_move_share` and `page_move_share_max`: how much the mover may do while the workers
    /// are busy.
    pub(crate) move_budget: MoveBudget,
    /// `-e`: the absolute path of the memory file.
    pub(crate) memory_file: Option<PathBuf>,
    /// `-o hashpower`: the minimum value of the statistic `hash_power_level`.
    pub(crate) hash_power: u32,
    /// `-o tail_repair_time`, which has no effect.
    pub(crate) tail_repair_seconds: u32,
    /// `-o read_buf_mem_limit`, which has no effect.
    pub(crate) read_buffers_bytes_max: u64,
    /// `-o http`; `None` without it.
    pub(crate) http: Option<HttpSettings>,
    pub(crate) process: ProcessSettings,
    /// The settings of the engine.
    pub engine: EngineConfig,
}

/// The values of `-o io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoChoice {
    /// io_uring if the kernel allows it, otherwise epoll.
    Auto,
    /// One of the two.
    Only(IoKind),
}

/// The interfaces of the kernel by which a worker waits, receives and sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    Epoll,
    Uring,
}

impl IoKind {
    pub fn name(self) -> &'static str {
        match self {
            IoKind::Epoll => "epoll",
            IoKind::Uring => "io_uring",
        }
    }
}

impl IoChoice {
    /// The values of the option.
    pub(super) const NAMES: [&'static str; 3] = ["auto", "epoll", "io_uring"];

    /// Returns the choice with this name, which is one of `NAMES`.
    pub(super) fn of(name: &str) -> IoChoice {
        match name {
            "epoll" => IoChoice::Only(IoKind::Epoll),
            "io_uring" => IoChoice::Only(IoKind::Uring),
            _ => IoChoice::Auto,
        }
    }

    /// True if the server may use io_uring.
    pub fn allows_uring(self) -> bool {
        self != IoChoice::Only(IoKind::Epoll)
    }
}

/// The protocol that clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The first byte of a connection selects the protocol.
    Auto,
    /// Only the ASCII protocol.
    Ascii,
    /// Only the binary protocol. A connection whose first byte is not the first byte of a binary request is closed.
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

/// The sockets on which the server listens for connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `-s`: only a Unix socket at `path`. The socket's file has the permission bits `mode` (`-a`).
    Unix { path: PathBuf, mode: u32 },
    /// `-l` and `-p`: these TCP addresses; none with `-p 0`.
    Tcp(Vec<ListenAddress>),
}

/// An address on which the server listens for TCP or UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// The name or the IP address of a host; `None` for all interfaces.
    pub host: Option<String>,
    /// The port; 0 for any free port, which the kernel chooses.
    pub port: u16,
    pub security: ListenSecurity,
    pub protocol: Protocol,
}

/// Whether the connections of a listener use TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListenSecurity {
    /// Connections do not use TLS: `-Z` is not given, or the address has the prefix `notls:`.
    #[default]
    Plain,
    /// Connections use TLS. `ssl_verify_mode`, or the prefix `btls:` or `mtls:` of the address, decides how client
    /// certificates are used.
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

/// The settings of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSettings {
    /// `-d`: true if the process becomes a daemon.
    pub daemonize: bool,
    /// `-P`: the absolute path of the pid file.
    pub pid_file: Option<PathBuf>,
    /// `-u`: the user to which the process changes if root started it.
    pub user: Option<String>,
    /// `-k`: true if the process locks its memory.
    pub lock_memory: bool,
    /// `-r`: true if the process raises the limit of the size of core files.
    pub core_files: bool,
}

impl Settings {
    /// Returns the number of hot keys that the HTTP server shows; 0 if keys are not sampled.
    pub(crate) fn hot_keys(&self) -> usize {
        self.http.as_ref().map_or(0, |http| http.hot_keys)
    }

    /// True if the server has a tuner's thread.
    pub(crate) fn runs_tuner(&self) -> bool {
        self.reassign_enabled || self.profiling.is_some()
    }

    /// Returns the number of workers that listen on a UDP port. As in memcached, the number is 1 if `-l` is given
    /// several times or contains a comma, and otherwise it is the number of all workers.
    pub(crate) fn threads_per_udp_port(&self) -> usize {
        let has_several_addresses =
            self.interfaces.len() > 1 || self.interfaces.iter().any(|list| list.contains(','));
        if has_several_addresses { 1 } else { self.threads }
    }
}

/// Settings that commands can change while the server runs.
#[derive(Clone, Copy, Debug)]
pub struct Tunables {
    /// The value of `-m` at the start, or the one that SIGHUP last applied. The memory limit may be another one.
    pub memory_limit_option_bytes: u64,
    /// `-v` and the command `verbosity`: from 0 (the log contains only warnings and errors) to 3 (all log lines).
    pub verbosity: u32,
    /// The settings of memcached's automover (`-o slab_automove`, `slabs automove`).
    pub automove: AutomoveSettings,
    /// The value of `slabs automove freeratio`, which has no effect.
    pub automove_free_ratio: f64,
    /// True if the LRU crawler removes expired items periodically (`-o lru_crawler`).
    pub crawler_enabled: bool,
    /// Microseconds that the LRU crawler waits between two steps of a crawl (`-o lru_crawler_sleep`).
    pub crawler_sleep_us: u32,
    /// The maximum number of items that a crawl checks in a class; 0 for all items (`-o lru_crawler_tocrawl`).
    pub crawler_tocrawl: u32,
    /// True if the server adjusts the class table to the sizes of items (`-o classes`, `slabs classes`).
    pub set_learns_classes: bool,
    /// True if `stats sizes` is enabled (`-o track_sizes`).
    pub track_sizes: bool,
    /// The value of the command `lru mode`: true if a class has a hot, a warm and a cold queue; false if it has one
    /// queue.
    pub lru_segmented: bool,
    /// The second of the server's clock up to which the last `flush_all` invalidated items; 0 before the first
    /// `flush_all`.
    pub oldest_live: u32,
    /// The last value of the command `lru temp_ttl` in seconds. `stats settings` shows this value even if the temporary
    /// queue is off.
    pub temporary_ttl: u32,
}

impl Tunables {
    /// Returns the values at the start of the server. `config` is the engine's configuration, which a warm restart may
    /// have changed.
    pub fn new(settings: &Settings, config: &EngineConfig) -> Tunables {
        let ttl = config.eviction_options.lru.temporary_ttl;
        Tunables {
            lru_segmented: config.eviction.starts_segmented(),
            temporary_ttl: ttl.map_or(settings.tunables.temporary_ttl, |ttl| ttl.0),
            ..settings.tunables
        }
    }
}

/// The current settings of a running server, which `stats settings` shows.
pub struct Running<'r> {
    pub settings: &'r Settings,
    pub tunables: Tunables,
    pub lru: LruConfig,
    /// The current memory limit, which the command `cache_memlimit` changes.
    pub memory_limit_bytes: u64,
    /// True if requests are counted by key prefix, which the command `stats detail` turns on and off.
    pub detail_enabled: bool,
    /// The interface that the workers use.
    pub io: IoKind,
}

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

/// The number of workers by default, on a machine with at least as many processors.
pub(crate) const THREADS_DEFAULT_MAX: usize = 4;
/// The default permission bits of the files of Unix sockets.
const UNIX_MODE_DEFAULT: u32 = 0o700;

impl Given {
    /// Returns the number of workers. More workers than processors would serve no more requests, and the system would
    /// switch between them.
    pub(super) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| {
            available_parallelism()
                .map_or(THREADS_DEFAULT_MAX, usize::from)
                .min(THREADS_DEFAULT_MAX)
        })
    }

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
            source: Source::default(),
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
            threads: THREADS_DEFAULT_MAX,
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
