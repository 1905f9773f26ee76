"""The model of docs/locking.md, "What limits many cores": the throughput of many cores from the counts of locks."""

import dataclasses

KINDS = ("stripe", "class", "page_pool", "mover")


@dataclasses.dataclass(frozen=True)
class Lock:
    """What operations do with the locks of a kind."""

    kind: str
    # The number of locks that threads took.
    locks: int
    # How often an operation takes a lock of this kind, and how often it takes the busiest of them.
    takes: float
    busiest_takes: float
    # The share of takes that had to wait, and the mean wait in seconds.
    contended: float
    wait: float
    # The mean time from a take to the end of the hold, in seconds. 0 if no take had to wait.
    hold: float = 0.0


def measured(counts, operations, threads, time):
    """Returns the locks that threads took. `counts` has the rows of `stats locks`; `time` is the processor time of an
    operation in seconds. With one thread there is no contention, so the hold times are unknown."""
    found = []
    for kind in KINDS:
        taken, contended = counts[f"{kind}:taken"], counts[f"{kind}:contended"]
        if not taken:
            continue
        lock = Lock(
            kind, counts[f"{kind}:locks"], taken / operations, counts[f"{kind}:busiest_taken"] / operations,
            contended / taken, counts[f"{kind}:wait_ns"] / 1e9 / max(contended, 1),
        )
        found.append(dataclasses.replace(lock, hold=hold(lock, threads, time)))
    return found


def hold(lock, threads, time):
    """Returns the hold time from the contended share. A take has to wait with the probability that another thread holds
    the same lock, which is (threads - 1) / time x the sum over all locks of (takes of the lock)^2 / takes x hold."""
    if threads < 2:
        return 0.0
    others = max(lock.takes - lock.busiest_takes, 0.0)
    squares = lock.busiest_takes ** 2 + (others ** 2 / (lock.locks - 1) if lock.locks > 1 else 0.0)
    return lock.contended * lock.takes * time / ((threads - 1) * squares)


def with_holds(locks, others):
    """Returns the locks with the hold times of the same kinds in `others`."""
    holds = {lock.kind: lock.hold for lock in others}
    return [dataclasses.replace(lock, hold=holds.get(lock.kind, 0.0)) for lock in locks]


def saturating_cores(lock, time):
    """Returns the number of cores at which the busiest lock of a kind is always held: 1 / (takes per second of a core x
    hold time). `time` is the time of an operation in seconds."""
    demand = lock.busiest_takes * lock.hold
    return time / demand if demand else float("inf")


@dataclasses.dataclass(frozen=True)
class Forecast:
    """The prediction for a number of cores."""

    # Operations per second of all cores, divided by those of one core.
    speedup: float
    # The probability that the busiest lock of each kind is held when another core wants it.
    held: dict


def forecast(locks, time, cores):
    """Predicts the throughput of `cores` cores by mean value analysis of a closed queueing network: each core is a
    customer, and each lock a station. `time` is the time of an operation without waits, in seconds."""
    stations = []
    for lock in locks:
        stations.append((lock.kind, 1, lock.busiest_takes * lock.hold))
        if lock.locks > 1:
            others = max(lock.takes - lock.busiest_takes, 0.0)
            stations.append((None, lock.locks - 1, others / (lock.locks - 1) * lock.hold))
    outside = time - sum(count * demand for _, count, demand in stations)
    queues, throughput, held = [0.0] * len(stations), 0.0, {}
    for customers in range(1, cores + 1):
        held = {kind: throughput * demand for kind, _, demand in stations if kind}
        responses = [demand * (1 + queue) for (_, _, demand), queue in zip(stations, queues)]
        total = outside + sum(count * response for (_, count, _), response in zip(stations, responses))
        throughput = customers / total
        queues = [throughput * response for response in responses]
    return Forecast(throughput * time, held)
