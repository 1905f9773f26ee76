"""The servers that are compared, as processes: started, asked, and read from /proc."""

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

# What the load generator asks for.
CONNECTIONS = 16
KEYS = 1_000_000
VALUE_LEN = 100

# The servers that are compared, by their names in the report. `use_memcached` sets another program.
KINDS = {
    "memcached": ["memcached"],
    "slabwise, preset=memcached": [str(SLABWISE), "-o", "preset=memcached"],
    "slabwise": [str(SLABWISE)],
}


def use_memcached(path):
    """Compares with the memcached at this path."""
    KINDS["memcached"] = [path]


def build():
    """Builds slabwise and the load generator."""
    packages = ["--package", "slabwise", "--package", "slabwise-bench-load"]
    subprocess.run(["cargo", "build", "--release", *packages], cwd=ROOT, check=True)


def run_on(cores):
    """What a new process calls to stay on these processors."""
    return (lambda: os.sched_setaffinity(0, cores)) if cores else None


class Server(process.Client):
    """A running server; ends with the `with` block."""

    def __init__(self, kind, memory_limit_mib, *flags, cores=None):
        """`cores`: the processors that the server may run on; all of them if None."""
        command = [*KINDS[kind], "-m", str(memory_limit_mib), *flags]
        with tempfile.TemporaryDirectory() as folder:
            self.process, port = process.start(
                command, folder, START_SECONDS_MAX, preexec_fn=run_on(cores)
            )
        self.address = f"127.0.0.1:{port}"
        self.connect(port)
        answers = int(self.stats()["pid"])
        assert answers == self.process.pid, f"process {answers} answers, not {self.process.pid}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.process.kill()
        self.process.wait()

    def version(self):
        return self.ask("version").removeprefix("VERSION ")

    def cpu_seconds(self):
        """Processor time used so far, user and system."""
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def resident_bytes(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def fill(self):
        """Every key is written once."""
        self.load("fill")

    def cpu_per_request_us(self, operation, pipeline, requests):
        """Processor time for each of these requests."""
        before = self.cpu_seconds()
        self.load(operation, connections=CONNECTIONS, pipeline=pipeline, requests=requests)
        return (self.cpu_seconds() - before) / requests * 1e6

    def load(self, kind, cores=None, **options):
        """Runs the load generator to its end; its report as a dictionary."""
        options = {"keys": KEYS, "value_len": VALUE_LEN, **options}
        arguments = [f"{name}={value}" for name, value in options.items()]
        done = subprocess.run(
            [str(LOAD), self.address, kind, *arguments],
            check=True,
            stdout=subprocess.PIPE,
            preexec_fn=run_on(cores),
        )
        return json.loads(done.stdout)

    def replay(self, workload, *flags):
        """Replays a workload; the report as a dictionary."""
        command = [str(SLABWISE), "replay", "--server", self.address, "--workload", workload]
        done = subprocess.run([*command, *flags, "--json"], check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout.splitlines()[-1])
