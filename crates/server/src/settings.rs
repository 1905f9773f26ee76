//! What the server was told to do: every option, checked, with its unit in its name.
//!
//! Made by [`crate::options`]; read by everyone; never changed. What commands change while the server
//! runs (verbosity, limits of the LRU) lives where it acts and begins with the value here.

use crate::tls::{self, ClientCertificates, TlsSettings};
use slabwise_engine::EngineConfig;
use slabwise_policy::PagePolicy;
use slabwise_protocol::text::CostWire;
use slabwise_tuner::{MoveBudget, ProfilingOptions};
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
    /// `-b`: how many connections the kernel may queue.
    pub listen_backlog: i32,
    /// `-c`: the most connections at a time.
    pub connections_max: u32,
    /// `-o maxconns_fast`: turn clients away at the limit instead of letting them wait.
    pub maxconns_fast: bool,
    /// `-t`: worker threads.
    pub threads: usize,
    /// `-Y`: the file of those who may log in; without it nobody needs to.
    pub auth_file: Option<PathBuf>,
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
    /// Not `-C`: whether `gets` and `cas` give and check unique values.
    pub cas_enabled: bool,
    /// `-o cost_wire`: whether `set`, `add` and `replace` may tell what an item costs.
    pub cost_wire: CostWire,
    /// `-o cost=measured`: whether what items cost is measured where clients do not tell it.
    pub costs_measured: bool,
    /// `-S`: whether clients of the binary protocol must authenticate.
    pub sasl_enabled: bool,
    /// `MEMCACHED_SASL_PWDB`: who may, with `-S`.
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
    /// `-o slab_reassign`: whether pages may move between classes.
    pub reassign_enabled: bool,
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
    /// What the process does with itself.
    pub process: ProcessSettings,
    /// What the engine is made with.
    pub engine: EngineConfig,
    /// What `stats settings` reports beside all this.
    pub reported: Reported,
}

/// What clients speak.
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

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `-s`, `-a`: on a socket file with this mode, and on no network.
    Unix {
        /// The file, absolute.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// `-l`, `-p`.
    Tcp(Vec<ListenAddress>),
}

/// One element of `-l`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// A name or an address; `None` for all interfaces.
    pub host: Option<String>,
    /// The port; 0 lets the kernel choose.
    pub port: u16,
    /// How its connections are secured.
    pub security: ListenSecurity,
    /// What is spoken on them.
    pub protocol: Protocol,
}

/// How a listener's connections are secured.
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

/// What the process does with itself.
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

/// Values that begin, and some that end, as lines of `stats settings`: memcached's own, so that tools
/// which read them find them.
#[derive(Clone, Debug)]
pub struct Reported {
    /// `-p` as given.
    pub tcp_port: i32,
    /// `-U` as given.
    pub udp_port: i32,
    /// `-Y` as given.
    pub auth_file: Option<String>,
    /// `-l` as given.
    pub interfaces: Option<String>,
    /// `-f`.
    pub growth_factor: f64,
    /// `-n`.
    pub chunk_size_bytes: u32,
    /// `-o hashpower`.
    pub hash_power: u32,
    /// `-o hash_algorithm`.
    pub hash_algorithm: &'static str,
    /// `-o slab_automove`: 0 never, 1 by the page policy, 2 at every eviction.
    pub slab_automove: u32,
    /// `-o slab_automove_ratio`.
    pub slab_automove_ratio: f64,
    /// `-o slab_automove_window`, in seconds.
    pub slab_automove_window: u32,
    /// `-o lru_crawler_sleep`.
    pub lru_crawler_sleep_us: u32,
    /// `-o lru_crawler_tocrawl`: most items a crawl looks at in a class; 0 for all.
    pub lru_crawler_tocrawl: u32,
    /// `-o slab_chunk_max`, or what it follows from.
    pub slab_chunk_max_bytes: u64,
    /// `-o tail_repair_time`.
    pub tail_repair_seconds: u32,
    /// `-o watcher_logbuf_size`.
    pub watcher_log_bytes: u64,
    /// `-o worker_logbuf_size`.
    pub worker_log_bytes: u64,
    /// `-o read_buf_mem_limit`.
    pub read_buffers_bytes_max: u64,
    /// `-N`.
    pub napi_ids: u32,
}

impl Default for Settings {
    /// What a command line without options gives.
    fn default() -> Settings {
        crate::options::defaults()
    }
}

/// What memcached reports for a temporary TTL while it is off.
const TEMPORARY_TTL_DEFAULT: u32 = 61;

impl Settings {
    /// The lines of `stats settings`: memcached's names, order and formats, with the values of the
    /// start. Where a command has changed one since, the caller puts the present value in its place.
    pub fn stats(&self) -> Vec<(&'static str, String)> {
        let mut lines = self.stats_of_server();
        lines.extend(self.stats_of_memory());
        lines.extend(stats_of_external_storage());
        lines.extend(tls::stats(self.tls.as_ref()));
        lines.push(("num_napi_ids", self.reported.napi_ids.to_string()));
        let memory_file = self.memory_file.as_ref().map(|path| path.display().to_string());
        lines.push(("memory_file", memory_file.unwrap_or_else(|| "(null)".to_owned())));
        lines.push(("client_flags_size", "4".to_owned()));
        lines
    }

