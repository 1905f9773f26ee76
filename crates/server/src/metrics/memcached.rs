//! The metrics that prometheus/memcached_exporter derives from the replies of memcached, with its names, types and
//! labels, so that dashboards and alerts for memcached also show slabwise.
//!
//! A table has one row for each value. It names the statistic in a reply, and the metric. A statistic that the reply
//! does not contain has no value.

use super::families::{Families, Metric};
use crate::stats::{self, StatsContext};
use slabwise_protocol::StatsRequest;
use std::collections::{BTreeMap, HashMap};

/// A row of a table: how a statistic becomes a value of a metric.
struct Row {
    /// The name of the statistic, without the number of the class.
    statistic: &'static str,
    metric: Metric,
    /// The labels in addition to the class.
    labels: &'static [(&'static str, &'static str)],
}

const fn counter(statistic: &'static str, name: &'static str, help: &'static str) -> Row {
    Row { statistic, metric: Metric::counter(name, help), labels: &[] }
}

const fn gauge(statistic: &'static str, name: &'static str, help: &'static str) -> Row {
    Row { statistic, metric: Metric::gauge(name, help), labels: &[] }
}

const UP: Metric = Metric::gauge("memcached_up", "1 if the server answers.");
const VERSION: Metric =
    Metric::gauge("memcached_version", "1; the label is the version of the server.");
const COMMANDS: Metric =
    Metric::counter("memcached_commands_total", "Commands by their name and result.");
const SLAB_COMMANDS: Metric = Metric::counter(
    "memcached_slab_commands_total",
    "Commands on the items of a class by their name and result.",
);
const LRU_HITS: Metric =
    Metric::counter("memcached_slab_lru_hits_total", "Gets that hit an item in a queue.");

/// Makes the table of the counts of a command with the results hit and miss.
macro_rules! commands {
    ($metric:expr, $($statistic:literal is $command:literal $status:literal,)+) => {
        &[$(Row {
            statistic: $statistic,
            metric: $metric,
            labels: &[("command", $command), ("status", $status)],
        },)+]
    };
}

/// The counts of commands in `stats`.
static GENERAL_COMMANDS: &[Row] = commands![COMMANDS,
    "get_hits" is "get" "hit",
    "get_misses" is "get" "miss",
    "delete_hits" is "delete" "hit",
    "delete_misses" is "delete" "miss",
    "incr_hits" is "incr" "hit",
    "incr_misses" is "incr" "miss",
    "decr_hits" is "decr" "hit",
    "decr_misses" is "decr" "miss",
    "cas_hits" is "cas" "hit",
    "cas_misses" is "cas" "miss",
    "cas_badval" is "cas" "badval",
    "touch_hits" is "touch" "hit",
    "touch_misses" is "touch" "miss",
    "cmd_flush" is "flush" "hit",
];

/// The counts of commands of a class in `stats slabs`.
static CLASS_COMMANDS: &[Row] = commands![SLAB_COMMANDS,
    "get_hits" is "get" "hit",
    "delete_hits" is "delete" "hit",
    "incr_hits" is "incr" "hit",
    "decr_hits" is "decr" "hit",
    "cas_hits" is "cas" "hit",
    "cas_badval" is "cas" "badval",
    "touch_hits" is "touch" "hit",
];

