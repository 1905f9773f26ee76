//! The server's settings: what the options come to, checked.
//!
//! They do not change while the server runs. What commands change ([`Tunables`](super::Tunables), limits of the
//! LRU) begins with the values here.

use crate::tls::{ClientCertificates, TlsSettings};
use slabwise_engine::EngineConfig;
use slabwise_policy::PagePolicy;
use slabwise_protocol::text::CostWire;
use slabwise_tuner::{AutomoveSettings, MoveBudget, ProfilingOptions};
use std::fmt;
use std::path::PathBuf;

/// Every option, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the server listens.
    pub listen: Listen,
    /// `-B`: what clients speak, unless `-l` says otherwise of their listener.
    pub protocol: Protocol,
    /// `-Z` and the options `ssl_*`.
    pub tls: Option<TlsSettings>,
    /// `-U`: where UDP is served; nowhere unless asked.
    pub udp: Vec<ListenAddress>,
    /// `-p` as given.
    pub tcp_port: i32,
    /// `-U` as given.
    pub udp_port: i32,
    /// `-l` as given.
    pub interfaces: Vec<String>,
    /// `-b`: how many connections the kernel may queue.
    pub listen_backlog: i32,
    /// `-c`: the most connections at a time.
    pub connections_max: u32,
    /// `-o maxconns_fast`: turn clients away at the limit instead of letting them wait.
    pub maxconns_fast: bool,
    /// `-t`: worker threads.
    pub threads: usize,
    /// `-Y`: the password file of the text protocol; without it no client needs to log in.
    pub auth_file: Option<PathBuf>,
    /// `-Y` as given.
    pub auth_file_as_given: Option<String>,
    /// `-N`; it changes nothing.
    pub napi_ids: u32,
    /// `-R`: requests served in one turn of a connection while others wait.
    pub requests_per_turn_max: u32,
    /// `-o idle_timeout`: seconds after which an idle client is closed, if ever.
    pub idle_timeout_seconds: Option<u32>,
    /// `-v`: 0 (warnings) to 3 (everything).
    pub verbosity: u8,
    /// `-A`: whether the `shutdown` command is obeyed.
    pub shutdown_enabled: bool,
    /// Not `-F`: whether `flush_all` is obeyed.
    pub flush_enabled: bool,
    /// Not `-X`: whether `stats cachedump`, `stats detail` and `lru_crawler metadump` are obeyed.
    pub dump_enabled: bool,
    /// Whether clients may move the clock and hold items, as memcached's own tests do.
    pub debug_commands: bool,
    /// Not `-W`: whether `watch` is obeyed.
    pub watch_enabled: bool,
    /// `-o watcher_logbuf_size`: bytes of lines that wait for a watcher at most.
    pub watcher_log_bytes: u64,
    /// `-o worker_logbuf_size`; it changes nothing.
    pub worker_log_bytes: u64,
    /// Not `-C`: whether `gets` and `cas` give and check unique values.
    pub cas_enabled: bool,
    /// `-o cost_wire`: whether `set`, `add` and `replace` may tell what an item costs.
    pub cost_wire: CostWire,
    /// `-o cost=measured`: whether what items cost is measured where clients do not tell it.
    pub costs_measured: bool,
    /// `-S`: whether clients of the binary protocol must authenticate.
    pub sasl_enabled: bool,
    /// `MEMCACHED_SASL_PWDB`: the password file of `-S`.
    pub sasl_password_file: Option<PathBuf>,
    /// `-D`: the character that ends a key's prefix in `stats detail`.
    pub prefix_delimiter: char,
    /// `-D`: whether statistics by prefix are kept from the start.
    pub detail_enabled: bool,
    /// `-o track_sizes`: whether `stats sizes` is kept from the start.
    pub track_sizes: bool,
    /// `-o lru_maintainer`: whether a thread keeps the LRU's parts at their limits.
    pub lru_maintainer: bool,
    /// `-o lru_crawler`: whether a crawler reclaims expired items.
    pub crawler_enabled: bool,
    /// `-o lru_crawler_sleep`.
    pub crawler_sleep_us: u32,
    /// `-o lru_crawler_tocrawl`: most items a crawl looks at in a class; 0 for all.
    pub crawler_tocrawl: u32,
    /// `-o slab_reassign`: whether pages may move between classes.
    pub reassign_enabled: bool,
    /// `-o slab_automove`, `slab_automove_ratio`, `slab_automove_window`.
    pub automove: AutomoveSettings,
    /// `-f`.
    pub growth_factor: f64,
    /// `-n`.
    pub chunk_size_bytes: u32,
    /// `-o classes`: whether the class table is learned.
    pub learn_classes: bool,
    /// `-o page_policy`, `objective`: which pages move.
    pub page_policy: PagePolicy,
    /// `-o profile`, `profile_memory`: how keys are profiled, if they are.
    pub profiling: Option<ProfilingOptions>,
    /// `-o page_move_chunks`, `page_move_rate`: how much of the machine page moves may take.
    pub move_budget: MoveBudget,
    /// `-e`: the file that items lie in, absolute.
    pub memory_file: Option<PathBuf>,
    /// `-o hashpower`: where `hash_power_level` of `stats` begins.
    pub hash_power: u32,
    /// `-o tail_repair_time`; it changes nothing.
    pub tail_repair_seconds: u32,
    /// `-o read_buf_mem_limit`; it changes nothing.
    pub read_buffers_bytes_max: u64,
    /// What the process does with itself.
    pub process: ProcessSettings,
    /// What the engine is made with.
    pub engine: EngineConfig,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// What a client's first byte says.
    Auto,
    /// Text, whatever the first byte.
    Ascii,
    /// Packets; who begins otherwise is hung up on.
    Binary,
}

impl Protocol {
    /// memcached's name for it.
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
    /// `-s`, `-a`: on a socket file with this mode, and on no network.
    Unix {
        /// The file, absolute.
        path: PathBuf,
        mode: u32,
    },
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
    /// Not at all: without `-Z`, or with `notls:`.
    #[default]
    Plain,
    /// By TLS, which asks this of clients: by `ssl_verify_mode`, or nothing with `btls:`, or a
    /// certificate with `mtls:`.
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
    /// `-d`: go on in the background.
    pub daemonize: bool,
    /// `-P`: the file that holds the process id while the server runs.
    pub pid_file: Option<PathBuf>,
    /// `-u`: the user to become when started by root.
    pub user: Option<String>,
    /// `-k`: keep all memory from being paged out.
    pub lock_memory: bool,
    /// `-r`: allow core files of any size.
    pub core_files: bool,
}

impl Settings {
    /// memcached gives a UDP port one thread if it has several, and there may be several if `-l` does.
    pub(crate) fn threads_per_udp_port(&self) -> usize {
        let several =
            self.interfaces.len() > 1 || self.interfaces.iter().any(|list| list.contains(','));
        if several { 1 } else { self.threads }
    }
}