    fn stats_of_server(&self) -> Vec<(&'static str, String)> {
        let reported = &self.reported;
        let (path, mode) = match &self.listen {
            Listen::Unix { path, mode } => (path.display().to_string(), *mode),
            Listen::Tcp(_) => ("NULL".to_owned(), 0o700),
        };
        vec![
            ("maxbytes", self.engine.memory_limit_bytes.to_string()),
            ("maxconns", self.connections_max.to_string()),
            ("tcpport", reported.tcp_port.to_string()),
            ("udpport", reported.udp_port.to_string()),
            ("inter", reported.interfaces.clone().unwrap_or_else(|| "NULL".to_owned())),
            ("verbosity", self.verbosity.to_string()),
            ("oldest", "0".to_owned()),
            ("evictions", if self.engine.eviction_enabled { "on" } else { "off" }.to_owned()),
            ("domain_socket", path),
            ("umask", format!("{mode:o}")),
            ("shutdown_command", yes_no(self.shutdown_enabled)),
            ("growth_factor", format!("{:.2}", reported.growth_factor)),
            ("chunk_size", reported.chunk_size_bytes.to_string()),
            ("num_threads", self.threads.to_string()),
            ("num_threads_per_udp", self.threads_per_udp_port().to_string()),
            ("stat_key_prefix", self.prefix_delimiter.to_string()),
            ("detail_enabled", yes_no(self.detail_enabled)),
            ("reqs_per_event", self.requests_per_turn_max.to_string()),
            ("cas_enabled", yes_no(self.cas_enabled)),
            ("tcp_backlog", self.listen_backlog.to_string()),
            ("binding_protocol", self.protocol.name().to_owned()),
            ("auth_enabled_sasl", yes_no(self.sasl_enabled)),
            ("auth_enabled_ascii", reported.auth_file.clone().unwrap_or_else(|| yes_no(false))),
            ("item_size_max", self.engine.item_size_bytes_max.to_string()),
            ("maxconns_fast", yes_no(self.maxconns_fast)),
        ]
    }

    /// memcached gives a UDP port one thread if it has several, and there may be several if `-l` does.
    pub(crate) fn threads_per_udp_port(&self) -> usize {
        let several = self.reported.interfaces.as_ref().is_some_and(|list| list.contains(','));
        if several { 1 } else { self.threads }
    }

    fn stats_of_memory(&self) -> Vec<(&'static str, String)> {
        let reported = &self.reported;
        let lru = &self.engine.eviction_options.lru;
        let temporary_ttl = lru.temporary_ttl.map_or(TEMPORARY_TTL_DEFAULT, |ttl| ttl.0);
        vec![
            ("hashpower_init", reported.hash_power.to_string()),
            ("slab_reassign", yes_no(self.reassign_enabled)),
            ("slab_automove", reported.slab_automove.to_string()),
            ("slab_automove_ratio", format!("{:.2}", reported.slab_automove_ratio)),
            ("slab_automove_window", reported.slab_automove_window.to_string()),
            ("slab_chunk_max", reported.slab_chunk_max_bytes.to_string()),
            ("lru_crawler", yes_no(self.crawler_enabled)),
            ("lru_crawler_sleep", reported.lru_crawler_sleep_us.to_string()),
            ("lru_crawler_tocrawl", reported.lru_crawler_tocrawl.to_string()),
            ("tail_repair_time", reported.tail_repair_seconds.to_string()),
            ("flush_enabled", yes_no(self.flush_enabled)),
            ("dump_enabled", yes_no(self.dump_enabled)),
            ("hash_algorithm", reported.hash_algorithm.to_owned()),
            ("lru_maintainer_thread", yes_no(self.lru_maintainer)),
            ("lru_segmented", yes_no(self.engine.eviction.begins_segmented())),
            ("hot_lru_pct", lru.hot_percent.to_string()),
            ("warm_lru_pct", lru.warm_percent.to_string()),
            ("hot_max_factor", format!("{:.2}", lru.hot_age_factor)),
            ("warm_max_factor", format!("{:.2}", lru.warm_age_factor)),
            ("temp_lru", yes_no(lru.temporary_ttl.is_some())),
            ("temporary_ttl", temporary_ttl.to_string()),
            ("idle_timeout", self.idle_timeout_seconds.unwrap_or(0).to_string()),
            ("watcher_logbuf_size", reported.watcher_log_bytes.to_string()),
            ("worker_logbuf_size", reported.worker_log_bytes.to_string()),
            ("read_buf_mem_limit", reported.read_buffers_bytes_max.to_string()),
            ("track_sizes", yes_no(self.track_sizes)),
            ("inline_ascii_response", yes_no(false)),
        ]
    }
}

/// The lines of external storage, which is never on here, with memcached's defaults.
fn stats_of_external_storage() -> Vec<(&'static str, String)> {
    let text = |value: &str| value.to_owned();
    vec![
        ("ext_item_size", text("512")),
        ("ext_item_age", text("4294967295")),
        ("ext_low_ttl", text("0")),
        ("ext_recache_rate", text("2000")),
        ("ext_wbuf_size", text("4194304")),
        ("ext_compact_under", text("0")),
        ("ext_drop_under", text("0")),
        ("ext_max_sleep", text("1000000")),
        ("ext_max_frag", text("0.80")),
        ("slab_automove_freeratio", text("0.010")),
        ("ext_drop_unread", text("no")),
    ]
}

fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}