/// The other statistics of `stats`, and the sum in `stats slabs`.
static GENERAL: &[Row] = &[
    counter("uptime", "memcached_uptime_seconds", "Seconds since the start of the server."),
    gauge("time", "memcached_time_seconds", "The server's clock, as Unix time."),
    counter(
        "rusage_user",
        "memcached_process_user_cpu_seconds_total",
        "Processor time of the process in user mode.",
    ),
    counter(
        "rusage_system",
        "memcached_process_system_cpu_seconds_total",
        "Processor time of the process in the kernel.",
    ),
    gauge("bytes", "memcached_current_bytes", "Bytes of all items: headers, keys and values."),
    gauge("limit_maxbytes", "memcached_limit_bytes", "The memory limit (-m)."),
    gauge("curr_items", "memcached_current_items", "Items in the cache."),
    counter("total_items", "memcached_items_total", "Items stored since the start."),
    counter("bytes_read", "memcached_read_bytes_total", "Bytes received from clients."),
    counter("bytes_written", "memcached_written_bytes_total", "Bytes sent to clients."),
    gauge("curr_connections", "memcached_current_connections", "Open connections."),
    counter("total_connections", "memcached_connections_total", "Connections accepted."),
    counter(
        "rejected_connections",
        "memcached_connections_rejected_total",
        "Connections rejected because -c connections were open.",
    ),
    counter(
        "conn_yields",
        "memcached_connections_yielded_total",
        "Rounds of a connection that ended after -R requests although it had more.",
    ),
    counter(
        "listen_disabled_num",
        "memcached_connections_listener_disabled_total",
        "Pauses of the acceptor because -c connections were open.",
    ),
    gauge(
        "accepting_conns",
        "memcached_accepting_connections",
        "1 if the server accepts connections, 0 while the acceptor pauses.",
    ),
    counter("evictions", "memcached_items_evicted_total", "Items evicted to make room."),
    counter(
        "reclaimed",
        "memcached_items_reclaimed_total",
        "Expired or flushed items removed to make room.",
    ),
    counter(
        "store_too_large",
        "memcached_item_too_large_total",
        "Stores refused because the item was above -I.",
    ),
    counter(
        "store_no_memory",
        "memcached_item_no_memory_total",
        "Stores refused because there was no memory.",
    ),
    counter("lru_crawler_starts", "memcached_lru_crawler_starts_total", "Crawls started."),
    counter(
        "crawler_items_checked",
        "memcached_lru_crawler_items_checked_total",
        "Items that crawls checked.",
    ),
    counter(
        "crawler_reclaimed",
        "memcached_lru_crawler_reclaimed_total",
        "Expired or flushed items that crawls removed.",
    ),
    counter(
        "moves_to_cold",
        "memcached_lru_crawler_moves_to_cold_total",
        "Moves of items to a cold queue.",
    ),
    counter(
        "moves_to_warm",
        "memcached_lru_crawler_moves_to_warm_total",
        "Moves of items to a warm queue.",
    ),
    counter(
        "moves_within_lru",
        "memcached_lru_crawler_moves_within_lru_total",
        "Moves of items to the head of their queue.",
    ),
    counter(
        "direct_reclaims",
        "memcached_direct_reclaims_total",
        "Expired or flushed items that a store removed to get a chunk.",
    ),
    gauge("total_malloced", "memcached_malloced_bytes", "Bytes of all pages that hold memory."),
];

/// The settings of the server in `stats settings`.
static SETTINGS: &[Row] =
    &[gauge("maxconns", "memcached_max_connections", "The maximum of open connections (-c).")];

/// The settings of the LRU crawler and maintainer, which have values only while the crawler is enabled.
static CRAWLER_SETTINGS: &[Row] = &[
    gauge("lru_crawler", "memcached_lru_crawler_enabled", "1 if the crawler is enabled."),
    gauge(
        "lru_crawler_sleep",
        "memcached_lru_crawler_sleep",
        "Microseconds between two steps of a crawl.",
    ),
    gauge(
        "lru_crawler_tocrawl",
        "memcached_lru_crawler_to_crawl",
        "Items that a crawl checks in a class; 0 for all.",
    ),
    gauge(
        "lru_maintainer_thread",
        "memcached_lru_crawler_maintainer_thread",
        "1 if the LRU maintainer runs.",
    ),
    gauge(
        "hot_lru_pct",
        "memcached_lru_crawler_hot_percent",
        "Percentage of a class's memory for its hot queue.",
    ),
    gauge(
        "warm_lru_pct",
        "memcached_lru_crawler_warm_percent",
        "Percentage of a class's memory for its warm queue.",
    ),
    gauge(
        "hot_max_factor",
        "memcached_lru_crawler_hot_max_factor",
        "Largest age of the hot queue as a share of the age of the cold queue.",
    ),
    gauge(
        "warm_max_factor",
        "memcached_lru_crawler_warm_max_factor",
        "Largest age of the warm queue as a share of the age of the cold queue.",
    ),
];

