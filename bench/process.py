"""A server as a process on a free port, and a client of it in the text protocol."""

import os
import pathlib
import socket
import subprocess
import time


def start(command, folder, start_seconds_max, **options):
    """Starts a server on a port that the kernel picks; returns the process and the port. `options` are Popen's.
    Raises RuntimeError if the server does not listen in time."""
    # The server writes the file when it listens, and the file appears whole.
    port_file = pathlib.Path(folder, "ports")
    user = ["-u", "root"] if os.getuid() == 0 else []
    command = [*command, *user, "-l", "127.0.0.1", "-p", "-1"]
    environment = {**os.environ, "MEMCACHED_PORT_FILENAME": str(port_file)}
    process = subprocess.Popen(command, env=environment, **options)
    deadline = time.monotonic() + start_seconds_max
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"{command} did not start")
        time.sleep(0.02)
    return process, int(port_file.read_text().split("TCP INET: ")[1].split()[0])


class Client:
    """A connection to a server."""

    def connect(self, port):
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.replies = self.connection.makefile("rb")

    def send(self, request):
        self.connection.sendall(request)

    def line(self):
        return self.replies.readline().decode().rstrip()

    def ask(self, command):
        """One command, one line of reply."""
        self.send(command.encode() + b"\r\n")
        return self.line()

    def stats(self, what=""):
        """A `stats` command's names and values."""
        line = self.ask(f"stats {what}".strip())
        found = {}
        while line != "END":
            _, name, value = line.split(" ", 2)
            found[name] = value
            line = self.line()
        return found
