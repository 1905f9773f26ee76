"""Runs the scenarios. `run` describes the arguments."""

import os
import random
import sys
import time
import traceback

import with_haproxy
import with_pylibmc
import with_pymemcache
import with_twemproxy
from cluster import new_subnet
from failover import FAULTS, expect_failure

SCENARIOS = {
    "twemproxy": with_twemproxy.run,
    "pymemcache": with_pymemcache.run,
    "pylibmc": with_pylibmc.run,
    "haproxy": with_haproxy.run,
}


def main(names):
    seed = int(os.environ.get("SLABWISE_SEED", random.randrange(2**32)))
    print(f"SLABWISE_SEED={seed}")
    failed = []
    for name in names or SCENARIOS:
        for how in ("killed", "stalled"):
            started = time.monotonic()
            try:
                SCENARIOS[name](new_subnet(f"{seed} {name} {how}"), how)
            except Exception as error:
                traceback.print_exc()
                print(f"FAILED  {name}, server {how} ({time.monotonic() - started:.1f} s): {error}", flush=True)
                failed.append(f"{name} {how}")
    if failed:
        sys.exit(f"these scenarios failed: {', '.join(failed)}")


main(sys.argv[1:])
