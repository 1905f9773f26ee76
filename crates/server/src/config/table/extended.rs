//! The table of memcached's options of `-o` that have an effect in slabwise.

use crate::config::draft::Draft;
use crate::config::option::{COUNT_MAX, ServerOption, ValueKind, option, switch, yes_no};
use slabwise_base::Seconds;
use slabwise_engine::LruConfig;

const U32_MAX: i64 = u32::MAX as i64;

/// memcached's options of `-o` that have an effect, in the order of the help.
pub(in crate::config) static WITH_EFFECT: &[ServerOption] = &[
    switch("maxconns_fast", |it| it.settings.maxconns_fast = true)
        .help("when -c connections are open, reject new connections with an error (the default)")
        .stat("maxconns_fast", |it| yes_no(it.settings.maxconns_fast)),
    switch("no_maxconns_fast", |it| it.settings.maxconns_fast = false)
        .help("when -c connections are open, let new connections wait until one closes"),
    option("idle_timeout")
        .number(0, COUNT_MAX, "seconds", |it, n| {
            it.settings.idle_timeout_seconds = (n > 0).then_some(n as u32);
        })
        .default("0")
        .frequent_help("seconds after which an idle TCP connection is closed; 0 for never")
        .stat("idle_timeout", |it| it.settings.idle_timeout_seconds.unwrap_or(0).to_string()),
    switch("slab_reassign", |it| it.settings.reassign_enabled = true)
        .help("enable page moves between classes (the default)")
        .stat("slab_reassign", |it| yes_no(it.settings.reassign_enabled)),
    switch("no_slab_reassign", |it| it.settings.reassign_enabled = false)
        .help("disable page moves between classes"),
    option("slab_automove")
        .takes(ValueKind::Number {
            min: 0,
            max: 2,
            unit: "",
            absent: Some(1),
            set: |it, level| it.settings.tunables.automove.level = level as u32,
        })
        .default("1")
        .help(
            "page moves between classes; 0: only by the command `slabs reassign`; 1: by the page policy; \
             2: each class that evicts items receives a page at once",
        )
        .live_stat("slab_automove", "slabs automove 0", |it| {
            it.tunables.automove.level.to_string()
        }),
    switch("no_slab_automove", |it| it.settings.tunables.automove.level = 0)
        .help("equal to slab_automove=0"),
    option("slab_automove_ratio")
        .fraction(0.0, 1.0, |it, ratio| it.given.automove_ratio = Some(ratio))
        .default("0.8")
        .help(
            "memcached's automover moves a page if the lowest tail age of a class, divided by the \
             highest, is below this ratio",
        )
        .live_stat("slab_automove_ratio", "slabs automove ratio 0.5", |it| {
            format!("{:.2}", it.tunables.automove.age_ratio)
        }),
    option("slab_automove_window")
        .number(3, 1800, "seconds", |it, n| it.given.automove_window = Some(n as u32))
        .default("10")
        .help("number of seconds over which memcached's automover averages tail ages")
        .live_stat("slab_automove_window", "slabs automove window 20", |it| {
            it.tunables.automove.window_seconds.to_string()
        }),
    option("slab_sizes")
        .checked("size-size-...", slab_sizes)
        .help("chunk sizes in bytes, in ascending order, separated by '-', such as 100-200-400"),
    option("slab_chunk_max")
        .number(1, 16 << 20, "kilobytes", |it, n| it.given.slab_chunk_max = Some(n as u32))
        .default("half a page")
        .help(
            "size of the largest chunk in kilobytes; larger items are stored in several chunks. A value \
             above 1024 is in bytes, and so is a value that is equal to -I, as in memcached 1.6.18",
        )
        .stat("slab_chunk_max", |it| {
            let classes = &it.settings.engine.classes;
            classes.chunk_size_bytes(classes.largest()).to_string()
        }),
    switch("no_chunked_items", |it| it.given.chunked_items_disabled = true)
        .help("raise the default of slab_chunk_max to a whole page"),
    switch("track_sizes", |it| it.settings.tunables.track_sizes = true)
        .help("enable `stats sizes` from the start")
        .live_stat("track_sizes", "stats sizes_enable", |it| yes_no(it.tunables.track_sizes)),
    switch("lru_crawler", |it| it.settings.tunables.crawler_enabled = true)
        .help("remove expired items periodically in the background (the default)")
        .live_stat("lru_crawler", "lru_crawler disable", |it| yes_no(it.tunables.crawler_enabled)),
    switch("no_lru_crawler", |it| it.settings.tunables.crawler_enabled = false)
        .help("remove expired items only when a request or an eviction finds them"),
    option("lru_crawler_sleep")
        .number(0, 1_000_000, "microseconds", |it, n| {
            it.settings.tunables.crawler_sleep_us = n as u32
        })
        .default("100")
        .help("microseconds that the crawler waits between two steps of a crawl")
        .live_stat("lru_crawler_sleep", "lru_crawler sleep 7", |it| {
            it.tunables.crawler_sleep_us.to_string()
        }),
    option("lru_crawler_tocrawl")
        .number(0, U32_MAX, "items", |it, n| it.settings.tunables.crawler_tocrawl = n as u32)
        .default("0")
        .help("maximum number of items that a crawl checks in each class; 0 for all items")
        .live_stat("lru_crawler_tocrawl", "lru_crawler tocrawl 5", |it| {
            it.tunables.crawler_tocrawl.to_string()
        }),
    switch("lru_maintainer", |it| it.settings.lru_maintainer = true)
        .help("run the LRU maintainer thread, which moves items between the queues of a class (the default)")
        .stat("lru_maintainer_thread", |it| yes_no(it.settings.lru_maintainer)),
    switch("no_lru_maintainer", |it| it.settings.lru_maintainer = false)
        .help("run no LRU maintainer thread; by default a class then has one LRU queue (eviction=lru)"),
    option("hot_lru_pct")
        .number(1, 79, "percent", |it, n| lru(it).hot_percent = n as u32)
        .default("20")
        .help("maximum percentage of a class's bytes in the hot queue, which new items enter")
        .live_stat("hot_lru_pct", "lru tune 10 30 0.3 3", |it| it.lru.hot_percent.to_string()),
    option("warm_lru_pct")
        .number(1, 79, "percent", |it, n| lru(it).warm_percent = n as u32)
        .default("40")
        .help(
            "maximum percentage of a class's bytes in the warm queue, which items enter that were used \
             at least twice",
        )
        .live_stat("warm_lru_pct", "lru tune 10 30 0.3 3", |it| it.lru.warm_percent.to_string()),
    option("hot_max_factor")
        .fraction(0.0, f64::INFINITY, |it, f| lru(it).hot_age_factor = f)
        .default("0.2")
        .help(
            "the oldest item of the hot queue moves to the cold queue when its age is above this factor \
             times the tail age of the cold queue",
        )
        .live_stat("hot_max_factor", "lru tune 10 30 0.3 3", |it| {
            format!("{:.2}", it.lru.hot_age_factor)
        }),
    option("warm_max_factor")
        .fraction(0.0, f64::INFINITY, |it, f| lru(it).warm_age_factor = f)
        .default("2")
        .help(
            "the oldest item of the warm queue moves to the cold queue when its age is above this factor \
             times the tail age of the cold queue",
        )
        .live_stat("warm_max_factor", "lru tune 10 30 0.3 3", |it| {
            format!("{:.2}", it.lru.warm_age_factor)
        }),
    option("temporary_ttl")
        .number(0, U32_MAX, "seconds", |it, n| lru(it).temporary_ttl = Some(Seconds(n as u32)))
        .default("off")
        .help("items with a time to live of at most this number of seconds are not evicted; they only expire")
        .live_stat("temp_lru", "lru temp_ttl 5", |it| yes_no(it.lru.temporary_ttl.is_some()))
        .live_stat("temporary_ttl", "lru temp_ttl 5", |it| it.tunables.temporary_ttl.to_string()),
    switch("no_modern", no_modern).help(
        "use the defaults of memcached 1.4: no_slab_reassign, no_slab_automove, no_maxconns_fast, \
         no_lru_maintainer, no_lru_crawler and no_chunked_items",
    ),
    switch("drop_privileges", |it| it.settings.drop_privileges = true)
        .default("no_drop_privileges")
        .frequent_help(
            "confine the process after the start; it can then access only its own files, and make only the \
             system calls that it needs",
        )
        .stat("drop_privileges", |it| yes_no(it.settings.drop_privileges)),
    switch("no_drop_privileges", |it| it.settings.drop_privileges = false)
        .help("do not confine the process (the default)"),
    option("watcher_logbuf_size")
        .number(0, COUNT_MAX, "kilobytes", |it, kib| {
            it.settings.watcher_log_bytes = (kib as u64) << 10;
        })
        .default("256")
        .help("size of the buffer of each watcher in kilobytes; lines that do not fit are dropped and counted")
        .stat("watcher_logbuf_size", |it| it.settings.watcher_log_bytes.to_string()),
];

/// Returns the settings of the LRU queues.
fn lru(draft: &mut Draft) -> &mut LruConfig {
    &mut draft.settings.engine.eviction_options.lru
}

/// Parses the value of `-o slab_sizes`.
fn slab_sizes(draft: &mut Draft, text: &str) -> Result<(), String> {
    let sizes: Result<Vec<usize>, _> = text.split('-').map(str::parse).collect();
    draft.given.slab_sizes = Some(sizes.map_err(|_| {
        format!(
            "takes chunk sizes in bytes, in ascending order, separated by '-', such as 100-200-400, \
             not '{text}'"
        )
    })?);
    Ok(())
}

/// Sets the defaults of memcached 1.4.
fn no_modern(draft: &mut Draft) {
    let Draft { settings, given, .. } = draft;
    given.chunked_items_disabled = true;
    settings.reassign_enabled = false;
    settings.tunables.automove.level = 0;
    settings.maxconns_fast = false;
    settings.lru_maintainer = false;
    settings.tunables.crawler_enabled = false;
}
