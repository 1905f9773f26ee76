"""Reads the HTTP documents of a server as Prometheus and an open dashboard do."""

import http.client
import re
import socket
import time

import process
from servers import ROOT

# The page of the dashboard. Its script reads lists of documents: `["NAME", ...].map(read)`.
PAGE = ROOT / "crates" / "server" / "src" / "http" / "page"
TIMEOUT_SECONDS = 10


class Dashboard:
    """Which documents the dashboard reads, and how often. The source is the script of its page."""

    def __init__(self):
        script = (PAGE / "app.js").read_text()
        page = (PAGE / "index.html").read_text()
        lists = re.findall(r"\[([^\[\]]*)\]\.map\(read\)", script)
        assert len(lists) == 2, f"app.js has {len(lists)} lists of documents; expected the fast and the slow one"
        values = {
            "period": re.search(r'value="(\d+)" selected', page).group(1),
            "RECENT_SECONDS": constant(script, "RECENT_SECONDS"),
        }
        self.fast, self.slow = ([path(name, values) for name in re.findall(r'["`]([^"`]+)["`]', names)] for names in lists)
        self.period_seconds = int(constant(script, "FAST_MS")) / 1000
        self.slow_turns = int(constant(script, "SLOW_TURNS"))

    def paths(self, turn):
        """Returns the documents that the dashboard reads in this turn."""
        return self.fast + (self.slow if turn % self.slow_turns == 0 else [])


def path(name, values):
    """Returns the path of a document. Its name can contain values, as in `history?seconds=${period}`."""
    return "/api/v1/" + re.sub(r"\$\{(\w+)\}", lambda found: values[found.group(1)], name)


def constant(script, name):
    return re.search(rf"^const {name} = (\d+);", script, re.MULTILINE).group(1)


class Connection(http.client.HTTPConnection):
    """A connection that stays open between requests, as those of Prometheus and of browsers."""

    def connect(self):
        super().connect()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, path):
        """Returns the number of bytes of a document."""
        self.request("GET", path)
        response = self.getresponse()
        body = response.read()
        assert response.status == 200, f"the server replied {response.status} to {path}: {body[:200]}"
        return len(body)


class Reader(process.Background):
    """Reads /metrics and the documents of the dashboard once a second, as long as the `with` block runs. Then
    `reads` is the number of read documents, `bytes` the sum of their lengths, and `cpu_seconds` the processor time of
    the reader itself."""

    def __init__(self, address, first_turn):
        """`first_turn` is the number of the dashboard's first turn, which determines when it reads the slow
        documents."""
        super().__init__()
        self.address, self.first_turn = address, first_turn
        self.dashboard = Dashboard()
        self.reads = self.bytes = 0
        self.cpu_seconds = 0.0

    def work(self):
        before = time.thread_time()
        self._read_all()
        self.cpu_seconds = time.thread_time() - before

    def _read_all(self):
        connections = {}
        turn, due = self.first_turn, time.monotonic()
        # The first turn comes after half a period. Otherwise a short run would have one turn too many.
        due += self.dashboard.period_seconds / 2
        while not self.stop.wait(max(0.0, due - time.monotonic())):
            for client, paths in (("scrape", ["/metrics"]), ("dashboard", self.dashboard.paths(turn))):
                # The server closes a connection after a minute.
                if client not in connections or turn % 30 == 0:
                    if client in connections:
                        connections[client].close()
                    connections[client] = Connection(*self.address, timeout=TIMEOUT_SECONDS)
                for document in paths:
                    self.bytes += connections[client].read(document)
                    self.reads += 1
            turn += 1
            due += self.dashboard.period_seconds
