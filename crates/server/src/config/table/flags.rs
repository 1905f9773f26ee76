//! The table of the flags: options with a letter, such as `-p`. Letters and long names are memcached's.

use crate::config::option::{COUNT_MAX, ServerOption, ValueKind, flag, switch_flag, yes_no};
use crate::config::settings::{Listen, Protocol};
use slabwise_engine::HugePages;

// The long names of the flags with which the server prints a text and exits. The parser handles these flags itself.
pub(in crate::config) const HELP: &str = "help";
pub(in crate::config) const LICENSE: &str = "license";
pub(in crate::config) const VERSION: &str = "version";
/// The long name of `-o`, whose value is a list of options of the other tables.
pub(in crate::config) const EXTENDED: &str = "extended";

/// The maximum number of workers. More workers could exceed the system's limit of threads.
const THREADS_MAX: i64 = 1024;

/// Every flag, in the order of the help.
pub(in crate::config) static FLAGS: &[ServerOption] = &[
    flag('p', "port")
        .number(-1, 65_535, "", |it, port| it.given.port = Some(port as i32))
        .default("11211")
        .frequent_help(
            "TCP port to listen on; -1 for any free port, which the server writes to the file that the \
             environment variable MEMCACHED_PORT_FILENAME names; 0 to disable TCP",
        )
        .stat("tcpport", |it| it.settings.tcp_port.to_string()),
    flag('U', "udp-port")
        .number(-1, 65_535, "", |it, port| it.settings.udp_port = port as i32)
        .default("0")
        .frequent_help(
            "UDP port to listen on; without -p also the TCP port; -1 for any free port, 0 to disable UDP",
        )
        .stat("udpport", |it| it.settings.udp_port.to_string()),
    flag('s', "unix-socket")
        .text("file", |it, path| it.given.unix_path = Some(path.to_owned()))
        .frequent_help("listen on this Unix socket and not on the network")
        .stat("domain_socket", |it| match &it.settings.listen {
            Listen::Unix { path, .. } => path.display().to_string(),
            Listen::Tcp(_) => "NULL".to_owned(),
        }),
    flag('a', "unix-mask")
        .takes(ValueKind::Octal(|it, mode| it.given.unix_mode = Some(mode)))
        .default("700")
        .help("permission bits of the file of the Unix socket, in octal")
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
        .frequent_help(
            "comma-separated addresses to listen on; an address is host, host:port or [IPv6]:port. \
             Prefixes in this order are possible: notls: (no TLS), btls: (TLS, client certificates are \
             ignored) or mtls: (TLS, client certificates are required); proto[ascii]:, proto[binary]: or \
             proto[negotiating]:; tag[name]: or tag_name_: (no effect)",
        )
        .stat("inter", |it| match it.settings.interfaces.as_slice() {
            [] => "NULL".to_owned(),
            lists => lists.join(","),
        }),
    switch_flag('d', "daemon", |it| it.settings.process.daemonize = true).frequent_help("run as a daemon"),
    switch_flag('r', "enable-coredumps", |it| it.settings.process.core_files = true)
        .help("raise the limit of the size of core files"),
    flag('u', "user")
        .text("user", |it, user| it.settings.process.user = Some(user.to_owned()))
        .frequent_help("run as this user (required if root starts the server)"),
    flag('m', "memory-limit")
        .number(1, 1 << 20, "megabytes", |it, mib| it.given.memory_limit_mib = Some(mib as u32))
        .default("64")
        .frequent_help(
            "memory for items in megabytes; a hard limit for the pages and the index. With \
             preset=memcached the index and the first page of each class are additional",
        )
        .live_stat("maxbytes", "cache_memlimit 70", |it| it.memory_limit_bytes.to_string()),
    switch_flag('M', "disable-evictions", |it| it.settings.engine.eviction_enabled = false)
        .frequent_help("when memory is full, return an error and do not evict items")
        .stat("evictions", |it| {
            if it.settings.engine.eviction_enabled { "on" } else { "off" }.to_owned()
        }),
    flag('c', "conn-limit")
        .number(1, COUNT_MAX, "connections", |it, n| it.settings.connections_max = n as u32)
        .default("1024")
        .frequent_help("maximum number of simultaneous connections")
        .stat("maxconns", |it| it.settings.connections_max.to_string()),
    switch_flag('k', "lock-memory", |it| it.settings.process.lock_memory = true)
        .frequent_help("lock all memory (mlockall)"),
    switch_flag('v', "verbose", |it| {
        it.settings.tunables.verbosity = (it.settings.tunables.verbosity + 1).min(3);
    })
    .frequent_help("log more on stderr; -vv and -vvv log even more")
    .live_stat("verbosity", "verbosity 2", |it| it.tunables.verbosity.to_string()),
    flag('h', HELP).frequent_help(
        "print the frequently used options and exit; --help=policies prints the page policies, --help=all \
         prints all options, and --help=man prints a manual page",
    ),
    flag('i', LICENSE).help("print the license and exit"),
    flag('V', VERSION).frequent_help("print the version and exit"),
    flag('P', "pidfile")
        .text("file", |it, path| it.settings.process.pid_file = Some(path.into()))
        .frequent_help("write the process id to this file, and remove it at exit"),
    flag('f', "slab-growth-factor")
        .fraction(1.0, f64::INFINITY, |it, factor| it.given.growth_factor = Some(factor))
        .default("1.12")
        .frequent_help(
            "ratio of the chunk sizes of two successive classes; 1.25 with classes=geometric or preset=memcached",
        )
        .stat("growth_factor", |it| format!("{:.2}", it.settings.growth_factor)),
    flag('n', "slab-min-size")
        .number(1, COUNT_MAX, "bytes", |it, n| it.given.chunk_size_bytes = Some(n as u32))
        .default("48 with preset=memcached, otherwise the smallest possible chunk")
        .help("minimum number of bytes for key, value and flags in the smallest chunk")
        .stat("chunk_size", |it| it.settings.chunk_size_bytes.to_string()),
    switch_flag('L', "enable-largepages", |it| it.given.huge_pages = Some(HugePages::Requested))
        .default("on if the system allows it; off with preset=memcached or -o no_huge_pages")
        .help("request transparent huge pages for items and their index, and exit if the system has none"),
    flag('D', "prefix-delimiter")
        .text("char", |it, text| {
            it.settings.prefix_delimiter = text.chars().next().expect("the parser rejects an empty value of -D");
            it.settings.detail_enabled = true;
        })
        .default(":")
        .help("character that ends the prefix of a key; the option also turns on `stats detail`")
        .stat("stat_key_prefix", |it| it.settings.prefix_delimiter.to_string())
        .live_stat("detail_enabled", "stats detail on", |it| yes_no(it.detail_enabled)),
    flag('t', "threads")
        .number(1, THREADS_MAX, "threads", |it, n| it.given.threads = Some(n as usize))
        .default("one per processor, at most 4")
        .frequent_help("number of worker threads")
        .stat("num_threads", |it| it.settings.threads.to_string()),
    flag('R', "max-reqs-per-event")
        .number(1, COUNT_MAX, "requests", |it, n| it.settings.requests_per_round_max = n as u32)
        .default("20")
        .help(
            "maximum number of requests that a worker serves from one connection before it serves other \
             connections",
        )
        .stat("reqs_per_event", |it| it.settings.requests_per_round_max.to_string()),
    switch_flag('C', "disable-cas", |it| it.settings.cas_enabled = false)
        .help("disable CAS values")
        .stat("cas_enabled", |it| yes_no(it.settings.cas_enabled)),
    flag('b', "listen-backlog")
        .number(0, COUNT_MAX, "connections", |it, n| it.settings.listen_backlog = n as i32)
        .default("1024")
        .help("length of the queue of connections not accepted yet")
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
        .help("protocol of clients; with auto the first byte of a connection selects the protocol")
        .stat("binding_protocol", |it| it.settings.protocol.name().to_owned()),
    flag('I', "max-item-size")
        .size(|it, bytes| it.given.item_size_bytes_max = Some(bytes))
        .default("1m")
        .frequent_help("maximum size of an item, from 1k to 1024m")
        .stat("item_size_max", |it| it.settings.engine.item_size_bytes_max.to_string()),
    switch_flag('S', "enable-sasl", |it| it.settings.sasl_enabled = true)
        .frequent_help(
            "require SASL authentication (binary protocol); the environment variable MEMCACHED_SASL_PWDB \
             names a file of user:password lines",
        )
        .stat("auth_enabled_sasl", |it| yes_no(it.settings.sasl_enabled)),
    switch_flag('F', "disable-flush-all", |it| it.settings.flush_enabled = false)
        .help("disable `flush_all`")
        .stat("flush_enabled", |it| yes_no(it.settings.flush_enabled)),
    switch_flag('X', "disable-dumping", |it| it.settings.dump_enabled = false)
        .help("disable `stats cachedump`, `stats detail`, `lru_crawler metadump` and `mgdump`")
        .stat("dump_enabled", |it| yes_no(it.settings.dump_enabled)),
    switch_flag('W', "disable-watch", |it| it.settings.watch_enabled = false)
        .help("disable `watch`"),
    flag('Y', "auth-file")
        .text("file", |it, path| it.settings.auth_file_as_given = Some(path.to_owned()))
        .frequent_help("require authentication in the ASCII protocol; the file contains user:password lines")
        .stat("auth_enabled_ascii", |it| {
            it.settings.auth_file_as_given.clone().unwrap_or_else(|| yes_no(false))
        }),
    flag('e', "memory-file")
        .text("file", |it, path| it.settings.memory_file = Some(path.into()))
        .frequent_help(
            "keep the items in this file; it should be on a tmpfs. The next start after a stop by SIGUSR1 \
             restores the items",
        )
        .stat("memory_file", |it| match &it.settings.memory_file {
            Some(path) => path.display().to_string(),
            None => "(null)".to_owned(),
        }),
    switch_flag('Z', "enable-ssl", |it| it.given.tls_enabled = true)
        .frequent_help("enable TLS; the options ssl_* of -o name the certificate and the key")
        .stat("ssl_enabled", |it| yes_no(it.settings.tls.is_some())),
    flag('o', EXTENDED)
        .text("name=value,...", |_, _| ())
        .frequent_help("further options, separated by commas, which are listed below"),
    flag('N', "napi-ids")
        .number(1, COUNT_MAX, "", |it, n| it.settings.napi_ids = n as u32)
        .no_effect("slabwise assigns connections to workers in turn")
        .stat("num_napi_ids", |it| it.settings.napi_ids.to_string()),
];
