"""The sections moves, cpu and idle of bench/pace, which measure what the server's own work costs."""

import statistics
import time

from moves import MoveRequests, class_with_chunk_size, move_pages
from pace_replays import BATCH, KINDS
from pace_table import Figure, Table, progress
from servers import SocketServer

MIB = 1 << 20
MB = 1_000_000

# The bytes of a chunk that no value of the load generator uses, so that its items fit into the chunks: the header of an
# item of either server, its key of 15 bytes, and a reserve.
BESIDE_VALUE_BYTES = 80

# The idle page moves: chunk size in bytes, and the lowest valid number of pages per second.
IDLE_MOVES = [(240, 1_000), (1_000, 2_000), (16_000, 2_000)]
IDLE_MOVES_MIB = 1024
# The share of the memory that items fill before the page moves.
FILLED_SHARE = 0.9
IDLE_MOVES_COUNT = 400
IDLE_MOVES_RUNS = 3
# The pause between two commands. A longer pause would be a large part of the time of a move.
IDLE_MOVES_PAUSE_SECONDS = 0.00002

# The page moves under load: the option page_move_share in percent, and the lowest valid number of MB per second.
LOADED_MOVES = [(15, 200), (5, 90)]
LOADED_MOVES_MIB = 3072
LOADED_CHUNK_BYTES = 1_000
# How far the loss of throughput may exceed the share.
LOSS_ABOVE_SHARE_MAX = 0.02
# The highest valid rise of the 99th percentile of the round-trip time.
RISE_MAX = 0.10
PAIRS = 5
WINDOWS = 20
# The duration of one run of the load generator in seconds, at the highest rate and at half of it.
LOAD_SECONDS = (3, 1)

# The section cpu: number of connections, highest valid ratio.
CPU = [(1, 0.87), (16, 0.85)]
CPU_MIB = 64
CPU_REQUESTS = 5_000_000

WAKE_UPS_PER_SECOND_MAX = 2
BACKGROUND_SHARE_MAX = 0.03
BACKGROUND_THREADS = ("tuner", "lru-maintainer", "lru-crawler")


def measure_moves(settings):
    idle = [
        idle_moves_row(chunk_bytes, limit, settings)
        for chunk_bytes, limit in settings.choose(IDLE_MOVES, IDLE_MOVES[1:2])
    ]
    full_load, half_load, details = [], [], []
    for share_percent, limit in settings.choose(LOADED_MOVES, LOADED_MOVES[:1]):
        with LoadedServer(share_percent, settings) as loaded:
            pairs = loaded.pairs(settings.choose(PAIRS, 1), rate=0)
            full_load.append(full_load_row(pairs, share_percent, limit))
            top_rate = statistics.median(pair["still"]["rate"] for pair in pairs)
            windows = loaded.pairs(settings.choose(WINDOWS, 2), rate=int(top_rate / 2))
            half_load.append(half_load_row(windows, share_percent))
            details.append({"share_percent": share_percent, "full_load": pairs, "half_load": windows})
    return [
        Table("pages of 1 MiB per second, idle server", idle),
        Table("page moves at the highest rate of gets", full_load, details),
        Table("page moves at half of the highest rate of gets", half_load),
    ]


def class_options(kind, chunk_bytes):
    """Returns options for pages of 1 MiB, and for classes of `chunk_bytes` and of twice this size. The classes are
    fixed, so that victim and receiver keep their numbers."""
    sizes = f"slab_sizes={chunk_bytes}-{2 * chunk_bytes}"
    return ["-o", sizes if kind == "memcached" else f"{sizes},page_size=1m,classes=geometric"]


def prepare_classes(server, chunk_bytes, keys):
    """Fills the class of `chunk_bytes` with items of this number of keys, and stores an item in the receiver. Returns
    the numbers of both classes."""
    server.ask("slabs automove 0")
    server.load("fill", keys=keys, value_len=chunk_bytes - BESIDE_VALUE_BYTES)
    value = "v" * (2 * chunk_bytes - BESIDE_VALUE_BYTES)
    reply = server.ask(f"set receiver 0 0 {len(value)}\r\n{value}")
    assert reply == "STORED", f"the server replied {reply} to set"
    return [class_with_chunk_size(server, size) for size in (chunk_bytes, 2 * chunk_bytes)]


def idle_moves_row(chunk_bytes, limit, settings):
    row = {"chunk, B": f"{chunk_bytes:,}"}
    for kind in KINDS:
        rates = []
        for _ in range(settings.choose(IDLE_MOVES_RUNS, 1)):
            memory_mib = settings.choose(IDLE_MOVES_MIB, 128)
            count = settings.choose(IDLE_MOVES_COUNT, 20)
            with SocketServer(kind, memory_mib, *class_options(kind, chunk_bytes)) as server:
                keys = int(memory_mib * MIB * FILLED_SHARE / chunk_bytes)
                victim, receiver = prepare_classes(server, chunk_bytes, keys)
                moved, seconds = move_pages(server, victim, receiver, count, IDLE_MOVES_PAUSE_SECONDS)
                rates.append(moved / seconds)
        row[kind] = Figure(
            statistics.median(rates), "{:,.0f}", at_least=limit if kind == "slabwise" else None
        )
    progress(" | ".join(map(str, row.values())))
    return row


