//! The table of the options of `-o` that memcached does not have.

use crate::config::draft::Draft;
use crate::config::http::{HOT_KEYS_MAX, HttpGivenAddress};
use crate::config::option::{COUNT_MAX, ServerOption, option, switch};
use crate::config::settings::IoChoice;
use slabwise_engine::{EvictionKind, HugePages, MOVER_NAMES, RankedHits, ReservedRank};
use slabwise_policy::PagePolicy;
use slabwise_protocol::text::CostWire;

/// slabwise's own options of `-o`, in the order of the help.
pub(in crate::config) static OURS: &[ServerOption] = &[
    option("preset")
        .choice(&["memcached"], |it, _| it.given.memcached_preset = true)
        .frequent_help("use memcached's defaults for pages, classes, eviction and item sizes"),
    option("conf_file")
        // The parser reads the file before it applies the options of the command line.
        .text("file", |_, _| ())
        .help(
            "read options from this file, which has the format of Debian's /etc/memcached.conf; options of the \
             command line replace those of the file, and SIGHUP applies a changed -m",
        ),
    switch("upgradable", |it| it.given.upgradable = true)
        .default("no_upgradable")
        .help(
            "`slabwise upgrade` with the same options can take over the sockets, the idle connections and the items of \
             this server without a restart; without -e, the items are in a memfd",
        ),
    switch("no_upgradable", |it| it.given.upgradable = false)
        .help("the server cannot be upgraded without a restart (the default)"),
    option("control")
        .text("path", |it, path| it.given.control_path = Some(path.to_owned()))
        .default("control in the folder RUNTIME_DIRECTORY, which systemd sets, or in /run/slabwise")
        .help("with upgradable: path of the Unix socket by which `slabwise upgrade` takes over; only this user can connect"),
    switch("debug_commands", |it| it.settings.debug_commands = true).help(
        "enable the commands debugtime, debugitem, debugcheck, debugconfine and misbehave, by which tests change \
         the clock, pin items, and check the invariants of the cache and drop_privileges",
    ),
    option("page_policy")
        .checked("name[:option=value]...", |it, text| {
            PagePolicy::parse(text).map_err(|error| error.to_string())?;
            it.given.page_policy = Some(text.to_owned());
            Ok(())
        })
        .default("space_time")
        .frequent_help(
            "policy that moves pages between classes; --help=policies lists all policies. The default is \
             marginal with an eviction kind other than density and for objective=request_time, if profiles are \
             on, and automove with preset=memcached",
        ),
    option("objective")
        .choice(&["miss_ratio", "request_time", "cost"], |it, name| it.given.objective = Some(name))
        .default("cost; miss_ratio with page_policy=lama")
        .help(
            "quantity that page policies with miss-ratio curves minimize: the miss ratio, the mean time \
             of a get, or the total cost of misses (the number of misses if items have no costs)",
        ),
    option("profile")
        .choice(&["on", "off", "full"], |it, word| {
            it.given.profile = Some(word != "off");
            it.given.profile_is_full = word == "full";
        })
        .default("on; off with preset=memcached")
        .help(
            "measure the accesses to a sample of the keys (SHARDS) and compute miss-ratio curves, for \
             `stats profile` and for page policies that use such curves; full: measure every access, which \
             costs throughput, as long as all keys fit into profile_memory",
        ),
    option("profile_memory")
        .size(|it, bytes| it.given.profile_memory_bytes = Some(bytes as u64))
        .default("1 % of -m plus 1m; with eviction=density 1m more for the hit densities")
        .help("memory for profiling, which is not part of -m"),
    option("eviction")
        .choice(&EvictionKind::NAMES, |it, name| it.given.eviction = Some(name))
        .default(
            "density; cost_bands with profile=off, segmented with preset=memcached, lru with no_lru_maintainer",
        )
        .frequent_help("rule that selects the item to evict; {eviction kinds}"),
    option("reserved_pct")
        .number(1, 90, "percent", |it, n| {
            it.settings.engine.eviction_options.reserved.percent = n as u32
        })
        .default("10")
        .help("with eviction=reserved: percentage of a class's items that are protected from eviction"),
    option("reserved_rank").checked("sum|weighted:COST_MAX", reserved_rank).default("sum").help(
        "with eviction=reserved: rank of an item; sum: inflation + cost; weighted: inflation + cost + \
         inflation x cost / COST_MAX, where COST_MAX is the highest cost of an item",
    ),
    option("reserved_hits")
        .choice(&["all", "in_reserved"], |it, name| {
            it.settings.engine.eviction_options.reserved.ranked_hits =
                if name == "all" { RankedHits::All } else { RankedHits::InReserved }
        })
        .default("all")
        .help(
            "with eviction=reserved: hits that give an item a new rank; all: as published; in_reserved: only those of \
             items that are protected from eviction or become so",
        ),
    option("gd_wheels").checked("N0[xN1[xN2]]", wheel_sizes).default("256x256").help(
        "with eviction=gd_wheel: number of queues in each wheel, each a power of two. A cost above the \
         product N0 x N1 x N2 counts as this product",
    ),
    option("classes")
        .checked("source[:method=M]", classes)
        .default(
            "learned; geometric with -f, -n, slab_sizes, -M, no_slab_reassign or preset=memcached",
        )
        .frequent_help(
            "chunk sizes: learned or geometric; learned: the server adjusts them to the sizes of items while \
             it runs, by M=exact, which wastes least (the default), or by M=hill-climb, as published; \
             geometric: -f (default 1.25) and -n, or slab_sizes, set them as in memcached",
        ),
    option("page_mover")
        .choice(&MOVER_NAMES, |it, name| it.given.page_mover = Some(name))
        .default("warm; stock with preset=memcached")
        .help(
            "how a page is emptied; warm: the items on the page are copied, and the coldest items of the \
             class are evicted; stock: as in memcached 1.6, items for which no chunk is free are evicted; \
             base, base_next and fast: the movers of the publication on fast page moves, for comparison",
        ),
    option("page_move_chunks")
        .number(1, 1 << 20, "chunks", |it, n| it.given.page_move_chunks = Some(n as u32))
        .default("32")
        .help("number of chunks that the mover visits in one step while the worker threads are busy"),
    option("page_move_share")
        .number(1, 100, "percent", |it, n| it.given.page_move_share = Some(n as u32))
        .default("5")
        .help(
            "maximum processor time of page moves, in percent of that of the worker threads, while they are \
             busy. There is no limit while the server is idle",
        ),
    option("page_move_share_max")
        .number(1, 100, "percent", |it, n| it.given.page_move_share_max = Some(n as u32))
        .default("25")
        .help(
            "as page_move_share, while items are evicted although a better division of the memory is planned; at least \
             page_move_share",
        ),
    option("page_move_rate")
        .number(1, 1 << 20, "pages a second", |_, _| ())
        .no_effect(
            "page moves are limited by their processor time: use page_move_share and page_move_share_max",
        ),
    option("page_size")
        .size(|it, bytes| it.given.page_size_bytes = Some(bytes))
        .default("depends on -m")
        .help(
            "size of a page, a power of two. The default is 16k if -m is below 16 and increases to 1m if \
             -m is above 1024",
        ),
    switch("no_huge_pages", |it| it.given.huge_pages = Some(HugePages::Refused)).help(
        "refuse transparent huge pages, which save processor time, but commit memory in units of 2 MiB",
    ),
    option("cost")
        .choice(&["client", "measured"], |it, word| it.settings.costs_measured = word == "measured")
        .renamed("told", "client")
        .default("client")
        .help(
            "source of the costs of items; client: clients supply the costs; measured: the server also \
             measures a cost for items without a client-supplied cost: the mean time in microseconds from \
             a miss to the next store of the key, for each class and key prefix (-D)",
        ),
    switch("cost_wire", |it| it.settings.cost_wire = CostWire::On).help(
        "accept the cost of an item before the flags in the commands set, add and replace: set <key> \
         <cost> <flags> <exptime> <bytes>",
    ),
    option("io")
        .choice(&IoChoice::NAMES, |it, name| it.settings.io = IoChoice::of(name))
        .default("epoll")
        .help(
            "interface of the kernel by which the worker threads wait, receive and send; io_uring makes one system call \
             for all clients that are ready, and needs Linux 6.1 or later; auto: io_uring if the kernel allows it, \
             otherwise epoll. `stats settings` shows which one is used",
        )
        .stat("io", |it| it.io.name().to_owned()),
    option("upload_timeout")
        .number(0, COUNT_MAX, "seconds", |it, n| {
            it.settings.upload_timeout_seconds = (n > 0).then_some(n as u32);
        })
        .default("10")
        .help(
            "seconds after which the server refuses a value if no byte of it arrives; 0 for never. The rest of the \
             value is then ignored",
        ),
    option("ssl_handshake_timeout")
        .number(0, COUNT_MAX, "seconds", |it, n| {
            it.settings.handshake_timeout_seconds = (n > 0).then_some(n as u32);
        })
        .default("10")
        .help(
            "seconds after which the server closes a connection if its TLS handshake is not complete; 0 for never",
        ),
    option("http")
        .checked("host:port|path", |it, text| {
            it.given.http.address = Some(HttpGivenAddress::parse(text)?);
            Ok(())
        })
        .frequent_help(
            "serve metrics, health checks and a dashboard over HTTP; the path is that of a Unix socket, whose file has \
             the permissions of -a. Beyond loopback the server requires -Z and http_token_file, and uses TLS",
        ),
    option("http_token_file")
        .text("file", |it, path| it.given.http.token_file = Some(path.to_owned()))
        .help("file with a token of at least 16 bytes that HTTP requests must contain (Authorization: Bearer)"),
    option("http_hosts")
        .text("name[;name]...", |it, names| {
            let names = names.split(';').filter(|name| !name.is_empty());
            it.given.http.hosts = names.map(str::to_owned).collect();
        })
        .help(
            "host names by which HTTP clients may address the server, in addition to localhost and IP addresses; \
             others are refused, as a web page of another site could use them (DNS rebinding)",
        ),
    switch("http_insecure", |it| it.given.http.is_insecure = true)
        .help("serve HTTP beyond loopback without TLS and token, because the network guards the address"),
    option("http_slab_metrics")
        .choice(&["on", "off"], |it, word| it.given.http.omits_slab_metrics = word == "off")
        .default("on")
        .help("include the metrics of classes, about 40 for each class, in /metrics"),
    option("http_hot_keys")
        .number(0, HOT_KEYS_MAX as i64, "keys", |it, n| it.given.http.hot_keys = n as usize)
        .default("0")
        .help(
            "number of the most requested keys, and of their prefixes (-D), that the HTTP server shows, from a sample of \
             the gets; 0: keys are not sampled. Keys can be personal data",
        ),
];

