//! The table of flags: memcached's, with its short and long names.

use super::kind::{Kind, OptionRow, Value};
use super::raw::Raw;
use crate::settings::Protocol;

/// Flags that print something and end; the reader of the command line answers them itself.
pub(super) const HELP: &str = "help";
pub(super) const LICENSE: &str = "license";
pub(super) const VERSION: &str = "version";
/// Holds the options of the other table.
pub(super) const EXTENDED: &str = "extended";

const COUNT_MAX: i64 = i32::MAX as i64;
/// More workers than that would use up the address space or the system's threads.
const THREADS: Kind = Kind::Number { min: 1, max: 1024, unit: "threads" };

fn nothing(_: &mut Raw, _: Value<'_>) -> Result<(), String> {
    Ok(())
}

const fn row(
    short: char,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
    apply: fn(&mut Raw, Value<'_>) -> Result<(), String>,
) -> OptionRow {
    OptionRow { name, short: Some(short), kind, default, help, apply }
}

const fn switch(
    short: char,
    name: &'static str,
    help: &'static str,
    apply: fn(&mut Raw, Value<'_>) -> Result<(), String>,
) -> OptionRow {
    row(short, name, Kind::Switch, "", help, apply)
}

const fn count(min: i64, unit: &'static str) -> Kind {
    Kind::Number { min, max: COUNT_MAX, unit }
}

/// Every flag, in the order of the help.
pub(super) static FLAGS: &[OptionRow] = &[
    row(
        'p',
        "port",
        Kind::Number { min: -1, max: 65_535, unit: "" },
        "11211",
        "TCP port to listen on; -1 for any free one (see MEMCACHED_PORT_FILENAME)",
        |raw, value| {
            raw.port = Some(value.number() as i32);
            Ok(())
        },
    ),
    row(
        'U',
        "udp-port",
        Kind::Number { min: -1, max: 65_535, unit: "" },
        "0",
        "UDP port to serve, and TCP's unless -p is given; -1 for any free one, 0 for none",
        |raw, value| {
            raw.udp_port = value.number() as i32;
            Ok(())
        },
    ),
    row(
        's',
        "unix-socket",
        Kind::Text("file"),
        "",
        "Unix socket to listen on, instead of the network",
        |raw, value| {
            raw.unix_path = Some(value.text().to_owned());
            Ok(())
        },
    ),
    row(
        'a',
        "unix-mask",
        Kind::Octal,
        "700",
        "permission bits of the Unix socket, in octal",
        |raw, value| {
            raw.unix_mode = Some(value.number_u32());
            Ok(())
        },
    ),
    switch('A', "enable-shutdown", "obey the `shutdown` command", |raw, _| {
        raw.shutdown_command = true;
        Ok(())
    }),
    row(
        'l',
        "listen",
        Kind::Text("addr"),
        "all interfaces",
        "where to listen: host, host:port, [IPv6]:port; several separated by commas; each may begin \
         with notls:, btls: (TLS, no client certificate) or mtls: (TLS, client certificate \
         needed), then proto[ascii|binary|negotiating]:, then tag[name]: or tag_name_:",
        |raw, value| {
            raw.interfaces.push(value.text().to_owned());
            Ok(())
        },
    ),
    switch('d', "daemon", "go on in the background", |raw, _| {
        raw.daemonize = true;
        Ok(())
    }),
    switch('r', "enable-coredumps", "allow core files of any size", |raw, _| {
        raw.core_files = true;
        Ok(())
    }),
    row(
        'u',
        "user",
        Kind::Text("user"),
        "",
        "user to become (needed when started by root)",
        |raw, value| {
            raw.user = Some(value.text().to_owned());
            Ok(())
        },
    ),
    row(
        'm',
        "memory-limit",
        Kind::Number { min: 1, max: 1 << 20, unit: "megabytes" },
        "64",
        "memory for items, in megabytes; a hard limit",
        |raw, value| {
            raw.memory_limit_mib = Some(value.number_u32());
            Ok(())
        },
    ),
    switch(
        'M',
        "disable-evictions",
        "answer a full memory with an error instead of evicting",
        |raw, _| {
            raw.eviction_disabled = true;
            Ok(())
        },
    ),
    row(
        'c',
        "conn-limit",
        count(1, "connections"),
        "1024",
        "most connections at a time",
        |raw, value| {
            raw.connections_max = Some(value.number_u32());
            Ok(())
        },
    ),
    switch('k', "lock-memory", "keep all memory from being paged out", |raw, _| {
        raw.lock_memory = true;
        Ok(())
    }),
    switch('v', "verbose", "say more; -vv and -vvv more still", |raw, _| {
        raw.verbosity = raw.verbosity.saturating_add(1).min(3);
        Ok(())
    }),
    switch('h', HELP, "print this help and end", nothing),
    switch('i', LICENSE, "print the licence and end", nothing),
    switch('V', VERSION, "print the version and end", nothing),
    row(
        'P',
        "pidfile",
        Kind::Text("file"),
        "",
        "file that holds the process id while the server runs",
        |raw, value| {
            raw.pid_file = Some(value.text().to_owned());
            Ok(())
        },
    ),
    row(
        'f',
        "slab-growth-factor",
        Kind::Fraction { above: 1.0, max: f64::INFINITY },
        "1.12",
        "how much larger each class's chunks are than the one before's",
        |raw, value| {
            raw.growth_factor = Some(value.fraction());
            Ok(())
        },
    ),
    row(
        'n',
        "slab-min-size",
        count(1, "bytes"),
        "48 with preset=memcached, else the least",
        "bytes for key, value and flags in the smallest chunk",
        |raw, value| {
            raw.chunk_size_bytes = Some(value.number_u32());
            Ok(())
        },
    ),
    switch('L', "enable-largepages", "ask the system for huge pages", |raw, _| {
        raw.huge_pages = true;
        Ok(())
    }),
    row(
        'D',
        "prefix-delimiter",
        Kind::Text("char"),
        ":",
        "character that ends a key's prefix in `stats detail`, which it turns on",
        |raw, value| {
            raw.prefix_delimiter = value.text().chars().next();
            Ok(())
        },
    ),
    row('t', "threads", THREADS, "4", "worker threads", |raw, value| {
        raw.threads = Some(value.number_u32());
        Ok(())
    }),
    row(
        'R',
        "max-reqs-per-event",
        count(1, "requests"),
        "20",
        "requests of one client served before others have their turn",
        |raw, value| {
            raw.requests_per_turn_max = Some(value.number_u32());
            Ok(())
        },
    ),
    switch('C', "disable-cas", "give out no CAS values", |raw, _| {
        raw.cas_disabled = true;
        Ok(())
    }),
    row(
        'b',
        "listen-backlog",
        count(0, "connections"),
        "1024",
        "connections that the kernel may queue",
        |raw, value| {
            raw.listen_backlog = Some(value.number() as i32);
            Ok(())
        },
    ),
    row(
        'B',
        "protocol",
        Kind::Choice(&["auto", "ascii", "binary"]),
        "auto",
        "auto or ascii; the binary protocol is not spoken yet",
        |raw, value| match value.choice() {
            "binary" => {
                Err("the binary protocol is not spoken yet: say -B ascii or leave it out".into())
            }
            "ascii" => {
                raw.protocol = Some(Protocol::Ascii);
                Ok(())
            }
            _ => {
                raw.protocol = Some(Protocol::Auto);
                Ok(())
            }
        },
    ),
    row(
        'I',
        "max-item-size",
        Kind::Size,
        "1m",
        "most bytes an item may take, from 1k to 1024m",
        |raw, value| {
            raw.item_size_bytes_max = Some(value.number());
            Ok(())
        },
    ),
    switch('S', "enable-sasl", "not built yet", |_, _| {
        Err("SASL is not built yet: without -S anybody who reaches the port may use it".into())
    }),
    switch('F', "disable-flush-all", "refuse `flush_all`", |raw, _| {
        raw.flush_disabled = true;
        Ok(())
    }),
    switch(
        'X',
        "disable-dumping",
        "refuse `stats cachedump`, `stats detail` and `lru_crawler metadump`",
        |raw, _| {
            raw.dump_disabled = true;
            Ok(())
        },
    ),
    switch('W', "disable-watch", "refuse `watch`", |raw, _| {
        raw.watch_disabled = true;
        Ok(())
    }),
    row(
        'Y',
        "auth-file",
        Kind::Text("file"),
        "",
        "file of lines user:password, one of which every client must name first",
        |raw, value| {
            raw.auth_file = Some(value.text().to_owned());
            Ok(())
        },
    ),
    row(
        'e',
        "memory-file",
        Kind::Text("file"),
        "",
        "file for the items, on a ram disk: stopped by SIGUSR1, the next start has them again",
        |raw, value| {
            raw.memory_file = Some(value.text().to_owned());
            Ok(())
        },
    ),
    switch('Z', "enable-ssl", "serve through TLS; see ssl_* in -o", |raw, _| {
        raw.tls.enabled = true;
        Ok(())
    }),
    row('o', EXTENDED, Kind::Text("name=value,..."), "", "more options, see below", nothing),
    row(
        'N',
        "napi-ids",
        count(1, ""),
        "",
        "no effect: connections are dealt out in turn",
        |raw, value| {
            raw.napi_ids = value.number_u32();
            raw.warn("-N has no effect: connections are dealt out to the workers in turn");
            Ok(())
        },
    ),
];
