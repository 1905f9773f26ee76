"""The sections rates, full and steady of bench/pace, which replay workloads."""

import concurrent.futures
import itertools
import statistics

import servers
from pace_table import Figure, Table, progress
from sampler import Sampler, percentile
from servers import SocketServer

KINDS = ("slabwise", "memcached")
BATCH = ["--batch", "8"]
MIB = 1 << 20

# The workloads of the section rates: name, and options of `slabwise replay`. Workloads of many keys are scaled, so that
# two million requests request most keys more than once.
GENERATORS = [
    ("zipf", []),
    ("etc", []),
    ("two-phase", ["--scale", "0.1"]),
    ("kvcache_reg", []),
    ("etc-mutilate", []),
    ("three-phase", ["--scale", "0.05"]),
    ("multi-tenant", ["--scale", "0.05"]),
    ("time-varying", ["--scale", "0.05"]),
    ("graph_cache_leader_assocs", []),
    ("cache2k-orm-busy", ["--size-factor", "16"]),
    ("cache2k-orm-night", ["--size-factor", "16"]),
    ("cache2k-web12", ["--size-factor", "16"]),
]
RATES_REQUESTS_MAX = 2_000_000
# The ends of the names of traces. A folder with traces can contain other files.
TRACE_SUFFIXES = (".zst", ".bin", ".csv", ".txt")
# The options for traces. In a trace without lengths, the items are large enough that few keys fill MEMORY_MIB_MIN.
TRACE_FLAGS = ["--size-factor", "16"]
# The rates in requests per second, each with the number of replays that run at the same time. None is full speed.
RATES = {20_000: 6, 100_000: 1, None: 1}
RATES_RUNS = 3
# The memory limit as a share of the bytes of all items of a workload, and its minimum in MiB.
MEMORY_SHARE = 0.25
MEMORY_MIB_MIN = 8
# The bytes of an item in addition to its key and value. Used only for choosing the memory limit.
ITEM_BYTES = 57
# The limits of the section rates: the largest difference of two miss ratios, relative and absolute.
DIFFERENCE_MAX = (0.02, 0.002)

# The replays of the section full: workload, options of `slabwise replay`, memory limit in MiB, number of runs.
FULL = [
    ("etc", ["--requests", "10000000"], 256, 10),
    ("etc", ["--requests", "10000000"], 64, 1),
    ("zipf", [], 64, 1),
    ("kvcache_reg", [], 64, 1),
    ("kvcache_reg", [], 256, 1),
    ("cache2k-orm-busy", ["--size-factor", "16"], 64, 1),
    ("cache2k-orm-night", ["--size-factor", "16"], 64, 1),
    ("two-phase", ["--scale", "0.2"], 77, 1),
    ("three-phase", ["--scale", "0.05"], 64, 1),
]
FULL_QUICK = [("etc", ["--requests", "400000"], 16, 2)]
FREE_SHARE_MAX = 0.01

# The section steady: the number of requests of a window, the number of windows after the first one, the memory limit.
STEADY = (10_000_000, 2, 256)
STEADY_QUICK = (300_000, 2, 16)
MOVED_SHARE_MAX = 0.005


