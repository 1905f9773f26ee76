"""Runs `slabwise steer` beside a server."""

import pathlib
import subprocess
import tempfile

import servers

STOP_SECONDS_MAX = 30


class Steerer:
    """A running `slabwise steer`. The end of the `with` block stops it, and raises an error if it has not steered until then."""

    def __init__(self, server, policy=None):
        self.folder = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self.folder.name, "log")
        command = [str(servers.SLABWISE), "steer", "--server", server.address]
        command += ["--state", str(pathlib.Path(self.folder.name, "state")), "--log", str(self.log)]
        command += ["--policy", policy] if policy else []
        self.process = subprocess.Popen(command)

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        early = self.process.poll()
        self.process.terminate()
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        self.folder.cleanup()
        if failure is None and (early is not None or code != 0):
            when = "before the end" if early is not None else "at the end"
            raise RuntimeError(f"the steerer ended {when} with exit code {code}: {log[-1000:]}")

    def cpu_seconds(self):
        """Returns the processor time that the process has used since its start, in seconds."""
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
