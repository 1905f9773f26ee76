"""Runs the scenarios, or with --faults the check of the checks. The arguments are names of clients; default: all."""

import os
import random
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed

import with_haproxy
import with_pylibmc
import with_pymemcache
import with_twemproxy
from cluster import new_subnet
from failover import FAULTS, expect_failure

CLIENTS = {
    "pymemcache": with_pymemcache.run,
    "pylibmc": with_pylibmc.run,
    "twemproxy": with_twemproxy.run,
    "haproxy": with_haproxy.run,
}
# Faults of a configuration: the text that is replaced, its replacement, and the check that must find the fault.
CONFIGURATION_FAULTS = {
    "twemproxy": [
        ("auto_eject_hosts: true", "auto_eject_hosts: false", "clean"),
        ("distribution: ketama", "distribution: modula", "owner"),
        ("server_failure_limit: 2", "server_failure_limit: 200", "limit"),
    ],
    "haproxy": [
        ("expect string MN", "expect string OTHER", "up"),
        ("expect rstring ^VERSION", "expect rstring ^OTHER", "up"),
    ],
}
HAPROXY_FAULTS = {"no server fails": "down", "the server never returns": "up"}


def scenarios(names, with_faults):
    """Returns the arguments of `run_one`: client, failure, fault, edit and the check that must fail."""
    if not with_faults:
        return [(name, how, None, None, None) for name in names for how in ("stalled", "killed")]
    found = []
    for name in names:
        faults = HAPROXY_FAULTS if name == "haproxy" else FAULTS
        for fault, expected in faults.items():
            found.append((name, "killed", fault, None, expected))
        for old, new, expected in CONFIGURATION_FAULTS.get(name, []):
            found.append((name, "killed", None, (old, new), expected))
    return found


def replace(text, old, new):
    assert old in text, f"the configuration has no {old!r}"
    return text.replace(old, new)


def run_one(seed, name, how, fault, edit, expected):
    keywords = {"fault": fault}
    if edit:
        keywords["edit"] = lambda text: replace(text, *edit)
    subnet = new_subnet(f"{seed} {name} {how} {fault} {edit}")

    def run():
        CLIENTS[name](subnet, how, **keywords)

    if expected:
        expect_failure(expected, f"{name}, {fault or edit[1]}", run)
    else:
        run()


def main(arguments):
    with_faults = "--faults" in arguments
    names = [name for name in arguments if name != "--faults"] or list(CLIENTS)
    seed = os.environ.get("SLABWISE_SEED", str(random.randrange(2**32)))
    print(f"SLABWISE_SEED={seed}", flush=True)
    failed, started = [], time.monotonic()
    with ProcessPoolExecutor(4) as pool:
        futures = {pool.submit(run_one, seed, *scenario): scenario for scenario in scenarios(names, with_faults)}
        for future in as_completed(futures):
            if (error := future.exception()) is not None:
                name, how, fault, edit, _ = futures[future]
                traceback.print_exception(error)
                title = ", ".join(str(part) for part in (name, how, fault, edit) if part)
                print(f"FAILED  {title}: {error}", flush=True)
                failed.append(title)
    if failed:
        sys.exit(f"{len(failed)} of {len(futures)} scenarios failed: {'; '.join(failed)}")
    print(f"{len(futures)} scenarios passed ({time.monotonic() - started:.0f} s)")


if __name__ == "__main__":
    main(sys.argv[1:])