/// The statistics of a class in `stats items`.
static CLASS_ITEMS: &[Row] = &[
    gauge("number", "memcached_slab_current_items", "Items of the class."),
    gauge(
        "age",
        "memcached_slab_items_age_seconds",
        "Seconds since the last access to the item that the class would evict next, or the value that replaces it: see `stats items`.",
    ),
    Row { statistic: "hits_to_hot", metric: LRU_HITS, labels: &[("lru", "hot")] },
    Row { statistic: "hits_to_warm", metric: LRU_HITS, labels: &[("lru", "warm")] },
    Row { statistic: "hits_to_cold", metric: LRU_HITS, labels: &[("lru", "cold")] },
    Row { statistic: "hits_to_temp", metric: LRU_HITS, labels: &[("lru", "temporary")] },
    counter(
        "crawler_reclaimed",
        "memcached_slab_items_crawler_reclaimed_total",
        "Expired or flushed items of the class that crawls removed.",
    ),
    counter(
        "evicted",
        "memcached_slab_items_evicted_total",
        "Items of the class evicted to make room.",
    ),
    counter(
        "evicted_nonzero",
        "memcached_slab_items_evicted_nonzero_total",
        "Evicted items that had an expiration time.",
    ),
    counter(
        "evicted_time",
        "memcached_slab_items_evicted_time_seconds",
        "Seconds between the last access to the item evicted last and its eviction.",
    ),
    counter(
        "evicted_unfetched",
        "memcached_slab_items_evicted_unfetched_total",
        "Evicted items that were never hit.",
    ),
    counter(
        "expired_unfetched",
        "memcached_slab_items_expired_unfetched_total",
        "Expired items that were never hit.",
    ),
    counter(
        "outofmemory",
        "memcached_slab_items_outofmemory_total",
        "Stores of the class that found no memory.",
    ),
    counter(
        "reclaimed",
        "memcached_slab_items_reclaimed_total",
        "Expired or flushed items of the class removed to make room.",
    ),
    counter("tailrepairs", "memcached_slab_items_tailrepairs_total", "Always 0."),
    counter(
        "mem_requested",
        "memcached_slab_mem_requested_bytes",
        "Bytes of the items of the class: headers, keys and values.",
    ),
    counter(
        "moves_to_cold",
        "memcached_slab_items_moves_to_cold",
        "Moves of items to the cold queue of the class.",
    ),
    counter(
        "moves_to_warm",
        "memcached_slab_items_moves_to_warm",
        "Moves of items to the warm queue of the class.",
    ),
    counter(
        "moves_within_lru",
        "memcached_slab_items_moves_within_lru",
        "Moves of items to the head of their queue.",
    ),
    gauge("number_hot", "memcached_slab_hot_items", "Items in the hot queue of the class."),
    gauge("number_warm", "memcached_slab_warm_items", "Items in the warm queue of the class."),
    gauge("number_cold", "memcached_slab_cold_items", "Items in the cold queue of the class."),
    gauge(
        "number_temp",
        "memcached_slab_temporary_items",
        "Items in the temporary queue of the class.",
    ),
    gauge(
        "age_hot",
        "memcached_slab_hot_age_seconds",
        "Seconds since the last access to the oldest item of the hot queue.",
    ),
    gauge(
        "age_warm",
        "memcached_slab_warm_age_seconds",
        "Seconds since the last access to the oldest item of the warm queue.",
    ),
];

/// The other statistics of a class in `stats slabs`.
static CLASS_SLABS: &[Row] = &[
    gauge("chunk_size", "memcached_slab_chunk_size_bytes", "The chunk size of the class."),
    gauge("chunks_per_page", "memcached_slab_chunks_per_page", "Chunks on a page of the class."),
    gauge("total_pages", "memcached_slab_current_pages", "Pages of the class."),
    gauge("total_chunks", "memcached_slab_current_chunks", "Chunks on the pages of the class."),
    gauge("used_chunks", "memcached_slab_chunks_used", "Chunks of the class in use."),
    gauge("free_chunks", "memcached_slab_chunks_free", "Chunks of the class not in use."),
    gauge("free_chunks_end", "memcached_slab_chunks_free_end", "Always 0."),
];

