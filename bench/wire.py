"""The section wire of bench/compare: the processor time of the server per request, and its round-trip times at a fixed
rate.

The server runs on the first core, and the load generator on the other ones. A run measures all requests of a group on both
servers, one directly after the other, so that slow changes of the machine's speed affect both.
"""

import dataclasses
import os
import pathlib
import ssl
import subprocess
import tempfile

import servers
from pace_table import progress

KINDS = ("memcached", "slabwise")
PAIRS, RATE_PAIRS = 25, 25
MEMORY_MIB = 1024
# The requests of a replay at half of the top rate, and at the top rate.
RATE_REQUESTS = 150_000
KIB = 1 << 10


@dataclasses.dataclass(frozen=True)
class Case:
    """Requests of one kind."""

    # A kind of the load generator.
    operation: str
    # The number of requests that a client sends at once.
    batch: int
    connections: int = servers.CONNECTIONS
    # The requests of a run.
    requests: int = 30_000

    def name(self):
        how = "one at a time" if self.batch == 1 else f"{self.batch} pipelined"
        operation = self.operation.replace("multiget", "get of 10 keys")
        return f"{operation}, {how}, {self.connections} connections"

    def cpu_us(self, server):
        """Sends the requests of a run. Returns the processor time of the server per request, in microseconds."""
        return server.cpu_per_request_us(self.operation, self.batch, self.requests, self.connections)


@dataclasses.dataclass(frozen=True)
class Group:
    """Cases that are measured on the same servers."""

    cases: tuple
    value_len: int = servers.VALUE_LEN
    keys: int = servers.KEYS
    tls: bool = False

    def name(self, case):
        """Returns the name of the case, with the properties that all cases of the group have."""
        size = f" of {self.value_len // KIB} KiB" if self.value_len >= KIB else ""
        operation, rest = case.name().split(",", 1)
        return f"{operation}{size}{' over TLS' if self.tls else ''},{rest}"


PLAIN = Group((
    Case("get", 1),
    Case("get", 1, connections=256),
    Case("set", 1),
    Case("get", 32, requests=400_000),
    Case("set", 32, requests=400_000),
    Case("mg", 32, requests=400_000),
    Case("multiget", 1),
))
GROUPS = (
    PLAIN,
    Group((Case("get", 1, requests=10_000), Case("set", 1, requests=10_000)), value_len=64 * KIB, keys=8_000),
    # The processor time contains the handshakes. With this number of requests, it is at most a hundredth.
    Group((Case("get", 1, requests=100_000), Case("get", 32, requests=400_000)), tls=True),
)

CORES = sorted(os.sched_getaffinity(0))
SERVER_CORES = {CORES[0]}
LOAD_CORES = set(CORES[1:] or CORES)


class Server(servers.Server):
    """A running server on the first core, which has an item for each key of the group."""

    def __init__(self, kind, group, *flags):
        self.group = group
        if group.tls:
            self.certificate = Certificate()
            flags = (*flags, *self.certificate.flags())
        super().__init__(kind, MEMORY_MIB, *flags, cores=SERVER_CORES)
        try:
            self.fill()
        except subprocess.CalledProcessError:
            self.__exit__()
            raise

    def __exit__(self, *details):
        super().__exit__(*details)
        if self.group.tls:
            self.certificate.folder.cleanup()

    def connect(self, port):
        super().connect(port)
        if self.group.tls:
            self.connection = TRUSTING.wrap_socket(self.connection)
            self.replies = self.connection.makefile("rb")

    def load(self, kind, **options):
        group = self.group
        options = {"keys": group.keys, "value_len": group.value_len, "tls": int(group.tls), **options}
        return super().load(kind, cores=LOAD_CORES, **options)


# The client accepts every certificate: it measures, and sends no secret.
TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TRUSTING.check_hostname = False
TRUSTING.verify_mode = ssl.CERT_NONE


class Certificate:
    """A new certificate of a server, in a folder of its own."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.chain, self.key = (pathlib.Path(self.folder.name, name) for name in ("chain.pem", "key.pem"))
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        files = ["-out", str(self.chain), "-keyout", str(self.key)]
        subprocess.run([*command, *files, "-subj", "/CN=localhost"], check=True, stderr=subprocess.DEVNULL)

    def flags(self):
        """Returns the options that both servers have for TLS."""
        return ["-Z", "-o", f"ssl_chain_cert={self.chain},ssl_key={self.key}"]


def measure(effort):
    """Measures all cases, and the round-trip times."""
    rows = []
    for group in GROUPS:
        try:
            rows += group_rows(group, effort)
        except TlsMissing as error:
            progress(f"without the cases over TLS: {error}")
    return {"workers": default_workers(), "requests": rows, "rate": measure_rate(effort)}


def default_workers():
    """Returns the number of workers that each server starts by default on its core."""
    workers = {}
    for kind in KINDS:
        with servers.Server(kind, MEMORY_MIB, cores=SERVER_CORES) as server:
            workers[kind] = int(server.stats()["threads"])
    return workers


class TlsMissing(Exception):
    """The memcached was compiled without TLS."""


def start(group):
    """Starts the servers. Raises TlsMissing if the group needs TLS and memcached has none."""
    running = {}
    for kind in KINDS:
        try:
            running[kind] = Server(kind, group)
        except RuntimeError as error:
            stop(running)
            raise TlsMissing(error) if group.tls and kind == "memcached" else error
    return running


def stop(running):
    for server in running.values():
        server.__exit__()


def group_rows(group, effort):
    pairs = {case: [] for case in group.cases}
    running = start(group)
    try:
        for number in range(max(int(PAIRS * effort), 2)):
            # The order alternates, so that each server is first in half of the runs.
            order = KINDS if number % 2 == 0 else KINDS[::-1]
            for case, measured in pairs.items():
                costs = {kind: case.cpu_us(running[kind]) for kind in order}
                measured.append([costs[kind] for kind in KINDS])
                progress(f"{group.name(case)}: {measured[-1]} us")
    finally:
        stop(running)
    return [{"name": group.name(case), "pairs_us": measured} for case, measured in pairs.items()]


def measure_rate(effort):
    """Measures round-trip times and processor time at half of the highest rate of memcached: one request at a time, ten
    gets for each set."""
    load = {"connections": servers.CONNECTIONS, "pipeline": 1, "requests": max(int(RATE_REQUESTS * effort), 1_000)}
    running = start(PLAIN)
    try:
        top = running["memcached"].load("mixed", **load)
        rate = int(top["requests"] / top["seconds"] / 2)
        pairs = []
        for number in range(max(int(RATE_PAIRS * effort), 2)):
            order = KINDS if number % 2 == 0 else KINDS[::-1]
            runs = {kind: timed(running[kind], rate=rate, **load) for kind in order}
            pairs.append([runs[kind] for kind in KINDS])
            progress(f"at {rate} requests/s: {pairs[-1]}")
    finally:
        stop(running)
    return {"requests_per_second": rate, "pairs": pairs}


def timed(server, **load):
    """Sends requests at a rate. Returns percentiles of the round-trip time, and the processor time per request."""
    before = server.cpu_seconds()
    found = server.load("mixed", **load)
    cpu_us = (server.cpu_seconds() - before) / load["requests"] * 1e6
    return {"p50_us": found["p50_us"], "p99_us": found["p99_us"], "p999_us": found["p999_us"], "cpu_us": cpu_us}
