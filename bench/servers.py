"""Starts the servers that the benchmarks compare, loads them, and reads their resource use from /proc."""

import json
import os
import pathlib
import subprocess
import tempfile

import process

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SLABWISE = TARGET / "release" / "slabwise"
LOAD = TARGET / "release" / "slabwise-bench-load"
START_SECONDS_MAX = 10

# The default parameters of the load generator: its connections, the keys that it draws from, and the bytes of a value.
CONNECTIONS = 16
KEYS = 1_000_000
VALUE_LEN = 100

# The names of the servers in the report, and the command that starts each server. `use_memcached` changes the command
# of memcached.
KINDS = {
    "memcached": ["memcached"],
    "slabwise, preset=memcached": [str(SLABWISE), "-o", "preset=memcached"],
    "slabwise": [str(SLABWISE)],
}


def use_memcached(path):
    """Makes the benchmarks use the memcached at this path, instead of the first one in the PATH."""
    KINDS["memcached"] = [path]


def build():
    """Builds slabwise and the load generator."""
    packages = ["--package", "slabwise", "--package", "slabwise-bench-load"]
    subprocess.run(["cargo", "build", "--release", *packages], cwd=ROOT, check=True)


def run_on(cores):
    """Returns a function that a new process must call to run only on these processors, or None if `cores` is empty."""
    return (lambda: os.sched_setaffinity(0, cores)) if cores else None


class Server(process.Client):
    """A running server. The end of the `with` block stops it."""

    def __init__(self, kind, memory_limit_mib, *flags, cores=None):
        """Starts a server of this kind. `cores` are the processors that it may run on; None means all processors."""
        command = [*KINDS[kind], "-m", str(memory_limit_mib), *flags]
        with tempfile.TemporaryDirectory() as folder:
            self.process, port = process.start(
                command, folder, START_SECONDS_MAX, preexec_fn=run_on(cores)
            )
        self.address = f"127.0.0.1:{port}"
        self.connect(port)
        pid = int(self.stats()["pid"])
        assert pid == self.process.pid, f"process {pid} replies on the port of process {self.process.pid}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.process.kill()
        self.process.wait()

    def version(self):
        return self.ask("version").removeprefix("VERSION ")

    def cpu_seconds(self):
        """Returns the processor time, in seconds, that all threads of the server have used since its start."""
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def resident_bytes(self):
        """Returns the resident memory of the server."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def fill(self):
        """Stores a value for each of the KEYS keys."""
        self.load("fill")

    def cpu_per_request_us(self, operation, pipeline, requests):
        """Sends requests, and returns the processor time, in microseconds, that the server used per request."""
        before = self.cpu_seconds()
        self.load(operation, connections=CONNECTIONS, pipeline=pipeline, requests=requests)
        return (self.cpu_seconds() - before) / requests * 1e6

    def load(self, kind, cores=None, **options):
        """Runs the load generator until it ends, and returns its report as a dictionary."""
        options = {"keys": KEYS, "value_len": VALUE_LEN, **options}
        arguments = [f"{name}={value}" for name, value in options.items()]
        finished = subprocess.run(
            [str(LOAD), self.address, kind, *arguments],
            check=True,
            stdout=subprocess.PIPE,
            preexec_fn=run_on(cores),
        )
        return json.loads(finished.stdout)

    def replay(self, workload, *flags):
        """Replays a workload with `slabwise replay`, and returns the report of the replay as a dictionary."""
        command = [str(SLABWISE), "replay", "--server", self.address, "--workload", workload]
        finished = subprocess.run([*command, *flags, "--json"], check=True, stdout=subprocess.PIPE)
        return json.loads(finished.stdout.splitlines()[-1])
