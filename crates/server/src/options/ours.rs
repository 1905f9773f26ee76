//! The rows of `-o` that are ours.

use super::extended::{number, row, switch};
use super::kind::{Kind, OptionRow};
use super::ranking;
use slabwise_engine::EvictionKind;
use slabwise_policy::PagePolicy;

/// What memcached does not have.
pub(super) static OURS: &[OptionRow] = &[
    row(
        "preset",
        Kind::Choice(&["memcached"]),
        "",
        "memcached's own defaults everywhere: pages, classes, sizes",
        |raw, _| {
            raw.memcached_preset = true;
            Ok(())
        },
    ),
    switch(
        "debug_commands",
        "let clients move the clock and hold items (debugtime, debugitem, misbehave): for tests",
        |raw, _| {
            raw.debug_commands = true;
            Ok(())
        },
    ),
    row(
        "page_policy",
        Kind::Text("name[:option=value]..."),
        "marginal",
        "which pages move between classes: one of the page policies listed below; with profile=off \
         the default is space_time",
        |raw, value| {
            let policy = PagePolicy::parse(value.text()).map_err(|error| error.to_string())?;
            raw.page_policy = Some((value.text().to_owned(), policy));
            Ok(())
        },
    ),
    row(
        "objective",
        Kind::Choice(&["miss_ratio", "request_time", "cost"]),
        "cost; miss_ratio with page_policy=lama",
        "what page policies that go by curves make least: misses, the mean time of a get, or what \
         misses cost by the costs of items; without costs that is the same as misses",
        |raw, value| {
            raw.objective = Some(value.choice());
            Ok(())
        },
    ),
    row(
        "profile",
        Kind::Choice(&["on", "off"]),
        "on",
        "watch how soon some of the keys come again: for `stats profile` and the page policies that \
         go by it",
        |raw, value| {
            raw.profile = Some(value.choice() == "on");
            Ok(())
        },
    ),
    row(
        "profile_memory",
        Kind::Size,
        "2 % of -m and 1m",
        "bytes beside -m that profiling may take",
        |raw, value| {
            raw.profile_memory_bytes = Some(value.number() as u64);
            Ok(())
        },
    ),
    row(
        "eviction",
        Kind::Choice(&EvictionKind::NAMES),
        "cost_bands; segmented with preset=memcached, lru with no_lru_maintainer",
        "what leaves first. cost_bands: what was unused longest for its cost, which without costs is \
         memcached's segmented LRU; segmented: that one; lru: exact LRU; reserved, greedydual_size, \
         gd_wheel: as published",
        |raw, value| {
            raw.eviction = Some(value.choice());
            Ok(())
        },
    ),
    row(
        "reserved_pct",
        number(1, 90, "percent"),
        "10",
        "eviction=reserved: share of a class whose items have a reserved place",
        |raw, value| {
            raw.reserved.percent = value.number_u32();
            Ok(())
        },
    ),
    row(
        "reserved_rank",
        Kind::Text("sum|weighted:COST_MAX"),
        "sum",
        "eviction=reserved: what an item ranks, by its cost alone, or weighted by what was evicted",
        |raw, value| {
            raw.reserved.rank = ranking::reserved_rank(value.text())?;
            Ok(())
        },
    ),
    row(
        "gd_wheels",
        Kind::Text("N0[xN1[xN2]]"),
        "256x256",
        "eviction=gd_wheel: places of each wheel, powers of two; higher costs count as N0 x N1 x N2",
        |raw, value| {
            raw.gd_wheel.wheel_sizes = ranking::wheel_sizes(value.text())?;
            Ok(())
        },
    ),
    row(
        "classes",
        Kind::Choice(&["learned", "geometric"]),
        "learned; geometric with -f, -n, slab_sizes, -M, no_slab_reassign or preset=memcached",
        "chunk sizes: learned from the sizes of the items and changed while the server runs, or \
         memcached's, as -f (1.25) and -n or slab_sizes say",
        |raw, value| {
            raw.classes = Some(value.choice());
            Ok(())
        },
    ),
    row(
        "page_mover",
        Kind::Choice(&["warm", "base", "fast", "stock"]),
        "warm; stock with preset=memcached",
        "how a page is emptied: warm carries all items over and evicts the coldest \
         instead; stock drops those for which no chunk is free, as memcached 1.6 does; base and \
         fast are the two movers of the paper on fast page moves, for comparisons",
        |raw, value| {
            raw.page_mover = Some(value.choice());
            Ok(())
        },
    ),
    row(
        "page_move_chunks",
        number(1, 1 << 20, "chunks"),
        "32",
        "chunks that a page move visits at a time while clients are served",
        |raw, value| {
            raw.page_move_chunks = Some(value.number() as u32);
            Ok(())
        },
    ),
    row(
        "page_move_rate",
        number(1, 1 << 20, "pages a second"),
        "16 MiB of pages",
        "pages that may move in a second while clients are served; when idle, as fast as they can",
        |raw, value| {
            raw.page_move_rate = Some(value.number() as u32);
            Ok(())
        },
    ),
    row(
        "page_size",
        Kind::Size,
        "by -m",
        "bytes a page, a power of two; 16k below 16 MB of memory, up to 1m above 1 GB",
        |raw, value| {
            raw.page_size_bytes = Some(value.number());
            Ok(())
        },
    ),
    row(
        "cost",
        Kind::Choice(&["told", "measured"]),
        "told",
        "what items cost to recompute. told: what clients say; measured: where they say nothing, the \
         mean time from a miss to the store of the same key, by class and key prefix (-D), in \
         microseconds",
        |raw, value| {
            raw.costs_measured = value.choice() == "measured";
            Ok(())
        },
    ),
    switch(
        "cost_wire",
        "let set, add and replace say what the item costs to recompute, in a word before its flags: \
         set <key> <cost> <flags> <exptime> <bytes>",
        |raw, _| {
            raw.cost_wire = true;
            Ok(())
        },
    ),
    row("http", Kind::Text("addr"), "", "comes later: statistics over HTTP", |_, _| {
        Err("comes later: leave it out, and read statistics with the `stats` command".into())
    }),
];