/// Adds the metrics of the exporter. `has_classes` is false if those of classes are left out.
pub(super) fn add(context: StatsContext<'_>, has_classes: bool, families: &mut Families) {
    families.add(UP, &[], 1.0);
    let reply = |request| stats::rows(context, request).into_iter().collect::<HashMap<_, _>>();
    let mut general = reply(StatsRequest::General);
    // The exporter takes the rows without a class from all replies.
    let slabs = reply(StatsRequest::Slabs);
    general
        .extend(slabs.get("total_malloced").map(|sum| ("total_malloced".to_owned(), sum.clone())));
    families.add(VERSION, &[("version", &general["version"])], 1.0);
    let no_labels = Statistics { rows: &general, labels: &[] };
    no_labels.add(GENERAL_COMMANDS, families);
    no_labels.add(GENERAL, families);
    // memcached counts a cas also as a set.
    no_labels.add_sets(COMMANDS, &["cas_misses", "cas_hits", "cas_badval"], families);
    let settings = reply(StatsRequest::Settings);
    let no_labels = Statistics { rows: &settings, labels: &[] };
    no_labels.add(SETTINGS, families);
    if settings.get("lru_crawler").is_some_and(|value| value == "yes") {
        no_labels.add(CRAWLER_SETTINGS, families);
    }
    if !has_classes {
        return;
    }
    for (number, rows) in by_class(&reply(StatsRequest::Items), "items:") {
        Statistics { rows: &rows, labels: &[("slab", &number.to_string())] }
            .add(CLASS_ITEMS, families);
    }
    for (number, rows) in by_class(&slabs, "") {
        let number = number.to_string();
        let class = Statistics { rows: &rows, labels: &[("slab", &number)] };
        class.add(CLASS_COMMANDS, families);
        class.add(CLASS_SLABS, families);
        class.add_sets(SLAB_COMMANDS, &["cas_hits", "cas_badval"], families);
    }
}

/// Groups the rows of a reply by the numbers of the classes. The name of a row is the prefix, the number of the class, a
/// colon and the name of the statistic; other rows are left out.
fn by_class(
    reply: &HashMap<String, String>,
    prefix: &str,
) -> BTreeMap<u32, HashMap<String, String>> {
    let mut classes: BTreeMap<u32, HashMap<String, String>> = BTreeMap::new();
    for (name, value) in reply {
        let Some((number, statistic)) =
            name.strip_prefix(prefix).and_then(|rest| rest.split_once(':'))
        else {
            continue;
        };
        if let Ok(number) = number.parse() {
            classes.entry(number).or_default().insert(statistic.to_owned(), value.clone());
        }
    }
    classes
}

/// The statistics of the server or of a class, and the labels of their metrics.
struct Statistics<'s> {
    rows: &'s HashMap<String, String>,
    labels: &'s [(&'static str, &'s str)],
}

impl Statistics<'_> {
    /// Returns the value of a statistic: a number, or 1 and 0 for yes and no.
    fn value(&self, statistic: &str) -> Option<f64> {
        match self.rows.get(statistic)?.as_str() {
            "yes" => Some(1.0),
            "no" => Some(0.0),
            number => number.parse().ok(),
        }
    }

    /// Adds the values of a table.
    fn add(&self, table: &[Row], families: &mut Families) {
        for row in table {
            if let Some(value) = self.value(row.statistic) {
                families.add(row.metric, &[self.labels, row.labels].concat(), value);
            }
        }
    }

    /// Adds the number of sets: `cmd_set` without the compare-and-swap stores, whose counts are `cas`.
    fn add_sets(&self, metric: Metric, cas: &[&str], families: &mut Families) {
        let cas: Option<f64> = cas.iter().map(|statistic| self.value(statistic)).sum();
        if let (Some(sets), Some(cas)) = (self.value("cmd_set"), cas) {
            let labels = [self.labels, &[("command", "set"), ("status", "hit")]].concat();
            families.add(metric, &labels, sets - cas);
        }
    }
}
