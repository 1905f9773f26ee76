//! The table of `-o`: memcached's names; ours are in `ours`.

use super::kind::{Kind, OptionRow, Value};
use super::ours::OURS;
use super::raw::Raw;
use super::tls::TLS;

const COUNT_MAX: i64 = i32::MAX as i64;

pub(super) const fn row(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
    apply: fn(&mut Raw, Value<'_>) -> Result<(), String>,
) -> OptionRow {
    OptionRow { name, short: None, kind, default, help, apply }
}

pub(super) const fn switch(
    name: &'static str,
    help: &'static str,
    apply: fn(&mut Raw, Value<'_>) -> Result<(), String>,
) -> OptionRow {
    row(name, Kind::Switch, "", help, apply)
}

pub(super) const fn number(min: i64, max: i64, unit: &'static str) -> Kind {
    Kind::Number { min, max, unit }
}

const ANY_FRACTION: Kind = Kind::Fraction { above: 0.0, max: f64::INFINITY };
pub(super) const ANY: Kind = Kind::Text("value");

/// Rows of memcached's that act.
pub(super) static ACTING: &[OptionRow] = &[
    switch("maxconns_fast", "turn clients away at the limit of -c (the default)", |raw, _| {
        raw.connections_max_fast = Some(true);
        Ok(())
    }),
    switch("no_maxconns_fast", "let clients wait at the limit of -c", |raw, _| {
        raw.connections_max_fast = Some(false);
        Ok(())
    }),
    row(
        "idle_timeout",
        number(0, COUNT_MAX, "seconds"),
        "0",
        "seconds after which an idle TCP client is closed; 0 for never",
        |raw, value| {
            raw.idle_timeout_seconds = value.number_u32();
            Ok(())
        },
    ),
    switch("slab_reassign", "let pages move between classes (the default)", |raw, _| {
        raw.slab_reassign = Some(true);
        Ok(())
    }),
    switch("no_slab_reassign", "let no page move between classes", |raw, _| {
        raw.slab_reassign = Some(false);
        Ok(())
    }),
    row(
        "slab_automove",
        Kind::OptionalNumber { min: 0, max: 2, absent: 1 },
        "1",
        "0: pages move only on command; 1: by the page policy; 2: at every eviction",
        |raw, value| {
            raw.slab_automove = Some(value.number_u32());
            Ok(())
        },
    ),
    switch("no_slab_automove", "as slab_automove=0", |raw, _| {
        raw.slab_automove = Some(0);
        Ok(())
    }),
    row(
        "slab_automove_ratio",
        Kind::Fraction { above: 0.0, max: 1.0 },
        "0.8",
        "age ratio from which memcached's automover moves a page",
        |raw, value| {
            raw.slab_automove_ratio = Some(value.fraction());
            Ok(())
        },
    ),
    row(
        "slab_automove_window",
        number(3, 1800, "seconds"),
        "10",
        "seconds that memcached's automover looks back",
        |raw, value| {
            raw.slab_automove_window = Some(value.number_u32());
            Ok(())
        },
    ),
    row(
        "slab_sizes",
        Kind::Text("size-size-..."),
        "",
        "chunk sizes in bytes, ascending, separated by '-'",
        slab_sizes,
    ),
    row(
        "slab_chunk_max",
        number(1, 16 << 20, "kilobytes"),
        "half a page",
        "largest chunk, in kilobytes; larger items are chained. What is above 1024, or above -I, \
         is in bytes, as for memcached 1.6.18",
        |raw, value| {
            raw.slab_chunk_max = Some(value.number_u32());
            Ok(())
        },
    ),
    switch("no_chunked_items", "let the largest chunk be a whole page", |raw, _| {
        raw.chunked_items_disabled = true;
        Ok(())
    }),
    switch("track_sizes", "keep `stats sizes` from the start", |raw, _| {
        raw.track_sizes = true;
        Ok(())
    }),
    switch("lru_crawler", "reclaim expired items in the background (the default)", |raw, _| {
        raw.lru_crawler = Some(true);
        Ok(())
    }),
    switch("no_lru_crawler", "reclaim expired items only when they are met", |raw, _| {
        raw.lru_crawler = Some(false);
        Ok(())
    }),
    row(
        "lru_crawler_sleep",
        number(0, 1_000_000, "microseconds"),
        "100",
        "microseconds the crawler waits between items",
        |raw, value| {
            raw.lru_crawler_sleep_us = Some(value.number_u32());
            Ok(())
        },
    ),
    row(
        "lru_crawler_tocrawl",
        number(0, u32::MAX as i64, "items"),
        "0",
        "most items a crawl looks at in a class; 0 for all",
        |raw, value| {
            raw.lru_crawler_tocrawl = value.number_u32();
            Ok(())
        },
    ),
    switch("lru_maintainer", "the segmented LRU with its thread (the default)", |raw, _| {
        raw.lru_maintainer = Some(true);
        Ok(())
    }),
    switch("no_lru_maintainer", "one LRU queue for a class, no thread", |raw, _| {
        raw.lru_maintainer = Some(false);
        Ok(())
    }),
    row(
        "hot_lru_pct",
        number(1, 79, "percent"),
        "20",
        "share of a class that new items may hold",
        |raw, value| {
            raw.hot_percent = Some(value.number_u32());
            Ok(())
        },
    ),
    row(
        "warm_lru_pct",
        number(1, 79, "percent"),
        "40",
        "share of a class that items used twice may hold",
        |raw, value| {
            raw.warm_percent = Some(value.number_u32());
            Ok(())
        },
    ),
    row(
        "hot_max_factor",
        ANY_FRACTION,
        "0.2",
        "new items older than this part of the cold tail's age leave hot",
        |raw, value| {
            raw.hot_age_factor = Some(value.fraction());
            Ok(())
        },
    ),
    row("warm_max_factor", ANY_FRACTION, "2", "the same for warm", |raw, value| {
        raw.warm_age_factor = Some(value.fraction());
        Ok(())
    }),
    row(
        "temporary_ttl",
        number(0, u32::MAX as i64, "seconds"),
        "off",
        "items that live at most this long are only ever removed by expiry",
        |raw, value| {
            raw.temporary_ttl_seconds = Some(value.number_u32());
            Ok(())
        },
    ),
    switch("no_modern", "memcached 1.4's defaults", no_modern),
];

/// Rows of memcached's that are accepted and do nothing here.
pub(super) static WITHOUT_EFFECT: &[OptionRow] = &[
    switch("modern", "the defaults", |_, _| Ok(())),
    row(
        "hashpower",
        number(12, 32, ""),
        "",
        "no effect: the index grows in small steps from any size",
        |raw, value| {
            raw.hash_power = value.number_u32();
            no_effect(raw, "hashpower", "the index grows in small steps from any size")
        },
    ),
    switch("no_hashexpand", "no effect: the index always grows in small steps", |raw, _| {
        no_effect(raw, "no_hashexpand", "the index always grows, in small steps")
    }),
    row(
        "hash_algorithm",
        Kind::Choice(&["jenkins", "murmur3", "xxh3"]),
        "xxh3",
        "no effect: the hash is always xxh3",
        |raw, value| match value.choice() {
            "xxh3" => Ok(()),
            other => {
                raw.hash_algorithm = Some("xxh3");
                no_effect(raw, &format!("hash_algorithm={other}"), "the hash is always xxh3")
            }
        },
    ),
    row(
        "tail_repair_time",
        number(10, COUNT_MAX, "seconds"),
        "0",
        "no effect: an item that is in use is passed over",
        |raw, value| {
            raw.tail_repair_seconds = value.number_u32();
            no_effect(raw, "tail_repair_time", "an item that is in use is passed over")
        },
    ),
    row(
        "read_buf_mem_limit",
        number(0, 1 << 20, "megabytes"),
        "0",
        "no effect: idle clients hold no buffers",
        |raw, value| {
            raw.read_buffers_mib_max = value.number_u32();
            no_effect(raw, "read_buf_mem_limit", "idle clients hold no buffers")
        },
    ),
    row("resp_obj_mem_limit", ANY, "", "no effect, in memcached neither", |raw, _| {
        no_effect(raw, "resp_obj_mem_limit", "idle clients hold no buffers")
    }),
    row(
        "watcher_logbuf_size",
        number(0, COUNT_MAX, "kilobytes"),
        "256",
        "most kilobytes of lines that wait for a watcher; what finds no room is skipped",
        |raw, value| {
            raw.watcher_log_kib = Some(value.number_u32());
            Ok(())
        },
    ),
    row(
        "worker_logbuf_size",
        number(0, COUNT_MAX, "kilobytes"),
        "64",
        "no effect: workers hand lines to the watchers' buffers at once",
        |raw, value| {
            raw.worker_log_kib = Some(value.number_u32());
            no_effect(raw, "worker_logbuf_size", "lines go to the watchers' buffers at once")
        },
    ),
    switch("inline_ascii_resp", "no effect, in memcached neither", |_, _| Ok(())),
    switch("no_inline_ascii_resp", "no effect, in memcached neither", |_, _| Ok(())),
    row("sock_cookie_id", ANY, "", "no effect: sockets are not marked for firewalls", |raw, _| {
        no_effect(raw, "sock_cookie_id", "sockets are not marked for firewalls")
    }),
];

/// Names of memcached's for features that are not here.
pub(super) static NOT_HERE: &[FeatureNotHere] = &[
    FeatureNotHere {
        feature: "external storage is not built: all items stay in memory",
        stops: false,
        names: &[
            "ext_page_size",
            "ext_wbuf_size",
            "ext_threads",
            "ext_io_depth",
            "ext_path",
            "ext_item_size",
            "ext_item_age",
            "ext_low_ttl",
            "ext_recache_rate",
            "ext_compact_under",
            "ext_drop_under",
            "ext_max_sleep",
            "ext_max_frag",
            "ext_drop_unread",
            "slab_automove_freeratio",
        ],
    },
    FeatureNotHere {
        feature: "the proxy is not built: this is a cache only",
        stops: true,
        names: &["proxy_config", "proxy_arg", "proxy_uring", "proxy_memprofile"],
    },
    FeatureNotHere {
        feature: "system calls are not filtered: confine the process from outside",
        stops: false,
        names: &["drop_privileges", "no_drop_privileges", "relaxed_privileges"],
    },
];

/// A feature of memcached's that is not here, and the names that belong to it.
pub(super) struct FeatureNotHere {
    /// A whole sentence.
    pub feature: &'static str,
    /// Whether to go on without it would be a lie.
    pub stops: bool,
    pub names: &'static [&'static str],
}

/// Every name of `-o`.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let not_here = NOT_HERE.iter().flat_map(|feature| feature.names.iter().copied());
    all().map(|row| row.name).chain(not_here)
}

