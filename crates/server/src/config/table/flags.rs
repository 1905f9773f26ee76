//! The table of flags, with memcached's short and long names.

use crate::config::option::{COUNT_MAX, ServerOption, ValueKind, flag, switch_flag, yes_no};
use crate::config::settings::{Listen, Protocol};

// The command-line parser handles these flags itself: they print a text and exit.
pub(in crate::config) const HELP: &str = "help";
pub(in crate::config) const LICENSE: &str = "license";
pub(in crate::config) const VERSION: &str = "version";
/// The flag whose value lists options of the other tables.
pub(in crate::config) const EXTENDED: &str = "extended";

/// More workers than this would exhaust the address space or the system's thread limit.
const THREADS_MAX: i64 = 1024;

/// Every flag, in the order in which the help lists them.
pub(in crate::config) static FLAGS: &[ServerOption] = &[
    flag('p', "port")
        .number(-1, 65_535, "", |it, port| it.given.port = Some(port as i32))
        .default("11211")
        .daily_help("TCP port to listen on; -1 for any free one (see MEMCACHED_PORT_FILENAME)")
        .stat("tcpport", |it| it.settings.tcp_port.to_string()),
    flag('U', "udp-port")
        .number(-1, 65_535, "", |it, port| it.settings.udp_port = port as i32)
        .default("0")
        .daily_help(
            "UDP port to listen on; also the TCP port unless -p is given; -1 for any free one, 0 \
             to disable UDP",
        )
        .stat("udpport", |it| it.settings.udp_port.to_string()),
    flag('s', "unix-socket")
        .text("file", |it, path| it.given.unix_path = Some(path.to_owned()))
        .daily_help("listen on this Unix socket instead of the network")
        .stat("domain_socket", |it| match &it.settings.listen {
            Listen::Unix { path, .. } => path.display().to_string(),
            Listen::Tcp(_) => "NULL".to_owned(),
        }),
    flag('a', "unix-mask")
        .takes(ValueKind::Octal(|it, mode| it.given.unix_mode = Some(mode)))
        .default("700")
        .help("permission bits of the Unix socket, in octal")
        .stat("umask", |it| match it.settings.listen {
            Listen::Unix { mode, .. } => format!("{mode:o}"),
            Listen::Tcp(_) => "700".to_owned(),
        }),
    switch_flag('A', "enable-shutdown", |it| it.settings.shutdown_enabled = true)
        .help("enable the `shutdown` command")
        .stat("shutdown_command", |it| yes_no(it.settings.shutdown_enabled)),
    flag('l', "listen")
        .text("addr", |it, list| it.settings.interfaces.push(list.to_owned()))
        .default("all interfaces")
        .daily_help(
            "comma-separated addresses to listen on; an address is host, host:port or \
             [IPv6]:port, and may begin with notls:, btls: (TLS, no client certificate) or mtls: \
             (TLS, client certificate required), then proto[ascii|binary|negotiating]:, then \
             tag[name]: or tag_name_:",
        )
        .stat("inter", |it| match it.settings.interfaces.as_slice() {
            [] => "NULL".to_owned(),
            lists => lists.join(","),
        }),
    switch_flag('d', "daemon", |it| it.settings.process.daemonize = true).daily_help("run as a daemon"),
    switch_flag('r', "enable-coredumps", |it| it.settings.process.core_files = true)
        .help("allow core files of any size"),
    flag('u', "user")
        .text("user", |it, user| it.settings.process.user = Some(user.to_owned()))
        .daily_help("run as this user (required when started by root)"),
    flag('m', "memory-limit")
        .number(1, 1 << 20, "megabytes", |it, mib| it.given.memory_limit_mib = Some(mib as u32))
        .default("64")
        .daily_help("item memory in megabytes; a hard limit")
        .live_stat("maxbytes", "cache_memlimit 70", |it| it.memory_limit_bytes.to_string()),
    switch_flag('M', "disable-evictions", |it| it.settings.engine.eviction_enabled = false)
        .daily_help("return an error when memory is full instead of evicting")
        .stat("evictions", |it| {
            if it.settings.engine.eviction_enabled { "on" } else { "off" }.to_owned()
        }),
    flag('c', "conn-limit")
        .number(1, COUNT_MAX, "connections", |it, n| it.settings.connections_max = n as u32)
        .default("1024")
        .daily_help("maximum number of simultaneous connections")
        .stat("maxconns", |it| it.settings.connections_max.to_string()),
    switch_flag('k', "lock-memory", |it| it.settings.process.lock_memory = true)
        .daily_help("lock all memory (mlockall)"),
    switch_flag('v', "verbose", |it| {
        it.settings.tunables.verbosity = (it.settings.tunables.verbosity + 1).min(3);
    })
    .daily_help("verbose logging on stderr; -vv and -vvv log more")
    .live_stat("verbosity", "verbosity 2", |it| it.tunables.verbosity.to_string()),
    flag('h', HELP).daily_help(
        "print this help and exit; --help=policies prints the page policies, --help=all all options, \
         and --help=man a manual page",
    ),
    flag('i', LICENSE).help("print the license and exit"),
    flag('V', VERSION).daily_help("print the version and exit"),
    flag('P', "pidfile")
        .text("file", |it, path| it.settings.process.pid_file = Some(path.into()))
        .daily_help("write the process id to this file, and remove it at exit"),
    flag('f', "slab-growth-factor")
        .fraction(1.0, f64::INFINITY, |it, factor| it.given.growth_factor = Some(factor))
        .default("1.12")
        .daily_help("growth factor of chunk sizes from class to class")
        .stat("growth_factor", |it| format!("{:.2}", it.settings.growth_factor)),
    flag('n', "slab-min-size")
        .number(1, COUNT_MAX, "bytes", |it, n| it.given.chunk_size_bytes = Some(n as u32))
        .default("48 with preset=memcached, else the minimum")
        .help("bytes for key, value and flags in the smallest chunk")
        .stat("chunk_size", |it| it.settings.chunk_size_bytes.to_string()),
    switch_flag('L', "enable-largepages", |it| it.settings.engine.huge_pages = true)
        .help("use transparent huge pages"),
    flag('D', "prefix-delimiter")
        .text("char", |it, text| {
            it.settings.prefix_delimiter = text.chars().next().expect("the text is not empty");
            it.settings.detail_enabled = true;
        })
        .default(":")
        .help("character that ends a key's prefix; turns on `stats detail`")
        .stat("stat_key_prefix", |it| it.settings.prefix_delimiter.to_string())
        .live_stat("detail_enabled", "stats detail on", |it| yes_no(it.detail_enabled)),
    flag('t', "threads")
        .number(1, THREADS_MAX, "threads", |it, n| it.settings.threads = n as usize)
        .default("4")
        .daily_help("worker threads")
        .stat("num_threads", |it| it.settings.threads.to_string()),
    flag('R', "max-reqs-per-event")
        .number(1, COUNT_MAX, "requests", |it, n| it.settings.requests_per_turn_max = n as u32)
        .default("20")
        .help("maximum requests served from a connection before the worker serves the others")
        .stat("reqs_per_event", |it| it.settings.requests_per_turn_max.to_string()),
    switch_flag('C', "disable-cas", |it| it.settings.cas_enabled = false)
        .daily_help("disable CAS")
        .stat("cas_enabled", |it| yes_no(it.settings.cas_enabled)),
    flag('b', "listen-backlog")
        .number(0, COUNT_MAX, "connections", |it, n| it.settings.listen_backlog = n as i32)
        .default("1024")
        .daily_help("length of the kernel's queue of pending connections")
        .stat("tcp_backlog", |it| it.settings.listen_backlog.to_string()),
    flag('B', "protocol")
        .choice(&["auto", "ascii", "binary"], |it, name| {
            it.given.protocol = Some(match name {
                "binary" => Protocol::Binary,
                "ascii" => Protocol::Ascii,
                _ => Protocol::Auto,
            });
        })
        .default("auto")
        .help("protocol of clients; auto detects it from the first byte of a connection")
        .stat("binding_protocol", |it| it.settings.protocol.name().to_owned()),
    flag('I', "max-item-size")
        .size(|it, bytes| it.given.item_size_bytes_max = Some(bytes))
        .default("1m")
        .daily_help("maximum item size, from 1k to 1024m")
        .stat("item_size_max", |it| it.settings.engine.item_size_bytes_max.to_string()),
    switch_flag('S', "enable-sasl", |it| it.settings.sasl_enabled = true)
        .daily_help(
            "require SASL authentication (binary protocol); MEMCACHED_SASL_PWDB names the file of \
             user:password lines",
        )
        .stat("auth_enabled_sasl", |it| yes_no(it.settings.sasl_enabled)),
    switch_flag('F', "disable-flush-all", |it| it.settings.flush_enabled = false)
        .help("disable `flush_all`")
        .stat("flush_enabled", |it| yes_no(it.settings.flush_enabled)),
    switch_flag('X', "disable-dumping", |it| it.settings.dump_enabled = false)
        .help("disable `stats cachedump`, `stats detail` and `lru_crawler metadump`")
        .stat("dump_enabled", |it| yes_no(it.settings.dump_enabled)),
    switch_flag('W', "disable-watch", |it| it.settings.watch_enabled = false)
        .help("disable `watch`"),
    flag('Y', "auth-file")
        .text("file", |it, path| it.settings.auth_file_as_given = Some(path.to_owned()))
        .daily_help("require ASCII authentication; the file holds user:password lines")
        .stat("auth_enabled_ascii", |it| {
            it.settings.auth_file_as_given.clone().unwrap_or_else(|| yes_no(false))
        }),
    flag('e', "memory-file")
        .text("file", |it, path| it.settings.memory_file = Some(path.into()))
        .daily_help("keep item memory in this file (tmpfs); a restart after SIGUSR1 is warm")
        .stat("memory_file", |it| match &it.settings.memory_file {
            Some(path) => path.display().to_string(),
            None => "(null)".to_owned(),
        }),
    switch_flag('Z', "enable-ssl", |it| it.given.tls_enabled = true)
        .daily_help("enable TLS; see ssl_* in -o")
        .stat("ssl_enabled", |it| yes_no(it.settings.tls.is_some())),
    flag('o', EXTENDED).text("name=value,...", |_, _| ()).daily_help("more options, see below"),
    flag('N', "napi-ids")
        .number(1, COUNT_MAX, "", |it, n| it.settings.napi_ids = n as u32)
        .no_effect("connections are assigned to workers round robin")
        .stat("num_napi_ids", |it| it.settings.napi_ids.to_string()),
];
