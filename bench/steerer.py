"""Runs `slabwise steer` beside a server."""

import pathlib
import subprocess
import tempfile

import servers

STOP_SECONDS_MAX = 30


class Steerer:
    """A running `slabwise steer`. The end of the `with` block stops it."""

    def __init__(self, server, policy=None):
        self.folder = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self.folder.name, "log")
        command = [str(servers.SLABWISE), "steer", "--server", server.address]
        command += ["--state", str(pathlib.Path(self.folder.name, "state")), "--log", str(self.log)]
        command += ["--policy", policy] if policy else []
        self.process = subprocess.Popen(command)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(STOP_SECONDS_MAX)
        self.folder.cleanup()

    def cpu_seconds(self):
        """Returns the processor time that the process has used since its start, in seconds."""
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
