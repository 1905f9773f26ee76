//! slabwise's own options of `-o`.

use crate::config::option::{ServerOption, option, switch};
use crate::config::settings::Draft;
use slabwise_engine::{EvictionKind, MOVER_NAMES, ReservedRank};
use slabwise_policy::PagePolicy;
use slabwise_protocol::text::CostWire;

pub(in crate::config) static OURS: &[ServerOption] = &[
    option("preset")
        .choice(&["memcached"], |it, _| it.given.memcached_preset = true)
        .daily_help("use memcached's defaults for pages, classes, eviction and item sizes"),
    switch("debug_commands", |it| it.settings.debug_commands = true).help(
        "enable debugtime, debugitem and misbehave, with which tests set the clock and pin items",
    ),
    option("page_policy")
        .checked("name[:option=value]...", |it, text| {
            PagePolicy::parse(text).map_err(|error| error.to_string())?;
            it.given.page_policy = Some(text.to_owned());
            Ok(())
        })
        .default("marginal")
        .daily_help(
            "policy that moves pages between classes; --help=policies describes all policies; the \
             default with profile=off is space_time",
        ),
    option("objective")
        .choice(&["miss_ratio", "request_time", "cost"], |it, name| it.given.objective = Some(name))
        .default("cost; miss_ratio with page_policy=lama")
        .help(
            "objective minimized by miss-ratio-curve policies: the miss ratio, the mean time of a \
             get, or the total miss cost (the number of misses if items have no costs)",
        ),
    option("profile")
        .choice(&["on", "off"], |it, word| it.given.profile = Some(word == "on"))
        .default("on")
        .help(
            "sample key reuse to build miss-ratio curves (SHARDS), for `stats profile` and the \
             page policies that use them",
        ),
    option("profile_memory")
        .size(|it, bytes| it.given.profile_memory_bytes = Some(bytes as u64))
        .default("2 % of -m and 1m")
        .help("memory for profiling, in addition to -m"),
    option("eviction")
        .choice(&EvictionKind::NAMES, |it, name| it.given.eviction = Some(name))
        .default("cost_bands; segmented with preset=memcached, lru with no_lru_maintainer")
        .daily_help("eviction policy; {eviction kinds}"),
    option("reserved_pct")
        .number(1, 90, "percent", |it, n| {
            it.settings.engine.eviction_options.reserved.percent = n as u32
        })
        .default("10")
        .help("eviction=reserved: share of a class's items that are protected from eviction"),
    option("reserved_rank").checked("sum|weighted:COST_MAX", reserved_rank).default("sum").help(
        "eviction=reserved: rank of an item: its cost, or its cost weighted by recent evictions",
    ),
    option("gd_wheels").checked("N0[xN1[xN2]]", wheel_sizes).default("256x256").help(
        "eviction=gd_wheel: number of queues in each wheel, powers of two; costs above their \
         product N0 x N1 x N2 are capped to it",
    ),
    option("classes")
        .choice(&["learned", "geometric"], |it, name| it.given.classes = Some(name))
        .default(
            "learned; geometric with -f, -n, slab_sizes, -M, no_slab_reassign or preset=memcached",
        )
        .daily_help(
            "source of chunk sizes; learned: from item sizes, adjusted while the server runs; \
             geometric: memcached's sizes, set by -f (1.25) and -n or by slab_sizes",
        ),
    option("page_mover")
        .choice(&MOVER_NAMES, |it, name| it.given.page_mover = Some(name))
        .default("warm; stock with preset=memcached")
        .help(
            "how a page is emptied: warm moves all items and evicts the coldest of the class \
             instead; stock evicts items for which no chunk is free, as memcached 1.6 does; base \
             and fast are the two movers of the paper on fast page moves, for comparison",
        ),
    option("page_move_chunks")
        .number(1, 1 << 20, "chunks", |it, n| it.given.page_move_chunks = Some(n as u32))
        .default("32")
        .help("chunks that a page move processes in one step while clients are active"),
    option("page_move_rate")
        .number(1, 1 << 20, "pages a second", |it, n| it.given.page_move_rate = Some(n as u32))
        .default("16 MiB of pages")
        .help(
            "maximum page moves a second while clients are active; without limit when the server \
             is idle",
        ),
    option("page_size")
        .size(|it, bytes| it.given.page_size_bytes = Some(bytes))
        .default("depends on -m")
        .help("page size, a power of two; from 16k for -m below 16 to 1m for -m above 1024"),
    option("cost")
        .choice(&["client", "measured"], |it, word| it.settings.costs_measured = word == "measured")
        .renamed("told", "client")
        .default("client")
        .daily_help(
            "source of item costs, the costs to recompute items; client: supplied by clients; \
             measured: for items without a client-supplied cost, the mean time from a miss to the \
             next store of the key, by class and key prefix (-D), in microseconds",
        ),
    switch("cost_wire", |it| it.settings.cost_wire = CostWire::On).help(
        "accept the cost of an item before the flags in set, add and replace: set <key> <cost> \
         <flags> <exptime> <bytes>",
    ),
    option("http")
        .checked("addr", |_, _| {
            Err("not supported yet: leave it out, and use the `stats` command".into())
        })
        .help("not supported yet: statistics over HTTP"),
];

