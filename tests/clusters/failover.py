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

from cluster import Failed, Load, Server, check, value_of, wait_until

KEYS = [f"key:{i}" for i in range(1200)]
FAULTS = {
    # A fault of the test itself, and the check which must find it.
    "another value": "wrong",
    "second server dies": "owner",
    "never stays away": "clean",
    "never returns": "return",
    "nothing is stored": "refill",
}


class Failover:
    """`limit` errors per client are allowed at the failure, and again each time the client retries the failed server,
    which is every `retry_seconds`. `after_return` errors per client are allowed after the return."""

    def __init__(self, name, subnet, new_client, limit, retry_seconds, after_return=0, fault=None):
        self.name, self.new_client, self.fault = name, new_client, fault
        self.limit, self.retry_seconds, self.after_return = limit, retry_seconds, after_return
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
        if self.fault == "another value":
            from cluster import PORT, TextClient

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
            self.failing.fail(how)
            if self.fault == "second server dies":
                self.servers[2].kill()

        outcomes = [self.load.run(meanwhile)]

        def is_clean():
            self.only_own(outcomes[-1], "owner")
            outcomes.append(self.load.run())
            return outcomes[-1].is_clean and self.fault != "never stays away"

        wait_until(is_clean, "clean", f"a pass without errors while the server is {how}")
        self.ejected_seconds = time.monotonic() - started
        self.error_count = sum(len(outcome.errors) for outcome in outcomes)
        cycles = 1 + int(self.ejected_seconds / self.retry_seconds)
        allowed = self.limit * Load.CLIENTS * cycles
        check(self.error_count > 0, "noticed", "no request failed, so the failure had no effect")
        check(self.error_count <= allowed, "limit", f"{self.error_count} errors; at most {allowed} are allowed")

    def restore(self, how):
        if self.fault != "never returns":
            self.failing.restore(how)
        started = time.monotonic()
        if self.fault == "nothing is stored":
            self.load.store = lambda *_: None
        misses, errors = [], []

        def is_refilled():
            outcome = self.load.run()
            self.only_own(outcome, "owner")
            misses.extend(outcome.misses)
            errors.extend(outcome.errors)
            again = [key for key in outcome.misses if misses.count(key) > 1]
            check(not again, "refill", f"{len(again)} keys missed twice after the return, such as {again[:3]}")
            check(len(errors) <= self.after_return * Load.CLIENTS, "return", f"errors after it: {errors[:3]}")
            if not outcome.is_clean or self.failing.process is None:
                return False
            check(outcome.hit_ratio >= self.former_ratio, "refill", f"hit ratio {outcome.hit_ratio}")
            return self.failing.stored_keys(self.own) == self.own and self.serves()

        wait_until(is_refilled, "return", "the server must have its former keys, and every key must hit")
        print(
            f"ok      {self.name}, server {how}: {self.error_count} errors in {self.ejected_seconds:.1f} s until a clean"
            f" pass; after the return {len(misses)} misses of {len(self.own)} keys and {len(errors)} errors,"
            f" refilled in {time.monotonic() - started:.1f} s",
            flush=True,
        )

    def serves(self):
        """Returns whether the load reaches the returned server: a pass must add its keys to the server's hits."""
        before = self.failing.get_hits()
        outcome = self.load.run()
        return outcome.is_clean and self.failing.get_hits() - before >= len(self.own)


def expect_failure(name, run):
    """Runs a scenario with a fault, and fails unless the check `name` finds the fault."""
    try:
        run()
    except Failed as failure:
        check(str(failure).startswith(f"{name}:"), "fault", f"expected a failure of {name}, not of {failure}")
        print(f"ok      found: {failure}"[:180], flush=True)
        return
    raise Failed(f"fault: the check {name} did not fail")
