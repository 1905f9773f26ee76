"""pymemcache's HashClient, which distributes the keys by rendezvous hashing."""

import re

from cluster import configuration
from failover import Failover


def run(subnet, how, fault=None):
    code = configuration("pymemcache", subnet)
    attempts = int(re.search(r"retry_attempts=(\d+)", code)[1])
    dead_timeout = int(re.search(r"dead_timeout=(\d+)", code)[1])

    def new_client():
        names = {}
        exec(compile(code, "docs/clusters.md", "exec"), names)
        return names["client"]

    # One error when the connection closes, one per attempt, one more for the attempt that starts the ejection, and one
    # for the request with which the client ejects the server.
    Failover("pymemcache", subnet, new_client, limit=attempts + 3, retry_seconds=dead_timeout, fault=fault).run(how)