/// The maximum number of queues in a wheel of `eviction=gd_wheel`.
const WHEEL_QUEUES_MAX: u16 = 1024;

/// Parses the value of `-o reserved_rank`: `sum` or `weighted:COST_MAX`.
fn reserved_rank(draft: &mut Draft, text: &str) -> Result<(), String> {
    let cost_max = text.strip_prefix("weighted:").and_then(|number| number.parse().ok());
    draft.settings.engine.eviction_options.reserved.rank = match (text, cost_max) {
        ("sum", _) => ReservedRank::Sum,
        (_, Some(cost_max)) if cost_max > 0 => ReservedRank::Weighted { cost_max },
        _ => {
            return Err(format!(
                "takes sum, or weighted:COST_MAX, where COST_MAX is the highest cost of an item and at \
                 least 1, not '{text}'"
            ));
        }
    };
    Ok(())
}

/// Parses the value of `-o classes`.
fn classes(draft: &mut Draft, text: &str) -> Result<(), String> {
    const SOURCES: [&str; 4] =
        ["learned", "geometric", "learned:method=exact", "learned:method=hill-climb"];
    let known = SOURCES.into_iter().find(|&source| source == text);
    let error = || format!("takes {}, not '{text}'", SOURCES.join(" or "));
    draft.given.classes = Some(known.ok_or_else(error)?);
    Ok(())
}