class LoadedServer:
    """A slabwise with one full class. The load generator gets a quarter of its items. The others are older, so that the
    page moves evict them and every get hits."""

    def __init__(self, share_percent, settings):
        memory_mib = settings.choose(LOADED_MOVES_MIB, 256)
        self.seconds = settings.choose(LOAD_SECONDS, (0.3, 0.3))
        chunk_bytes = LOADED_CHUNK_BYTES
        self.keys = int(memory_mib * MIB * FILLED_SHARE / chunk_bytes)
        self.hot_keys = self.keys // 4
        self.options = {"value_len": chunk_bytes - BESIDE_VALUE_BYTES}
        # More than half of the pages stay, so that they have room for the items that the load generator gets.
        self.pages_max = int(memory_mib * FILLED_SHARE * 0.5)
        flags = class_options("slabwise", chunk_bytes)
        flags[-1] += f",page_move_share={share_percent}"
        self.server = SocketServer("slabwise", memory_mib, *flags)
        try:
            self.victim, self.receiver = prepare_classes(self.server, chunk_bytes, self.keys)
            self.server.load("fill", keys=self.hot_keys, **self.options)
            # The first run only determines the number of requests in a second.
            self.top_rate = self._load(settings.choose(3_000_000, 200_000), 0)["rate"]
        except BaseException:
            self.server.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self.server.__exit__(*details)

    def _load(self, requests, rate):
        before = time.monotonic()
        found = self.server.load("get", keys=self.hot_keys, requests=requests, rate=rate, **self.options)
        seconds = time.monotonic() - before
        return {**found, "rate": found["requests"] / found["seconds"], "with_start_seconds": seconds}

    def pairs(self, count, rate):
        """Runs the load generator in pairs of runs, one with page moves and one without. `rate` is in requests per
        second; 0 is the maximum."""
        pairs = []
        requests = int(rate * self.seconds[1] if rate else self.top_rate * self.seconds[0])
        for number in range(count):
            pair = {}
            # The order alternates, so that the run with page moves is first in half of the pairs.
            for name in sorted(("still", "moving"), reverse=number % 2 == 0):
                pair[name] = self._run(requests, rate, name == "moving")
            pairs.append(pair)
            progress(pair)
        return pairs

    def _run(self, requests, rate, moving):
        first = self._moved()
        with MoveRequests(self.server, self.victim, self.receiver, self.pages_max, moving):
            found = self._load(requests, rate)
            found["pages"] = self._moved() - first
        moved = self._moved() - first
        if moving:
            assert found["pages"] > 0, "no page moved during the run"
            self._move_back(moved)
        return {**found, "pages_per_second": found["pages"] / found["with_start_seconds"]}

    def _moved(self):
        return int(self.server.stats()["slabs_moved"])

    def _move_back(self, count):
        """Returns pages to the full class, and stores its items again, those that the load generator gets last."""
        move_pages(self.server, self.receiver, self.victim, count)
        for keys in (self.keys, self.hot_keys):
            self.server.load("fill", keys=keys, **self.options)


def full_load_row(pairs, share_percent, limit):
    loss = 1 - statistics.median(pair["moving"]["rate"] / pair["still"]["rate"] for pair in pairs)
    bytes_per_second = statistics.median(pair["moving"]["pages_per_second"] for pair in pairs) * MIB
    return {
        "page_move_share": f"{share_percent} %",
        "requests/s, still": Figure(statistics.median(pair["still"]["rate"] for pair in pairs), "{:,.0f}"),
        "MB/s": Figure(bytes_per_second / MB, "{:,.0f}", at_least=limit),
        "loss of throughput": Figure(loss, "{:.1%}", at_most=share_percent / 100 + LOSS_ABOVE_SHARE_MAX),
    }


def half_load_row(windows, share_percent):
    rise = statistics.median(pair["moving"]["p99_us"] / pair["still"]["p99_us"] for pair in windows) - 1
    median = lambda name, figure: statistics.median(pair[name][figure] for pair in windows)
    return {
        "page_move_share": f"{share_percent} %",
        "requests/s": Figure(median("still", "rate"), "{:,.0f}"),
        "MB/s": Figure(median("moving", "pages_per_second") * MIB / MB, "{:,.0f}"),
        "99 %, still, us": Figure(median("still", "p99_us"), "{:,.0f}"),
        "99 %, moving, us": Figure(median("moving", "p99_us"), "{:,.0f}"),
        "rise": Figure(rise, "{:+.1%}", at_most=RISE_MAX),
    }


