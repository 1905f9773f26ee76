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
SIMULATOR = TARGET / "release" / "slabwise-bench-simulate"
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


def use_slabwise(path):
    """Makes the benchmarks use the slabwise at this path, as server and for replays, instead of the one that `build`
    builds."""
    global SLABWISE
    SLABWISE = pathlib.Path(path)
    for kind in ("slabwise, preset=memcached", "slabwise"):
        KINDS[kind][0] = str(path)


def build(*packages):
    """Builds these packages; without arguments, slabwise and the load generator."""
    packages = packages or ("slabwise", "slabwise-bench-load")
    arguments = [argument for package in packages for argument in ("--package", package)]
    subprocess.run(["cargo", "build", "--release", *arguments], cwd=ROOT, check=True)


def prepare(arguments, *packages):
    """Builds these packages, and slabwise unless the arguments name another one. Makes the benchmarks use the servers
    that the arguments name. Returns the version of memcached."""
    if arguments.slabwise:
        use_slabwise(arguments.slabwise.resolve())
    else:
        packages = (*packages, "slabwise")
    if packages:
        build(*packages)
    if arguments.memcached:
        use_memcached(arguments.memcached)
    with SocketServer("memcached", 64) as server:
        return server.version()


def simulate(task, workload, *flags):
    """Runs the simulator of caches, and returns its result."""
    command = [str(SIMULATOR), task, "--workload", workload, *flags]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


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

    def threads(self):
        """Returns the folder in /proc of each thread of the server."""
        return list(pathlib.Path(f"/proc/{self.process.pid}/task").iterdir())

    def cpu_seconds(self, names=None):
        """Returns the processor time, in seconds, that the threads of the server have used since its start: all threads,
        or the threads with one of these names."""
        return sum(
            int((thread / "schedstat").read_text().split()[0]) for thread in self.threads()
            if names is None or (thread / "comm").read_text().rstrip() in names
        ) / 1e9

    def resident_bytes(self):
        """Returns the resident memory of the server."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def fill(self):
        """Stores a value for each of the KEYS keys."""
        self.load("fill")

    def cpu_per_request_us(self, operation, pipeline, requests, connections=CONNECTIONS):
        """Sends requests, and returns the processor time, in microseconds, that the server used per request."""
        before = self.cpu_seconds()
        self.load(operation, connections=connections, pipeline=pipeline, requests=requests)
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


class SocketServer(Server):
    """A running server that listens on a Unix socket. The end of the `with` block stops it."""

    def __init__(self, kind, memory_limit_mib, *flags, cores=None, **options):
        """Starts a server of this kind. `cores` are the processors that it may run on; None means all processors.
        Passes `options` to `subprocess.Popen`."""
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name, "socket")
        command = [*KINDS[kind], "-m", str(memory_limit_mib), *flags]
        self.process = process.start_on_socket(
            command, self.path, START_SECONDS_MAX, preexec_fn=run_on(cores), **options
        )
        self.address = f"unix:{self.path}"
        self.connect_to_socket(self.path)

    def __exit__(self, *details):
        super().__exit__(*details)
        self.folder.cleanup()

    def client(self):
        """Returns another connection to the server, for use by another thread."""
        client = process.Client()
        client.connect_to_socket(self.path)
        return client
