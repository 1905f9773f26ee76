//! The lines of `stats settings`. The names of the lines, their order, and the formats of the values are memcached's.
//! The order of the option tables does not matter: some dashboards find a line by its position in memcached's order.

use super::option::{Stat, yes_no};
use super::settings::Running;
use super::table::{self, FLAGS};

/// The names of the lines in memcached's order, separated by spaces. All other lines follow at the end.
const NAMES_IN_ORDER: &str = "\
    maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask shutdown_command \
    growth_factor chunk_size num_threads num_threads_per_udp stat_key_prefix detail_enabled reqs_per_event \
    cas_enabled tcp_backlog binding_protocol auth_enabled_sasl auth_enabled_ascii item_size_max maxconns_fast \
    hashpower_init slab_reassign slab_automove slab_automove_ratio slab_automove_window slab_chunk_max \
    lru_crawler lru_crawler_sleep lru_crawler_tocrawl tail_repair_time flush_enabled dump_enabled \
    hash_algorithm lru_maintainer_thread lru_segmented hot_lru_pct warm_lru_pct hot_max_factor \
    warm_max_factor temp_lru temporary_ttl idle_timeout watcher_logbuf_size worker_logbuf_size \
    read_buf_mem_limit track_sizes inline_ascii_response ext_item_size ext_item_age ext_low_ttl \
    ext_recache_rate ext_wbuf_size ext_compact_under ext_drop_under ext_max_sleep ext_max_frag \
    slab_automove_freeratio ext_drop_unread ssl_enabled ssl_chain_cert ssl_key ssl_verify_mode \
    ssl_keyformat ssl_ciphers ssl_ca_cert ssl_wbuf_size ssl_session_cache ssl_kernel_tls ssl_min_version \
    num_napi_ids memory_file client_flags_size";

/// Returns the name and the value of each line of `stats settings`.
pub fn report(running: &Running<'_>) -> Vec<(&'static str, String)> {
    stats().into_iter().map(|stat| (stat.name, (stat.value)(running))).collect()
}

/// Returns the name of each line of `stats settings` that a command can change, and such a command.
#[cfg(test)]
pub fn changeable() -> Vec<(&'static str, &'static str)> {
    stats().into_iter().filter_map(|stat| Some((stat.name, stat.changed_by?))).collect()
}

/// Returns all lines of `stats settings` in their order.
fn stats() -> Vec<&'static Stat> {
    let rows = FLAGS.iter().chain(table::extended());
    let mut stats: Vec<_> =
        rows.flat_map(|row| row.stats.iter().flatten()).chain(LINES_WITHOUT_OPTION).collect();
    let position =
        |stat: &&Stat| NAMES_IN_ORDER.split_whitespace().position(|name| name == stat.name);
    stats.sort_by_key(|stat| position(stat).unwrap_or(usize::MAX));
    stats
}

/// The difference between memcached's clock and slabwise's clock: memcached's clock starts at 62 s, slabwise's at 2 s.
const CLOCK_LEAD_SECONDS: u32 = 60;

/// The lines that belong to no row of the option tables. A line of a feature that slabwise lacks shows memcached's
/// default.
static LINES_WITHOUT_OPTION: &[Stat] = &[
    Stat::new("oldest", Some("flush_all"), |it| match it.tunables.oldest_live {
        0 => "0".to_owned(),
        second => second.saturating_add(CLOCK_LEAD_SECONDS).to_string(),
    }),
    Stat::new("slab_automove_freeratio", Some("slabs automove freeratio 0.5"), |it| {
        format!("{:.3}", it.tunables.automove_free_ratio)
    }),
    Stat::new("lru_segmented", Some("lru mode flat"), |it| yes_no(it.tunables.lru_segmented)),
    Stat::new("num_threads_per_udp", None, |it| it.settings.threads_per_udp_port().to_string()),
    Stat::new("inline_ascii_response", None, |_| yes_no(false)),
    Stat::new("ext_item_size", None, |_| "512".to_owned()),
    Stat::new("ext_item_age", None, |_| u32::MAX.to_string()),
    Stat::new("ext_low_ttl", None, |_| "0".to_owned()),
    Stat::new("ext_recache_rate", None, |_| "2000".to_owned()),
    Stat::new("ext_wbuf_size", None, |_| "4194304".to_owned()),
    Stat::new("ext_compact_under", None, |_| "0".to_owned()),
    Stat::new("ext_drop_under", None, |_| "0".to_owned()),
    Stat::new("ext_max_sleep", None, |_| "1000000".to_owned()),
    Stat::new("ext_max_frag", None, |_| "0.80".to_owned()),
    Stat::new("ext_drop_unread", None, |_| yes_no(false)),
    Stat::new("client_flags_size", None, |_| "4".to_owned()),
];
