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

    Failover("pylibmc", subnet, new_client, limit=failures + 1, retry_seconds=dead_timeout, fault=fault).run(how)
