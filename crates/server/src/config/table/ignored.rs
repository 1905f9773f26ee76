//! The table of memcached's options of `-o` that are accepted without effect, and the options of features that slabwise
//! lacks.

use crate::config::option::{COUNT_MAX, ServerOption, option};

/// memcached's options of `-o` that have no effect, in the order of the help.
pub(in crate::config) static WITHOUT_EFFECT: &[ServerOption] = &[
    option("modern").help("no effect: its settings are the defaults, as in memcached since 1.5"),
    option("hashpower")
        .number(12, 32, "", |it, power| it.settings.hash_power = power as u32)
        .no_effect("the hash table grows in small steps and needs no initial size")
        .stat("hashpower_init", |it| it.settings.hash_power.to_string()),
    option("no_hashexpand").no_effect("the hash table always grows, in small steps"),
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
        .no_effect("an item that is in use does not block evictions: the next item is evicted")
        .stat("tail_repair_time", |it| it.settings.tail_repair_seconds.to_string()),
    option("read_buf_mem_limit")
        .number(0, 1 << 20, "megabytes", |it, mib| {
            it.settings.read_buffers_bytes_max = (mib as u64) << 20;
        })
        .default("0")
        .no_effect("each worker has one read buffer, and idle connections have none")
        .stat("read_buf_mem_limit", |it| it.settings.read_buffers_bytes_max.to_string()),
    option("resp_obj_mem_limit")
        .text("value", |_, _| ())
        .no_effect("idle connections have no buffers for replies"),
    option("worker_logbuf_size")
        .number(0, COUNT_MAX, "kilobytes", |it, kib| {
            it.settings.worker_log_bytes = (kib as u64) << 10;
        })
        .default("64")
        .no_effect("workers write log lines directly to the buffers of watchers")
        .stat("worker_logbuf_size", |it| it.settings.worker_log_bytes.to_string()),
    option("inline_ascii_resp").help("no effect, as in memcached"),
    option("no_inline_ascii_resp").help("no effect, as in memcached"),
    option("relaxed_privileges")
        .no_effect("drop_privileges allows whatever the server needs, also in tests"),
    option("sock_cookie_id")
        .text("value", |_, _| ())
        .no_effect("slabwise does not mark its sockets for firewalls"),
];

/// A feature of memcached that slabwise lacks.
pub(in crate::config) struct MissingFeature {
    /// The explanation, which follows the name of the option in an error or a warning.
    pub reason: &'static str,
    /// True if the server does not start with an option of the feature; false if the option only causes a warning.
    pub is_error: bool,
    /// The names of the feature's options, separated by spaces.
    names: &'static str,
}

impl MissingFeature {
    /// Returns the names of the feature's options.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }
}

/// The features of memcached that slabwise lacks.
pub(in crate::config) static MISSING: &[MissingFeature] = &[
    MissingFeature {
        reason: "slabwise has no external storage and keeps all items in memory",
        is_error: false,
        names: "ext_page_size ext_wbuf_size ext_threads ext_io_depth ext_path ext_item_size \
                ext_item_age ext_low_ttl ext_recache_rate ext_compact_under ext_drop_under \
                ext_max_sleep ext_max_frag ext_drop_unread slab_automove_freeratio",
    },
    MissingFeature {
        reason: "slabwise has no proxy: leave the option out",
        is_error: true,
        names: "proxy_config proxy_arg proxy_uring proxy_memprofile",
    },
];
