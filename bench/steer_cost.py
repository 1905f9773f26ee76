"""Measures what `slabwise steer` costs the server, for `bench/steer cost`.

A round replays ETC to three servers, one after the other, in rotating order: a memcached that is steered, and two that are
not. Each server gets the requests three times: at full speed, which fills it and is not measured; at full speed; and at half
of the rate that another server without a steerer has reached at the beginning of the round. The tables compare the steered
server with one of the others, and these two with each other, which shows how much a figure varies by chance. The automover
of all servers is off (`slab_automove=0`). The steerer runs on the same machine; its own processor time is in the last table.

Other load of the machine shows in the pairs of the two servers that are not steered: if their p99 differ by much more than
the limit, the machine is too busy for this measurement.

The limits are 3 % more processor time per request and 5 % more latency (the 99th percentile), each as the median of the
pairs.
"""

import json
import statistics
import time

import servers
from pace_table import Figure, Table, progress
from steerer import Steerer

MEMORY_MIB = 64
REQUESTS, REQUESTS_QUICK = 1_000_000, 300_000
REPLAY = ["etc", "--batch", "8", "--requests"]
CPU_RATIO_MAX = 1.03
P99_RATIO_MAX = 1.05

# The servers of a round.
STEERED, ALONE, ALONE_AGAIN = NAMES = ("steered", "alone", "alone again")


def measure(version, pairs, is_quick):
    """Measures this number of rounds. Returns the tables."""
    rounds, requests = [], REQUESTS_QUICK if is_quick else REQUESTS
    for number in range(pairs):
        # The order rotates, so that each server is first, second and third in the same number of rounds.
        order = NAMES[number % len(NAMES):] + NAMES[:number % len(NAMES)]
        rate = top_rate(requests) / 2
        found = {name: measure_server(name, requests, rate) for name in order}
        rounds.append(found)
        progress(f"{number + 1} of {pairs}: {json.dumps(found)}")
    return tables(version, rounds, not is_quick)


def top_rate(requests):
    """Returns the requests per second at full speed, of a server that is not steered."""
    with memcached() as server:
        result = server.replay(*REPLAY, str(requests))
        return result["requests"] / result["seconds"]


def memcached():
    return servers.SocketServer("memcached", MEMORY_MIB, "-o", "slab_automove=0")


def measure_server(name, requests, rate):
    """Starts a server, and replays the workload to it three times. Each call starts a new server, because the addresses of the
    server's memory influence the time."""
    with memcached() as server:
        if name != STEERED:
            return replay(server, requests, rate)
        with Steerer(server) as steerer:
            started = time.monotonic()
            found = replay(server, requests, rate)
            return {**found, "steerer_share": steerer.cpu_seconds() / (time.monotonic() - started)}


def replay(server, requests, rate):
    server.replay(*REPLAY, str(requests))
    before = server.cpu_seconds()
    fast = server.replay(*REPLAY, str(requests))
    cpu_us = (server.cpu_seconds() - before) / fast["requests"] * 1e6
    slow = server.replay(*REPLAY, str(requests), "--rate", f"{rate:.0f}")
    return {"cpu_us": cpu_us, "rate": rate, "p99_us": slow["p99_us"], "moves": int(server.stats()["slabs_moved"])}


def tables(version, rounds, has_limits):
    def row(name, first, second, has_limits):
        ratios = lambda figure: [found[first][figure] / found[second][figure] for found in rounds]
        cpu, p99 = ratios("cpu_us"), ratios("p99_us")
        limit = lambda value: value if has_limits else None
        return {
            "pairs": name,
            "processor time": Figure(statistics.median(cpu), "{:.3f}", at_most=limit(CPU_RATIO_MAX)),
            "middle half of the times": spread(cpu),
            "p99": Figure(statistics.median(p99), "{:.3f}", at_most=limit(P99_RATIO_MAX)),
            "middle half of the p99": spread(p99),
        }

    median = lambda name, figure: statistics.median(found[name][figure] for found in rounds)
    return [
        Table(f"the cost for memcached {version}, {len(rounds)} pairs", [
            row("steered against alone", STEERED, ALONE, has_limits),
            row("alone against itself", ALONE_AGAIN, ALONE, False),
        ], rounds),
        Table("the measured servers", [{
            "server": name,
            "processor time per request, us": Figure(median(name, "cpu_us"), "{:.2f}"),
            "requests/s of the p99": Figure(median(name, "rate"), "{:,.0f}"),
            "p99, us": Figure(median(name, "p99_us"), "{:,.0f}"),
            "page moves": Figure(median(name, "moves"), "{:.0f}"),
            "steerer, share of a core": Figure(median(name, "steerer_share"), "{:.2%}") if name == STEERED else "-",
        } for name in NAMES]),
    ]


def spread(values):
    """Formats the lower and the upper quartile."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:.3f} to {high:.3f}"