def measure_rates(settings):
    workloads = settings.choose(GENERATORS, GENERATORS[:3])
    if settings.traces:
        paths = sorted(path for path in settings.traces.iterdir() if path.suffix in TRACE_SUFFIXES)
        assert paths, f"{settings.traces} contains no traces; their names end with one of {', '.join(TRACE_SUFFIXES)}"
        workloads = [*workloads, *((f"trace:{path}", TRACE_FLAGS) for path in settings.choose(paths, paths[:1]))]
    requests = ["--requests", str(settings.choose(RATES_REQUESTS_MAX, 20_000))]
    rows, details = [], []
    for workload, flags in workloads:
        flags = [*flags, *requests]
        footprint = servers.simulate("footprint", workload, *flags, "--item-bytes", str(ITEM_BYTES))
        memory_mib = max(MEMORY_MIB_MIN, int(footprint["bytes"] * MEMORY_SHARE) // MIB)
        runs = {
            rate: replays_at_rate(workload, flags, memory_mib, rate, at_once, settings.choose(RATES_RUNS, 1))
            for rate, at_once in RATES.items()
        }
        name = workload.rsplit("/", 1)[-1]
        rows.append(rates_row(name, memory_mib, footprint["requests"], runs))
        details.append({
            "workload": name, "memory_mib": memory_mib, "footprint": footprint,
            "runs": {str(rate or "full speed"): found for rate, found in runs.items()},
        })
        progress(" | ".join(map(str, rows[-1].values())))
    return [Table("miss ratios at different rates of requests, medians", rows, details)]


def replays_at_rate(workload, flags, memory_mib, rate, at_once, runs):
    """Replays a workload `runs` times on each kind of server. Returns the results for each kind."""
    pace = ["--rate", str(rate)] if rate else []

    def replay(kind):
        with SocketServer(kind, memory_mib) as server:
            result = server.replay(workload, *BATCH, *flags, *pace)
        if rate and result["seconds"] > 1.05 * result["requests"] / rate:
            progress(f"{workload}, {kind}: {rate} requests per second were too fast for this machine")
        return {name: result[name] for name in ("miss_ratio", "misses", "gets", "sets_refused", "seconds")}

    order = [kind for _ in range(runs) for kind in KINDS]
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        found = list(pool.map(replay, order))
    return {kind: [result for at, result in zip(order, found) if at == kind] for kind in KINDS}


def rates_row(workload, memory_mib, requests, runs):
    median = {
        (kind, rate): statistics.median(result["miss_ratio"] for result in found[kind])
        for rate, found in runs.items() for kind in KINDS
    }
    row = {"workload": workload, "MiB": memory_mib, "requests": f"{requests:,}"}
    for kind in KINDS:
        ratios = [median[kind, rate] for rate in RATES]
        for rate in RATES:
            row[f"{kind}, {f'{rate:,}/s' if rate else 'full speed'}"] = Figure(median[kind, rate])
        relative, absolute = DIFFERENCE_MAX
        limit = max(relative * min(ratios), absolute) if kind == "slabwise" else None
        row[f"{kind}, difference"] = Figure(max(ratios) - min(ratios), at_most=limit)
    return row


def measure_full(settings):
    rows, details = [], []
    for workload, flags, memory_mib, runs in settings.choose(FULL, FULL_QUICK):
        shares = {kind: [] for kind in KINDS}
        for number, kind in itertools.product(range(runs), KINDS):
            # memcached is measured only for comparison, so one run is enough.
            if kind == "memcached" and number > 0:
                continue
            with SocketServer(kind, memory_mib) as server:
                with Sampler(server) as sampler:
                    result = server.replay(workload, *BATCH, *flags)
            samples = [sample.free_share for sample in sampler.after_turnover()]
            shares[kind].append(percentile(samples, 99))
            details.append({
                "workload": workload, "memory_mib": memory_mib, "kind": kind, "samples": len(samples),
                "free_share_p99": shares[kind][-1], "free_share_median": statistics.median(samples),
                "free_share_max": max(samples), "miss_ratio": result["miss_ratio"],
            })
            progress(details[-1])
        rows.append({
            "workload": workload,
            "MiB": memory_mib,
            "runs": runs,
            "free, worst run": Figure(max(shares["slabwise"]), "{:.2%}", at_most=FREE_SHARE_MAX),
            "free, median run": Figure(statistics.median(shares["slabwise"]), "{:.2%}"),
            "memcached": Figure(shares["memcached"][0], "{:.2%}"),
        })
    return [Table("free memory, 99th percentile of the samples after the first turnover", rows, details)]


def measure_steady(settings):
    window, windows, memory_mib = settings.choose(STEADY, STEADY_QUICK)
    rows = []
    for kind in KINDS:
        with SocketServer(kind, memory_mib) as server:
            with Sampler(server) as sampler:
                server.replay("etc", *BATCH, "--requests", str(window * (1 + windows)))
        pages = sampler.samples[-1].pages
        for number in range(1, 1 + windows):
            before, after = (sampler.at_gets(window * end) for end in (number, number + 1))
            moved = after.moved - before.moved
            rows.append({
                "server": kind,
                "requests": f"{window * number:,} to {window * (number + 1):,}",
                "pages": f"{pages:,}",
                "pages moved": f"{moved:,}",
                "share": Figure(moved / pages, "{:.3%}", at_most=MOVED_SHARE_MAX if kind == "slabwise" else None),
            })
            progress(" | ".join(map(str, rows[-1].values())))
    return [Table("page moves of a steady workload", rows)]
