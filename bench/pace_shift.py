"""The section shift of bench/pace: the misses after a change of the sizes of the requested items."""

import dataclasses

import servers
from pace_replays import BATCH, KINDS
from pace_table import Figure, Table, progress
from sampler import Sampler
from servers import SocketServer

# The share of the requests of two-phase that belong to the first phase, in percent.
FIRST_PHASE_PERCENT = 13
# The simulated cache that evicts as slabwise does, but knows no pages and no classes. It keeps all requests in memory, so
# it simulates at most this number.
WITHOUT_PAGES = "learned_density"
SIMULATED_REQUESTS_MAX = 100_000_000
# The length of a window in turnovers.
WINDOW = 0.1
# The number of turnovers for which the table has a row for each window.
TURNOVERS_SHOWN = 3
# The limits: misses above those of the simulated cache, and the number of turnovers from which on this limit applies.
EXCESS_MAX, EXCESS_FROM = 0.05, 0.3
# The limits: the number of turnovers after which the miss ratio has settled, the distance from its final value at which
# it has settled, and the number of windows of which it is computed.
SETTLED_MAX, SETTLED_WITHIN, SETTLED_WINDOWS = 1.25, 0.02, 5
# The final miss ratio is that of this share of the windows, the last ones.
FINAL_SHARE = 0.2


@dataclasses.dataclass(frozen=True)
class Shift:
    """A replay of two-phase."""

    memory_mib: int
    scale: float
    requests: int
    # The number of requests in a window of the replay. It divides the number of requests of the first phase, and is
    # much less than the number of requests in a tenth of a turnover.
    step: int

    @property
    def change(self):
        """The number of requests before the change."""
        return self.requests * FIRST_PHASE_PERCENT // 100

    @property
    def flags(self):
        return ["--scale", str(self.scale), "--requests", str(self.requests)]


SHIFTS = [Shift(memory_mib=77, scale=0.2, requests=20_000_000, step=1_000)]
# The first phase must fill the cache with few requests, so there are more keys for each request than in two-phase.
SHIFTS_LARGE = [Shift(memory_mib=4096, scale=80, requests=800_000_000, step=100_000)]
SHIFTS_QUICK = [Shift(memory_mib=8, scale=0.05, requests=1_500_000, step=1_000)]


def measure_shift(settings):
    tables = []
    for shift in settings.choose(SHIFTS + (SHIFTS_LARGE if settings.large else []), SHIFTS_QUICK):
        assert shift.change % shift.step == 0, f"the windows of {shift} do not begin at the change"
        tables += measure_one(shift, settings)
    return tables


