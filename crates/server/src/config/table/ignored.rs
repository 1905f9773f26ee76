//! The rows of `-o` that memcached has and that are accepted without effect, and the names of its features that
//! are not here.

use crate::config::option::{COUNT_MAX, ServerOption, option};

/// Rows of memcached's that do nothing here, but for `watcher_logbuf_size`.
pub(in crate::config) static WITHOUT_EFFECT: &[ServerOption] = &[
    option("modern").help("the defaults"),
    option("hashpower")
        .number(12, 32, "", |it, power| it.settings.hash_power = power as u32)
        .no_effect("the index grows in small steps from any size")
        .stat("hashpower_init", |it| it.settings.hash_power.to_string()),
    option("no_hashexpand")
        .help("no effect: the index always grows in small steps")
        .no_effect("the index always grows, in small steps"),
    option("hash_algorithm")
        .choice(&["jenkins", "murmur3", "xxh3"], |it, name| {
            if name != "xxh3" {
                it.warn(format!("-o hash_algorithm={name} has no effect: the hash is always xxh3"));
            }
        })
        .default("xxh3")
        .help("no effect: the hash is always xxh3")
        .stat("hash_algorithm", |_| "xxh3".to_owned()),
    option("tail_repair_time")
        .number(10, COUNT_MAX, "seconds", |it, n| it.settings.tail_repair_seconds = n as u32)
        .default("0")
        .no_effect("an item that is in use is passed over")
        .stat("tail_repair_time", |it| it.settings.tail_repair_seconds.to_string()),
    option("read_buf_mem_limit")
        .number(0, 1 << 20, "megabytes", |it, mib| {
            it.settings.read_buffers_bytes_max = (mib as u64) << 20;
        })
        .default("0")
        .no_effect("idle clients hold no buffers")
        .stat("read_buf_mem_limit", |it| it.settings.read_buffers_bytes_max.to_string()),
    option("resp_obj_mem_limit")
        .text("value", |_, _| ())
        .help("no effect, in memcached neither")
        .no_effect("idle clients hold no buffers"),
    option("watcher_logbuf_size")
        .number(0, COUNT_MAX, "kilobytes", |it, kib| {
            it.settings.watcher_log_bytes = (kib as u64) << 10;
        })
        .default("256")
        .help("most kilobytes of lines that wait for a watcher; what finds no room is skipped")
        .stat("watcher_logbuf_size", |it| it.settings.watcher_log_bytes.to_string()),
    option("worker_logbuf_size")
        .number(0, COUNT_MAX, "kilobytes", |it, kib| {
            it.settings.worker_log_bytes = (kib as u64) << 10;
        })
        .default("64")
        .help("no effect: workers hand lines to the watchers' buffers at once")
        .no_effect("lines go to the watchers' buffers at once")
        .stat("worker_logbuf_size", |it| it.settings.worker_log_bytes.to_string()),
    option("inline_ascii_resp").help("no effect, in memcached neither"),
    option("no_inline_ascii_resp").help("no effect, in memcached neither"),
    option("sock_cookie_id")
        .text("value", |_, _| ())
        .no_effect("sockets are not marked for firewalls"),
];

/// A feature of memcached's that is not here.
pub(in crate::config) struct FeatureNotHere {
    pub feature: &'static str,
    /// Whether to start without it would be a lie.
    pub stops: bool,
    /// The names that belong to it, with spaces between them.
    names: &'static str,
}

impl FeatureNotHere {
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }
}

pub(in crate::config) static NOT_HERE: &[FeatureNotHere] = &[
    FeatureNotHere {
        feature: "external storage is not built: all items stay in memory",
        stops: false,
        names: "ext_page_size ext_wbuf_size ext_threads ext_io_depth ext_path ext_item_size \
                ext_item_age ext_low_ttl ext_recache_rate ext_compact_under ext_drop_under \
                ext_max_sleep ext_max_frag ext_drop_unread slab_automove_freeratio",
    },
    FeatureNotHere {
        feature: "the proxy is not built: this is a cache only",
        stops: true,
        names: "proxy_config proxy_arg proxy_uring proxy_memprofile",
    },
    FeatureNotHere {
        feature: "system calls are not filtered: confine the process from outside",
        stops: false,
        names: "drop_privileges no_drop_privileges relaxed_privileges",
    },
];
