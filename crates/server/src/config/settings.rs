//! The server's settings: [`Settings`], which the command line sets, and [`Tunables`], which commands change while the
//! server runs.

use super::http::HttpSettings;
use super::source::Source;
use crate::tls::{ClientCertificates, TlsSettings};
use slabwise_engine::{EngineConfig, LruConfig};
use slabwise_policy::PagePolicy;
use slabwise_policy::sizes::Method;
use slabwise_protocol::text::CostWire;
use slabwise_tuner::{AutomoveSettings, MoveBudget, ProfilingOptions};
use std::fmt;
use std::path::PathBuf;

/// The settings of the command line. They are valid and do not change while the server runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the settings result from.
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