/// Parses the value of `-o gd_wheels`, such as `256`, `256x256` or `64x64x64`.
fn wheel_sizes(draft: &mut Draft, text: &str) -> Result<(), String> {
    let error = || {
        format!(
            "takes one to three wheel sizes separated by x, each a power of two from 2 to \
             {WHEEL_QUEUES_MAX}, not '{text}'"
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
    use crate::config::draft::Draft;
    use slabwise_engine::{EvictionOptions, ReservedRank};

    /// Returns the eviction options after a setter has parsed this value, or the error of the setter.
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
    fn gd_wheels_accepts_one_to_three_powers_of_two() {
        assert_eq!(wheel_sizes("256x256"), Ok([256, 256, 1]));
        assert_eq!(wheel_sizes("2x4x1024"), Ok([2, 4, 1024]));
        for wrong in ["", "x", "3", "1", "2048", "2x2x2x2", "2x", "-4"] {
            assert!(
                wheel_sizes(wrong).is_err_and(|error| error.contains(wrong)),
                "'{wrong}' must be rejected"
            );
        }
    }

    #[test]
    fn the_reserved_rank_weighted_requires_a_highest_cost_of_at_least_1() {
        assert_eq!(reserved_rank("sum"), Ok(ReservedRank::Sum));
        let weighted = ReservedRank::Weighted { cost_max: 450 };
        assert_eq!(reserved_rank("weighted:450"), Ok(weighted));
        for wrong in ["", "weighted", "weighted:0", "weighted:-1", "sum:1"] {
            assert!(
                reserved_rank(wrong).is_err_and(|error| error.contains(wrong)),
                "'{wrong}' must be rejected"
            );
        }
    }
}