const WHEEL_QUEUES_MAX: u16 = 1024;

/// Parses `sum` or `weighted:COST_MAX`.
fn reserved_rank(draft: &mut Draft, text: &str) -> Result<(), String> {
    let cost_max = text.strip_prefix("weighted:").and_then(|number| number.parse().ok());
    draft.settings.engine.eviction_options.reserved.rank = match (text, cost_max) {
        ("sum", _) => ReservedRank::Sum,
        (_, Some(cost_max)) if cost_max > 0 => ReservedRank::Weighted { cost_max },
        _ => {
            return Err(format!(
                "{text}: give sum, or weighted:COST_MAX with the highest cost, at least 1"
            ));
        }
    };
    Ok(())
}

/// Parses `256`, `256x256` or `64x64x64`.
fn wheel_sizes(draft: &mut Draft, text: &str) -> Result<(), String> {
    let error = || {
        format!(
            "{text}: give one to three wheel sizes separated by x, each a power of two from 2 to \
             {WHEEL_QUEUES_MAX}"
        )
    };
    let parse_size = |number: &str| {
        let size: u16 = number.parse().ok()?;
        (size.is_power_of_two() && (2..=WHEEL_QUEUES_MAX).contains(&size)).then_some(size)
    };
    let given: Option<Vec<u16>> = text.split('x').map(parse_size).collect();
    let given = given.filter(|given| given.len() <= 3).ok_or_else(error)?;
    let sizes = &mut draft.settings.engine.eviction_options.gd_wheel.wheel_sizes;
    *sizes = [1; 3];
    sizes[..given.len()].copy_from_slice(&given);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::settings::Draft;
    use slabwise_engine::{EvictionOptions, ReservedRank};

    fn set(
        set: fn(&mut Draft, &str) -> Result<(), String>,
        text: &str,
    ) -> Result<EvictionOptions, String> {
        let mut draft = Draft::default();
        set(&mut draft, text)?;
        Ok(draft.settings.engine.eviction_options)
    }

    fn wheel_sizes(text: &str) -> Result<[u16; 3], String> {
        set(super::wheel_sizes, text).map(|options| options.gd_wheel.wheel_sizes)
    }

    fn reserved_rank(text: &str) -> Result<ReservedRank, String> {
        set(super::reserved_rank, text).map(|options| options.reserved.rank)
    }

    #[test]
    fn wheel_sizes_must_be_powers_of_two() {
        assert_eq!(wheel_sizes("256x256"), Ok([256, 256, 1]));
        assert_eq!(wheel_sizes("2x4x1024"), Ok([2, 4, 1024]));
        for wrong in ["", "x", "3", "1", "2048", "2x2x2x2", "2x", "-4"] {
            assert!(wheel_sizes(wrong).is_err_and(|error| error.contains(wrong)), "{wrong}");
        }
    }

    #[test]
    fn a_weighted_rank_requires_a_highest_cost() {
        assert_eq!(reserved_rank("sum"), Ok(ReservedRank::Sum));
        let weighted = ReservedRank::Weighted { cost_max: 450 };
        assert_eq!(reserved_rank("weighted:450"), Ok(weighted));
        for wrong in ["", "weighted", "weighted:0", "weighted:-1", "sum:1"] {
            assert!(reserved_rank(wrong).is_err_and(|error| error.contains(wrong)), "{wrong}");
        }
    }
}