def measure_cpu(settings):
    rows, details = [], []
    requests = settings.choose(CPU_REQUESTS, 100_000)
    replay = ["cache2k-orm-busy", "--size-factor", "16", *BATCH, "--requests", str(requests)]
    for connections, limit in CPU:
        pairs = []
        for number in range(settings.choose(PAIRS, 1)):
            pair = {}
            # The order alternates, so that each server is first in half of the pairs.
            for kind in sorted(KINDS, reverse=number % 2 == 1):
                with SocketServer(kind, CPU_MIB) as server:
                    before = server.cpu_seconds()
                    result = server.replay(*replay, "--connections", str(connections))
                    seconds = server.cpu_seconds() - before
                pair[kind] = {"cpu_us": seconds / result["requests"] * 1e6, "miss_ratio": result["miss_ratio"]}
            pairs.append(pair)
            progress(pair)
        ratios = [pair["slabwise"]["cpu_us"] / pair["memcached"]["cpu_us"] for pair in pairs]
        row = {"connections": str(connections)}
        for kind in KINDS:
            row[f"{kind}, us"] = Figure(statistics.median(pair[kind]["cpu_us"] for pair in pairs), "{:.2f}")
        row["ratio"] = Figure(statistics.median(ratios), "{:.3f}", at_most=limit)
        row["ratios"] = f"{min(ratios):.3f} to {max(ratios):.3f}"
        rows.append(row)
        details.append({"connections": connections, "pairs": pairs})
    return [Table("processor time of the server per request of cache2k-orm-busy", rows, details)]


def measure_idle(settings):
    return [
        Table("wake-ups of a server without clients", [
            wake_ups_row(kind, settings.choose(60, 3)) for kind in KINDS
        ]),
        Table("processor time of slabwise's background threads during a replay, without page moves", [
            background_row(workload, flags, memory_mib)
            for workload, flags, memory_mib in settings.choose(
                [("etc", ["--requests", "5000000"], 256), ("cache2k-orm-busy", ["--size-factor", "16"], 64)],
                [("etc", ["--requests", "100000"], 16)],
            )
        ]),
    ]


def wake_ups_row(kind, seconds):
    with SocketServer(kind, 64) as server:
        server.disconnect()
        # The server closes the connection before the count begins.
        time.sleep(1)
        before, started = context_switches(server), time.monotonic()
        time.sleep(seconds)
        after, passed = context_switches(server), time.monotonic() - started
    row = {
        "server": kind,
        "wake-ups": Figure(sum(after.values()) - sum(before.values()), "{:,.0f}"),
        "seconds": f"{passed:.0f}",
        # A thread that wakes up once a second can wake up 61 times in 60 seconds, so further digits are meaningless.
        "per second": Figure(
            round((sum(after.values()) - sum(before.values())) / passed, 1), "{:.1f}",
            at_most=WAKE_UPS_PER_SECOND_MAX if kind == "slabwise" else None,
        ),
        "threads": ", ".join(
            f"{name} {after[name] - before.get(name, 0)}" for name in after if after[name] > before.get(name, 0)
        ),
    }
    progress(" | ".join(map(str, row.values())))
    return row


def context_switches(server):
    """Returns the number of voluntary context switches of the server's threads, for each name of a thread."""
    counts = {}
    for thread in server.threads():
        name = (thread / "comm").read_text().rstrip()
        lines = (thread / "status").read_text().splitlines()
        switches = next(line.split()[1] for line in lines if line.startswith("voluntary_ctxt_switches:"))
        counts[name] = counts.get(name, 0) + int(switches)
    return counts


def background_row(workload, flags, memory_mib):
    with SocketServer("slabwise", memory_mib) as server:
        before = [server.cpu_seconds(), server.cpu_seconds(BACKGROUND_THREADS), mover_seconds(server)]
        server.replay(workload, *BATCH, *flags)
        after = [server.cpu_seconds(), server.cpu_seconds(BACKGROUND_THREADS), mover_seconds(server)]
        # A thread gives itself its name some time after the server has started.
        names = {(thread / "comm").read_text().rstrip() for thread in server.threads()}
        missing = set(BACKGROUND_THREADS) - names
        assert not missing, f"slabwise has no threads {missing}, only {names}"
    total, background, mover = (last - first for first, last in zip(before, after))
    row = {
        "workload": workload,
        "MiB": memory_mib,
        "server, s": Figure(total, "{:.2f}"),
        "background, s": Figure(background, "{:.3f}"),
        "page moves, s": Figure(mover, "{:.3f}"),
        "share without page moves": Figure((background - mover) / total, "{:.2%}", at_most=BACKGROUND_SHARE_MAX),
    }
    progress(" | ".join(map(str, row.values())))
    return row


def mover_seconds(server):
    """Returns the processor time of page moves in seconds."""
    return int(server.stats("moves")["cpu_us"]) / 1e6
