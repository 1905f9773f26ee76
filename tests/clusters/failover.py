"""One server of three fails and returns, under a look-aside load. The same checks apply to every client.

1. Two passes over the keys warm the cluster. Every key must then hit, and must be stored on exactly one server.
2. The server with the second address fails in the middle of a pass. Passes continue until one is clean: every key hits,
   without an error. Until then only keys of that server may fail or miss, and the number of errors has a limit.
3. The server returns. Passes continue until one is clean and the server has all its former keys again. There must be
   no more than one miss per former key, because the load stores a key when it misses; keys of other servers must hit.

The load compares every value with the only right one. No key is evicted, so the hit ratio before the failure is 1, and
a clean pass has the same ratio.
"""

import time

from cluster import PORT, Failed, Load, Server, TextClient, check, value_of, wait_until

KEYS = [f"key:{i}" for i in range(1200)]
# Faults of the cluster or of the load, and the check which must find each.
FAULTS = {
    "another value is stored": "wrong",
    "a second server dies": "owner",
    "no server fails": "noticed",
    "the server never returns": "return",
    "nothing is stored": "refill",
}


class Failover:
    """Each client may have `limit` errors at the failure, and again each time it retries the failed server, which is
    every `retry_seconds`. It may have `after_return` errors after the return. Errors for which `sends_nothing` is true
    have no limit: the client refuses the request without sending it. `ejects_stalled` is False if the client does not
    eject a server that accepts connections and does not reply."""

    def __init__(
        self,
        name,
        subnet,
        new_client,
        limit,
        retry_seconds,
        after_return=0,
        sends_nothing=lambda error: False,
        ejects_stalled=True,
        fault=None,
    ):
        self.name, self.new_client, self.fault = name, new_client, fault
        self.limit, self.retry_seconds, self.after_return = limit, retry_seconds, after_return
        self.sends_nothing, self.ejects_stalled = sends_nothing, ejects_stalled
        self.servers = [Server(f"{subnet}.{i}") for i in (1, 2, 3)]
        self.failing = self.servers[1]

    def run(self, how):
        try:
            for server in self.servers:
                server.start()
            self.load = Load(KEYS, self.new_client)
            self.warm()
            self.fail(how)
            self.restore(how)
        finally:
            for server in self.servers:
                server.kill()

    def warm(self):
        first = self.load.run()
        check(not first.errors, "warm", f"errors: {first.errors[:3]}")
        check(len(first.misses) == len(KEYS), "warm", "an empty cluster has hits")
        second = self.load.run()
        check(second.is_clean, "warm", f"after one pass: {second.errors[:3]}, {len(second.misses)} misses")
        self.former_ratio = second.hit_ratio
        stored = [server.stored_keys(KEYS) for server in self.servers]
        check(sum(map(len, stored)) == len(KEYS) == len(set.union(*stored)), "warm", "a key is on two servers")
        self.own = stored[1]
        check(min(map(len, stored)) > len(KEYS) // 10, "warm", f"keys per server: {[len(s) for s in stored]}")
        if self.fault == "another value is stored":
            key = min(stored[0])
            with TextClient(self.servers[0].host, PORT) as client:
                client.set(key, value_of("another"))

    def only_own(self, outcome, name):
        others = ({key for key, *_ in outcome.errors} | outcome.misses) - self.own
        reasons = [error for error in outcome.errors if error[0] in others][:3]
        check(not others, name, f"{len(others)} keys of other servers failed or missed: {sorted(others)[:3]} {reasons}")

    def fail(self, how):
        started = time.monotonic()

        def meanwhile():
            if self.fault != "no server fails":
                self.failing.fail(how)
            if self.fault == "a second server dies":
                self.servers[2].kill()

        outcomes = [self.load.run(meanwhile)]
        is_ejected = self.ejects_stalled or how != "stalled"

        def is_done():
            self.only_own(outcomes[-1], "owner")
            outcomes.append(self.load.run())
            self.only_own(outcomes[-1], "owner")
            if is_ejected:
                return outcomes[-1].is_clean
            return len(self.sent(outcomes)) >= 3 * Load.CLIENTS

        wanted = "a pass without errors" if is_ejected else "three retries per client"
        wait_until(is_done, "clean", f"{wanted} while the server is {how}")
        self.failed_seconds = time.monotonic() - started
        self.wanted = wanted
        self.error_count = len(self.sent(outcomes))
        cycles = 1 + int(self.failed_seconds / self.retry_seconds)
        allowed = self.limit * Load.CLIENTS * cycles
        check(self.error_count > 0, "noticed", "no request failed, so the failure had no effect")
        check(self.error_count <= allowed, "limit", f"{self.error_count} errors; at most {allowed} are allowed")

    def sent(self, outcomes):
        """Returns the errors of the requests that a client has sent."""
        return [error for outcome in outcomes for error in outcome.errors if not self.sends_nothing(error[2])]

    def restore(self, how):
        if self.fault != "the server never returns":
            self.failing.restore(how)
        started = time.monotonic()
        if self.fault == "nothing is stored":
            self.load.store = lambda *_: None
        misses, errors = [], []

        def is_refilled():
            outcome = self.load.run()
            self.only_own(outcome, "owner")
            misses.extend(outcome.misses)
            errors.extend(self.sent([outcome]))
            again = [key for key in outcome.misses if misses.count(key) > 1]
            check(not again, "refill", f"{len(again)} keys missed twice after the return, such as {again[:3]}")
            check(len(errors) <= self.after_return * Load.CLIENTS, "return", f"errors after it: {errors[:3]}")
            if not outcome.is_clean or self.failing.process is None:
                return False
            check(outcome.hit_ratio >= self.former_ratio, "refill", f"hit ratio {outcome.hit_ratio}")
            return self.failing.stored_keys(self.own) == self.own and self.serves()

        wait_until(is_refilled, "return", "the server must have its former keys, and every key must hit")
        seconds = time.monotonic() - started
        copies = len(set.union(*(s.stored_keys(self.own) for s in self.servers if s is not self.failing)))
        print(
            f"ok      {self.name}, server {how}: {self.error_count} errors in {self.failed_seconds:.1f} s until"
            f" {self.wanted}; after the return {len(misses)} misses of {len(self.own)} keys and {len(errors)} errors,"
            f" refilled in {seconds:.1f} s; {copies} old copies on other servers",
            flush=True,
        )

    def serves(self):
        """Returns whether the load reaches the returned server: a pass must add its keys to the server's hits."""
        before = self.failing.get_hits()
        outcome = self.load.run()
        return outcome.is_clean and self.failing.get_hits() - before >= len(self.own)


def expect_failure(name, title, run):
    """Runs a scenario with a fault, and fails unless the check `name` finds the fault."""
    try:
        run()
    except Failed as failure:
        check(str(failure).startswith(f"{name}:"), "fault", f"expected a failure of {name}, not of {failure}")
        print(f"ok      {title}: found by {failure}"[:180], flush=True)
        return
    raise Failed(f"fault: with {title}, the check {name} did not fail")
