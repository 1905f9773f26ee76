"""HAProxy with health checks: a failed server is DOWN, and UP again after its return."""

import csv
import socket
import tempfile

from cluster import Load, Process, Server, TextClient, check, configuration, wait_until

KEYS = [f"key:{i}" for i in range(400)]


def states(path, backend):
    """Returns the state and the result of the last health check of each server of a backend."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(b"show stat\n")
        text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    rows = csv.DictReader(text.lstrip("# ").splitlines())
    return {r["svname"]: (r["status"], r["check_status"]) for r in rows if r["pxname"] == backend}


def run(subnet, how, fault=None, edit=lambda text: text):
    """Runs both backends of the configuration: one checks with `version`, and one with `mn`."""
    servers = [Server(f"{subnet}.{i}") for i in (1, 2)]
    with tempfile.TemporaryDirectory() as folder:
        text = edit(configuration("haproxy.cfg", subnet)).replace("/run/haproxy/admin.sock", f"{folder}/admin")
        with open(f"{folder}/haproxy.cfg", "w") as file:
            file.write(text)
        proxy = Process(["haproxy", "-db", "-f", file.name], f"{subnet}.9", 11211)
        try:
            for server in servers:
                server.start()
            proxy.start()
            exercise(subnet, how, fault, servers, f"{folder}/admin")
        finally:
            proxy.kill()
            for server in servers:
                server.kill()


def exercise(subnet, how, fault, servers, path):
    backends = ["by_version", "by_mn"]

    def all_are(expected):
        return lambda: all(
            states(path, backend)["cache1"][0] == expected
            # A server is UP before its first check. L7OK means that a check has succeeded.
            and (expected != "UP" or states(path, backend)["cache1"][1] == "L7OK")
            and states(path, backend)["cache2"] == ("UP", "L7OK")
            for backend in backends
        )

    wait_until(all_are("UP"), "up", "the checks of both servers must succeed")
    loads = [Load(KEYS, lambda port=port: TextClient(f"{subnet}.9", port)) for port in (11211, 11212)]
    for load in loads:
        load.run()
        outcome = load.run()
        check(outcome.is_clean, "warm", f"{outcome.errors[:3]}, {len(outcome.misses)} misses")
    before = servers[1].get_hits()
    if fault != "no server fails":
        servers[0].fail(how)
    wait_until(all_are("DOWN"), "down", "cache1 must be DOWN in both backends")
    for load in loads:
        # The first requests find that their connection is closed; the second pass finds the backup.
        load.run()
        outcome = load.run()
        check(not outcome.errors, "backup", f"errors with cache1 DOWN: {outcome.errors[:3]}")
    check(servers[1].get_hits() - before >= len(KEYS), "backup", "the backup must serve the keys")
    if fault != "the server never returns":
        servers[0].restore(how)
    wait_until(all_are("UP"), "up", "cache1 must be UP again in both backends")
    # A client keeps its connection to the backup, and a new connection is made to cache1.
    before = servers[0].get_hits()
    load = Load(KEYS, lambda: TextClient(f"{subnet}.9", 11211))
    load.run()
    outcome = load.run()
    check(outcome.is_clean, "return", f"{outcome.errors[:3]}, {len(outcome.misses)} misses")
    check(servers[0].get_hits() - before >= len(KEYS), "return", "cache1 must serve new connections")
    print(f"ok      HAProxy, server {how}: DOWN and UP again, by version and by mn", flush=True)