def measure_one(shift, settings):
    own_bytes = bytes_beside_key_and_value()
    item_bytes = own_bytes if settings.item_bytes is None else settings.item_bytes
    misses = {}
    for kind in KINDS:
        with SocketServer(kind, shift.memory_mib) as server:
            with Sampler(server) as sampler:
                result = server.replay("two-phase", *BATCH, *shift.flags, "--window", str(shift.step))
        misses[kind] = [window["misses"] for window in result["windows"][shift.change // shift.step:]]
        if kind == "slabwise":
            capacity = capacity_bytes(sampler.samples, item_bytes - own_bytes)
        progress(f"two-phase, {shift.memory_mib} MiB, {kind}: miss ratio {result['miss_ratio']:.4f}")
    simulated = servers.simulate(
        "windows", "two-phase", *shift.flags, "--item-bytes", str(item_bytes), "--capacity-bytes", str(capacity),
        "--from", str(shift.change), "--window", str(shift.step),
    )
    misses["LRU"] = [window["misses"] for window in simulated]
    if shift.requests <= SIMULATED_REQUESTS_MAX:
        all_windows = servers.simulate(
            "window-misses", "two-phase", *shift.flags, "--item-bytes", str(item_bytes),
            "--capacity-bytes", str(capacity), "--simulation", WITHOUT_PAGES, "--window", str(shift.step),
        )
        misses[WITHOUT_PAGES] = [window["misses"] for window in all_windows[shift.change // shift.step:]]
    rows = windows_of_turnovers(simulated, misses, capacity)
    title = f"two-phase, {shift.memory_mib} MiB, item of key, value and {item_bytes} B, LRU of {capacity:,} B"
    shown = [row for row in rows if row["turnovers"] <= TURNOVERS_SHOWN]
    return [
        Table(f"{title}: miss ratios in windows of {WINDOW} turnovers", [row_of_window(row) for row in shown], rows),
        Table(f"{title}: summary", [summary(rows, shift)]),
    ]


def bytes_beside_key_and_value():
    """Returns the number of bytes that slabwise adds to the lengths of key and value in its statistic `bytes`."""
    key, value = "k" * 17, "v" * 140
    with SocketServer("slabwise", 64) as server:
        reply = server.ask(f"set {key} 0 0 {len(value)}\r\n{value}")
        assert reply == "STORED", f"the server replied {reply} to set"
        return int(server.stats()["bytes"]) - len(key) - len(value)


def capacity_bytes(samples, added_bytes):
    """Returns the capacity of the simulated cache: the largest sum of the sizes of the items in the cache. Each item has
    `added_bytes` more bytes than in the server's statistics."""
    return max(sample.item_bytes + added_bytes * sample.items for sample in samples)


def windows_of_turnovers(simulated, misses, capacity):
    """Joins the windows of the replay to windows of WINDOW turnovers of the simulated cache. Returns for each window the
    number of turnovers at its end, the number of gets, and the misses of each cache. Leaves out the incomplete window
    at the end."""
    rows, first, stored = [], 0, 0
    for number, window in enumerate(simulated):
        stored += window["stored_bytes"]
        if stored < (len(rows) + 1) * WINDOW * capacity:
            continue
        part = slice(first, number + 1)
        first = number + 1
        rows.append({
            "turnovers": round((len(rows) + 1) * WINDOW, 6),
            "gets": sum(window["gets"] for window in simulated[part]),
            **{name: sum(counts[part]) for name, counts in misses.items()},
        })
    return rows


def excess(row):
    """Returns by which share slabwise has more misses than the simulated cache. It is negative if it has fewer."""
    return row["slabwise"] / max(1, row["LRU"]) - 1


def has_limit(row):
    """True if the limit of the excess applies to the window: it begins after EXCESS_FROM turnovers or later."""
    return row["turnovers"] - WINDOW >= EXCESS_FROM - 1e-9


def row_of_window(row):
    limit = EXCESS_MAX if has_limit(row) else None
    return {
        "turnovers": f"{row['turnovers']:.1f}",
        "requests": f"{row['gets']:,}",
        **{name: Figure(row[name] / row["gets"]) for name in ("LRU", *KINDS)},
        "slabwise above LRU": Figure(excess(row), "{:+.1%}", at_most=limit),
        **{
            f"{name} above LRU": Figure(row[name] / max(1, row["LRU"]) - 1, "{:+.1%}")
            for name in ("memcached", WITHOUT_PAGES) if name in row
        },
    }


def summary(rows, shift):
    worst = max((row for row in rows if has_limit(row)), key=excess)
    summary = {
        "MiB": shift.memory_mib,
        "turnovers": f"{rows[-1]['turnovers']:.1f}",
        "slabwise above LRU, worst window": Figure(excess(worst), "{:+.1%}", at_most=EXCESS_MAX),
        "at turnovers": f"{worst['turnovers']:.1f}",
    }
    for name in ("slabwise", "LRU", "memcached"):
        summary[f"{name}, final"] = Figure(miss_ratio(final(rows), name))
        limit = SETTLED_MAX if name == "slabwise" else None
        summary[f"{name}, settled after"] = Figure(settled_after(rows, name), "{:.2f}", at_most=limit)
    return summary


def final(rows):
    """Returns the last windows, from which the final miss ratio is computed."""
    return rows[-max(1, round(len(rows) * FINAL_SHARE)):]


def miss_ratio(rows, name):
    return sum(row[name] for row in rows) / sum(row["gets"] for row in rows)


def settled_after(rows, name):
    """Returns the number of turnovers at which the miss ratio has settled, or infinity."""
    last = miss_ratio(final(rows), name)
    for start in range(len(rows) - SETTLED_WINDOWS + 1):
        ratio = miss_ratio(rows[start:start + SETTLED_WINDOWS], name)
        if abs(ratio / last - 1) <= SETTLED_WITHIN:
            return rows[start]["turnovers"] - WINDOW
    return float("inf")
