"""Servers of a cluster, a look-aside load with verifiable values, and waiting for conditions."""

import hashlib
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

PORT = 11211
DEADLINE_SECONDS = int(os.environ.get("DEADLINE_SECONDS", 30))
ROOT = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """A check failed. The first word of the message is the name of the check."""


def check(condition, name, detail):
    if not condition:
        raise Failed(f"{name}: {detail}")


def wait_until(condition, name, detail):
    """Waits until the condition returns a true value, and returns the value. Fails at the deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (value := condition()):
        check(time.monotonic() < deadline, name, f"not within {DEADLINE_SECONDS} s: {detail}")
        time.sleep(0.02)
    return value


def new_subnet(seed):
    """Returns the first three bytes of a subnet of 127.0.0.0/8.

    Each run has addresses of its own, so the servers can use a fixed port outside the range from which the kernel
    assigns the ports of outgoing connections. In that range, a connection to the port of a killed server could connect
    to itself, and another process could take the port before the restart.
    """
    rng = random.Random(seed)
    return f"127.{rng.randint(1, 254)}.{rng.randint(1, 254)}"


def configuration(name, subnet):
    """Returns the block of docs/clusters.md whose first line is `# NAME`, with the addresses of this test."""
    text = (ROOT / "docs/clusters.md").read_text()
    block = re.search(rf"^```\w*\n(# {re.escape(name)}\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    check(block, "configuration", f"docs/clusters.md has no block that starts with '# {name}'")
    return block[1].replace("10.0.0.", f"{subnet}.")


def is_open(host, port):
    try:
        socket.create_connection((host, port), timeout=1).close()
        return True
    except OSError:
        return False


class Process:
    """A process that listens on an address. It is killed at the end of the test."""

    def __init__(self, command, host, port):
        self.command, self.host, self.port = command, host, port
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

        def listens():
            if self.process.poll() is not None:
                raise Failed(f"start: {self.command} exited: {self.process.stderr.read().decode()[-2000:]}")
            return is_open(self.host, self.port)

        wait_until(listens, "start", f"{self.command} must listen on {self.host}:{self.port}")
        # Later output is read, because a process blocks on a full pipe.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Server(Process):
    """A slabwise server, on port 11211 of its own loopback address."""

    def __init__(self, host):
        user = ["-u", "root"] if os.getuid() == 0 else []
        command = [os.environ["SLABWISE"], "-l", host, "-p", str(PORT), "-U", "0", "-m", "64", *user]
        super().__init__(command, host, PORT)

    def stored_keys(self, keys):
        """Returns those of the keys that the server has, without a proxy in between."""
        with TextClient(self.host, PORT) as client:
            return {key for key in keys if client.get(key) is not None}

    def get_hits(self):
        """Returns the server's statistic `get_hits`."""
        with TextClient(self.host, PORT) as client:
            return client.stat("get_hits")

    def fail(self, how):
        """Makes the server fail: `killed` closes its connections, `stalled` leaves them open without replies."""
        if how == "killed":
            self.kill()
        else:
            self.signal(signal.SIGSTOP)

    def restore(self, how):
        if how == "killed":
            self.start()
        else:
            self.signal(signal.SIGCONT)


class ReplyError(Exception):
    """The server or proxy replied with an error, or closed the connection."""


class TextClient:
    """A client of one server or proxy. It keeps a connection over which the proxy replied with an error."""

    def __init__(self, host, port):
        self.address = host, port
        self.socket = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def exchange(self, request, last_line):
        try:
            if self.socket is None:
                self.socket = socket.create_connection(self.address, timeout=10)
                self.reader = self.socket.makefile("rb")
            self.socket.sendall(request)
            return last_line(self.reader)
        except OSError as error:
            self.close()
            raise ReplyError(f"connection: {error}") from error

    def line(self, reader):
        line = reader.readline()
        if not line.endswith(b"\r\n"):
            self.close()
            raise ReplyError("the connection was closed")
        if line.startswith((b"SERVER_ERROR", b"ERROR", b"CLIENT_ERROR")):
            raise ReplyError(line.decode().strip())
        return line[:-2]

    def get(self, key):
        def reply(reader):
            line = self.line(reader)
            if line == b"END":
                return None
            _, name, _, length = line.split()
            data = reader.read(int(length) + 2)
            end = self.line(reader)
            if name.decode() != key or end != b"END":
                # The reply belongs to another request, so the load counts it as wrong.
                return b"reply to another request: " + line
            return data[:-2]

        return self.exchange(f"get {key}\r\n".encode(), reply)

    def stat(self, name):
        def reply(reader):
            found = None
            while (line := self.line(reader)) != b"END":
                if line.split()[1].decode() == name:
                    found = int(line.split()[2])
            return found

        return self.exchange(b"stats\r\n", reply)

    def set(self, key, value):
        request = f"set {key} 0 0 {len(value)}\r\n".encode() + value + b"\r\n"
        line = self.exchange(request, self.line)
        if line != b"STORED":
            raise ReplyError(f"set: {line}")


def value_of(key):
    """The only right value of a key. Its length also depends on the key."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{key} {digest * (1 + int(digest[:2], 16) // 16)}".encode()


class Pass:
    """The outcomes of one request to every key: the keys that hit, missed, and failed, each with the time of errors."""

    def __init__(self):
        self.hits, self.misses, self.errors = set(), set(), []

    @property
    def is_clean(self):
        return not self.errors and not self.misses

    @property
    def hit_ratio(self):
        return len(self.hits) / (len(self.hits) + len(self.misses) + len({key for key, *_ in self.errors}))


class Load:
    """Clients in threads. Each reads its own share of the keys, and stores the value of a key that missed."""

    CLIENTS = 4

    def __init__(self, keys, new_client):
        self.shares = [keys[i :: self.CLIENTS] for i in range(self.CLIENTS)]
        self.clients = [new_client() for _ in self.shares]

    def request(self, client, key, outcome):
        try:
            value = client.get(key)
        except Exception as error:  # the libraries raise classes of their own
            outcome.errors.append((key, time.monotonic(), repr(error)))
            return
        if value is not None:
            check(value == value_of(key), "wrong", f"the reply to {key} is {value[:80]!r}")
            outcome.hits.add(key)
            return
        outcome.misses.add(key)
        try:
            self.store(client, key)
        except Exception as error:
            outcome.errors.append((key, time.monotonic(), repr(error)))

    def store(self, client, key):
        client.set(key, value_of(key))

    def run(self, meanwhile=None):
        """Requests every key once. Calls `meanwhile` when the first client is halfway through its share."""
        outcome, failures = Pass(), []

        def work(number):
            share = self.shares[number]
            try:
                for i, key in enumerate(share):
                    if meanwhile and number == 0 and i == len(share) // 2:
                        meanwhile()
                    self.request(self.clients[number], key, outcome)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return outcome