/// Every row of `-o`.
pub(super) fn all() -> impl Iterator<Item = &'static OptionRow> {
    ACTING.iter().chain(TLS).chain(WITHOUT_EFFECT).chain(OURS)
}

fn no_effect(raw: &mut Raw, name: &str, why: &str) -> Result<(), String> {
    raw.warn(format!("-o {name} has no effect: {why}"));
    Ok(())
}

fn slab_sizes(raw: &mut Raw, value: Value<'_>) -> Result<(), String> {
    let sizes: Result<Vec<usize>, _> = value.text().split('-').map(str::parse).collect();
    match sizes {
        Ok(sizes) => raw.slab_sizes = Some(sizes),
        Err(_) => {
            let text = value.text();
            return Err(format!(
                "takes chunk sizes in bytes, ascending, separated by '-', such as 100-200-400, not \
                 '{text}'"
            ));
        }
    }
    Ok(())
}

fn no_modern(raw: &mut Raw, _: Value<'_>) -> Result<(), String> {
    raw.chunked_items_disabled = true;
    raw.slab_reassign = Some(false);
    raw.slab_automove = Some(0);
    raw.connections_max_fast = Some(false);
    raw.lru_maintainer = Some(false);
    raw.lru_crawler = Some(false);
    Ok(())
}
