"""pylibmc, a Python wrapper of libmemcached, with ketama."""

import re

from cluster import configuration
from failover import Failover


def run(subnet, how, fault=None):
    code = configuration("pylibmc", subnet)
    failures = int(re.search(r'"failure_limit": (\d+)', code)[1])
    dead_timeout = int(re.search(r'"dead_timeout": (\d+)', code)[1])

    def new_client():
        names = {}
        exec(compile(code, "docs/clusters.md", "exec"), names)
        return names["client"]

    Failover(
        "pylibmc",
        subnet,
        new_client,
        limit=failures + 1,
        retry_seconds=dead_timeout,
        # A request that waited when the server returned can still time out.
        after_return=1,
        # Until the next retry, libmemcached refuses requests to a failed server.
        sends_nothing=lambda error: error.startswith("ServerDown("),
        # A successful connection resets libmemcached's count of failures.
        ejects_stalled=False,
        fault=fault,
    ).run(how)
